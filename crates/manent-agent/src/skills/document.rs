//! A `SKILL.md` as bytes, taken apart: never an error, always what could be read and what is wrong with the rest.

use super::frontmatter::{self, Sections};
use super::manifest::{self, Manifest};
use super::problem::{Problem, Severity, SkillRule};
use super::yaml::{self, Node};
use super::yaml_repair;

/// A parsed `SKILL.md`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillDocument {
    /// The fields.
    pub manifest: Manifest,
    /// The instructions, without blank lines around them. Of a file without frontmatter, all of it.
    pub body: String,
    /// The problems in the order of the file.
    pub problems: Vec<Problem>,
}

impl SkillDocument {
    /// Reads a file that lies in a directory of this name.
    ///
    /// ```
    /// use manent_agent::skills::SkillDocument;
    /// let text = "---\nname: notes\ndescription: Takes notes. Use it when asked to.\n---\nWrite them down.\n";
    /// let document = SkillDocument::read(text.as_bytes(), "notes");
    /// assert_eq!(document.manifest.name, "notes");
    /// assert_eq!(document.body, "Write them down.");
    /// assert_eq!(document.problems, []);
    /// ```
    pub fn read(bytes: &[u8], directory: &str) -> SkillDocument {
        match text_of(bytes) {
            Ok(text) => read(text, directory),
            Err(problem) => SkillDocument { problems: vec![problem], ..SkillDocument::default() },
        }
    }

    /// Returns the problem that makes the skill unusable, if there is one.
    pub fn fatal(&self) -> Option<&Problem> {
        self.problems.iter().find(|problem| problem.rule.grade() == Severity::Fatal)
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_long(bytes.len() as u64));
    }
    let wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    if wide {
        return Err(Problem::new(SkillRule::NotText, Some(1), "the file is UTF-16; save it as UTF-8"));
    }
    let line = |at: usize| Some(line_at(bytes, at));
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let what = format!("byte {at} is NUL: this is no text file; write it anew as UTF-8");
        return Err(Problem::new(SkillRule::NotText, line(at), what));
    }
    std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        Problem::new(SkillRule::NotText, line(at), format!("byte {at} is not UTF-8; save the file as UTF-8"))
    })
}

pub(super) fn too_long(bytes: u64) -> Problem {
    let what = format!(
        "the file has {bytes} bytes, and {FILE_BYTES_MAX} are read at most; move what is not always needed to \
         files beside it"
    );
    Problem::new(SkillRule::TooLong, None, what)
}

fn read(text: &str, directory: &str) -> SkillDocument {
    let mut problems = Vec::new();
    let (front, front_line, body, body_line) = match frontmatter::split(text) {
        Sections::Both { front, front_line, body, body_line, preceded } => {
            if preceded {
                let what = "a byte order mark or blank lines stand before the frontmatter; others refuse that, \
                            let `---` be the first thing in the file";
                problems.push(Problem::new(SkillRule::NotFirst, Some(1), what));
            }
            (front, front_line, body, body_line)
        }
        Sections::BodyOnly { body } => {
            let what = "there is no frontmatter, and with it no description; begin the file with `---`, \
                        `name: …`, `description: …`, `---`";
            let problem = Problem::new(SkillRule::NoFrontmatter, Some(1), what);
            return without_fields(body, directory, problem);
        }
        Sections::Endless { line } => {
            let what = "the frontmatter that begins here does not end; put a line `---` behind its fields";
            let problem = Problem::new(SkillRule::NoEnd, Some(line), what);
            return without_fields(text, directory, problem);
        }
    };
    if front.len() > FRONT_BYTES_MAX {
        let what = format!("the frontmatter has {} bytes; {FRONT_BYTES_MAX} are allowed", front.len());
        let problem = Problem::new(SkillRule::FrontmatterLong, Some(front_line), what);
        return without_fields(body, directory, problem);
    }
    let root = match fields(front, front_line, &mut problems) {
        Ok(root) => root,
        Err(problem) => return without_fields(body, directory, problem),
    };
    let (manifest, found) = manifest::read(root, directory);
    problems.extend(found);
    problems.extend(body_problems(body, body_line));
    problems.extend(hidden(text));
    let problems = bounded(problems);
    SkillDocument { manifest, body: trimmed(body), problems }
}

/// The tree of the frontmatter, mended if need be.
fn fields(front: &str, front_line: u32, problems: &mut Vec<Problem>) -> Result<Option<Node>, Problem> {
    let refused = match yaml::parse(front, front_line) {
        Ok(root) => return Ok(root),
        Err(refused) => refused,
    };
    if let Some(Ok(root)) = yaml_repair::quoted(front).map(|text| yaml::parse(&text, front_line)) {
        let what =
            format!("this is no YAML ({}); it was read as if values were quoted, quote them", refused.what);
        problems.push(Problem::new(SkillRule::Mended, Some(refused.line), what));
        return Ok(root);
    }
    let what = format!("the frontmatter is no YAML: {}; quote values that hold signs", refused.what);
    Err(Problem::new(SkillRule::Yaml, Some(refused.line), what))
}

/// A file of which only the body is of use, to be shown.
fn without_fields(body: &str, directory: &str, problem: Problem) -> SkillDocument {
    let (manifest, _) = manifest::read(None, directory);
    SkillDocument { manifest, body: trimmed(body), problems: vec![problem] }
}

/// Bounds the number of problems to what somebody would read. Fatal ones always remain.
fn bounded(mut problems: Vec<Problem>) -> Vec<Problem> {
    if problems.len() <= PROBLEMS_MAX {
        return problems;
    }
    let rest = problems.split_off(PROBLEMS_MAX);
    let what = format!("{} more are not named; mend these first", rest.len());
    problems.extend(rest.into_iter().filter(|problem| problem.rule.grade() == Severity::Fatal));
    problems.push(Problem::new(SkillRule::More, None, what));
    problems
}

fn body_problems(body: &str, body_line: u32) -> Option<Problem> {
    let lines = body.lines().count();
    if body.trim().is_empty() {
        let what = "there are no instructions behind the frontmatter; say what to do, step by step";
        return Some(Problem::new(SkillRule::BodyEmpty, None, what));
    }
    (lines > BODY_LINES_MAX).then(|| {
        let what = format!(
            "the body has {lines} lines, and all of them are given to the model; beyond {BODY_LINES_MAX}, move \
             details to files beside it"
        );
        Problem::new(SkillRule::BodyLong, Some(body_line), what)
    })
}

/// The first character that a reader would not see and a model would.
fn hidden(text: &str) -> Option<Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (at, c) = text.char_indices().find(|(_, c)| is_hidden(*c))?;
    let what = format!(
        "there is a character that people do not see and models do (U+{:04X}); look what it is for",
        u32::from(c)
    );
    Some(Problem::new(SkillRule::Hidden, Some(line_at(text.as_bytes(), at)), what))
}

fn is_hidden(c: char) -> bool {
    let is_control = c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    is_control
        || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn line_at(bytes: &[u8], at: usize) -> u32 {
    let before = bytes.iter().take(at).filter(|byte| **byte == b'\n').count();
    u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1)
}

/// Returns the body without blank lines at its ends; the first line keeps its indentation.
fn trimmed(body: &str) -> String {
    let begins = body.len() - body.trim_start().len();
    let line = body[..begins].rfind('\n').map_or(0, |at| at + 1);
    body[line..].trim_end().to_owned()
}

const FRONT_BYTES_MAX: usize = 64 << 10;
/// The body may have a MiB, and the frontmatter comes on top of it.
pub(super) const FILE_BYTES_MAX: u64 = (1 << 20) + (64 << 10);
const BODY_LINES_MAX: usize = 500;
const PROBLEMS_MAX: usize = 100;
