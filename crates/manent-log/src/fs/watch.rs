//! Watching directories for changes (inotify), where the system can.

use std::ffi::OsString;
use std::io;
use std::path::Path;

/// A watch on some directories.
pub trait Watch: Send + std::fmt::Debug {
    /// Returns the names that were made, written, renamed or removed since the last call, each with the number of its
    /// directory. What changed before this call is among them; a name may come several times. `None` if the watch lost
    /// track: it is of no use any more.
    fn changed(&mut self) -> io::Result<Option<Vec<(usize, OsString)>>>;
}

/// Begins to watch directories, where the system can.
#[cfg(not(target_os = "linux"))]
pub(super) fn watch(_dirs: &[&Path]) -> io::Result<Option<Box<dyn Watch>>> {
    Ok(None)
}

/// Begins to watch directories, where the system can.
#[cfg(target_os = "linux")]
pub(super) fn watch(dirs: &[&Path]) -> io::Result<Option<Box<dyn Watch>>> {
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    let queue = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let wanted = WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    let mut watched = Vec::with_capacity(dirs.len());
    for dir in dirs {
        watched.push(add_watch(&queue, *dir, wanted)?);
    }
    Ok(Some(Box::new(Queue { queue, watched })))
}

/// The system's queue of changes.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Queue {
    queue: std::os::fd::OwnedFd,
    /// The watch descriptor of each directory.
    watched: Vec<i32>,
}

#[cfg(target_os = "linux")]
impl Watch for Queue {
    fn changed(&mut self) -> io::Result<Option<Vec<(usize, OsString)>>> {
        use rustix::fs::inotify::{ReadFlags, Reader};
        use std::os::unix::ffi::OsStringExt;
        let mut buffer = [std::mem::MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        let mut names = Vec::new();
        loop {
            let event = match reader.next() {
                Err(rustix::io::Errno::AGAIN) => return Ok(Some(names)),
                Err(rustix::io::Errno::INTR) => continue,
                event => event?,
            };
            let lost = ReadFlags::QUEUE_OVERFLOW
                | ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF
                | ReadFlags::UNMOUNT
                | ReadFlags::IGNORED;
            if event.events().intersects(lost) {
                return Ok(None);
            }
            let dir = self.watched.iter().position(|dir| *dir == event.wd());
            if let (Some(dir), Some(name)) = (dir, event.file_name()) {
                let name = OsString::from_vec(name.to_bytes().to_vec());
                if names.last().is_none_or(|last| *last != (dir, name.clone())) {
                    names.push((dir, name));
                }
            }
        }
    }
}

#[cfg(target_os = "linux")]
const BUFFER_BYTES: usize = 16 * 1024;
