//! The command line as people and scripts meet it.

mod append;
mod colour;
mod context;
mod doctor;
mod exit_codes;
mod follow;
mod foreign_stores;
mod forks;
mod help;
mod lifecycle;
mod manuals;
mod memory;
mod memory_sources;
mod memory_writers;
mod movers;
mod places;
mod purge;
mod search;
mod show;
mod snapshots;
mod snapshots_memory;
mod snapshots_moves;
mod snapshots_search;
mod two_writers;
