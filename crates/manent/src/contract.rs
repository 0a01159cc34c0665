//! What every backend must do, as tests to run on your own. Behind the feature `contract`.
//!
//! Each check is a function that takes a maker of empty stores and panics, with a message that says what was
//! wanted, where the backend does otherwise. They need nothing but the traits in [`crate::backend`]. An
//! author runs all of them as tests of their own with [`backend_contract!`](crate::backend_contract), or one
//! by one:
//!
//! ```
//! use std::sync::Arc;
//! use manent::{InMemory, contract};
//!
//! contract::numbers_begin_at_1_and_have_no_gaps(&|| Arc::new(InMemory::new()));
//! ```
//!
//! They show what threads of one process see. What must survive a crash, and that other processes are kept
//! off as threads are, each backend has to test in its own way.
//!
//! | file | about |
//! |---|---|
//! | `subject.rs` | what the checks share: making records, reading them back |
//! | `writing.rs` | numbers, receipts, expectations, bytes |
//! | `retrying.rs` | records that are known by a key |
//! | `reading.rs` | from where, to where, the last turns; what is not there |
//! | `following.rs` | reading on as a stream grows, moves or goes |
//! | `leasing.rs` | one writer at a time |
//! | `threads.rs` | many at once |
//! | `keys.rs` | any text is a key; what lists find |
//! | `moving.rs` | live, archived, trash, and back |
//! | `making.rs` | streams made, made whole, and removed |
//! | `seeing.rs` | streams seen from outside; records found again |
//! | `stores.rs` | the store's own work on top: forks, purges, the life of a session |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "these are tests, which fail by panicking; they are public for other backends' authors"
)]

mod following;
mod keys;
mod leasing;
mod making;
mod moving;
mod reading;
mod retrying;
mod seeing;
mod stores;
mod subject;
mod threads;
mod writing;

use std::sync::Arc;

use crate::backend::Backend;

pub use following::*;
pub use keys::*;
pub use leasing::*;
pub use making::*;
pub use moving::*;
pub use reading::*;
pub use retrying::*;
pub use seeing::*;
pub use stores::*;
pub use threads::*;
pub use writing::*;

/// Makes an empty store, a new one each time.
pub type Make<'a> = &'a dyn Fn() -> Arc<dyn Backend>;

/// A check, and what it is called.
pub type Check = (&'static str, fn(Make<'_>));

/// Every check.
pub const CHECKS: &[Check] = crate::backend_contract!(@list table);

/// Runs every check, each on a store of its own. Panics at the first that fails.
pub fn check(make: Make<'_>) {
    for (_, check) in CHECKS {
        check(make);
    }
}

/// Makes one test of each check of [`contract`](crate::contract).
///
/// It takes an expression that can be called to make an empty store: a function, or a closure that captures
/// nothing.
///
/// ```
/// # use std::sync::Arc;
/// use manent::InMemory;
/// use manent::backend::Backend;
///
/// fn empty() -> Arc<dyn Backend> {
///     Arc::new(InMemory::new())
/// }
///
/// mod in_memory {
///     manent::backend_contract!(super::empty);
/// }
/// ```
#[macro_export]
macro_rules! backend_contract {
    (@list $then:ident $($make:expr)?) => {
        $crate::backend_contract! {
            @$then ($($make)?)
            numbers_begin_at_1_and_have_no_gaps
            receipts_say_what_is_read
            an_expected_number_is_given_or_nothing_is_written
            expecting_1_begins_a_stream
            going_on_writes_no_second_header
            a_stream_begins_with_its_first_record
            an_append_of_nothing_writes_nothing
            a_batch_keeps_its_order
            bodies_are_kept_to_the_byte
            a_record_over_the_limit_is_refused_with_its_batch
            every_durability_is_taken_and_repeated
            a_key_is_recorded_once_and_gets_its_first_receipt
            an_expectation_is_of_what_is_written
            a_key_is_found_among_the_last_thousand_records
            threads_with_one_key_record_once
            a_key_of_no_length_or_too_much_is_refused
            a_record_that_is_there_can_be_kept
            reading_begins_and_ends_where_it_is_told
            a_tail_counts_turns_and_gives_all_that_stands_behind
            a_tail_can_count_from_before_a_number
            what_is_not_there_is_not_found
            a_reader_knows_the_header_wherever_it_begins
            readers_do_not_disturb_each_other
            a_whole_stream_verifies
            a_reader_at_its_end_sees_what_comes_later
            change_tells_growth_from_rest
            change_tells_that_a_stream_is_elsewhere_or_gone
            what_was_written_before_a_move_is_not_missed
            a_number_that_is_not_there_yet_is_waited_for
            a_reader_outlives_moves_and_removal
            a_second_writer_is_refused_at_once
            a_lease_is_waited_for
            an_append_waits_for_a_lease
            a_lease_goes_on_behind_what_others_wrote
            a_lease_can_insist_on_a_stream
            leases_of_different_keys_do_not_meet
            a_panic_gives_back_what_was_held
            a_wait_may_be_for_ever
            threads_on_one_key_lose_and_mix_nothing
            threads_on_many_keys_lose_and_mix_nothing
            of_those_who_expect_the_same_number_one_wins
            threads_that_begin_a_key_begin_one_stream
            readers_see_whole_records_while_others_write
            hostile_keys_are_streams_like_any_other
            recent_streams_are_the_newest_of_the_list
            long_keys_that_are_nearly_the_same_are_two
            lists_find_by_place_key_and_id
            lists_show_size_and_time
            a_stream_goes_through_all_places_unchanged
            nothing_is_replaced_by_a_move
            a_key_has_any_number_of_archived_streams
            the_trash_knows_where_a_stream_was
            a_move_waits_for_the_writer
            an_address_means_one_stream_and_no_other
            a_live_stream_can_be_named_by_its_key_alone
            only_one_may_move_streams
            a_stream_is_in_one_place_at_any_time
            settling_and_condensing_change_nothing_that_is_read
            a_stream_is_made_whole_or_not_at_all
            a_stream_can_be_made_of_one_that_is_being_read
            making_a_stream_replaces_nothing
            the_numbers_of_a_fork_go_on_from_its_parent
            absorbing_puts_the_parents_records_before_the_forks_own
            absorbing_works_wherever_fork_and_parent_are
            absorbing_waits_for_the_writer
            what_is_deleted_is_gone
            repairing_a_sound_stream_does_nothing
            a_survey_sees_every_stream_once
            a_survey_tells_what_came_changed_and_went
            a_survey_tells_what_was_made_and_rewritten
            a_live_stream_is_seen_by_its_key
            a_line_is_found_where_it_was_read
            reading_goes_on_from_a_record_that_was_read
            a_position_in_another_stream_pretends_nothing
            a_watch_tells_of_everything
            a_session_lives_through_archive_and_trash
            a_session_can_be_followed
            forks_share_what_they_continue
            a_purged_parent_leaves_its_forks_whole
            a_purge_with_forks_leaves_none
            summaries_and_titles_are_counted_from_records
        }
    };
    (@table () $($check:ident)*) => { &[$((stringify!($check), $check)),*] };
    (@tests ($make:expr) $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                $crate::contract::$check(&$make);
            }
        )*
    };
    ($make:expr) => { $crate::backend_contract! { @list tests $make } };
}
