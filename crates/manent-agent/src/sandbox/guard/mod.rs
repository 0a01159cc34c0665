//! Keeps a command from leaving something that a person's next `git status` or editor would execute.
//!
//! Before a command, the repositories and protected names of the workspace are found ([`crate::protected`]). With
//! bubblewrap they are mounted read-only, and the directories above them cannot be renamed. What cannot be mounted is
//! copied, compared after the command and put back: symbolic links, everything under Landlock, which can only grant
//! rights, the parts of `.git` that stay closed if a person lets a command commit, and repositories beyond the number
//! that bubblewrap mounts quickly. What appears during the command is moved to `<home>/quarantine/` before its result
//! is given, when all of its processes are dead. Commands in the same workspace run one after another.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`WorkspaceGuard`]: before and after a command |
//! | `protected_paths.rs` | what must be protected because of what was found: links, `gitdir:`, `commondir` |
//! | `walk.rs` | finding repositories and protected names |
//! | `copy.rs` | copies, comparing, putting back |
//! | `quarantine.rs` | moving something out of the workspace |
//! | `state.rs` | what is on the disk meanwhile, for the next command after a kill |
//! | `report.rs` | what is said about all this |

mod copy;
mod protected_paths;
mod quarantine;
mod report;
mod state;
mod walk;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use manent::log::RealDisk;
use manent::log::fs::Disk;

use copy::{AllowedChanges, ProtectedCopy, RestoreContext};
use quarantine::{EntryHandle, MoveResult, Quarantine};
use report::GuardReport;
use state::{CommandDir, CommandDirsLock, EntryStat, GuardState, Heartbeat, RawPath, now_ns};
use walk::{IgnoreRules, ProtectedEntries, Purpose};

pub use report::{Cause, GuardNote};
pub use state::NewEntries;

use super::Isolation;
use super::error::SandboxError;
use super::policy::{FilesystemView, SandboxPolicy};
use super::stop::StopFlag;
use crate::protected::RepositoryMarks;

/// The protection of a workspace during one command.
#[derive(Debug)]
pub(super) struct WorkspaceGuard {
    store: PathBuf,
    notes: CommandDir,
    state: GuardState,
    rules: IgnoreRules,
    said: Vec<GuardNote>,
    _heartbeat: Heartbeat,
}

impl WorkspaceGuard {
    /// Finds what must be protected, tells `view` what to mount, and makes copies of the rest. What a command whose
    /// process was killed left undone is done first. Waits while another command runs in the same workspace, for no
    /// longer than a command may take, and calls `on_wait` once before that.
    pub(super) fn begin(
        policy: &SandboxPolicy,
        view: &mut FilesystemView,
        kind: Isolation,
        stop: &StopFlag,
        on_wait: &mut dyn FnMut(),
    ) -> Result<WorkspaceGuard, SandboxError> {
        let deadline = Instant::now() + policy.limits.wall;
        let mut is_waiting = false;
        let mut said = Vec::new();
        let failed = || SandboxError::io("keep a note of what must be protected in the home of the store");
        let notes = loop {
            let turn = CommandDirsLock::take(&policy.store).map_err(failed())?;
            said.extend(recover(&policy.store, &turn));
            if let Some(notes) = turn.begin(&view.workspace).map_err(failed())? {
                break notes;
            }
            drop(turn);
            if !std::mem::replace(&mut is_waiting, true) {
                on_wait();
            }
            if stop.is_raised_within(LOOK_EVERY) || Instant::now() >= deadline {
                return Err(SandboxError::Busy(view.workspace.clone()));
            }
        };
        WorkspaceGuard::prepare(policy, view, kind, notes, said).map_err(failed())
    }

    fn prepare(
        policy: &SandboxPolicy,
        view: &mut FilesystemView,
        kind: Isolation,
        mut notes: CommandDir,
        mut said: Vec<GuardNote>,
    ) -> io::Result<WorkspaceGuard> {
        let begun_ns = now_ns();
        let hidden: HashSet<PathBuf> = view.hidden.iter().map(|(path, _)| path.clone()).collect();
        let mut rules = IgnoreRules::default();
        let found = walk::search(&view.workspace, &hidden, Purpose::Before(&mut rules));
        let places = protected_paths::of(&found, view);
        let mut bytes_left = COPIES_BYTES_MAX;
        let mut kept = Vec::new();
        let mut keep =
            |path: &Path, extent| match ProtectedCopy::new(path, extent, &mut notes, &mut bytes_left) {
                // Gone since it was found.
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
                made => made.map(|made| kept.push(made)),
            };
        for link in &places.links {
            keep(link, AllowedChanges::Nothing)?;
        }
        for path in &view.writable {
            keep(path, AllowedChanges::Commits)?;
        }
        match kind {
            Isolation::Bubblewrap => {
                let unmounted = view.mount(places.guarded);
                for path in &unmounted {
                    keep(path, AllowedChanges::NothingUncopied)?;
                }
                if !unmounted.is_empty() {
                    let text = format!(
                        "{} repositories and protected files are more than are mounted read-only at once; they were \
                         compared after the command instead, their commits and branches were not",
                        unmounted.len()
                    );
                    said.push(GuardNote { cause: Cause::Limit, text });
                }
            }
            Isolation::Landlock => {
                for path in &places.guarded {
                    keep(path, AllowedChanges::Nothing)?;
                }
            }
        }
        let state = GuardState {
            workspace: RawPath(view.workspace.clone()),
            id: id_of(&view.workspace).ok_or(io::ErrorKind::NotFound)?,
            hidden: hidden.into_iter().map(RawPath).collect(),
            begun_ns,
            found,
            mounted: view.protected.iter().cloned().map(RawPath).collect(),
            kept,
            missing: places.missing.into_iter().map(RawPath).collect(),
            new: policy.new_entries,
        };
        notes.save(&state)?;
        let heartbeat = notes.beat()?;
        Ok(WorkspaceGuard { store: policy.store.clone(), notes, state, rules, said, _heartbeat: heartbeat })
    }

    /// Undoes what the command must not have done. To be called when all of its processes are dead.
    pub(super) fn end(self) -> Vec<GuardNote> {
        let mut said = self.said;
        said.extend(settle(&self.store, &self.notes, &self.state, &self.rules, i64::MAX));
        self.notes.remove();
        said
    }
}

/// Does what commands left undone whose process was killed.
fn recover(store: &Path, turn: &CommandDirsLock) -> Vec<GuardNote> {
    let mut said = Vec::new();
    for notes in turn.left_behind() {
        match notes.load() {
            // The workspace may be gone, or another directory by now.
            Ok(Some(state)) if id_of(&state.workspace.0) == Some(state.id) => {
                // If that was a moment ago, its keeper may still be ending what it started.
                let age_ns = now_ns().saturating_sub(notes.last_beat_ns());
                let left_ns = KEEPER_NS.saturating_sub(age_ns).clamp(0, KEEPER_NS);
                std::thread::sleep(Duration::from_nanos(left_ns.unsigned_abs()));
                // What changed later was changed by somebody else.
                let until_ns = notes.last_beat_ns().saturating_add(BEAT_SLACK_NS);
                let late = settle(store, &notes, &state, &IgnoreRules::default(), until_ns);
                let workspace = state.workspace.0.display();
                said.extend(late.into_iter().map(|note| GuardNote {
                    text: format!("after an earlier command in {workspace} that was cut off: {}", note.text),
                    ..note
                }));
                notes.remove();
            }
            // It was killed before the command began.
            Ok(_) => notes.remove(),
            Err(e) => {
                let text = format!(
                    "what an earlier command may have changed cannot be told, because {} cannot be read: {e}; look for \
                     new repositories where it ran, then remove that directory",
                    notes.dir().display()
                );
                said.push(GuardNote { cause: Cause::Trouble, text });
            }
        }
    }
    said
}

fn id_of(path: &Path) -> Option<(u64, u64)> {
    RealDisk.inspect(path).ok().map(|info| (info.id.device, info.id.inode))
}

/// Compares the workspace with what it was, puts back what is protected, and moves away what is new; but nothing that
/// changed after `until_ns`.
fn settle(
    store: &Path,
    notes: &CommandDir,
    state: &GuardState,
    rules: &IgnoreRules,
    until_ns: i64,
) -> Vec<GuardNote> {
    let root = &state.workspace.0;
    let hidden = state.hidden.iter().map(|path| path.0.clone()).collect();
    let after = walk::search(root, &hidden, Purpose::After { rules, before: &state.found });
    let mut end = Settlement {
        state,
        until_ns,
        quarantine: Quarantine::new(store, root),
        report: GuardReport::new(root),
    };
    for (index, kept) in state.kept.iter().enumerate() {
        end.bring_back(kept, &state.kept[..index], &after);
        let undoing = RestoreContext {
            root,
            until_ns,
            notes,
            quarantine: &mut end.quarantine,
            report: &mut end.report,
        };
        kept.settle(undoing);
    }
    if state.new == NewEntries::Quarantined {
        end.remove_new(&after);
    }
    end.tell_of_limits(&after);
    end.report.into_notes()
}

/// The work after a command.
struct Settlement<'a> {
    state: &'a GuardState,
    until_ns: i64,
    quarantine: Quarantine,
    report: GuardReport,
}

impl Settlement<'_> {
    /// Moves something protected back to its place, if it was renamed and is found somewhere else.
    ///
    /// A file system gives the inode of a removed file to the next new one, so an equal inode is not proof. What was
    /// settled before this entry, and what has changed since the walk, is left alone; whatever else is moved here by
    /// mistake is compared with the copy next, and replaced by it.
    fn bring_back(&mut self, kept: &ProtectedCopy, settled: &[ProtectedCopy], after: &ProtectedEntries) {
        let (path, id) = (&kept.path.0, kept.id());
        let info = RealDisk.inspect(path).ok();
        let now = info.map(|info| (info.id.device, info.id.inode));
        if now == id || info.is_some_and(|info| info.changed_ns > self.until_ns) {
            return;
        }
        let is_settled = |path: &RawPath| settled.iter().any(|kept| kept.path == *path);
        let mut candidates = after.all().filter(|(at, seen)| Some(seen.id) == id && !is_settled(at));
        let Some((elsewhere, _)) = candidates.next() else { return };
        if id_of(&elsewhere.0) != id {
            return;
        }
        if now.is_some() {
            self.take(path, path);
        }
        let root = &self.state.workspace.0;
        let parent = path.parent().map_or(Ok(()), |parent| RealDisk.create_dir_all(parent));
        let renamed = parent.and_then(|()| {
            let (from, to) = (EntryHandle::open(root, &elsewhere.0)?, EntryHandle::open(root, path)?);
            Ok(rustix::fs::renameat(&from.dir, &from.name, &to.dir, &to.name)?)
        });
        match renamed {
            Ok(()) => self.report.put_back(path),
            Err(e) => self.report.trouble(path, "be moved back to its place", &e),
        }
    }

    /// Moves away repositories and protected names that were not there before.
    fn remove_new(&mut self, after: &ProtectedEntries) {
        let GuardState { found: before, kept, missing, .. } = self.state;
        let is_kept = |path: &Path| kept.iter().any(|kept| path.starts_with(&kept.path.0));
        for (path, seen) in &after.repositories {
            if !before.repositories.contains_key(path) && !is_kept(&path.0) && self.is_recent(&path.0, seen) {
                self.take(&path.0, &path.0);
            }
        }
        let root = &self.state.workspace.0;
        let is_root = |dir: &Path| {
            let mut known = before.repositories.iter().filter(|(_, seen)| !seen.is_ignored);
            dir == root || known.any(|(path, _)| path.0.parent() == Some(dir))
        };
        for (path, seen) in &after.names {
            let is_new = !before.names.contains_key(path) && !is_kept(&path.0);
            if is_new && path.0.parent().is_some_and(is_root) && self.is_recent(&path.0, seen) {
                self.take(&path.0, &path.0);
            }
        }
        for (path, seen) in &after.bare {
            if !before.bare.contains_key(path) && !is_kept(&path.0) && self.is_recent(&path.0, seen) {
                self.take_bare(&path.0);
            }
        }
        for path in missing {
            let Ok(info) = RealDisk.inspect(&path.0) else { continue };
            if self.is_recent(&path.0, &EntryStat::of(&info, false)) {
                self.take(&path.0, &path.0);
            }
        }
    }

    /// Moves away a directory that has become a repository: in whole if nothing else is in it, else the entries that
    /// make it one.
    fn take_bare(&mut self, dir: &Path) {
        let Ok(listed) = RealDisk.list(dir) else { return };
        let before = self.state.found.marks.get(dir).copied().unwrap_or_default();
        let is_whole = before.is_empty() && *dir != self.state.workspace.0;
        if is_whole && listed.iter().all(|entry| protected_paths::is_made_by_git(&entry.name)) {
            return self.take(dir, &dir.join("HEAD"));
        }
        for entry in &listed {
            let mut mark = RepositoryMarks::default();
            mark.add(&entry.name);
            if !mark.is_empty() && !before.has(&entry.name) {
                let path = dir.join(&entry.name);
                self.take(&path, &path);
            }
        }
    }

    fn take(&mut self, path: &Path, armed: &Path) {
        match self.quarantine.take(path, armed) {
            Ok(moved @ (MoveResult::To(_) | MoveResult::Renamed(..))) => self.report.added(path, &moved),
            // It was in something that was moved.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => self.report.trouble(path, "be moved to the quarantine", &e),
        }
    }

    /// Returns true if a new entry can have been made by the command. If not everything was searched before it, an
    /// entry found only afterwards may be old, which its time tells, with a margin for file systems that round it.
    fn is_recent(&mut self, path: &Path, seen: &EntryStat) -> bool {
        if seen.changed_ns > self.until_ns {
            self.report.later(path);
            return false;
        }
        !self.state.found.is_bounded || seen.changed_ns >= self.state.begun_ns - CLOCK_SLACK_NS
    }

    fn tell_of_limits(&mut self, after: &ProtectedEntries) {
        let before = &self.state.found;
        for (path, why) in &after.unsearched {
            if !before.unsearched.contains_key(path) {
                let why = io::Error::other(why.clone());
                self.report.trouble(&path.0, "be searched for repositories", &why);
            }
        }
        for path in &self.state.mounted {
            let seen = before.all().find(|(known, _)| *known == path).map(|(_, seen)| seen.id);
            let now = id_of(&path.0);
            if seen.is_some() && now.is_some() && now != seen {
                let shown = self.report.relative_path(&path.0);
                self.report.note(Cause::Limit, format!(
                    "{shown} was replaced from outside while the command ran, which ends its protection; look at it"
                ));
            }
        }
        if before.is_bounded || after.is_bounded {
            self.report.note(Cause::Limit, format!(
                "directories that Git ignores hold more than {} entries; repositories beyond them were neither \
                 protected nor looked for",
                walk::IGNORED_ENTRIES_MAX
            ));
        }
    }
}

/// The number of bytes that are copied before a command at most. Larger files are compared by size and time.
const COPIES_BYTES_MAX: u64 = 64 << 20;
const CLOCK_SLACK_NS: i64 = 3_000_000_000;
/// The time that a command may run on after the last heartbeat of its process: until the next beat, and until its
/// keeper has noticed that the process is gone.
const BEAT_SLACK_NS: i64 = 6_000_000_000;
/// The time after the last heartbeat until everything that a killed process had started is dead.
const KEEPER_NS: i64 = 2_500_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(20);
