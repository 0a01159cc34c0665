//! Bytes that a fault or a vandal left. The rule: every damage is named with its place, and hides nothing else.

mod archives;
mod flips;
mod foreign;
mod huge;
mod memory;
mod numbers;
mod places;
mod queries;
mod values;
