//! The command line as people and scripts meet it.

mod append;
mod colour;
mod doctor;
mod exit_codes;
mod follow;
mod foreign_stores;
mod forks;
mod help;
mod lifecycle;
mod manuals;
mod movers;
mod places;
mod purge;
mod search;
mod show;
mod snapshots;
mod snapshots_moves;
mod snapshots_search;
mod two_writers;
