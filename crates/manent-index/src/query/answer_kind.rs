//! The kind of answer that a question asks for: a time, a number or a name. A text that has one fits better.

/// The kind of answer that an English question asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// The question names no kind that a text could be checked for.
    #[default]
    Anything,
    Time,
    Number,
    Name,
}

impl AnswerKind {
    /// Returns the kind of answer that a question asks for; `words` are all of its words, folded.
    pub(crate) fn of(words: &[String]) -> AnswerKind {
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        match word(0) {
            "when" => AnswerKind::Time,
            "how" if ["many", "much", "long", "often", "old"].contains(&word(1)) => AnswerKind::Number,
            "who" | "where" | "which" => AnswerKind::Name,
            _ if words.iter().any(|word| word == "name") => AnswerKind::Name,
            _ => AnswerKind::Anything,
        }
    }

    /// Returns whether a text has such an answer.
    pub(crate) fn is_in(self, text: &str) -> bool {
        let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let among = |word: &str, list: &[&str]| list.iter().any(|other| word.eq_ignore_ascii_case(other));
        match self {
            AnswerKind::Anything => false,
            AnswerKind::Time => words.any(|word| among(word, &TIMES) || is_year(word)),
            AnswerKind::Number => {
                words.any(|word| word.bytes().any(|b| b.is_ascii_digit()) || among(word, &NUMBERS))
            }
            AnswerKind::Name => has_name(text),
        }
    }
}

fn is_year(word: &str) -> bool {
    word.len() == 4 && word.parse().is_ok_and(|year: u16| (1900..2100).contains(&year))
}

/// Returns whether a word in the middle of a sentence is capitalized.
fn has_name(text: &str) -> bool {
    let mut in_sentence = false;
    text.split_whitespace().any(|word| {
        let is_name =
            in_sentence && word.starts_with(char::is_uppercase) && word != "I" && !word.starts_with("I'");
        in_sentence = !word.ends_with(['.', '!', '?', ':', '"']);
        is_name
    })
}

const NUMBERS: [&str; 22] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "once", "twice", "dozen", "couple", "few", "several", "half", "hundred", "thousand", "million",
];

const TIMES: [&str; 44] = [
    "yesterday",
    "today",
    "tomorrow",
    "tonight",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "week",
    "weeks",
    "month",
    "months",
    "year",
    "years",
    "day",
    "days",
    "weekend",
    "ago",
    "last",
    "next",
    "recently",
    "morning",
    "evening",
    "night",
    "hours",
    "summer",
    "winter",
    "spring",
    "soon",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(question: &str, text: &str) -> bool {
        let words: Vec<String> = question.split(' ').map(str::to_owned).collect();
        AnswerKind::of(&words).is_in(text)
    }

    #[test]
    fn texts_with_what_is_asked_for_are_told_from_others() {
        assert!(answers("when did we move", "We moved last Tuesday."));
        assert!(answers("when did we move", "In 2019, I think."));
        assert!(!answers("when did we move", "We moved to Ghent."));
        assert!(answers("how many tiles", "about 40 of them") && answers("how old is he", "he is Seven"));
        assert!(!answers("how many tiles", "plenty of them"));
        assert!(answers("where do they live", "They moved to Ghent."));
        assert!(!answers("where do they live", "Not far. They said I know it, I'm sure."));
        assert!(
            !answers("what broke", "The build, on Tuesday, in Ghent, 3 times"),
            "anything may answer that"
        );
    }
}
