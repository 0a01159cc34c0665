//! Many threads that all want to survive a power cut at the same time.
//!
//! Two questions. On one session: how much does sharing a sync give over one thread that waits for each? On many
//! sessions: is it better that every thread syncs its own file and the kernel merges what it can, or that one leader
//! syncs the whole file system (syncfs) for everyone? The second decides the design of a server and has no goal.
//! Costs are microseconds a record, over all threads.

use std::fs::File;
use std::path::Path;
use std::sync::{Barrier, Condvar, Mutex, PoisonError};
use std::time::Instant;

use manent::{Durability, Expect, Session, SessionKey, Store, turn_body};
use manent_log::{Log, Options, RealDisk, SharedLog};

use crate::append::CONTENT_BYTES;
use crate::data::{Turn, Turns};
use crate::measure::{interleaved, micros_each};
use crate::row::{Goal, Row};
use crate::session::file_of;
use crate::{Bench, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let dir = bench.place("group")?;
    let home = dir.join("store");
    let store = Store::open(&home)?;
    let turns = Turns::of_one_size(3, 64, CONTENT_BYTES);
    let open = |name: &str| -> Result<Session> { Ok(store.session(&SessionKey::new(name)?)?) };
    let mut alone = open("alone")?;
    // The log itself and not the store around it: the question is what sharing a sync gives.
    append(&mut open("shared")?, &turns[0], Durability::Sync)?;
    let shared = file_of(&home, &SessionKey::new("shared")?)?;
    let shared = SharedLog::new(Log::open(&RealDisk::shared(), &shared, &Options::default())?);
    let mut logs = (0..64).map(|n| open(&format!("own-{n}"))).collect::<Result<Vec<Session>>>()?;
    // The first sync of a log also syncs its directory; that belongs to opening.
    for session in logs.iter_mut().chain([&mut alone]) {
        append(session, &turns[0], Durability::Sync)?;
    }
    let logs = Mutex::new(logs);
    let own = |n: usize| own_syncs(&mut logs.lock().unwrap_or_else(PoisonError::into_inner)[..n], &turns);
    let whole =
        |n: usize| whole_syncs(&dir, &mut logs.lock().unwrap_or_else(PoisonError::into_inner)[..n], &turns);

    let [one, group8, group64, own8, own64, whole8, whole64] = interleaved(
        bench.rounds(15),
        [
            &mut || {
                let mut turns = turns.iter().cycle().take(ALONE_RECORDS);
                micros_each(ALONE_RECORDS, || turns.try_for_each(|t| append(&mut alone, t, Durability::Sync)))
            },
            &mut || grouped(8, &shared, &turns),
            &mut || grouped(64, &shared, &turns),
            &mut || own(8),
            &mut || own(64),
            &mut || whole(8),
            &mut || whole(64),
        ],
    )?;
    let row = |bench: &str, ours, goal| Row::new(bench, ours, "us", "one thread, Sync", one, goal);
    let rival = |bench: &str, ours, peer| {
        Row::new(bench, ours, "us", "the same logs, Flush + one leader's syncfs", peer, Goal::Inform)
    };
    Ok(vec![
        row("one log, 64 threads, Group", group64, Goal::FasterBy(8.0)),
        row("one log, 8 threads, Group", group8, Goal::Inform),
        row("64 logs, a thread each, Sync", own64, Goal::Inform),
        row("8 logs, a thread each, Sync", own8, Goal::Inform),
        rival("64 logs, a thread each, Sync", own64, whole64),
        rival("8 logs, a thread each, Sync", own8, whole8),
    ])
}

fn append(session: &mut Session, turn: &Turn, durability: Durability) -> Result<()> {
    session.append_with(&[turn_body(&turn.ts, turn.role, &turn.content)], durability, Expect::Any)?;
    Ok(())
}

/// Threads that append to one log and share its syncs.
fn grouped(threads: usize, log: &SharedLog, turns: &[Turn]) -> Result<f64> {
    let work = (0..threads).map(|_| {
        |turn: &Turn| -> Result<()> {
            log.append(turn_body(&turn.ts, turn.role, &turn.content), Durability::Group)?;
            Ok(())
        }
    });
    together(work.collect(), turns)
}

/// Threads that each append to a log of their own and sync it.
fn own_syncs(logs: &mut [Session], turns: &[Turn]) -> Result<f64> {
    let work = logs.iter_mut().map(|log| move |turn: &Turn| append(log, turn, Durability::Sync));
    together(work.collect(), turns)
}

/// Threads that each append to a log of their own, and let a leader sync the file system for all of them.
fn whole_syncs(dir: &Path, logs: &mut [Session], turns: &[Turn]) -> Result<f64> {
    let syncs = WholeSyncs::new(File::open(dir)?);
    // What others left unwritten is not to be paid by the first leader.
    rustix::fs::syncfs(&syncs.directory)?;
    let syncs = &syncs;
    let work = logs.iter_mut().map(|log| {
        move |turn: &Turn| {
            append(log, turn, Durability::Flush)?;
            syncs.wait()
        }
    });
    together(work.collect(), turns)
}

/// Runs one thread for each piece of work, starts them at the same moment, and gives microseconds a record.
fn together<W: FnMut(&Turn) -> Result<()> + Send>(work: Vec<W>, turns: &[Turn]) -> Result<f64> {
    let records = THREAD_RECORDS * work.len();
    let barrier = Barrier::new(work.len() + 1);
    std::thread::scope(|scope| {
        let start_all = &barrier;
        let threads: Vec<_> = work
            .into_iter()
            .map(|mut work| {
                scope.spawn(move || {
                    start_all.wait();
                    turns.iter().cycle().take(THREAD_RECORDS).try_for_each(&mut work)
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / records as f64)
    })
}

/// Leader and followers around syncfs: whoever finds no sync under way leads one for all who came before it began.
struct WholeSyncs {
    directory: File,
    state: Mutex<SyncState>,
    done: Condvar,
}

#[derive(Default)]
struct SyncState {
    running: bool,
    /// The sync that takes newcomers.
    open: u64,
    /// The number of syncs that are over.
    over: u64,
}

impl WholeSyncs {
    fn new(directory: File) -> WholeSyncs {
        WholeSyncs { directory, state: Mutex::new(SyncState::default()), done: Condvar::new() }
    }

    fn wait(&self) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = state.open;
        while state.over <= mine {
            if state.running {
                state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.running = true;
            state.open += 1;
            drop(state);
            let outcome = rustix::fs::syncfs(&self.directory);
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.running = false;
            state.over += 1;
            self.done.notify_all();
            outcome?;
        }
        Ok(())
    }
}

const ALONE_RECORDS: usize = 100;
const THREAD_RECORDS: usize = 25;
