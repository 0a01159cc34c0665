//! The rules of the simulated disk, one test each; those about locks are in `lock_tests.rs`.
//!
//! The engine's crash tests are only worth what these rules are worth: a simulator that never loses anything
//! finds nothing. So each test about loss also asserts that the loss does occur.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use manent_log::fs::{Access, Disk, DiskFile, FileSystem, Shape, read_fully, write_fully};

use crate::{CrashKind, CutStyle, Errno, Fault, FaultPlan, Rng, SimDisk, is_crash};

const SEEDS: u64 = 200;

pub(crate) fn log() -> &'static Path {
    Path::new("/s/log")
}

/// A disk with a durable directory /s and an empty file /s/log in it, durable too.
pub(crate) fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.poke(log(), []).unwrap();
    disk
}

pub(crate) fn open(disk: &SimDisk) -> Box<dyn DiskFile> {
    disk.open(log(), Access::Append).unwrap()
}

pub(crate) fn create(disk: &SimDisk, path: &str) -> Box<dyn DiskFile> {
    disk.open(Path::new(path), Access::CreateNew).unwrap()
}

/// The distinct contents of the log after a power cut that follows `work`.
fn after_power_cut(work: impl Fn(&SimDisk)) -> BTreeSet<Vec<u8>> {
    let left = |seed| {
        let disk = disk(seed);
        work(&disk);
        disk.crash(CrashKind::Power);
        disk.restart().peek(log()).expect("the name of the log is durable")
    };
    (0..SEEDS).map(left).collect()
}

/// The distinct lists of paths after a power cut that follows `work`.
fn names_after_power_cut(work: impl Fn(&SimDisk)) -> BTreeSet<Vec<PathBuf>> {
    let left = |seed| {
        let disk = SimDisk::new(seed);
        disk.poke_dir("/a").unwrap();
        disk.poke_dir("/b").unwrap();
        work(&disk);
        disk.crash(CrashKind::Power);
        disk.paths()
    };
    (0..SEEDS).map(left).collect()
}

fn paths(list: &[&[&str]]) -> BTreeSet<Vec<PathBuf>> {
    list.iter().map(|paths| paths.iter().map(PathBuf::from).collect()).collect()
}

#[test]
fn what_was_synced_survives_every_cut_and_what_was_not_may_be_lost_or_torn() {
    let synced = vec![b'a'; 3000];
    let left = after_power_cut(|disk| {
        let file = open(disk);
        write_fully(&*file, &synced).unwrap();
        file.sync().unwrap();
        write_fully(&*file, &[b'b'; 5000]).unwrap();
        write_fully(&*file, &[b'c'; 100]).unwrap();
    });
    assert!(left.iter().all(|bytes| bytes.starts_with(&synced)));
    assert!(left.contains(&synced), "all lost");
    assert!(left.iter().any(|bytes| bytes.len() == 8100 && !bytes.contains(&0)), "all kept");
    assert!(left.iter().any(|bytes| bytes.len() == 8000 && !bytes.contains(&0)), "a prefix of the appends");
    assert!(left.iter().any(|bytes| bytes.len() % 512 == 0 && bytes.ends_with(b"b")), "torn inside a record");
    let nul_tail = |bytes: &Vec<u8>| bytes.len() == 8100 && bytes[3000..].iter().all(|b| *b == 0);
    assert!(left.iter().any(nul_tail), "length without data");
    assert!(
        left.iter().any(|bytes| bytes.len() == 8100 && bytes.contains(&0) && bytes.ends_with(b"c")),
        "a hole"
    );
}

#[test]
fn a_forced_cut_style_is_obeyed() {
    let left = after_power_cut(|disk| {
        disk.set_cut_style(Some(CutStyle::NulTail));
        write_fully(&*open(disk), b"record").unwrap();
    });
    assert_eq!(left, [vec![], vec![0; 6]].into());
}

#[test]
fn a_failed_sync_loses_data_even_if_a_later_one_works() {
    let left = after_power_cut(|disk| {
        let file = open(disk);
        write_fully(&*file, &[b'x'; 1024]).unwrap();
        disk.add_fault(disk.op_count(), Fault::Fail(Errno::Io));
        assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
        file.sync().expect("the error is told once");
        assert_eq!(disk.peek(log()).unwrap(), [b'x'; 1024], "the cache still shows it");
    });
    assert!(left.contains(&vec![0; 1024]) && left.contains(&vec![b'x'; 1024]));

    let disk = disk(0);
    let file = open(&disk);
    write_fully(&*file, b"gone").unwrap();
    disk.add_fault(disk.op_count(), Fault::Fail(Errno::Io));
    file.sync().unwrap_err();
    disk.drop_caches();
    assert_eq!(disk.peek(log()).unwrap(), [0; 4], "a reader who comes later sees the disk");
}

#[test]
fn names_are_durable_only_after_their_directory_was_synced() {
    let create_one = |disk: &SimDisk| create(disk, "/a/f").sync().unwrap();
    assert_eq!(names_after_power_cut(create_one), paths(&[&[], &["/a/f"]]), "syncing the file is not enough");
    let create_and_sync = |disk: &SimDisk| {
        create_one(disk);
        disk.sync_dir(Path::new("/a")).unwrap();
    };
    assert_eq!(names_after_power_cut(create_and_sync), paths(&[&["/a/f"]]));
    let remove = |disk: &SimDisk| {
        create_and_sync(disk);
        disk.remove(Path::new("/a/f")).unwrap();
    };
    assert_eq!(names_after_power_cut(remove), paths(&[&[], &["/a/f"]]));
}

#[test]
fn a_rename_is_undone_unless_both_directories_were_synced_and_is_never_halved() {
    let both = paths(&[&["/a/f"], &["/b/f"]]);
    for rename in [SimDisk::rename, SimDisk::rename_new] {
        let after_syncing = |dirs: &'static [&str]| {
            names_after_power_cut(move |disk| {
                disk.poke("/a/f", b"f").unwrap();
                rename(disk, Path::new("/a/f"), Path::new("/b/f")).unwrap();
                for dir in dirs {
                    disk.sync_dir(Path::new(dir)).unwrap();
                }
            })
        };
        assert_eq!(after_syncing(&[]), both);
        assert_eq!(after_syncing(&["/a"]), both);
        assert_eq!(after_syncing(&["/b"]), both);
        assert_eq!(after_syncing(&["/b", "/a"]), paths(&[&["/b/f"]]));
    }
}

#[test]
fn a_rename_to_a_new_name_replaces_nothing_and_a_crash_inside_leaves_it_done_or_undone() {
    let mut left = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed);
        disk.poke("/s/other", b"other").unwrap();
        let (other, new) = (Path::new("/s/other"), Path::new("/s/new"));
        for to in [other, log(), Path::new("/s")] {
            assert_eq!(disk.rename_new(log(), to).unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
        assert_eq!(disk.rename_new(Path::new("/s/none"), new).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(disk.peek(other).unwrap(), b"other");
        disk.add_fault(disk.op_count(), Fault::CrashKill);
        assert!(is_crash(&disk.rename_new(log(), new).unwrap_err()));
        assert!(disk.trace().iter().any(|line| line.contains("rename_new /s/log to /s/new")));
        left.insert(disk.paths());
    }
    assert_eq!(left, paths(&[&["/s/log", "/s/other"], &["/s/new", "/s/other"]]));
}

#[test]
fn a_replaced_file_comes_back_with_its_content_when_the_rename_is_undone() {
    for seed in 0..SEEDS {
        let disk = SimDisk::new(seed);
        disk.poke("/log", b"old").unwrap();
        let file = create(&disk, "/tmp");
        write_fully(&*file, b"new").unwrap();
        file.sync().unwrap();
        disk.rename(Path::new("/tmp"), Path::new("/log")).unwrap();
        assert_eq!(disk.peek("/log").unwrap(), b"new");
        disk.crash(CrashKind::Power);
        let now = disk.peek("/log").unwrap();
        assert!(now == b"old" || now == b"new", "seed {seed}: {now:?}");
    }
}

#[test]
fn a_kill_keeps_cache_and_names_and_tears_only_the_append_under_way() {
    let mut lens = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed);
        let file = open(&disk);
        write_fully(&*file, &[b'a'; 700]).unwrap();
        create(&disk, "/s/new");
        disk.add_fault(disk.op_count(), Fault::CrashKill);
        let error = file.append(&[b'b'; 9000]).unwrap_err();
        assert!(is_crash(&error), "{error}");
        assert_eq!(disk.crashed(), Some(CrashKind::Kill));
        let disk = disk.restart();
        assert_eq!(disk.crashed(), None);
        assert_eq!(disk.paths(), [Path::new("/s/log"), Path::new("/s/new")]);
        let left = disk.peek(log()).unwrap();
        let torn = left.strip_prefix(&[b'a'; 700]).expect("the first append is in the cache");
        assert!(torn.iter().all(|b| *b == b'b'));
        lens.insert(torn.len());
        // What the kill left in the cache is still not on the disk.
        disk.set_cut_style(Some(CutStyle::Lost));
        disk.crash(CrashKind::Power);
        assert_eq!(disk.peek(log()).unwrap(), b"");
    }
    assert!(lens.contains(&0) && lens.contains(&9000) && lens.contains(&(4096 - 700)), "{lens:?}");
}

#[test]
fn a_power_cut_inside_an_operation_leaves_it_done_or_undone() {
    let (mut synced, mut dirs) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..SEEDS {
        let disk = disk(seed);
        disk.set_cut_style(Some(CutStyle::Lost));
        let file = open(&disk);
        write_fully(&*file, b"record").unwrap();
        disk.add_fault(disk.op_count(), Fault::CrashPower);
        assert!(is_crash(&file.sync().unwrap_err()));
        synced.insert(disk.peek(log()).unwrap());
        let disk = disk.restart();
        disk.add_fault(disk.op_count(), Fault::CrashKill);
        assert!(is_crash(&disk.create_dir_all(Path::new("/x/y/z")).unwrap_err()));
        let disk = disk.restart();
        let made = ["/x", "/x/y", "/x/y/z"].iter().filter(|dir| disk.inspect(Path::new(dir)).is_ok()).count();
        dirs.insert(made);
    }
    assert_eq!(synced, [b"".to_vec(), b"record".to_vec()].into());
    assert_eq!(dirs, [0, 1, 2, 3].into());
}

#[test]
fn dead_handles_and_views_stay_dead_and_do_not_count() {
    let old = disk(1);
    let file = open(&old);
    assert!(file.try_lock().unwrap());
    old.crash(CrashKind::Kill);
    let new = old.restart();
    let before = new.op_count();
    assert!(is_crash(&file.append(b"ghost").unwrap_err()));
    assert!(is_crash(&file.state().unwrap_err()));
    assert!(is_crash(&old.open(log(), Access::Read).unwrap_err()));
    assert!(is_crash(&old.as_process(5).inspect(log()).unwrap_err()));
    assert_eq!(file.lock_holder(), None);
    assert_eq!(new.op_count(), before);
    let heir = open(&new);
    assert!(heir.try_lock().unwrap(), "locks die with their process");
    drop(file);
    assert_eq!(heir.lock_holder(), Some(1000), "a dead handle frees nothing");
    assert_eq!(new.peek(log()).unwrap(), b"");
    old.crash(CrashKind::Power);
    assert_eq!((old.crashed(), new.crashed()), (Some(CrashKind::Kill), None), "an incarnation ends once");
}

#[test]
fn a_full_disk_writes_what_fits_and_then_fails() {
    let disk = disk(1);
    disk.poke("/s/other", vec![0; 600]).unwrap();
    disk.set_capacity(Some(1000));
    let file = open(&disk);
    assert_eq!(disk.free_bytes(log()).unwrap(), 400);
    assert_eq!(file.append(&[1; 1000]).unwrap(), 400);
    assert_eq!(file.append(&[1; 10]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.append(&[]).unwrap(), 0, "nothing always fits");
    let held = disk.open(Path::new("/s/other"), Access::Read).unwrap();
    disk.remove(Path::new("/s/other")).unwrap();
    assert_eq!(disk.free_bytes(log()).unwrap(), 0, "an open file without a name still takes space");
    drop(held);
    assert_eq!(file.append(&[1; 1000]).unwrap(), 600);
    disk.set_capacity(None);
    assert_eq!(file.append(&[1; 1000]).unwrap(), 1000);
}

#[test]
fn write_faults_split_an_append_and_a_full_loop_still_writes_all() {
    let record: Vec<u8> = (0..=255).collect();
    for seed in 0..SEEDS {
        let disk = disk(seed);
        let file = open(&disk);
        disk.add_fault(disk.op_count(), Fault::ShortWrite);
        let count = file.append(&record).unwrap();
        assert!((1..256).contains(&count));
        file.set_len(0).unwrap();
        disk.add_fault(disk.op_count(), Fault::ShortWrite);
        disk.add_fault(disk.op_count(), Fault::Interrupted);
        write_fully(&*file, &record).unwrap();
        assert_eq!(disk.peek(log()).unwrap(), record);

        disk.add_fault(disk.op_count(), Fault::PartialThenFail);
        let (written, error) = write_fully(&*file, &record).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!((1..256).contains(&written));
        assert_eq!(disk.peek(log()).unwrap().len(), 256 + written);
        assert_eq!(disk.faults_left(), 0);
    }
}

#[test]
fn an_injected_error_has_no_effect_on_any_operation() {
    for errno in [Errno::Io, Errno::NoSpace, Errno::ReadOnly, Errno::TooManyFiles] {
        let disk = disk(1);
        let file = open(&disk);
        write_fully(&*file, b"abc").unwrap();
        let fail = || disk.add_fault(disk.op_count(), Fault::Fail(errno));
        let new = Path::new("/s/new");
        let raws = [
            (fail(), file.append(b"x").map(|_| ())).1,
            (fail(), file.set_len(0)).1,
            (fail(), file.read_at(&mut [0], 0).map(|_| ())).1,
            (fail(), file.try_lock().map(|_| ())).1,
            (fail(), disk.open(new, Access::CreateNew).map(|_| ())).1,
            (fail(), disk.rename(log(), new)).1,
            (fail(), disk.rename_new(log(), new)).1,
            (fail(), disk.open(Path::new("/s"), Access::Directory).map(|_| ())).1,
            (fail(), disk.remove(log())).1,
            (fail(), disk.create_dir_all(new)).1,
            (fail(), disk.sync_dir(Path::new("/s"))).1,
        ]
        .map(|result| result.unwrap_err().raw_os_error());
        assert_eq!(raws, [Some(errno.raw()); 11]);
        assert_eq!(disk.paths(), [log()]);
        assert_eq!(disk.peek(log()).unwrap(), b"abc");
        assert_eq!(file.lock_holder(), None);
    }
}

#[test]
fn operations_are_counted_from_zero_and_faults_can_be_taken_back() {
    let disk =
        SimDisk::with_faults(1, FaultPlan::new().at(1, Fault::Fail(Errno::Io)).at(9, Fault::CrashPower));
    disk.poke(log(), b"abc").unwrap();
    let file = open(&disk);
    assert_eq!(disk.op_count(), 1, "poking is not an operation");
    assert_eq!(file.state().unwrap_err().raw_os_error(), Some(5));
    assert_eq!(file.state().unwrap().len, 3);
    assert_eq!((disk.op_count(), disk.faults_left()), (3, 1));
    disk.reset_faults();
    for _ in 0..20 {
        file.id().unwrap();
    }
    assert_eq!(disk.crashed(), None);
}

#[test]
fn files_behave_as_on_a_real_disk() {
    let disk = disk(1);
    let kind = |path: &str, access| disk.open(Path::new(path), access).unwrap_err().kind();
    assert_eq!(kind("/s/none", Access::Read), ErrorKind::NotFound);
    assert_eq!(kind("/none/f", Access::CreateNew), ErrorKind::NotFound);
    assert_eq!(kind("/s/log", Access::CreateNew), ErrorKind::AlreadyExists);
    assert_eq!(kind("/s/log/f", Access::CreateNew), ErrorKind::NotADirectory);
    assert_eq!(kind("/s", Access::Read), ErrorKind::InvalidInput);
    assert_eq!(kind("/s", Access::Append), ErrorKind::IsADirectory);

    let file = open(&disk);
    write_fully(&*file, b"hello").unwrap();
    file.set_len(2).unwrap();
    file.set_len(4).unwrap();
    let reader = disk.open(log(), Access::Read).unwrap();
    assert_eq!(reader.append(b"x").unwrap_err().raw_os_error(), Some(9));
    assert_eq!(reader.set_len(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut buffer = [9; 8];
    assert_eq!(read_fully(&*reader, &mut buffer, 1).unwrap(), 3);
    assert_eq!(buffer[..3], *b"e\0\0");
    assert_eq!(reader.read_at(&mut buffer, 100).unwrap(), 0);

    assert_eq!(disk.resolve(Path::new("s/../s/./log")).unwrap(), log());
    assert_eq!(disk.resolve(Path::new("/s/none")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.create_dir_all(Path::new("")).unwrap_err().kind(), ErrorKind::NotFound);
    let info = disk.inspect(log()).unwrap();
    assert_eq!((info.id, info.shape, info.len, info.mode), (file.id().unwrap(), Shape::File, 4, 0o600));
    assert_eq!(disk.inspect(Path::new("/s")).unwrap().shape, Shape::Directory);
    disk.remove(log()).unwrap();
    let fresh = create(&disk, "/s/log");
    assert_ne!(fresh.id().unwrap(), file.id().unwrap());
    assert_eq!((file.state().unwrap().links, file.state().unwrap().len), (0, 4));
    assert_eq!(fresh.state().unwrap().links, 1);
    write_fully(&*file, b"ghost").unwrap();
    assert_eq!(disk.peek(log()).unwrap(), b"");
}

#[test]
fn tests_can_look_and_reach_around_the_faults() {
    let disk = disk(1);
    disk.set_file_system(FileSystem::Network("NFS"));
    assert_eq!(disk.file_system(log()).unwrap(), FileSystem::Network("NFS"));
    assert!(disk.is_own(disk.inspect(log()).unwrap().owner));
    disk.set_owner(4711);
    assert_eq!(disk.inspect(log()).unwrap().owner, 4711);
    assert!(!disk.is_own(4711));
    disk.raw_append(log(), b"foreign").unwrap();
    disk.raw_append("/s/new", b"foreign").unwrap();
    assert_eq!(disk.peek("/s/new").unwrap(), b"foreign");
    assert_eq!((disk.peek("/s"), disk.peek("/none")), (None, None));
    let list =
        |_| disk.list(Path::new("/s")).unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
    let orders: BTreeSet<_> = (0..50).map(list).collect();
    assert_eq!(orders, [["log", "new"], ["new", "log"]].map(|order| order.map(Into::into).to_vec()).into());
    disk.set_cut_style(Some(CutStyle::Lost));
    disk.crash(CrashKind::Power);
    assert_eq!(disk.peek(log()).unwrap(), b"", "a foreign append is not durable");
    disk.poke(log(), b"planted").unwrap();
    disk.restart().crash(CrashKind::Power);
    assert_eq!(disk.peek(log()).unwrap(), b"planted");
    assert_eq!(open(&disk.restart()).state().unwrap().links, 1);
}

/// A whole life: appends of all sizes, syncs, a few faults, a crash, and a second life after it.
fn life(seed: u64) -> (Vec<String>, Vec<(PathBuf, Vec<u8>)>) {
    let mut rng = Rng::new(seed);
    let crash = if rng.chance(1, 2) { Fault::CrashKill } else { Fault::CrashPower };
    let plan = FaultPlan::new().at(rng.below(60), Fault::ShortWrite).at(rng.below(80), crash);
    let mut disk = SimDisk::with_faults(seed, plan);
    disk.poke_dir("/s").unwrap();
    for life in 0..2 {
        let name = format!("/s/log{life}");
        let mut work = || -> std::io::Result<()> {
            let file = disk.open(Path::new(&name), Access::CreateNew)?;
            for _ in 0..30 {
                let size = if rng.chance(1, 8) { rng.range(5000..=20_000) } else { rng.range(100..=2000) };
                write_fully(&*file, &vec![b'r'; size as usize]).map_err(|(_, error)| error)?;
                if rng.chance(1, 5) {
                    file.sync()?;
                }
            }
            disk.sync_dir(Path::new("/s"))
        };
        if let Err(error) = work() {
            assert!(is_crash(&error), "{error}");
        }
        disk.crash(CrashKind::Power);
        disk = disk.restart();
    }
    let files = disk.paths().into_iter().map(|path| (path.clone(), disk.peek(&path).unwrap())).collect();
    (disk.trace(), files)
}

#[test]
fn the_same_seed_gives_the_same_trace_and_the_same_bytes() {
    let lives: Vec<_> = (0..SEEDS).map(life).collect();
    for (seed, first) in lives.iter().enumerate() {
        assert_eq!(&life(seed as u64), first, "seed {seed}");
    }
    let different: BTreeSet<_> = lives.iter().map(|(_, files)| files).collect();
    assert!(different.len() > 150, "only {} different outcomes", different.len());
    let trace = lives[0].0.join("\n");
    assert!(trace.contains("append /s/log0") && trace.contains("simulated crash"), "{trace}");
}

#[test]
fn a_visit_comes_once_before_its_operation_and_has_the_disk_to_itself() {
    let disk = disk(1);
    let other = disk.as_process(7);
    let file = open(&disk);
    let theirs = other.clone();
    disk.visit_before(disk.op_count() + 1, move || {
        open(&theirs).append(b"visitor ").unwrap();
    });
    file.append(b"first ").unwrap();
    open(&other).append(b"other ").unwrap();
    file.append(b"second ").unwrap();
    file.append(b"third").unwrap();
    assert_eq!(
        disk.peek(log()).unwrap(),
        b"first other visitor second third",
        "not before another's operation"
    );
    disk.visit_before(disk.op_count() + 1000, || {});
    assert!(disk.cancel_visit() && !disk.cancel_visit());
}

#[test]
fn a_copy_has_everything_under_the_same_numbers_and_shares_nothing() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new("/a/b")).unwrap();
    let file = disk.open(Path::new("/a/b/log"), Access::CreateNew).unwrap();
    file.append(b"not synced").unwrap();
    disk.poke("/a/gone", "x").unwrap();
    disk.remove(Path::new("/a/gone")).unwrap();
    let copy = disk.copy(2);
    copy.crash(CrashKind::Power);
    let copy = copy.restart();
    assert_eq!(copy.paths(), disk.paths());
    assert_eq!(copy.peek("/a/b/log").unwrap(), b"not synced", "what was seen is durable");
    let look = |disk: &SimDisk| disk.inspect(Path::new("/a/b/log")).unwrap();
    assert_eq!(look(&copy), look(&disk));
    file.append(b", and more").unwrap();
    assert_eq!(copy.peek("/a/b/log").unwrap(), b"not synced");
    assert_ne!(look(&copy).changed_ns, look(&disk).changed_ns);
}

/// A destructor that uses the disk, as that of a log does: two panics in one thread would abort the tests.
#[test]
fn panic_of_the_disk_while_another_unwinds_is_a_kill() {
    struct LooksWhenDropped<'d>(&'d SimDisk);
    impl Drop for LooksWhenDropped<'_> {
        fn drop(&mut self) {
            let error = self.0.inspect(log()).unwrap_err();
            assert!(is_crash(&error), "{error}");
        }
    }
    for fault in [Fault::PanicBefore, Fault::PanicAfter] {
        let disk = disk(1);
        disk.add_fault(0, fault);
        disk.add_fault(1, fault);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _looks = LooksWhenDropped(&disk);
            let _ = disk.inspect(log());
        }));
        assert!(panicked.is_err(), "{fault:?}");
        assert_eq!(disk.crashed(), Some(CrashKind::Kill), "{fault:?}");
    }
}
