//! The marks that models put around calls: `<tool_call>`, `<|tool_call|>`, `[TOOL_CALLS]`, `<function=name>` and so on.

/// What a mark means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tag {
    /// A call begins.
    Open {
        /// What its end is called.
        family: String,
        /// The tool, where the mark names it.
        name: Option<String>,
    },
    /// A call ends.
    Close(String),
    /// The model thinks aloud.
    Think,
    /// A result begins, which only we write.
    Result,
}

/// What the beginning of a mark can become.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    More,
    Is(Tag),
    No,
}

/// Looks at a text that begins with `<` or `[`. It is never long: what has no end soon is no mark.
pub(super) fn look(text: &str) -> Look {
    if text.len() > TAG_MAX {
        return Look::No;
    }
    if text.starts_with('[') {
        return square(text);
    }
    let Some(rest) = text.strip_prefix('<') else { return Look::No };
    if rest.starts_with(['|', '｜']) {
        return piped(text, rest);
    }
    let (rest, is_end) = rest.strip_prefix('/').map_or((rest, false), |rest| (rest, true));
    let word_end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
    let (word, after) = rest.split_at(word_end);
    if after.is_empty() {
        let could = |name: &&str| name.starts_with(word);
        let is_prefix = FAMILIES.iter().chain(&NAMED).any(could)
            || (!is_end && RESULTS.iter().chain(&["think"]).any(could));
        return if is_prefix { Look::More } else { Look::No };
    }
    if word == "think" && after == ">" && !is_end {
        return Look::Is(Tag::Think);
    }
    if RESULTS.contains(&word) && !is_end && after.starts_with([' ', '>']) {
        return Look::Is(Tag::Result);
    }
    let is_family = FAMILIES.contains(&word);
    if !is_family && !NAMED.contains(&word) {
        return Look::No;
    }
    if is_end {
        return if after == ">" { Look::Is(Tag::Close(word.to_owned())) } else { Look::No };
    }
    if !after.ends_with('>') {
        let fits = after.starts_with([' ', '=', ':']) && !after.contains(['\n', '<']);
        return if fits { Look::More } else { Look::No };
    }
    let name = attribute(&after[..after.len() - 1]);
    if name.is_none() && !is_family {
        return Look::No;
    }
    Look::Is(Tag::Open { family: word.to_owned(), name })
}

/// The name in `=name`, `:name` or ` name="name"`; other attributes say nothing.
pub(super) fn attribute(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('/');
    let value = match text.strip_prefix(['=', ':']) {
        Some(value) => value,
        None => text.split_once("name=").map(|(_, value)| value)?,
    };
    let value = value.trim();
    let name = match value.strip_prefix(['"', '\'']) {
        Some(quoted) => quoted.split(['"', '\'']).next()?,
        None => value.split_whitespace().next()?,
    };
    (!name.is_empty() && name.chars().all(|c| is_name(c) || matches!(c, '.' | '-' | ':')))
        .then(|| name.to_owned())
}

fn square(text: &str) -> Look {
    for (mark, family) in
        [("[TOOL_CALLS]", "tool_calls"), ("[TOOL_CALL]", "tool_call"), (REQUEST, "tool_request")]
    {
        if text == mark {
            return Look::Is(Tag::Open { family: family.to_owned(), name: None });
        }
    }
    let ends = [
        ("[/TOOL_CALLS]", "tool_calls"),
        ("[/TOOL_CALL]", "tool_call"),
        ("[END_TOOL_REQUEST]", "tool_request"),
    ];
    for (mark, family) in ends {
        if text == mark {
            return Look::Is(Tag::Close(family.to_owned()));
        }
    }
    let marks = ["[TOOL_CALLS]", "[TOOL_CALL]", REQUEST].into_iter().chain(ends.map(|(mark, _)| mark));
    if marks.into_iter().any(|mark| mark.starts_with(text)) { Look::More } else { Look::No }
}

/// `<|word|>`, also with the wide bars and the low lines of `DeepSeek`.
fn piped(text: &str, rest: &str) -> Look {
    let inner = rest.trim_start_matches(['|', '｜']);
    let Some(word) = inner.strip_suffix("|>").or_else(|| inner.strip_suffix("｜>")) else {
        let fits = inner.chars().all(|c| is_name(c) || matches!(c, '▁' | '/' | '|' | '｜'));
        return if fits && text.len() <= PIPED_MAX { Look::More } else { Look::No };
    };
    let word = word.replace('▁', "_");
    let open = |family: &str| Look::Is(Tag::Open { family: family.to_owned(), name: None });
    let close = |family: &str| Look::Is(Tag::Close(family.to_owned()));
    let known = |family: &str| PIPED.contains(&family);
    if matches!(word.as_str(), "eom_id" | "eot_id" | "im_end" | "end") {
        return close("turn");
    }
    if let Some(family) = word.strip_suffix("_end").or_else(|| word.strip_prefix('/')) {
        return if known(family) { close(family) } else { Look::No };
    }
    let family = word.strip_suffix("_begin").or_else(|| word.strip_suffix("_start")).unwrap_or(&word);
    if known(family) { open(family) } else { Look::No }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Marks that may stand without a name.
const FAMILIES: [&str; 9] = [
    "tool_call",
    "tool_calls",
    "toolcall",
    "tool_use",
    "function_call",
    "function_calls",
    "functioncall",
    "functioncalls",
    "tools",
];
/// Marks that are one only with a name: the words alone are too common.
const NAMED: [&str; 3] = ["function", "invoke", "tool"];
const RESULTS: [&str; 3] = ["tool_result", "tool_response", "tool_output"];
const PIPED: [&str; 5] = ["tool_call", "tool_calls", "tool_calls_section", "function_call", "python_tag"];
const REQUEST: &str = "[TOOL_REQUEST]";
const TAG_MAX: usize = 160;
const PIPED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_of_a_mark_asks_for_more() {
        for mark in [
            "<tool_call>",
            "</tool_call>",
            "<tool_call name=\"x\">",
            "<function=read_file>",
            "<invoke name='x'>",
            "<|tool_call|>",
            "<|tool_call_end|>",
            "<|/tool_call|>",
            "<｜tool▁calls▁begin｜>",
            "[TOOL_CALLS]",
            "[END_TOOL_REQUEST]",
            "<think>",
            "<|python_tag|>",
            "<|im_end|>",
        ] {
            for at in (1..mark.len()).filter(|at| mark.is_char_boundary(*at)) {
                assert_eq!(look(&mark[..at]), Look::More, "{}", &mark[..at]);
            }
            assert!(matches!(look(mark), Look::Is(_)), "{mark}");
        }
        for text in ["<b", "<tool>", "<function>", "< ", "[a", "<tool_x", "</think", "<|a b", "<tool_call\n"]
        {
            assert_eq!(look(text), Look::No, "{text}");
        }
    }
}
