//! What a model is told when a call cannot be made: what is wrong, and what would be right.

/// A call that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// No tool has this name.
    #[error("there is no tool {name:?}; {}the tools are {all}", did_you_mean(nearest.as_deref()))]
    NoSuchTool {
        /// The name that was called.
        name: String,
        /// The tool that may have been meant.
        nearest: Option<String>,
        /// The tools that there are.
        all: String,
    },
    /// The arguments are not what the tool takes.
    #[error("the arguments of {tool} are wrong: {what}. It takes {takes}")]
    Arguments {
        /// The tool.
        tool: &'static str,
        /// The fault of the arguments.
        what: String,
        /// The arguments that the tool accepts.
        takes: String,
    },
    /// A path that leads out of the workspace.
    #[error(
        "{path:?} is outside of the workspace {root}; only files in it can be used: give a path from there"
    )]
    Outside {
        /// The path that was asked for.
        path: String,
        /// The workspace.
        root: String,
    },
    /// A path that leads to something that is hidden.
    #[error("{0:?} may not be used: it is hidden from tools; go on without it")]
    Hidden(String),
    /// The file does not exist.
    #[error("there is no {path:?} in the workspace; {}search_files finds names", did_you_mean(nearest.as_deref()))]
    NoFile {
        /// The path that was asked for.
        path: String,
        /// The file that may have been meant.
        nearest: Option<String>,
    },
    /// The file is there, and this cannot be done with it.
    #[error("{path:?} {why}")]
    Unfit {
        /// The file.
        path: String,
        /// The reason and its remedy.
        why: String,
    },
    /// The system did not let us.
    #[error("cannot {what} {path:?}: {why}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The file.
        path: String,
        /// The error of the system.
        why: String,
    },
    /// The request cannot be carried out.
    #[error("{0}")]
    Refused(String),
    /// The call was stopped.
    #[error("stopped before it was done")]
    Stopped,
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("did you mean {nearest:?}? ")).unwrap_or_default()
}
