//! The command line as people and scripts meet it.

mod append;
mod colour;
mod exit_codes;
mod follow;
mod help;
mod places;
mod show;
mod snapshots;
mod two_writers;
