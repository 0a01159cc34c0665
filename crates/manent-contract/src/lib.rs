//! What every storage backend must do, as tests to run on your own.
//!
//! Each check is a function that takes a maker of empty backends and panics, with a message that says what was wanted,
//! where the backend does otherwise. The checks need nothing but the traits in [`manent_store`]. An author runs all of
//! them as tests with [`backend_contract!`], or one by one:
//!
//! ```
//! use std::sync::Arc;
//! use manent_store::{InMemory, Space};
//!
//! manent_contract::record_numbers_begin_at_1_without_gaps(&|| Arc::new(InMemory::new()), Space::Runs);
//! ```
//!
//! Checks of what holds in every space take the space too; `backend_contract!` runs them in each one that the backend
//! supports. [`blobs_contract!`] does the same for [`Blobs`](manent_store::Blobs).
//!
//! The checks show what threads of one process see. What must survive a crash, and that other processes are kept off as
//! threads are, each backend has to test in its own way.
//!
//! | file | about |
//! |---|---|
//! | `subject.rs` | helpers: making records, reading them back |
//! | `append.rs` | numbers, receipts, expectations, bytes |
//! | `idempotency.rs` | records with idempotency keys |
//! | `keys.rs` | records that are known by keys of a caller's rule |
//! | `read.rs` | seeking, limits, the last lines; missing streams |
//! | `positions.rs` | records found again where they were read; `may_contain` |
//! | `follow.rs` | reading on as a stream grows, moves or goes |
//! | `lease.rs` | one writer at a time |
//! | `lock.rs` | named locks and the right to move streams |
//! | `threads.rs` | many at once |
//! | `list.rs` | any text is a key; what lists find |
//! | `changes.rs` | versions and cursors |
//! | `relocate.rs` | live, archived, trash, and back |
//! | `create.rs` | streams created as a whole, and removed |
//! | `replace.rs` | streams replaced as a whole |
//! | `spaces.rs` | spaces and their keys |
//! | `blobs.rs` | derived data |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "these are tests, which fail by panicking; they are public for authors of other backends"
)]

mod append;
mod blobs;
mod changes;
mod create;
mod follow;
mod idempotency;
mod keys;
mod lease;
mod list;
mod lock;
mod positions;
mod read;
mod relocate;
mod replace;
mod spaces;
mod subject;
mod threads;

use std::sync::Arc;

use manent_store::{Space, Streams};

pub use append::*;
pub use blobs::*;
pub use changes::*;
pub use create::*;
pub use follow::*;
pub use idempotency::*;
pub use keys::*;
pub use lease::*;
pub use list::*;
pub use lock::*;
pub use positions::*;
pub use read::*;
pub use relocate::*;
pub use replace::*;
pub use spaces::*;
pub use threads::*;

/// Makes an empty backend, a new one each time.
pub type Make<'a> = &'a dyn Fn() -> Arc<dyn Streams>;

/// The names of all checks.
pub const CHECKS: &[&str] = crate::backend_contract!(@list names);

/// Runs a check in every space that the backend supports.
pub fn in_every_space(make: Make<'_>, check: fn(Make<'_>, Space)) {
    let streams = make();
    for space in Space::ALL.into_iter().filter(|space| streams.supports(*space)) {
        let _named = Named(space);
        check(make, space);
    }
}

/// Prints the space in which a check failed.
struct Named(Space);

impl Drop for Named {
    #[allow(clippy::print_stderr, reason = "tests print where they fail")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the space {:?}", self.0);
        }
    }
}

/// Makes one test of each check of this crate.
///
/// It takes an expression that can be called to make an empty backend: a function, or a closure that captures nothing.
///
/// ```
/// # use std::sync::Arc;
/// use manent_store::{InMemory, Streams};
///
/// fn empty() -> Arc<dyn Streams> {
///     Arc::new(InMemory::new())
/// }
///
/// mod in_memory {
///     manent_contract::backend_contract!(super::empty);
/// }
/// ```
#[macro_export]
macro_rules! backend_contract {
    (@list $then:ident $($make:expr)?) => {
        $crate::backend_contract! {
            @$then ($($make)?)
            (
                record_numbers_begin_at_1_without_gaps
                receipt_names_id_number_and_position_of_the_record
                append_with_wrong_expectation_writes_nothing
                append_expecting_1_begins_a_stream
                append_to_existing_stream_keeps_its_header
                stream_without_records_is_not_there
                append_of_no_records_checks_only_the_expectation
                batch_is_read_in_its_order
                bodies_are_kept_to_the_byte
                record_over_the_limit_is_refused_with_its_batch
                receipt_repeats_the_durability
                known_key_gets_its_first_receipt
                expectation_of_a_known_key_is_not_checked
                key_is_found_among_the_last_thousand_records
                threads_with_one_key_record_once
                empty_or_oversized_key_is_refused
                keep_from_changes_nothing_that_is_read
                record_with_any_key_of_another_is_appended_once
                body_left_out_of_a_batch_leaves_its_keys_free
                key_of_whole_reach_is_found_behind_any_number_of_records
                key_of_short_reach_is_found_within_it
                find_returns_the_first_and_the_last_record_of_a_key
                keys_follow_appends_by_other_rules_and_writers
                keys_of_a_stream_go_with_it
                threads_with_keys_of_a_rule_record_once
                seek_and_end_at_bound_what_is_read
                seek_last_counts_matching_lines
                seek_last_before_a_number_ignores_later_lines
                missing_stream_is_not_found
                reader_knows_the_header_after_every_seek
                readers_are_independent
                verify_of_sound_stream_counts_its_records
                line_at_finds_every_line_again
                seek_to_position_continues_from_a_known_record
                may_contain_denies_only_what_is_not_there
                reader_at_the_end_reads_later_records
                poll_tells_growth_from_rest
                poll_after_move_or_delete_is_replaced
                seek_to_later_number_skips_smaller_ones
                second_writer_without_wait_is_refused
                lease_waits_for_its_holder
                append_waits_for_a_lease
                lease_continues_after_records_of_others
                lease_refusing_creation_needs_a_stream
                leases_of_different_keys_are_independent
                panic_releases_leases_and_locks
                wait_of_max_duration_is_accepted
                append_by_id_reaches_only_that_stream
                exclusive_lock_has_one_holder
                shared_lock_has_many_holders
                lock_is_waited_for
                moves_lock_has_one_holder
                threads_on_one_stream_lose_nothing
                threads_on_many_streams_lose_nothing
                threads_expecting_one_number_get_it_once
                threads_beginning_a_key_begin_one_stream
                readers_during_writes_see_whole_records
                list_shows_size_and_time
                list_from_outside_gives_the_same_streams
                name_finds_its_stream_in_its_place
                changes_of_unchanged_streams_are_empty
                changes_tell_of_each_change_once
                changes_since_an_old_cursor_are_complete
                changes_of_unknown_version_are_rewritten
                version_of_a_list_is_that_of_changes
                relocate_outside_sessions_is_unsupported
                create_makes_all_or_nothing
                create_of_header_alone_makes_a_stream
                create_never_replaces_a_stream
                deleted_stream_is_gone
                repair_of_sound_stream_writes_nothing
                replace_writes_header_and_parts_in_order
                replace_accepts_lines_of_other_programs
                replace_without_header_makes_a_foreign_stream
                replace_with_failing_part_changes_nothing
                replace_leaves_out_ranges
                replace_shows_the_old_stream_until_it_is_done
                key_outside_the_fixed_ones_is_refused
            )
            (
                position_of_another_stream_gives_no_false_record
                poll_tells_growth_before_a_move
                reader_outlives_moves_and_removal
                lease_outside_live_allows_only_replacing
                freed_lock_is_seen_soon
                hostile_keys_have_streams_of_their_own
                list_of_newest_is_ordered_by_time
                long_keys_differing_in_one_byte_are_distinct
                list_finds_by_place_key_and_id
                changes_tell_of_moves
                changes_tell_of_streams_replaced_where_they_are
                relocate_between_all_places_keeps_every_byte
                relocate_to_live_never_replaces_a_stream
                key_has_any_number_of_archived_streams
                trashed_stream_knows_its_former_place
                relocate_and_delete_wait_for_the_writer
                id_of_a_moved_stream_is_not_found
                live_stream_is_found_by_its_key_alone
                holder_of_moves_lock_sees_each_stream_once
                sync_and_pack_change_nothing_that_is_read
                create_accepts_parts_read_meanwhile
                fork_numbers_continue_those_of_its_parent
                replace_works_in_every_place
                replace_puts_the_parents_records_before_the_forks_own
                replace_works_wherever_fork_and_parent_are
                replace_waits_for_the_writer
                spaces_are_independent
                unsupported_space_is_empty_and_refused
            )
        }
    };
    (@names () ($($every:ident)*) ($($check:ident)*)) => {
        &[$(stringify!($every),)* $(stringify!($check)),*]
    };
    (@tests ($make:expr) ($($every:ident)*) ($($check:ident)*)) => {
        $(
            #[test]
            fn $every() {
                $crate::in_every_space(&$make, $crate::$every);
            }
        )*
        $(
            #[test]
            fn $check() {
                $crate::$check(&$make);
            }
        )*
    };
    ($make:expr) => { $crate::backend_contract! { @list tests $make } };
}
