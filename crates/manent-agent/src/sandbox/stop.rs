//! Stopping a command from another thread, or by dropping the future that waits for it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::error::SandboxError;

/// A flag that ends a command, with all that it started. Clones are the same flag.
///
/// An asynchronous caller keeps a [`StopFlag::on_drop`] beside the task that runs the command: if its future is
/// dropped, the command ends.
#[derive(Debug, Clone)]
pub struct StopFlag {
    raised: Arc<OwnedFd>,
}

impl StopFlag {
    /// A flag that is not raised.
    pub fn new() -> Result<StopFlag, SandboxError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let raised = eventfd(0, flags).map_err(SandboxError::io("make a flag to stop a command by"))?;
        Ok(StopFlag { raised: Arc::new(raised) })
    }

    /// Ends the command, or the next one that is run with this flag.
    pub fn now(&self) {
        // Full is raised too.
        let _ = rustix::io::write(&*self.raised, &1_u64.to_ne_bytes());
    }

    /// Waits for some time, and returns whether the flag is raised.
    pub(super) fn is_raised_within(&self, time: Duration) -> bool {
        let mut waited = [PollFd::new(&*self.raised, PollFlags::IN)];
        let time = Timespec::try_from(time).ok();
        poll(&mut waited, time.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Raises the flag when it is dropped.
    #[must_use = "dropped at once, it stops the command at once"]
    pub fn on_drop(&self) -> StopOnDrop {
        StopOnDrop { stop: self.clone() }
    }
}

impl AsFd for StopFlag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raised.as_fd()
    }
}

/// Raises its flag when it is dropped.
#[derive(Debug)]
pub struct StopOnDrop {
    stop: StopFlag,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.stop.now();
    }
}
