//! What can be typed behind `manent sandbox`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use manent_agent::sandbox::Isolation;

#[derive(Debug, ClapArgs)]
pub(crate) struct Sandbox {
    #[command(subcommand)]
    pub(crate) command: Option<SandboxCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Make real attempts to get out, and say what came of each; exits with 0 only if all of them were held
    Selftest(Selftest),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Selftest {
    /// Which sandbox to try [default: the one that would be used]
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) kind: Option<SandboxKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxKind {
    Bwrap,
    Landlock,
}

impl From<SandboxKind> for Isolation {
    fn from(kind: SandboxKind) -> Isolation {
        match kind {
            SandboxKind::Bwrap => Isolation::Bubblewrap,
            SandboxKind::Landlock => Isolation::Landlock,
        }
    }
}
