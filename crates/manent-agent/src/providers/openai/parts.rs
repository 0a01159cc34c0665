//! Calls of tools, put together from the parts in which they come.
//!
//! The rule is one number for each call, its id and name in the first part, and then pieces of the arguments. There
//! are servers that leave out the number, that give each call the number 0, that repeat the id with each piece, and
//! that send calls whole.

use serde::Deserialize;

use crate::providers::answer::{CALLS_MAX, ReplyBuilder};
use crate::providers::error::ModelError;
use crate::providers::loose::{self, Function};

/// A part of a call as it comes.
#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default, deserialize_with = "loose::count")]
    index: Option<u64>,
    #[serde(default, deserialize_with = "loose::text")]
    id: String,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

/// A call that may not be whole yet.
#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct CallAssembler(Vec<PartialCall>);

impl CallAssembler {
    /// Another part came.
    pub(super) fn add(
        &mut self,
        part: &CallDelta<'_>,
        answer: &mut ReplyBuilder<'_>,
    ) -> Result<(), ModelError> {
        let name = part.function.as_ref().map_or("", |function| function.name.as_str());
        let piece = loose::arguments(part.function.as_ref().and_then(|function| function.arguments));
        answer.grow(part.id.len() + name.len() + piece.len())?;
        let at = match self.find(part, name) {
            Some(at) => at,
            None if self.0.len() == CALLS_MAX => return Err(answer.too_many_calls()),
            None => {
                self.0.push(PartialCall { index: part.index, ..PartialCall::default() });
                self.0.len() - 1
            }
        };
        let open = &mut self.0[at];
        if open.id.is_empty() {
            open.id.clone_from(&part.id);
        }
        // Names come whole, mostly; a piece of one comes before any argument, and is not the name once more.
        if open.name != name && open.arguments.is_empty() {
            open.name.push_str(name);
        }
        open.arguments.push_str(&piece);
        Ok(())
    }

    /// The call that a part belongs to; none if it begins a new one.
    fn find(&self, part: &CallDelta<'_>, name: &str) -> Option<usize> {
        let last = self.0.len().checked_sub(1);
        if let Some(index) = part.index {
            let at = self.0.iter().rposition(|open| open.index == Some(index))?;
            let is_another = !part.id.is_empty() && !self.0[at].id.is_empty() && part.id != self.0[at].id;
            // With another id and a name of its own it is another call, whatever its number.
            return (!is_another || name.is_empty()).then_some(at);
        }
        if !part.id.is_empty() {
            return self.0.iter().rposition(|open| open.id == part.id);
        }
        if name.is_empty() { last } else { None }
    }

    /// All of them are whole now.
    pub(super) fn tell(self, answer: &mut ReplyBuilder<'_>) -> Result<(), ModelError> {
        for open in self.0 {
            if !(open.id.is_empty() && open.name.is_empty() && open.arguments.is_empty()) {
                // Counted as they came.
                answer.call_counted(&open.id, &open.name, open.arguments)?;
            }
        }
        Ok(())
    }
}
