//! The marks around calls of tools, taken from the chat templates that models are published with.

/// The pair of marks around a call, or around a list of calls.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MarkPair {
    /// The opening mark. One that does not end in a bracket is a tag with attributes, which ends with the next `>`.
    pub(super) open: &'static str,
    pub(super) close: &'static str,
}

impl MarkPair {
    /// Returns true if the name of the tool, or attributes, follow within the opening tag.
    pub(super) fn is_tag(&self) -> bool {
        !self.open.ends_with(['>', ']'])
    }
}

/// The outcome of comparing a text with the marks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MarkMatch {
    /// The text is the beginning of at least one mark.
    Partial,
    Open(&'static MarkPair),
    /// The end of a call, of a list of calls, or of the model's turn.
    Close,
    /// The beginning of the model's reasoning.
    Think,
    /// The beginning of a tool's result, which only we write.
    ToolResult,
    Nothing,
}

/// Compares `text`, which begins with `<` or `[`, with all marks. No mark is the beginning of another.
pub(super) fn match_mark(text: &str) -> MarkMatch {
    if let Some(pair) = PAIRS.iter().find(|pair| pair.open == text) {
        return MarkMatch::Open(pair);
    }
    let mut ends = PAIRS.iter().map(|pair| pair.close).chain(TURN_ENDS);
    if ends.clone().any(|end| end == text) {
        return MarkMatch::Close;
    }
    if text == "<think>" {
        return MarkMatch::Think;
    }
    if TOOL_RESULTS.contains(&text) {
        return MarkMatch::ToolResult;
    }
    let is_partial = |mark: &str| mark.starts_with(text);
    let is_any = PAIRS.iter().any(|pair| is_partial(pair.open))
        || ends.any(is_partial)
        || is_partial("<think>")
        || TOOL_RESULTS.into_iter().any(is_partial);
    if is_any { MarkMatch::Partial } else { MarkMatch::Nothing }
}

const fn pair(open: &'static str, close: &'static str) -> MarkPair {
    MarkPair { open, close }
}

static PAIRS: [MarkPair; 20] = [
    // Hermes, Qwen, SmolLM2, GLM; the form that we teach. With attributes: models that were tuned on mixed data.
    pair("<tool_call>", "</tool_call>"),
    pair("<tool_call ", "</tool_call>"),
    pair("<tool_calls>", "</tool_calls>"),
    // Qwen2.5-Coder writes the mark of its list of tools instead.
    pair("<tools>", "</tools>"),
    // Llama 3 with custom tools, and inside of `<tool_call>` Qwen3-Coder.
    pair("<function=", "</function>"),
    pair("<function name=", "</function>"),
    // MiniMax and others that write XML.
    pair("<function_calls>", "</function_calls>"),
    pair("<invoke name=", "</invoke>"),
    // Models tuned on the Glaive data set.
    pair("<function_call>", "</function_call>"),
    pair("<functioncall>", "</functioncall>"),
    // Llama 3.
    pair("<|python_tag|>", "<|eom_id|>"),
    // Phi-4-mini and Granite.
    pair("<|tool_call|>", "<|/tool_call|>"),
    // LFM2.
    pair("<|tool_call_start|>", "<|tool_call_end|>"),
    // Kimi K2.
    pair("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    pair("<|tool_call_begin|>", "<|tool_call_end|>"),
    // DeepSeek V3 and R1.
    pair("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    pair("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
    // Command R7B and Command A.
    pair("<|START_ACTION|>", "<|END_ACTION|>"),
    // Mistral.
    pair("[TOOL_CALLS]", "[/TOOL_CALLS]"),
    // LM Studio, for models without a template for tools.
    pair("[TOOL_REQUEST]", "[END_TOOL_REQUEST]"),
];
const TURN_ENDS: [&str; 3] = ["<|eot_id|>", "<|im_end|>", "<|end|>"];
const TOOL_RESULTS: [&str; 3] = ["<tool_result", "<tool_response", "<tool_output"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_mark_beginning_of_mark_is_partial() {
        let closes = PAIRS.iter().map(|pair| pair.close);
        let others = ["<think>"].into_iter().chain(TURN_ENDS).chain(TOOL_RESULTS);
        for mark in PAIRS.iter().map(|pair| pair.open).chain(closes).chain(others) {
            for at in (1..mark.len()).filter(|at| mark.is_char_boundary(*at)) {
                assert_eq!(match_mark(&mark[..at]), MarkMatch::Partial, "{}", &mark[..at]);
            }
            assert!(!matches!(match_mark(mark), MarkMatch::Partial | MarkMatch::Nothing), "{mark}");
        }
        for text in ["<b", "<tool>", "<function>", "< ", "[a", "<tool_x", "</think", "<|a b", "<tool_call\n"]
        {
            assert_eq!(match_mark(text), MarkMatch::Nothing, "{text}");
        }
    }
}
