//! Looking back on what skills did, on a schedule: nobody waits for it, and nothing that goes wrong in it is anybody
//! else's trouble.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use manent::memory::{Filter, Kind, NewItem};
use manent::{Files, Store, StoreOptions};
use manent_agent::config::{Config, RetroInterval};
use manent_agent::kernel::{Kernel, RetroEvent, RetroReport};
use manent_agent::providers::Recall;
use manent_runs::retrospective::Reports;
use manent_runs::{NewEntry, NewRun, RunEnd, Runs, Status};
use manent_sim::SimDisk;
use manent_sim::model_server::{Script, replies};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;

use crate::fixture::{Fixture, LONG, ask, is_chat, key, logged_turns, open, quiet, start, system_text};

fn often() -> Config {
    let mut config = quiet();
    config.retro.every = RetroInterval::Time(Duration::from_millis(30));
    config
}

fn chatty() -> Fixture {
    Fixture::new(|_| replies::ollama("Aye."))
}

/// A kernel without a model.
fn alone(fixture: &Fixture, config: &Config) -> Kernel {
    start(fixture.store.clone(), Recall::new(fixture.store.clone()).into(), config)
}

fn plant(fixture: &Fixture, count: usize, status: Status) {
    let runs = Runs::open(&fixture.store).unwrap();
    for _ in 0..count {
        let started = runs.begin(&key("a"), NewRun { skill: "fix".to_owned(), ..NewRun::default() }).unwrap();
        runs.finish(&started, &RunEnd { status, ..RunEnd::default() }).unwrap();
    }
}

async fn next(events: &mut Receiver<RetroEvent>) -> RetroEvent {
    tokio::time::timeout(LONG, events.recv()).await.expect("it is told").unwrap()
}

async fn made(events: &mut Receiver<RetroEvent>) -> RetroReport {
    match next(events).await {
        RetroEvent::Made(review) => review,
        other => panic!("no report: {other:?}"),
    }
}

fn retro(fixture: &Fixture) -> PathBuf {
    Reports::open(&fixture.store).unwrap().dir().to_owned()
}

fn report_json(fixture: &Fixture) -> Value {
    serde_json::from_slice(&std::fs::read(retro(fixture).join("latest.json")).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_made_whenever_there_are_new_runs() {
    let fixture = chatty();
    plant(&fixture, 6, Status::Success);
    let kernel = alone(&fixture, &often());
    let mut events = kernel.retro_events().unwrap();
    let first = made(&mut events).await;
    assert_eq!((first.runs, first.whole, first.alarms, first.remembered), (6, true, 0, None));
    assert!(std::fs::read_to_string(&first.page).unwrap().starts_with("<!DOCTYPE html>"));
    assert_eq!(report_json(&fixture)["totals"]["runs"], 6);
    plant(&fixture, 2, Status::Failure);
    // It may have been at it while the second was recorded.
    while made(&mut events).await.runs < 8 {}
    assert_eq!(report_json(&fixture)["totals"]["runs"], 8);
    kernel.end(LONG).await;
    assert!(fixture.store.memory().unwrap().items(&Filter::default()).unwrap().is_empty(), "not asked for");
}

/// Whoever never ran a skill pays nothing for it, and finds nothing.
#[tokio::test(flavor = "multi_thread")]
async fn without_runs_or_when_it_is_off_nothing_is_written() {
    let fixture = chatty();
    let kernel = fixture.kernel_with(&often());
    let mut events = kernel.retro_events().unwrap();
    for n in 0..20 {
        ask(&kernel.conversation(&key("a")), &format!("question {n}")).await;
    }
    assert!(events.try_recv().is_err());
    assert!(!retro(&fixture).exists());
    kernel.end(LONG).await;
    plant(&fixture, 6, Status::Success);
    let mut off = often();
    off.retro.every = RetroInterval::Off;
    let kernel = fixture.kernel_with(&off);
    assert!(kernel.retro_events().is_none());
    ask(&kernel.conversation(&key("a")), "one more").await;
    kernel.end(LONG).await;
    assert!(!retro(&fixture).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_kernels_have_one_schedule() {
    let fixture = chatty();
    plant(&fixture, 6, Status::Success);
    let mut config = often();
    config.retro.every = RetroInterval::Time(Duration::from_secs(2));
    let other = open(fixture.dir.path());
    let kernels = [
        start(fixture.store.clone(), Recall::new(fixture.store.clone()).into(), &config),
        start(other.clone(), Recall::new(other).into(), &config),
    ];
    let [mut one, mut two] = kernels.each_ref().map(|kernel| kernel.retro_events().unwrap());
    let first = tokio::select! {
        reviewed = next(&mut one) => reviewed,
        reviewed = next(&mut two) => reviewed,
    };
    assert!(matches!(first, RetroEvent::Made(_)), "{first:?}");
    plant(&fixture, 1, Status::Success);
    let second = tokio::select! {
        reviewed = next(&mut one) => reviewed,
        reviewed = next(&mut two) => reviewed,
    };
    assert!(matches!(second, RetroEvent::Made(RetroReport { runs: 7, .. })), "{second:?}");
    assert!(one.try_recv().is_err() && two.try_recv().is_err(), "each report is made once");
    for kernel in kernels {
        kernel.end(LONG).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lessons_are_remembered_and_retired_where_that_is_set() {
    let fixture = chatty();
    let weeks_ago = jiff::Timestamp::now() - Duration::from_hours(24 * 20);
    let failed = json!({"skill": "fix", "final_status": "failed", "timestamp": weeks_ago.to_string()});
    let failed = NewEntry::parse(failed.to_string().as_bytes()).unwrap();
    Runs::open(&fixture.store)
        .unwrap()
        .record(&key("a"), &vec![failed; 6], manent::Durability::Sync)
        .unwrap();
    let memory = fixture.store.memory().unwrap();
    let mine = memory.add(&NewItem::new(Kind::Fact, "I fix things")).unwrap();
    let mut config = often();
    config.retro.remember = true;
    let kernel = alone(&fixture, &config);
    let first = made(&mut kernel.retro_events().unwrap()).await.remembered.unwrap();
    kernel.end(LONG).await;
    assert_eq!(first.added.len(), 2, "how often it succeeds, and failures that look the same");
    // Looking back on a day, that is no longer so.
    plant(&fixture, 6, Status::Success);
    config.retro.since = Duration::from_hours(24);
    let kernel = alone(&fixture, &config);
    let second = made(&mut kernel.retro_events().unwrap()).await.remembered.unwrap();
    kernel.end(LONG).await;
    assert_eq!((second.replaced.len(), second.retired.len()), (1, 1), "{second:?}");
    let items = memory.items(&Filter::default()).unwrap();
    assert!(items.iter().any(|item| item.id == mine.id) && items.len() == 2, "{items:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_adds_to_it_where_that_is_set_and_only_there() {
    let fixture = Fixture::new(|request| {
        if is_chat(request) {
            return replies::ollama("Aye.");
        }
        let facts = request.json()["messages"][1]["content"].as_str().unwrap().to_owned();
        let facts: Value = serde_json::from_str(&facts[facts.find('{').unwrap()..]).unwrap_or_default();
        let runs = facts["statements"][0]["runs"].clone();
        replies::ollama(&json!({"passages": [{"text": "It works.", "runs": runs}], "edits": []}).to_string())
    });
    plant(&fixture, 6, Status::Success);
    let kernel = fixture.kernel_with(&often());
    made(&mut kernel.retro_events().unwrap()).await;
    kernel.end(LONG).await;
    assert!(fixture.server.requests().is_empty() && report_json(&fixture)["narrative"].is_null());
    plant(&fixture, 1, Status::Success);
    let mut config = often();
    config.retro.with_model = true;
    let kernel = fixture.kernel_with(&config);
    let review = made(&mut kernel.retro_events().unwrap()).await;
    assert_eq!(review.troubles, [] as [String; 0]);
    kernel.end(LONG).await;
    let requests = fixture.server.requests();
    assert!(requests.len() == 1 && system_text(&requests[0]).starts_with("You are given facts about runs"));
    assert_eq!(report_json(&fixture)["narrative"]["model"], replies::MODEL);
}

/// The model that is asked for it never answers: neither a conversation nor the end waits.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_it_and_what_it_was_at_is_done_next_time() {
    let fixture =
        Fixture::new(
            |request| if is_chat(request) { replies::ollama("Aye.") } else { Script::new().stall() },
        );
    plant(&fixture, 6, Status::Success);
    let mut config = often();
    config.retro.with_model = true;
    let kernel = fixture.kernel_with(&config);
    let is_asked = || fixture.server.requests().iter().any(|request| !is_chat(request));
    let began = Instant::now();
    while !is_asked() {
        assert!(began.elapsed() < LONG, "nobody is asked");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for n in 0..5 {
        ask(&kernel.conversation(&key("a")), &format!("question {n}")).await;
    }
    kernel.end(LONG).await;
    assert!(!retro(&fixture).join("latest.json").exists(), "what is stopped is not kept");
    let kernel = alone(&fixture, &often());
    made(&mut kernel.retro_events().unwrap()).await;
    kernel.end(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_is_told_and_ends_nothing_else() {
    let fixture = chatty();
    plant(&fixture, 6, Status::Success);
    std::fs::write(retro(&fixture), "in the way").unwrap();
    let mut config = often();
    config.retro.every = RetroInterval::Time(Duration::from_millis(10));
    let kernel = fixture.kernel_with(&config);
    let mut events = kernel.retro_events().unwrap();
    let RetroEvent::Failed(why) = next(&mut events).await else { panic!("there is no place for it") };
    assert!(why.contains("retro"), "{why}");
    ask(&kernel.conversation(&key("a")), "Are you there?").await;
    std::fs::remove_file(retro(&fixture)).unwrap();
    while !matches!(next(&mut events).await, RetroEvent::Made(_)) {}
    kernel.end(LONG).await;
    assert_eq!(logged_turns(&fixture.store, &key("a")).len(), 2);
}

/// A panic in it, wherever: it is told, and the next look is as good as any.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_it_ends_nothing_else() {
    for nth in [0, 7, 40] {
        let disk = SimDisk::new(nth);
        disk.poke_dir("/home").unwrap();
        let files = Files::open_on(Arc::new(disk.clone()), "/home/store".into()).unwrap();
        let store = Store::on_files(files, StoreOptions::default());
        let run = br#"{"skill":"fix","final_status":"success"}"#;
        let run = NewEntry::parse(run).unwrap();
        Runs::open(&store).unwrap().record(&key("a"), &vec![run; 6], manent::Durability::Sync).unwrap();
        disk.visit_before(disk.op_count() + nth, || panic!("as asked"));
        let kernel = start(store.clone(), Recall::new(store.clone()).into(), &often());
        let mut events = kernel.retro_events().unwrap();
        let RetroEvent::Failed(why) = next(&mut events).await else { panic!("it did not panic") };
        assert!(why.contains("broke off"), "{why}");
        assert!(matches!(next(&mut events).await, RetroEvent::Made(_)));
        kernel.end(LONG).await;
    }
}

/// A kernel that is dropped and not ended leaves nothing running.
#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_its_kernel() {
    let fixture = chatty();
    let kernel = alone(&fixture, &often());
    let mut events = kernel.retro_events().unwrap();
    drop(kernel);
    let closed = tokio::time::timeout(LONG, events.recv()).await.expect("it ends");
    assert!(closed.is_err());
}
