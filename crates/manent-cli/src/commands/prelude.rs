//! The names that most commands need. A command begins with `use crate::commands::prelude::*;`.

pub(crate) use std::io;
pub(crate) use std::time::Duration;

pub(crate) use anstyle::{AnsiColor, Style};
pub(crate) use clap::{Args, Subcommand, ValueEnum};
pub(crate) use serde_json::{Value, json};

pub(crate) use super::session_names::*;
pub(crate) use crate::args::{ModelChoice, MovedSessions, SessionNames, Wait, durability, one_of};
pub(crate) use crate::context::{Context, session_key};
pub(crate) use crate::exit::{Exit, Failure};
pub(crate) use crate::output::Output;
pub(crate) use crate::when::{Since, until};
pub(crate) use crate::{term, when};
