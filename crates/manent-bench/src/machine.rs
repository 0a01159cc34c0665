//! A description of the machine and the file system, without which the numbers mean nothing.

use std::path::Path;

/// Lines that say what this machine is, and on what `dir` lies.
pub(crate) fn describe(dir: &Path) -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let memory = field("/proc/meminfo", "MemTotal").and_then(|text| kibibytes(&text)).unwrap_or(0);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    vec![
        format!("machine: {cores} cores, {cpu}, {} GiB", memory >> 20),
        format!("kernel: Linux {}; load average at the start {load}", kernel.trim()),
        format!("file system: {}", mount_of(dir).unwrap_or_else(|| "unknown".to_owned())),
        "allocator: glibc malloc, untuned, on both sides; the page cache is warm".to_owned(),
    ]
}

/// The value of the first `name: value` line of a file in /proc.
pub(crate) fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The number in `1234 kB`.
pub(crate) fn kibibytes(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Type, device and options of the mount that `dir` lies on: the longest mount point that begins its path.
fn mount_of(dir: &Path) -> Option<String> {
    let dir = std::fs::canonicalize(dir).ok()?;
    let table = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = table.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?, words.next()?, words.next()?))
    });
    let (device, point, kind, options) =
        mounts.filter(|(_, point, ..)| dir.starts_with(point)).max_by_key(|(_, point, ..)| point.len())?;
    Some(format!("{kind} on {device} at {point} ({options})"))
}
