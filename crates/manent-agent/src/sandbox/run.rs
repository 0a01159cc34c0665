//! Running a command, seen from outside: start the keeper, read what comes, end it in time.

use std::ffi::OsString;
use std::io::{PipeReader, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use manent::log::RealDisk;
use manent::log::fs::Disk;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::SandboxError;
use super::guard::WorkspaceGuard;
use super::outcome::{CapturedOutput, CommandEnd, CommandOutcome};
use super::plan::{ENTRANCE, KEEP, KeeperPlan, report};
use super::policy::{FilesystemView, OutputStreams, SandboxPolicy};
use super::scratch::Scratch;
use super::stop::StopFlag;
use super::{Sandbox, bubblewrap, plan, policy};

/// A command to run.
#[derive(Debug, Clone)]
pub enum SandboxCommand {
    /// A line for a shell: bash where it is installed, else sh.
    Shell(String),
    /// A program and its arguments, as they are.
    Program(Vec<OsString>),
}

impl SandboxCommand {
    fn words(&self) -> Result<Vec<OsString>, SandboxError> {
        let words = match self {
            SandboxCommand::Shell(line) => {
                let shell = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists());
                vec![shell.unwrap_or("/bin/sh").into(), "-c".into(), line.into()]
            }
            SandboxCommand::Program(words) => words.clone(),
        };
        if words.is_empty() {
            return Err(SandboxError::Command("nothing was given to run"));
        }
        if words.iter().any(|word| word.len() >= WORD_BYTES_MAX) {
            return Err(SandboxError::Command("it has more than 128 KiB; put it into a file and run that"));
        }
        if words.iter().any(|word| word.as_encoded_bytes().contains(&0)) {
            return Err(SandboxError::Command("it holds a null character; take it out"));
        }
        Ok(words)
    }
}

/// Receives the output of a command as it arrives. Neither method may block: meanwhile nobody watches the time limit.
pub trait OutputObserver {
    /// Returns true if more output can be taken now. Until then nothing is read, so that the command blocks; its time
    /// limit keeps running.
    fn has_room(&mut self) -> bool;
    /// Takes this, also if there was no room: when a command is at its end, what is left in its pipes comes at once.
    fn tell(&mut self, bytes: &[u8]);
    /// Called at most once, before the command begins, if another command in the same workspace must end first.
    fn on_wait(&mut self) {}
}

/// An observer that ignores the output.
struct IgnoreOutput;

impl OutputObserver for IgnoreOutput {
    fn has_room(&mut self) -> bool {
        true
    }

    fn tell(&mut self, _: &[u8]) {}
}

impl Sandbox {
    /// Runs a command to its end and gives what came of it. Blocks this thread meanwhile, also while another command
    /// runs in the same workspace.
    ///
    /// When this comes back, nothing that the command started is running any more, and what it did to repositories and
    /// protected names is undone ([`CommandOutcome::notes`]). Memory is bounded by the limit for output, whatever the
    /// command prints.
    pub fn run(
        &self,
        policy: &SandboxPolicy,
        line: &SandboxCommand,
        stop: &StopFlag,
    ) -> Result<CommandOutcome, SandboxError> {
        self.run_observed(policy, line, stop, &mut IgnoreOutput)
    }

    /// Runs a command like [`Sandbox::run`], and passes everything that it writes to an observer as it arrives.
    pub fn run_observed(
        &self,
        policy: &SandboxPolicy,
        line: &SandboxCommand,
        stop: &StopFlag,
        onlooker: &mut dyn OutputObserver,
    ) -> Result<CommandOutcome, SandboxError> {
        let words = line.words()?;
        // If it lies in the workspace it must be there to be hidden: notes about this command are kept in it.
        let made = RealDisk.create_dir_all(&policy.store);
        made.map_err(SandboxError::io("make the home of the store"))?;
        let mut view = FilesystemView::new(policy, self.kind)?;
        let guard = WorkspaceGuard::begin(policy, &mut view, self.kind, stop, &mut || onlooker.on_wait())?;
        let outcome = self.run_in(&view, policy, &words, stop, onlooker);
        // Protected paths are put back before the outcome is known to anybody, also where the command failed.
        let notes = guard.end();
        outcome.map(|outcome| CommandOutcome { notes, ..outcome })
    }

    fn run_in(
        &self,
        view: &FilesystemView,
        policy: &SandboxPolicy,
        words: &[OsString],
        stop: &StopFlag,
        onlooker: &mut dyn OutputObserver,
    ) -> Result<CommandOutcome, SandboxError> {
        // With bubblewrap it is in memory, and gone by itself.
        let scratch = self.bubblewrap.is_none().then(Scratch::new).transpose()?;
        let home = scratch.as_ref().map_or(Path::new(bubblewrap::SCRATCH), Scratch::path);
        let mut command = self.command(policy, view, home, words)?;
        let (ours, theirs) = UnixStream::pair().map_err(SandboxError::io("make a line to the keeper"))?;
        let (outputs, writers) = streams(policy.streams)?;
        let [out, err] = writers;
        command.stdin(OwnedFd::from(theirs)).stdout(out).stderr(err);
        let begun = Instant::now();
        let child = command.spawn().map_err(SandboxError::io("start the keeper of a command"))?;
        // It holds the other ends of the pipes, which would then never close.
        drop(command);
        let mut run = Run {
            child,
            line: ours,
            outputs,
            captured: [
                CapturedOutput::new(policy.limits.output_bytes),
                CapturedOutput::new(policy.limits.output_bytes),
            ],
            told: Vec::new(),
            closed: false,
        };
        let cut_short = run.follow(begun + policy.limits.wall, stop, onlooker);
        run.leave();
        let ending = match (cut_short, run.told.split_first()) {
            (Some(ending), _) => ending,
            // Without a word from the keeper, it was killed.
            (None, Some((&report::ENTERED, rest))) => report::decode(rest).unwrap_or(CommandEnd::Signal(9)),
            (None, _) => return Err(self.not_entered(&run)),
        };
        run.captured.iter_mut().for_each(CapturedOutput::trim);
        let [stdout, stderr] = run.captured.each_mut().map(std::mem::take);
        let (duration, sandbox) = (begun.elapsed(), self.to_string());
        Ok(CommandOutcome { ending, stdout, stderr, duration, sandbox, notes: Vec::new() })
    }

    /// Checks whether commands can be run by this policy, so that faults of its paths are reported before anything
    /// begins.
    pub fn check(&self, policy: &SandboxPolicy) -> Result<(), SandboxError> {
        FilesystemView::new(policy, self.kind).map(drop)
    }

    fn not_entered(&self, run: &Run) -> SandboxError {
        let said = run.captured.iter().map(CapturedOutput::text).collect::<String>();
        let why = if said.trim().is_empty() { "it said nothing".to_owned() } else { said.trim().to_owned() };
        SandboxError::Setup { kind: self.kind, why }
    }

    /// The command line of the keeper, in the sandbox or about to make one.
    fn command(
        &self,
        policy: &SandboxPolicy,
        view: &FilesystemView,
        home: &Path,
        words: &[OsString],
    ) -> Result<Command, SandboxError> {
        let (kind, network, limits) = (self.kind, policy.network, policy.limits);
        let (mut command, rules, scratch) = match &self.bubblewrap {
            Some(program) => {
                let mut command = Command::new(program);
                command.args(bubblewrap::arguments(view, &self.helper, network, &limits));
                command.arg(bubblewrap::HELPER);
                (command, Vec::new(), None)
            }
            None => (Command::new(&self.helper), plan::rules(view, home)?, Some(home.to_owned())),
        };
        let text = serde_json::to_string(&KeeperPlan { kind, network, limits, scratch, rules });
        let text = text.map_err(|_| SandboxError::Command("a path of its policy is no text"))?;
        command.args([ENTRANCE, KEEP, &text]).args(words);
        // Handed on through the environment of the keeper and not on its command line, which others can read.
        command.env_clear().envs(policy::environment(policy, view, home));
        command.current_dir(&view.workspace);
        // Ctrl-C on our terminal is for us. It would end the keeper, and nobody would look after the command.
        command.process_group(0);
        Ok(command)
    }
}

type Pipes = [Option<PipeReader>; 2];

fn streams(how: OutputStreams) -> Result<(Pipes, [Stdio; 2]), SandboxError> {
    let pipe = || std::io::pipe().map_err(SandboxError::io("make a pipe for output"));
    let (reader, writer) = pipe()?;
    match how {
        OutputStreams::Merged => {
            let same = writer.try_clone().map_err(SandboxError::io("make a pipe for output"))?;
            Ok(([Some(reader), None], [writer.into(), same.into()]))
        }
        OutputStreams::Apart => {
            let (other, other_writer) = pipe()?;
            Ok(([Some(reader), Some(other)], [writer.into(), other_writer.into()]))
        }
    }
}

/// A command that runs.
struct Run {
    child: Child,
    line: UnixStream,
    outputs: Pipes,
    captured: [CapturedOutput; 2],
    /// The bytes received from the keeper so far.
    told: Vec<u8>,
    /// Set when the keeper has closed its end.
    closed: bool,
}

impl Run {
    /// Reads until everything is closed. Gives why it was ended, if we did that.
    fn follow(
        &mut self,
        mut deadline: Instant,
        stop: &StopFlag,
        onlooker: &mut dyn OutputObserver,
    ) -> Option<CommandEnd> {
        let mut ended = None;
        let mut buffer = vec![0; 64 << 10];
        while !self.closed || self.outputs.iter().any(Option::is_some) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                if ended.is_some() || self.closed {
                    break;
                }
                ended = Some(self.end(CommandEnd::Timeout, &mut deadline));
                continue;
            }
            // Of the dead nothing more comes than their pipes hold, and that is read in any case.
            let is_read = self.closed || onlooker.has_room();
            let left = if is_read { left } else { left.min(LOOK_EVERY) };
            for ready in self.wait(stop, ended, left, is_read) {
                match ready {
                    Owner::Stop if self.closed => {}
                    Owner::Stop => ended = Some(self.end(CommandEnd::Stopped, &mut deadline)),
                    Owner::Line => {
                        self.listen();
                        if self.closed {
                            // Everybody inside is dead; what they wrote is in the pipes.
                            deadline = Instant::now() + GRACE;
                        }
                    }
                    Owner::Output(at) => self.read(at, &mut buffer, onlooker),
                }
            }
        }
        ended
    }

    /// Tells the keeper to end everything, and gives it time for that.
    fn end(&mut self, why: CommandEnd, deadline: &mut Instant) -> CommandEnd {
        let _ = self.line.shutdown(Shutdown::Write);
        *deadline = Instant::now() + GRACE;
        why
    }

    /// Waits for something to read, and returns where. The line comes before the outputs, because what is written
    /// before the command is inside is not its own.
    fn wait(&self, stop: &StopFlag, ended: Option<CommandEnd>, left: Duration, is_read: bool) -> Vec<Owner> {
        let mut waited = Vec::with_capacity(4);
        let mut owners = Vec::with_capacity(4);
        let mut add = |fd, owner| {
            waited.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            owners.push(owner);
        };
        if ended.is_none() {
            add(stop.as_fd(), Owner::Stop);
        }
        if !self.closed {
            add(self.line.as_fd(), Owner::Line);
        }
        for (at, output) in self.outputs.iter().enumerate() {
            if let Some(output) = output.as_ref().filter(|_| is_read) {
                add(output.as_fd(), Owner::Output(at));
            }
        }
        if poll(&mut waited, Timespec::try_from(left).ok().as_ref()).is_err() {
            return Vec::new();
        }
        let ready = waited.iter().zip(owners).filter(|(fd, _)| !fd.revents().is_empty());
        ready.map(|(_, owner)| owner).collect()
    }

    fn read(&mut self, at: usize, buffer: &mut [u8], onlooker: &mut dyn OutputObserver) {
        let Some(output) = &mut self.outputs[at] else { return };
        match output.read(buffer) {
            Ok(n) if n > 0 => {
                self.captured[at].push(&buffer[..n]);
                // Before it is inside, only what went wrong is said, and that becomes an error.
                if self.told.first() == Some(&report::ENTERED) {
                    onlooker.tell(&buffer[..n]);
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            _ => self.outputs[at] = None,
        }
    }

    fn listen(&mut self) {
        let mut bytes = [0; 16];
        match self.line.read(&mut bytes) {
            // More than it has to say is not from our keeper.
            Ok(n) if n > 0 && self.told.len() + n <= bytes.len() => self.told.extend(&bytes[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            _ => self.closed = true,
        }
    }

    /// Waits for the keeper itself. One that does not end is ended.
    fn leave(&mut self) {
        let deadline = Instant::now() + GRACE;
        while self.closed && Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The owner of a descriptor that is waited on.
#[derive(Clone, Copy)]
enum Owner {
    Line,
    Stop,
    Output(usize),
}

/// The longest word that the kernel takes on a command line.
const WORD_BYTES_MAX: usize = 128 << 10;
/// The interval at which a full observer is asked again.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The time that the end of a command may take.
const GRACE: Duration = Duration::from_secs(5);
