//! Faults at each system call of `chat`, in all its threads: a question that the model was asked is kept, so is an
//! answer that was given to the end, and the next question is answered.
//!
//! `MANENT_EVERY_CALL=1` tries every call, also those that do the same to the same file.

use manent_sim::model_server::ModelServer;

use super::run_exec::{assert_mostly, assert_told};
use super::syscalls::on_all_processors;
use crate::support::model::{Task, asked, requests, saying};
use crate::support::strace::{self, Fault, Faulty, Reach, Site, changes};
use crate::support::{Output, SYNC_FAILED, TestEnvironment, machine, records};

const QUESTION: &str = "What colour is the sky?";
const ANSWER: &str = "The sky is blue.";
const CHAT: Faulty<'_> =
    Faulty { args: &["chat", "a"], input: QUESTION, reach: Reach::Everything, in_work: false };

/// A session of two turns, and a model that answers.
fn scene() -> (TestEnvironment, ModelServer) {
    let env = TestEnvironment::new();
    let server = saying(ANSWER);
    env.serve(&server);
    env.plant("a", records::session("a", &["one", "two"]));
    (env, server)
}

fn sites(test: &str) -> Option<Vec<Site>> {
    if !machine::can_trace() {
        machine::skip(test, "strace cannot trace here");
        return None;
    }
    let (env, _server) = scene();
    let (output, sites) = CHAT.sites(&env);
    output.assert_code(0);
    assert_eq!(output.stdout(), format!("{ANSWER}\n"));
    for step in ["openat", "flock", "write", "fdatasync", "clone", "connect"] {
        assert!(sites.iter().any(|site| site.name.starts_with(step)), "{step} is a step: {sites:?}");
    }
    Some(sites)
}

/// Asserts that every turn that was acknowledged is in the log, whatever happened to the chat.
fn assert_kept(env: &TestEnvironment, server: &ModelServer, output: &Output, case: &str) {
    let turns = env.turns("a");
    let said: Vec<(&str, &str)> = turns.iter().map(|(role, text)| (role.as_str(), text.as_str())).collect();
    let (old, new) = said.split_at(2.min(said.len()));
    assert_eq!(old, [("user", "one"), ("user", "two")], "{case}: {said:?}");
    let whole = [("user", QUESTION), ("assistant", ANSWER)];
    let questions = new.iter().filter(|turn| **turn == whole[0]).count();
    assert!(questions <= 1 && new.len() <= 2, "{case}: {new:?}");
    let was_asked = requests(server, Task::Chat).iter().any(|request| asked(request) == QUESTION);
    assert!(!was_asked || questions == 1, "{case}: the model was asked, and the question is lost: {new:?}");
    if output.code() == Some(0) {
        assert_eq!(new, whole, "{case}: {output}");
        assert_eq!(output.stdout(), format!("{ANSWER}\n"), "{case}: {output}");
    }
    let verified = env.manent(&["verify"]);
    assert_eq!(verified.code(), Some(0), "{case}: {verified}");
    let next = env.chat(&["a"], "And at night?");
    assert_eq!((next.code(), next.stdout()), (Some(0), format!("{ANSWER}\n")), "{case}, then: {next}");
    let turns = env.turns("a");
    let last =
        [("user", "And at night?"), ("assistant", ANSWER)].map(|(role, text)| (role.into(), text.into()));
    assert!(turns.ends_with(&last), "{case}, then: {turns:?}");
    assert!(env.turns("a").len() == said.len() + 2, "{case}, then: {turns:?}");
}

#[test]
fn chat_killed_at_any_system_call_keeps_what_was_asked_and_goes_on() {
    let Some(mut sites) = sites("chat_killed_at_any_system_call") else { return };
    strace::without_reads(&mut sites);
    let reached = on_all_processors(&sites, |_, site| {
        let (env, server) = scene();
        let (output, reached) = CHAT.with(&env, site, Fault::Kill);
        let case = format!("killed at {site:?}");
        if !reached {
            output.assert_code(0);
        }
        assert_kept(&env, &server, &output, &case);
        reached
    });
    assert_mostly(reached, sites.len());
}

#[test]
fn chat_with_an_error_at_any_system_call_fails_with_a_message_or_succeeds() {
    let Some(sites) = sites("chat_with_an_error_at_any_system_call") else { return };
    let faults: Vec<(Site, Fault)> = sites.iter().flat_map(faults_at).collect();
    let reached = on_all_processors(&faults, |_, (site, fault)| {
        let (env, server) = scene();
        let (output, reached) = CHAT.with(&env, site, *fault);
        let case = format!("{fault:?} at {site:?}");
        assert_told(&output, &case);
        if site.name == "fdatasync" && reached && output.code() != Some(0) {
            output.assert_fails(SYNC_FAILED, &["it is unknown whether", "a.jsonl"]);
        }
        assert_kept(&env, &server, &output, &case);
        reached
    });
    assert_mostly(reached, faults.len());
}

/// The errors of the disk and of the table of files. What the network does is tried in the tests of the providers.
fn faults_at(site: &Site) -> Vec<(Site, Fault)> {
    let errors: &[&'static str] = match site.name.as_str() {
        "write" if !site.path.is_empty() => &["EIO", "ENOSPC"],
        "fdatasync" | "fsync" => &["EIO", "ENOSPC"],
        "openat" => &["EIO", "EMFILE"],
        "flock" => &["ENOLCK"],
        "pread64" | "statx" | "statfs" | "getdents64" | "rename" | "unlink" | "ftruncate" => &["EIO"],
        _ => &[],
    };
    let is_ours = !site.path.is_empty() || changes(&site.name);
    errors.iter().filter(|_| is_ours).map(|error| (site.clone(), Fault::Error(error))).collect()
}
