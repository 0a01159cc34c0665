//! Names, rights, the terminal, secrets: what somebody with bad intentions would try first.

mod access;
mod index;
mod keys;
mod memory;
mod names;
mod put_away;
mod repositories;
mod sandbox;
mod secrets;
mod terminal;
