//! The report that is kept: made when it is time and at no other, by one at a time, and gone when runs are purged.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manent::{SessionKey, Space, Store, turn};
use manent_runs::retrospective::{Report, Reports, Schedule, ScheduleOutcome};
use serde_json::Value;

use crate::world::{DAY_MS, NOW_MS, Plan, World};

pub(crate) const EVERY: Duration = Duration::from_hours(24);
static GO_ON: AtomicBool = AtomicBool::new(false);

pub(crate) fn at(now_ms: i64) -> Schedule<'static> {
    let since = Duration::from_hours(24 * 60);
    Schedule { every: EVERY, since, now_ms, within: Duration::from_mins(1), stop: &GO_ON }
}

fn look(reports: &Reports, now_ms: i64) -> ScheduleOutcome {
    reports.make_if_due(&at(now_ms), &mut |_| None).unwrap()
}

fn made(looked: ScheduleOutcome) -> Report {
    match looked {
        ScheduleOutcome::Made(report) => *report,
        other => panic!("no report: {other:?}"),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A world with runs of a skill, and its reports.
fn with_runs() -> (World, Reports) {
    let mut world = World::new(1);
    world.plant(&Plan::of("fix"), 30, 10);
    world.write();
    let reports = Reports::open(&world.store).unwrap();
    (world, reports)
}

fn one_more(world: &mut World) {
    world.plant(&Plan::of("fix"), 1, 0);
    world.write();
}

#[test]
fn a_report_is_made_when_there_is_news_and_time_and_at_no_other() {
    let mut world = World::new(1);
    let reports = Reports::open(&world.store).unwrap();
    assert_eq!(look(&reports, NOW_MS), ScheduleOutcome::Nothing);
    assert_eq!(names(world.dir()), [] as [&str; 0], "without runs, nothing is written");
    world.plant(&Plan::of("fix"), 30, 10);
    world.write();
    let first = made(look(&reports, NOW_MS));
    assert_eq!((first.totals.runs, first.whole), (40, true));
    assert_eq!(names(reports.dir()), ["latest.html", "latest.json"]);
    assert_eq!(look(&reports, NOW_MS), ScheduleOutcome::NotYet(EVERY));
    assert_eq!(look(&reports, NOW_MS + DAY_MS), ScheduleOutcome::Nothing, "it is time, and there is no news");
    one_more(&mut world);
    assert_eq!(look(&reports, NOW_MS + DAY_MS - 1), ScheduleOutcome::NotYet(Duration::from_millis(1)));
    assert_eq!(made(look(&reports, NOW_MS + DAY_MS)).totals.runs, 41);
    assert_eq!(reports.last().unwrap().at_ms, NOW_MS + DAY_MS);
    // Another process has the same schedule.
    let other = Reports::open(&Store::open(world.dir()).unwrap()).unwrap();
    assert_eq!(look(&other, NOW_MS + DAY_MS + 1), ScheduleOutcome::NotYet(Duration::from_millis(86_399_999)));
}

#[test]
fn what_is_kept_is_what_was_made_and_private() {
    let (_world, reports) = with_runs();
    let report = made(look(&reports, NOW_MS));
    let read = |name: &str| std::fs::read_to_string(reports.dir().join(name)).unwrap();
    assert_eq!(read("latest.html"), report.to_html(None));
    let mut told: Value = serde_json::from_str(&read("latest.json")).unwrap();
    assert_eq!(told.as_object_mut().unwrap().remove("made").unwrap()["at"], "2026-12-01T00:00:00.000Z");
    assert_eq!(told, report.to_json(None));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(reports.dir()), 0o700);
    assert_eq!((mode(&reports.page()), mode(&reports.dir().join("latest.json"))), (0o600, 0o600));
}

/// However a clock is set, a report more or less is the worst of it.
#[test]
fn a_clock_that_is_set_neither_stops_it_nor_makes_it_go_round() {
    let (mut world, reports) = with_runs();
    let year = 365 * DAY_MS;
    made(look(&reports, NOW_MS + year));
    one_more(&mut world);
    // Back by a year: it goes on from there, once.
    made(look(&reports, NOW_MS));
    for later in 0..50 {
        one_more(&mut world);
        assert!(matches!(look(&reports, NOW_MS + later), ScheduleOutcome::NotYet(_)));
    }
    // Back by an hour: it is late by no more than that and a day.
    let back = NOW_MS - 3_600_000;
    assert!(matches!(look(&reports, back), ScheduleOutcome::NotYet(left) if left <= EVERY));
    made(look(&reports, back + DAY_MS + 3_600_000));
    // To and fro, a minute at a time: not more often than if it went on.
    let mut count = 0;
    for n in 0..200 {
        one_more(&mut world);
        let now = NOW_MS + 2 * DAY_MS + if n % 2 == 0 { n * 60_000 } else { -n * 60_000 };
        count += usize::from(matches!(look(&reports, now), ScheduleOutcome::Made(_)));
    }
    assert!(count <= 2, "{count} reports in three hours");
    for odd in [i64::MIN, i64::MAX, 0] {
        one_more(&mut world);
        look(&reports, odd);
        one_more(&mut world);
        made(look(&reports, NOW_MS + 3 * DAY_MS));
    }
}

#[test]
fn a_file_that_is_damaged_or_somebody_elses_says_nothing() {
    let (_world, reports) = with_runs();
    made(look(&reports, NOW_MS));
    let data = reports.dir().join("latest.json");
    let whole = std::fs::read(&data).unwrap();
    let mut flipped = whole.clone();
    flipped[0] ^= 1;
    let texts: [Vec<u8>; 9] = [
        Vec::new(),
        whole[..whole.len() / 2].to_vec(),
        flipped,
        b"null".to_vec(),
        b"{\"made\":{\"at\":\"yesterday\",\"saw\":\"\"},\"statements\":[]}".to_vec(),
        b"{\"made\":{\"at\":17,\"saw\":[]},\"statements\":{}}".to_vec(),
        b"[".repeat(1 << 20),
        b"{\"made\":".repeat(1 << 16),
        b"\xff\xfe\x00".repeat(1000),
    ];
    for text in texts {
        std::fs::write(&data, text).unwrap();
        assert_eq!(reports.last(), None);
        assert!(reports.take_alerts().is_empty());
        made(look(&reports, NOW_MS));
        assert!(reports.last().is_some());
    }
    // Larger than any memory, and nothing that a program should wait for.
    std::fs::File::create(&data).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(reports.last(), None);
    std::fs::remove_file(&data).unwrap();
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), &whole).unwrap();
    std::os::unix::fs::symlink(outside.path(), &data).unwrap();
    assert_eq!(reports.last(), None);
    made(look(&reports, NOW_MS));
    assert_eq!(std::fs::read(outside.path()).unwrap(), whole, "the link is replaced, not followed");
}

#[test]
fn a_place_that_is_not_ours_alone_is_not_used() {
    let (world, reports) = with_runs();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), reports.dir()).unwrap();
    let error = reports.make_if_due(&at(NOW_MS), &mut |_| None).unwrap_err().to_string();
    assert!(error.contains("symbolic link") && error.contains("retro"), "{error}");
    assert_eq!(names(outside.path()), [] as [&str; 0]);
    std::fs::remove_file(reports.dir()).unwrap();
    std::fs::create_dir(reports.dir()).unwrap();
    std::fs::set_permissions(reports.dir(), PermissionsExt::from_mode(0o777)).unwrap();
    let error = reports.make_if_due(&at(NOW_MS), &mut |_| None).unwrap_err().to_string();
    assert!(error.contains("everybody may write there"), "{error}");
    std::fs::remove_dir(reports.dir()).unwrap();
    std::fs::write(reports.dir(), "a file").unwrap();
    assert!(reports.make_if_due(&at(NOW_MS), &mut |_| None).is_err());
    std::fs::remove_file(reports.dir()).unwrap();
    std::fs::create_dir_all(reports.dir().join("latest.json")).unwrap();
    assert!(reports.make_if_due(&at(NOW_MS), &mut |_| None).is_err());
    // And no run, no session is any the worse for it; nor can it hinder a purge.
    assert_eq!(world.runs.sessions().unwrap().len(), 1);
    std::fs::write(outside.path().join("latest.html"), "theirs").unwrap();
    std::fs::remove_dir_all(reports.dir()).unwrap();
    std::os::unix::fs::symlink(outside.path(), reports.dir()).unwrap();
    let purged = world.store.purge_companions(&SessionKey::new("a").unwrap()).unwrap();
    assert_eq!((purged.companions.len(), purged.derived.len()), (1, 0));
    assert_eq!(names(outside.path()), ["latest.html"], "behind a link nothing is ours");
}

#[test]
fn of_two_at_once_one_makes_it() {
    let (world, reports) = with_runs();
    let mut others = Vec::new();
    let first = reports.make_if_due(&at(NOW_MS), &mut |_| {
        let other = Reports::open(&Store::open(world.dir()).unwrap()).unwrap();
        others.push(look(&other, NOW_MS));
        None
    });
    made(first.unwrap());
    assert_eq!(others, [ScheduleOutcome::Busy], "it is not waited for");
    let made = std::thread::scope(|scope| {
        let rival = || {
            let reports = Reports::open(&Store::open(world.dir()).unwrap()).unwrap();
            let looked = look(&reports, NOW_MS + DAY_MS);
            matches!(looked, ScheduleOutcome::Made(_))
        };
        world.runs.append(&SessionKey::new("b").unwrap(), &[body()], manent::Durability::Sync).unwrap();
        let all: Vec<_> = (0..8).map(|_| scope.spawn(rival)).collect();
        all.into_iter().map(|one| one.join().unwrap()).filter(|made| *made).count()
    });
    assert_eq!(made, 1);
}

fn body() -> manent::Body {
    manent::Body::parse(br#"{"kind":"run","run_id":"x","skill":"b","final_status":"success"}"#).unwrap()
}

#[test]
fn one_that_is_stopped_keeps_nothing_and_one_without_time_says_so() {
    let (_world, reports) = with_runs();
    let stop = AtomicBool::new(false);
    let schedule = Schedule { stop: &stop, ..at(NOW_MS) };
    let looked = reports.make_if_due(&schedule, &mut |_| {
        stop.store(true, Ordering::Relaxed);
        None
    });
    assert_eq!(looked.unwrap(), ScheduleOutcome::Stopped);
    assert_eq!(reports.make_if_due(&schedule, &mut |_| None).unwrap(), ScheduleOutcome::Stopped);
    assert_eq!((reports.last(), names(reports.dir()).len()), (None, 0));
    let hurried = Schedule { within: Duration::ZERO, ..at(NOW_MS) };
    let report = made(reports.make_if_due(&hurried, &mut |_| None).unwrap());
    assert!(!report.whole && report.notes[0].contains("stopped before the end"), "{:?}", report.notes);
    assert!(reports.last().is_some(), "and it is not tried again at once");
}

#[test]
fn what_is_purged_is_in_no_report_not_even_one_that_was_being_made() {
    let mut world = World::new(1);
    world.plant(&Plan { session: "secret", ..Plan::of("undisclosed") }, 30, 10);
    world.plant(&Plan { session: "other", ..Plan::of("fix") }, 30, 10);
    world.write();
    let (store, reports) = (world.store.clone(), Reports::open(&world.store).unwrap());
    for session in ["secret", "plain"] {
        store.append(&SessionKey::new(session).unwrap(), turn("user", "hello")).unwrap();
    }
    made(look(&reports, NOW_MS));
    let address = |key: &str| store.live(&SessionKey::new(key).unwrap()).unwrap().unwrap().id;
    let purged = store.purge(&[address("plain")], false).unwrap();
    assert!(purged.derived.is_empty() && reports.last().is_some(), "it had no runs");
    let purged = store.purge(&[address("secret")], false).unwrap();
    assert!(purged.derived == [Space::Runs] && purged.companions.len() == 1);
    assert!(reports.take_alerts().is_empty());
    assert_eq!((reports.last(), names(reports.dir()).len()), (None, 0));
    // Now while one is being made.
    let other = SessionKey::new("other").unwrap();
    let looked = reports.make_if_due(&at(NOW_MS), &mut |_| {
        assert!(!store.purge_companions(&other).unwrap().companions.is_empty());
        world.runs.append(&other, &vec![body(); 500], manent::Durability::Sync).unwrap();
        None
    });
    assert_eq!(looked.unwrap(), ScheduleOutcome::Overtaken, "a log of the same key is not the same log");
    assert_eq!((reports.last(), names(reports.dir()).len()), (None, 0));
    assert_eq!(made(look(&reports, NOW_MS)).totals.runs, 0, "one without a time");
}

#[test]
fn that_a_skill_got_worse_is_news_once() {
    let mut world = World::new(1);
    world.plant(&Plan::of("fix"), 40, 0);
    world.plant(&Plan { hash: "v2", ..Plan::of("fix") }, 10, 30);
    world.write();
    let reports = Reports::open(&world.store).unwrap();
    assert!(reports.take_alerts().is_empty(), "nothing was made yet");
    made(look(&reports, NOW_MS));
    let news = reports.take_alerts();
    assert!(news.len() == 1 && news[0].contains("success fell"), "{news:?}");
    assert!(reports.take_alerts().is_empty());
    // The same again, with other numbers.
    world.plant(&Plan { hash: "v2", ..Plan::of("fix") }, 1, 3);
    world.write();
    made(look(&reports, NOW_MS + DAY_MS));
    assert!(reports.take_alerts().is_empty());
    world.plant(&Plan { hash: "v1", ..Plan::of("lint") }, 40, 0);
    world.plant(&Plan { hash: "v2", ..Plan::of("lint") }, 0, 40);
    world.write();
    made(look(&reports, NOW_MS + 2 * DAY_MS));
    let news = reports.take_alerts();
    assert!(news.len() == 1 && news[0].starts_with("lint"), "{news:?}");
}
