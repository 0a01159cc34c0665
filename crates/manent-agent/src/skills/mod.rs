//! Agent Skills: directories with a `SKILL.md` that says what to do when, as <https://agentskills.io> has it.
//!
//! A model gets them in three steps. It is told of all of them in a line each, within a budget ([`Skills::catalogue`]).
//! When it calls one, it gets the instructions and a list of files ([`Skill::activate`]). When the instructions send it
//! to a file, it gets that ([`Skill::file`]), and never one that lies elsewhere.
//!
//! A skill is text from anywhere. What is wrong with it is named and the rest is used; what a project brings is used
//! only as far as the user trusted it ([`TrustedFolders`]): what was added or changed since then is held back. No text
//! of a skill can end the block that it is given in.
//!
//! ```
//! use manent::log::RealDisk;
//! use manent::tokens::Tokens;
//! use manent_agent::skills::{SkillDirs, Skills, TrustedFolders};
//!
//! # fn main() -> Result<(), manent::Error> {
//! let home = std::path::PathBuf::from("/nowhere/manent");
//! let trusted = TrustedFolders::load(&manent::Store::open(&home)?);
//! let places = SkillDirs { project: Some("/nowhere/work".into()), user: None, store: Some(home) };
//! let skills = Skills::find(&RealDisk::shared(), &places, &trusted);
//! assert_eq!(skills.catalogue(1000, &Tokens::default()).text, "");
//! # Ok(()) }
//! ```
//!
//! | file | about |
//! |---|---|
//! | `discovery.rs` | where skills are looked for, what goes before what |
//! | `trust.rs`, `snapshot.rs` | whose skills are used; copies of what was trusted, and what differs from them |
//! | `skill.rs`, `skill_files.rs` | one skill: its instructions for a model, its files and no others |
//! | `document.rs`, `frontmatter.rs`, `yaml.rs`, `yaml_repair.rs`, `manifest.rs` | reading a `SKILL.md` with goodwill |
//! | `problem.rs`, `error.rs` | the rules; what is said when something cannot be given |
//! | `catalogue.rs`, `json_string.rs` | what a model is told of all skills |

mod catalogue;
mod discovery;
mod document;
mod error;
mod frontmatter;
mod json_string;
mod manifest;
mod problem;
mod skill;
mod skill_files;
mod snapshot;
mod trust;
mod yaml;
mod yaml_repair;

pub use catalogue::{Catalogue, ShortenedDescription, budget};
pub use discovery::{Caller, SearchNote, SkillDirs, Skills, project_of};
pub use document::SkillDocument;
pub use error::SkillError;
pub use manifest::Manifest;
pub use problem::{Problem, Severity, SkillRule};
pub use skill::{Activation, Skill, SkillFile, SkillOrigin, SkillStatus};
pub use skill_files::{FileListing, SkillFileInfo};
pub use snapshot::{FileDifference, SkillSnapshot};
pub use trust::{SkillDifference, TrustState, TrustedCopies, TrustedFolders, differences};
