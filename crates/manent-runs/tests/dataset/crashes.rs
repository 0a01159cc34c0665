//! A crash, a power cut or an error at every disk operation while a data set takes the place of an older one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use manent::log::Disk;
use manent::{Files, Store, StoreOptions};
use manent_runs::dataset::{Dataset, DatasetError, DatasetFormat, Existing, Recipe, make};
use manent_sim::{CrashKind, Errno, Fault, SimDisk};

use super::scene::words;

const HOME: &str = "/home/store";
const LOG: &str = "/home/store/runs/a.jsonl";
const DIR: &str = "/home/out/data";
/// The name of a data set that is being replaced. The next one that is made finds it there.
const ASIDE: &str = "/home/out/.data.manent-old";

fn store(disk: &SimDisk) -> manent_runs::Result<Store> {
    let files = Files::open_on(Arc::new(disk.clone()), HOME.into())?.waiting_for_movers(Duration::ZERO);
    Ok(Store::on_files(files, StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() }))
}

fn try_make(disk: &SimDisk) -> Result<Dataset, DatasetError> {
    let recipe = Recipe { validation: 0, summaries: true, ..Recipe::new(DatasetFormat::TrlSft) };
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    make(&store(disk)?, &recipe, &on, Path::new(DIR), Existing::Replace, &mut |_, _| {})
}

fn run(n: u64) -> String {
    let (asked, said) = (words(n, 12), words(n + 100, 30));
    format!(
        "{{\"skill\":\"fix\",\"input\":\"{asked}\",\"attempts\":[{{\"attempt\":1,\"verified\":true,\
         \"output_summary\":\"{said}\"}}]}}\n"
    )
}

/// The files of a data set, by name; none if there is no directory.
fn files(disk: &SimDisk, dir: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = disk
        .paths()
        .into_iter()
        .filter(|path| path.parent() == Some(Path::new(dir)))
        .filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), disk.peek(&path)?)))
        .collect();
    files.sort();
    files
}

struct Scene {
    image: SimDisk,
    old: Vec<(String, Vec<u8>)>,
    new: Vec<(String, Vec<u8>)>,
}

impl Scene {
    /// A data set of one run, and a log that has two by now.
    fn new() -> Scene {
        let image = SimDisk::new(0);
        image.poke_dir("/home/out").unwrap();
        image.poke(LOG, run(1)).unwrap();
        try_make(&image).unwrap();
        image.poke(LOG, run(1) + &run(2)).unwrap();
        let after = image.copy(1);
        try_make(&after).unwrap();
        let (old, new) = (files(&image, DIR), files(&after, DIR));
        assert_eq!((old.len(), new.len()), (6, 6));
        assert_ne!(old, new);
        Scene { image, old, new }
    }

    /// There is a whole data set, in its place or aside; and the next one is made as if nothing had been.
    fn check(&self, disk: &SimDisk, what: &str) {
        let (here, aside) = (files(disk, DIR), files(disk, ASIDE));
        let is_whole = |files: &Vec<(String, Vec<u8>)>| *files == self.old || *files == self.new;
        if here.is_empty() {
            assert_eq!(aside, self.old, "{what}: none in its place, and the old one is not aside");
        } else {
            assert!(is_whole(&here), "{what}: half a data set: {:?}", names(&here));
        }
        try_make(disk).unwrap_or_else(|e| panic!("{what}: no other can be made: {e}"));
        assert_eq!(files(disk, DIR), self.new, "{what}");
        let left = disk.list(Path::new("/home/out")).unwrap();
        assert!(left.iter().all(|entry| entry.name == "data"), "{what}: {left:?} is left");
    }
}

fn names(files: &[(String, Vec<u8>)]) -> Vec<(&str, usize)> {
    files.iter().map(|(name, bytes)| (name.as_str(), bytes.len())).collect()
}

#[test]
fn a_crash_leaves_the_old_data_set_or_the_new_one_and_never_half_of_one() {
    let scene = Scene::new();
    let mut crashes = 0;
    for operation in 0.. {
        let mut went_on = false;
        for fault in [Fault::CrashKill, Fault::CrashPower] {
            for seed in 0..2 {
                let what = format!("{fault:?} at operation {operation}, seed {seed}");
                let disk = scene.image.copy(operation * 31 + seed);
                disk.add_fault(disk.op_count() + operation, fault);
                let done = try_make(&disk);
                if disk.crashed().is_none() {
                    done.unwrap_or_else(|e| panic!("{what}: nothing was wrong, and yet: {e}"));
                    continue;
                }
                went_on = true;
                crashes += 1;
                let disk = disk.restart();
                disk.reset_faults();
                scene.check(&disk, &what);
            }
        }
        if !went_on {
            break;
        }
    }
    assert!(crashes > 100, "only {crashes}");
}

#[test]
fn an_error_of_the_disk_leaves_the_old_data_set_or_the_new_one_and_is_told() {
    let scene = Scene::new();
    for errno in [Errno::Io, Errno::NoSpace, Errno::ReadOnly] {
        for operation in 0.. {
            let what = format!("{errno:?} at operation {operation}");
            let disk = scene.image.copy(operation);
            disk.add_fault(disk.op_count() + operation, Fault::Fail(errno));
            let done = try_make(&disk);
            if disk.faults_left() > 0 {
                done.unwrap_or_else(|e| panic!("{what}: nothing was wrong, and yet: {e}"));
                break;
            }
            disk.reset_faults();
            if done.is_ok() {
                assert_eq!(files(&disk, DIR), scene.new, "{what}: it said that all is well");
            }
            scene.check(&disk, &what);
        }
    }
}

/// A data set that was acknowledged is on the disk.
#[test]
fn a_power_cut_after_it_was_made_takes_nothing_of_it() {
    let scene = Scene::new();
    for seed in 0..20 {
        let disk = scene.image.copy(seed);
        try_make(&disk).unwrap();
        disk.crash(CrashKind::Power);
        let disk = disk.restart();
        assert_eq!(files(&disk, DIR), scene.new, "seed {seed}");
    }
}
