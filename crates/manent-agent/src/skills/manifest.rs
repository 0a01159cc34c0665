//! What the frontmatter of a skill says, read with goodwill: what is against the specification is named, and the skill
//! is used all the same, unless nobody could tell what it is for.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value as Json;

use super::problem::{Problem, SkillRule};
use super::yaml::{Node, Value};

/// The fields of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The name of the skill: without blanks, control characters or signs; at most 64 characters.
    pub name: String,
    /// The purpose of the skill and when to use it. Any text.
    pub description: String,
    /// The licence.
    pub license: Option<String>,
    /// The environment that the skill needs.
    pub compatibility: Option<String>,
    /// Other members, as their author wrote them: `1.0` stays `1.0`.
    pub metadata: BTreeMap<String, String>,
    /// Tools that the skill would like to use without asking. The policy is not bound by this.
    pub allowed_tools: Vec<String>,
    /// True if only the user calls the skill, and models are not told of it.
    pub disable_model_invocation: bool,
    /// Fields that the specification does not know, as they were written.
    pub extra: BTreeMap<String, Json>,
}

/// Reads the fields. `directory` is the name of the skill's directory. The problems come in the order of the file; if
/// one of them is fatal, the skill cannot be used, and the fields are what could be read.
pub(super) fn read(root: Option<Node>, directory: &str) -> (Manifest, Vec<Problem>) {
    let mut reading = ManifestReader { manifest: Manifest::default(), problems: Vec::new() };
    let mut name = None;
    match root.map(|node| (node.line, node.value)) {
        None => {}
        Some((_, Value::Map(pairs))) => {
            for (key, value) in reading.once(pairs) {
                if key == "name" {
                    name = Some(value);
                } else {
                    reading.field(&key, &value);
                }
            }
        }
        Some((line, _)) => {
            let what =
                "the frontmatter is no list of fields; write `name: …` and `description: …`, one a line";
            let problem = Problem::new(SkillRule::NotFields, Some(line), what);
            // Other problems follow from this one.
            return (read(None, directory).0, vec![problem]);
        }
    }
    reading.name(name.as_ref(), directory);
    if reading.manifest.description.is_empty() {
        reading.say(
            SkillRule::NoDescription,
            None,
            "there is no description, so that no model could tell when to use it; \
             add `description:` with what it does and when",
        );
    }
    (reading.manifest, reading.problems)
}

struct ManifestReader {
    manifest: Manifest,
    problems: Vec<Problem>,
}

impl ManifestReader {
    fn say(&mut self, rule: SkillRule, line: Option<u32>, what: impl Into<String>) {
        self.problems.push(Problem::new(rule, line, what));
    }

    /// The fields, each once: of two with the same name the last counts, as most readers of YAML have it.
    fn once(&mut self, pairs: Vec<(Node, Node)>) -> Vec<(String, Node)> {
        let mut fields: Vec<Option<(String, Node)>> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for (key, value) in pairs {
            let Some(name) = key.text().map(str::to_owned) else {
                self.say(
                    SkillRule::NotString,
                    Some(key.line),
                    "the name of a field is no text; it is passed over",
                );
                continue;
            };
            if let Some(before) = known.insert(name.clone(), fields.len()) {
                let what =
                    format!("`{}` stands there twice; the last one counts, remove the other", short(&name));
                self.say(SkillRule::Duplicate, Some(key.line), what);
                fields[before] = None;
            }
            fields.push(Some((name, value)));
        }
        fields.into_iter().flatten().collect()
    }

    fn field(&mut self, key: &str, value: &Node) {
        match key {
            "description" => self.description(value),
            "license" => self.manifest.license = self.string(key, value),
            "compatibility" => self.compatibility(value),
            "metadata" => self.metadata(value),
            "allowed-tools" => self.allowed_tools(value),
            "disable-model-invocation" => self.disable(value),
            _ => {
                let what = format!(
                    "`{}` is no field of the specification; it is kept and not used, put it under `metadata`",
                    short(key)
                );
                self.say(SkillRule::Unknown, Some(value.line), what);
                self.manifest.extra.insert(key.to_owned(), value.json());
            }
        }
    }

    /// The text of a value that should be a string; nothing if it holds none.
    fn string(&mut self, key: &str, value: &Node) -> Option<String> {
        let Some(text) = value.text() else {
            let what = format!("`{}` is no text and is passed over; write it as one string", short(key));
            self.say(SkillRule::NotString, Some(value.line), what);
            return None;
        };
        if value.is_null() {
            return None;
        }
        if value.is_no_string() {
            let what = format!("`{}` is no string in YAML; put the value in quotes: \"{text}\"", short(key));
            self.say(SkillRule::NotString, Some(value.line), what);
        }
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn name(&mut self, value: Option<&Node>, directory: &str) {
        let line = value.map(|value| value.line);
        let Some(name) = value.and_then(|value| self.string("name", value)) else {
            let what =
                format!("there is no name; add `name: {}`, the name of the directory", short(directory));
            self.say(SkillRule::NameMissing, line, what);
            return self.named_as(directory);
        };
        let length = name.chars().count();
        if length > NAME_CHARS_MAX {
            let what = format!("the name has {length} characters; {NAME_CHARS_MAX} are allowed");
            self.say(SkillRule::NameLength, line, what);
        }
        if !is_name(&name) {
            let what = "a name is made of a-z, 0-9 and single hyphens, none at its ends; rename it";
            self.say(SkillRule::NameForm, line, what);
        }
        if name != directory {
            let what = format!(
                "the name `{}` is not that of the directory, `{}`; make them the same",
                short(&name),
                short(directory)
            );
            self.say(SkillRule::NameDirectory, line, what);
        }
        if is_usable(&name) {
            self.manifest.name = name;
        } else {
            self.named_as(directory);
        }
    }

    /// The name of the directory instead of one that cannot be used.
    fn named_as(&mut self, directory: &str) {
        if is_usable(directory) {
            directory.clone_into(&mut self.manifest.name);
            return;
        }
        self.say(
            SkillRule::NameUnusable,
            None,
            "neither the name nor that of the directory could be typed as one word of at most 64 letters, digits, \
             '-', '_' and '.'; rename the directory",
        );
    }

    fn description(&mut self, value: &Node) {
        let Some(text) = self.string("description", value) else { return };
        let length = text.chars().count();
        if length > DESCRIPTION_CHARS_MAX {
            let what = format!(
                "the description has {length} characters; what is beyond {DESCRIPTION_CHARS_MAX} is not shown to \
                 models, move it to the body"
            );
            self.say(SkillRule::DescriptionLength, Some(value.line), what);
        }
        self.manifest.description = text;
    }

    fn compatibility(&mut self, value: &Node) {
        self.manifest.compatibility = self.string("compatibility", value);
        let length = self.manifest.compatibility.as_ref().map_or(0, |text| text.chars().count());
        if length > COMPATIBILITY_CHARS_MAX {
            let what =
                format!("`compatibility` has {length} characters; {COMPATIBILITY_CHARS_MAX} are allowed");
            self.say(SkillRule::CompatibilityLength, Some(value.line), what);
        }
    }

    fn metadata(&mut self, value: &Node) {
        if value.is_null() {
            return;
        }
        let Value::Map(pairs) = &value.value else {
            let what = "`metadata` is no map and is passed over; write `key: \"value\"` lines under it";
            return self.say(SkillRule::Metadata, Some(value.line), what);
        };
        for (key, value) in self.once(pairs.clone()) {
            let text = match value.text() {
                Some(text) => text.to_owned(),
                None => value.json().to_string(),
            };
            if value.text().is_none() || value.is_no_string() {
                let what =
                    format!("`metadata.{}` is no string; it is kept as written, quote it", short(&key));
                self.say(SkillRule::Metadata, Some(value.line), what);
            }
            self.manifest.metadata.insert(key, text);
        }
    }

    fn allowed_tools(&mut self, value: &Node) {
        let lists: Vec<&str> = match &value.value {
            Value::List(items) => items.iter().filter_map(Node::text).collect(),
            _ => value.text().into_iter().collect(),
        };
        let tools: Vec<String> = lists.iter().flat_map(|text| tools_in(text)).collect();
        let has_comma = lists.iter().any(|text| text.contains(", ") || text.ends_with(','));
        if value.text().is_none() || has_comma {
            let what = "`allowed-tools` is one string with blanks between the tools: \"Read Bash(git:*)\"";
            self.say(SkillRule::AllowedTools, Some(value.line), what);
        }
        self.manifest.allowed_tools = tools;
    }

    fn disable(&mut self, value: &Node) {
        let word = value.text().unwrap_or("?").trim().to_ascii_lowercase();
        let is_plain = matches!(&value.value, Value::Text { plain: true, .. });
        // A value that is not understood more likely means to hold the skill back.
        let off = matches!(word.as_str(), "false" | "no" | "off" | "0" | "" | "~" | "null");
        self.manifest.disable_model_invocation = !off;
        if !(is_plain && matches!(word.as_str(), "true" | "false")) {
            let taken = if off { "false" } else { "true" };
            let what = format!("`disable-model-invocation` is true or false; it is taken for {taken}");
            self.say(SkillRule::Disable, Some(value.line), what);
        }
    }
}

/// Returns true if a name follows the specification.
pub(super) fn is_name(name: &str) -> bool {
    let signs = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty()
        && name.chars().all(signs)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// Returns true if a name can be shown, typed and passed to a tool, even if it does not follow the specification.
fn is_usable(name: &str) -> bool {
    let signs = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let begins = name.starts_with(char::is_alphanumeric);
    begins && name.chars().count() <= NAME_CHARS_MAX && name.chars().all(signs)
}

/// The tools in a text, with what stands in parentheses behind them.
fn tools_in(text: &str) -> Vec<String> {
    let (mut tools, mut tool, mut depth) = (Vec::new(), String::new(), 0_u32);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c.is_whitespace() || c == ',') {
            tools.push(std::mem::take(&mut tool));
        } else {
            tool.push(c);
        }
    }
    tools.push(tool);
    tools.retain(|tool| !tool.is_empty());
    tools
}

/// A word for a message, cut where no one would read on.
fn short(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

const NAME_CHARS_MAX: usize = 64;
/// The number of characters of a description that a catalogue shows at most.
pub(super) const DESCRIPTION_CHARS_MAX: usize = 1024;
const COMPATIBILITY_CHARS_MAX: usize = 500;
const SHOWN_CHARS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_keep_their_parentheses() {
        assert_eq!(tools_in("Bash(git add:*) Read"), ["Bash(git add:*)", "Read"]);
        assert_eq!(tools_in(" Read, Grep,Glob "), ["Read", "Grep", "Glob"]);
        assert_eq!(tools_in("A(b"), ["A(b"]);
        assert_eq!(tools_in(")) x"), ["))", "x"]);
    }

    #[test]
    fn names_are_told_from_what_only_looks_like_one() {
        for name in ["a", "pdf-tools", "x2", "7z"] {
            assert!(is_name(name) && is_usable(name), "{name}");
        }
        for name in ["-a", "a-", "a--b", "A", "a_b", "é", "", "a b"] {
            assert!(!is_name(name), "{name}");
        }
        for name in ["", "a b", "../x", ".x", "a\u{202e}b", "a\nb", "-rf", &"x".repeat(65)] {
            assert!(!is_usable(name), "{name:?}");
        }
    }
}
