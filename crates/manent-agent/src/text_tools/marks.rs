//! The marks around calls of tools, taken from the chat templates that models are published with.

/// The mark at the beginning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkMatch {
    /// The text is the beginning of at least one mark.
    Partial,
    /// The beginning of a call, or of a list of calls. Behind an opening mark that ends in `=` stand the name of the
    /// tool and a `>`.
    Open {
        open: &'static str,
        close: &'static str,
    },
    /// The end of a call, of a list of calls, or of the model's turn.
    Close,
    /// The beginning of the model's reasoning.
    Think,
    /// The beginning of a tool's result, which only we write.
    ToolResult,
    Nothing,
}

/// Returns the mark at the beginning of `text`, and its length. No mark is the beginning of another.
pub(super) fn match_mark(text: &str) -> (MarkMatch, usize) {
    if let Some((mark, found)) = marks().find(|(mark, _)| text.starts_with(mark)) {
        return (found, mark.len());
    }
    let is_partial = marks().any(|(mark, _)| mark.starts_with(text));
    (if is_partial { MarkMatch::Partial } else { MarkMatch::Nothing }, 0)
}

fn marks() -> impl Iterator<Item = (&'static str, MarkMatch)> {
    let opens = PAIRS.into_iter().map(|(open, close)| (open, MarkMatch::Open { open, close }));
    let closes = PAIRS.into_iter().map(|(_, close)| close).chain(TURN_ENDS);
    let results = TOOL_RESULTS.into_iter().map(|mark| (mark, MarkMatch::ToolResult));
    opens
        .chain(closes.map(|mark| (mark, MarkMatch::Close)))
        .chain(results)
        .chain([("<think>", MarkMatch::Think)])
}

const PAIRS: [(&str, &str); 21] = [
    // Hermes, Qwen, SmolLM2, GLM; the form that `describe_tools` describes.
    ("<tool_call>", "</tool_call>"),
    // MiniMax-M1 and Hunyuan.
    ("<tool_calls>", "</tool_calls>"),
    // Qwen2.5-Coder writes the mark of its list of tools instead.
    ("<tools>", "</tools>"),
    // Llama 3 with custom tools, and inside of `<tool_call>` Qwen3-Coder.
    ("<function=", "</function>"),
    ("<function name=", "</function>"),
    // MiniMax and others that write XML.
    ("<function_calls>", "</function_calls>"),
    ("<invoke name=", "</invoke>"),
    // Models tuned on the Glaive data set.
    ("<function_call>", "</function_call>"),
    ("<functioncall>", "</functioncall>"),
    // Llama 3.
    ("<|python_tag|>", "<|eom_id|>"),
    // Phi-4-mini and Granite.
    ("<|tool_call|>", "<|/tool_call|>"),
    // LFM2.
    ("<|tool_call_start|>", "<|tool_call_end|>"),
    // Kimi K2.
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<|tool_call_begin|>", "<|tool_call_end|>"),
    // DeepSeek V3 and R1.
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
    // The type of a call, which the older of these templates put before its name.
    ("function<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
    // Command R. The fence is closed behind the JSON.
    ("Action: ```json", "<|END_OF_TURN_TOKEN|>"),
    // Command R7B and Command A.
    ("<|START_ACTION|>", "<|END_ACTION|>"),
    // Mistral.
    ("[TOOL_CALLS]", "[/TOOL_CALLS]"),
    // LM Studio, for models without a template for tools.
    ("[TOOL_REQUEST]", "[END_TOOL_REQUEST]"),
];
const TURN_ENDS: [&str; 3] = ["<|eot_id|>", "<|im_end|>", "<|end|>"];
const TOOL_RESULTS: [&str; 3] = ["<tool_result", "<tool_response", "<tool_output"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_mark_beginning_of_mark_is_partial() {
        for (mark, found) in marks() {
            for at in (1..mark.len()).filter(|at| mark.is_char_boundary(*at)) {
                assert_eq!(match_mark(&mark[..at]), (MarkMatch::Partial, 0), "{}", &mark[..at]);
            }
            assert_eq!(match_mark(mark), (found, mark.len()), "{mark}");
        }
        for text in ["<b", "<tool>", "<function>", "< ", "[a", "<tool_x", "</think", "<|a b", "<tool_call "] {
            assert_eq!(match_mark(text), (MarkMatch::Nothing, 0), "{text}");
        }
    }
}
