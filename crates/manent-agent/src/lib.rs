//! An agent that lives on the record.
//!
//! Here is what needs a network and a clock that ticks: model clients, and what asks models. What is kept, how it is
//! read back and what of it a model sees is the library's ([`manent`]); nothing is decided twice.
//!
//! | module | about |
//! |---|---|
//! | [`model_tasks`] | what the library has a model do: sum up, and find what is worth remembering |
//! | [`model_selection`] | which model answers |
//! | [`config`] | what can be set, and where it is set |
//! | `hex` | bytes as hexadecimal digits |
//! | [`kernel`] | conversations: actors, from a question to the end of its answer |
//! | `ledger` | append-only lists of what a person decided, in the store |
//! | [`policy`] | what tools may do: rules, and what a person allowed |
//! | [`protected`] | names whose content other programs execute or obey |
//! | [`providers`] | models: Ollama, anything that speaks like OpenAI, and the record itself |
//! | [`sandbox`] | where the commands of an agent run, and what keeps them there |
//! | [`skills`] | Agent Skills: finding, reading and giving them to a model |
//! | [`text_tools`] | calling tools by text, for models that cannot do it otherwise |
//! | [`tools`] | what a model can do: read, write, edit and search files, run commands, recall and remember |

pub mod config;
mod hex;
pub mod kernel;
mod ledger;
pub mod model_selection;
pub mod model_tasks;
pub mod policy;
pub mod protected;
pub mod providers;
#[cfg(target_os = "linux")]
pub mod sandbox;
pub mod skills;
pub mod text_tools;
pub mod tools;
