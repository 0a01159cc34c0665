//! Two processes, one of which moves what the other holds, reads or moves too.

use std::time::{Duration, Instant};

use crate::support::random::Random;
use crate::support::store::{content_of, ends};
use crate::support::{Stream, TestEnvironment, records};

#[test]
fn a_session_that_is_being_written_is_not_moved_or_removed() {
    let env = TestEnvironment::new();
    let mut holder = Stream::hold(&env, "a");
    let before = env.tree();
    let held = format!("is held by pid {}", holder.pid());
    for args in [&["archive", "a"][..], &["rm", "a"], &["rm", "--purge", "a"], &["title", "a", "x"]] {
        let began = Instant::now();
        env.manent(&[args, &["--wait", "0s"]].concat()).assert_fails(5, &["a.jsonl", &held, "wait for it"]);
        assert!(began.elapsed() < Duration::from_secs(4), "--wait 0s does not wait");
        let began = Instant::now();
        env.manent(&[args, &["--wait", "300ms"]].concat()).assert_fails(5, &[&held]);
        assert!(began.elapsed() >= Duration::from_millis(250), "it waits as long as it was told");
    }
    assert!(env.tree() == before, "nothing was touched");
    env.done(&["fork", "a", "--wait", "0s"]);
    assert_eq!(env.said("a-fork"), ["held"]);
    holder.send(&records::plain("undisturbed"));
    assert_eq!(holder.line(), "a 2");
}

#[test]
fn whoever_waits_long_enough_moves_it_behind_the_last_word() {
    for (args, place) in [(["archive", "a"], "archived"), (["rm", "a"], "trash")] {
        let env = TestEnvironment::new();
        let mut holder = Stream::hold(&env, "a");
        let waiting = Stream::start(&env, &[&args[..], &["--wait", "30s"]].concat());
        assert!(waiting.is_silent_for(Duration::from_millis(150)), "it waits");
        holder.send(&records::plain("the last word"));
        holder.line();
        holder.finish();
        let (status, lines, errors) = waiting.finish();
        assert!(status.success(), "{lines:?} {errors:?}");
        let name = format!("@{}", env.id_in(place, "a"));
        assert_eq!(env.said(&name), ["held", "the last word"]);
    }
}

/// A process that waits for one session does not keep others from moving another.
#[test]
fn a_mover_that_waits_is_in_nobodys_way() {
    let env = TestEnvironment::new();
    let holder = Stream::hold(&env, "a");
    env.append("b", "one");
    let waiting = Stream::start(&env, &["archive", "a", "--wait", "60s"]);
    assert!(waiting.is_silent_for(Duration::from_millis(200)), "it waits");
    let began = Instant::now();
    for args in [&["archive", "b"][..], &["unarchive", "b"], &["fork", "b"], &["rm", "b"], &["restore", "b"]]
    {
        env.done(args);
    }
    assert!(began.elapsed() < Duration::from_secs(30), "the others go on: {:?}", began.elapsed());
    holder.finish();
    assert!(waiting.finish().0.success());
}

/// A fork that somebody writes must be made whole before its parent can go; then the parent stays for now.
#[test]
fn a_purge_waits_for_the_writers_of_forks() {
    let env = TestEnvironment::new();
    env.append("a", "one");
    env.done(&["fork", "a", "b"]);
    let holder = Stream::hold(&env, "b");
    env.manent(&["rm", "--purge", "a", "--wait", "0s"]).assert_fails(5, &["b.jsonl is held"]);
    assert_eq!(env.said("b"), ["one", "held"]);
    assert_eq!(env.said("a"), ["one"]);
    holder.finish();
    env.done(&["rm", "--purge", "a", "-q"]);
    assert_eq!(env.said("b"), ["one", "held"]);
}

/// By hand: no lock keeps `mv` and `rm` off.
#[test]
fn a_file_moved_by_hand_into_the_archive_gets_no_ghost() {
    for durability in ["sync", "group"] {
        let env = TestEnvironment::new();
        let mut writer = Stream::start(&env, &["append", "a", "--jsonl", "--durability", durability]);
        writer.send(&records::plain("one"));
        writer.line();
        std::fs::create_dir(env.archive()).unwrap();
        let target = env.archive().join("a.01a1e14a-05ca-731a-9829-bf4cb9d544dd.jsonl");
        std::fs::rename(env.log("a"), &target).unwrap();
        let before = std::fs::read(&target).unwrap();
        writer.send(&records::plain("two"));
        let (status, receipts, errors) = writer.finish();
        assert_eq!((status.code(), receipts.len()), (Some(1), 0), "{durability}: no receipt");
        assert!(errors[0].contains("was moved or replaced while it was open"), "{errors:?}");
        assert_eq!(std::fs::read(&target).unwrap(), before, "{durability}");
        assert_eq!(env.tree().len(), 1, "{durability}: no ghost");
        assert_eq!(env.said("a"), ["one"], "{durability}: it is read where it is");
    }
}

#[test]
fn of_two_who_archive_at_once_one_does_it_and_nothing_is_lost() {
    let long = records::plain(&"x".repeat(100_000)) + "\n";
    for round in 0..6 {
        let env = TestEnvironment::new();
        env.manent_given(&["append", "a", "--jsonl", "--durability", "flush", "-q"], long.repeat(20))
            .assert_code(0);
        let both = [0, 1].map(|_| Stream::start(&env, &["archive", "a"]));
        let outcomes = both.map(Stream::finish);
        let codes: Vec<Option<i32>> = outcomes.iter().map(|(status, ..)| status.code()).collect();
        assert!(codes.contains(&Some(0)), "round {round}: {outcomes:?}");
        for (status, _, errors) in &outcomes {
            // It was archived already, is being packed by the other, or was gone when this one came.
            let told = status.success() || errors.iter().any(|line| line.starts_with("error: "));
            assert!(told && matches!(status.code(), Some(0 | 4 | 5)), "round {round}: {outcomes:?}");
        }
        assert_eq!(env.counts(), [0, 1, 0], "round {round}: {outcomes:?}");
        assert_eq!(env.said("a").len(), 20, "round {round}");
        assert_eq!(env.tree().len(), 1, "round {round}: {:?}", env.tree().keys());
        env.manent(&["verify"]).assert_code(0);
    }
}

#[test]
fn a_follower_is_told_when_the_session_is_put_away() {
    for args in [["archive", "a"], ["rm", "a"]] {
        let env = TestEnvironment::new();
        env.append("a", "one");
        let follower = Stream::start(&env, &["show", "a", "-f", "--json"]);
        assert!(follower.line().contains("one"));
        env.append("a", "two");
        assert!(follower.line().contains("two"));
        env.done(&args);
        let (status, rest, errors) = follower.finish();
        assert_eq!((status.code(), rest.len()), (Some(1), 0), "{errors:?}");
        assert!(errors[0].starts_with("error: a was moved, replaced or deleted; start again"), "{errors:?}");
    }
}

/// Whoever reads at any time finds the session, wherever it is just going, and a fork finds what it shares.
#[test]
fn a_reader_finds_a_session_while_it_moves() {
    let env = TestEnvironment::new();
    env.append("a", "one");
    env.done(&["fork", "a", "b"]);
    env.append("b", "two");
    let id = format!("@{}", env.id_in("live", "a"));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let mut moves = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                env.done(&["archive", "a"]);
                env.done(&["unarchive", "a"]);
                moves += 2;
            }
            moves
        });
        let readers: Vec<_> = ["a", "b", &id]
            .map(|name| {
                scope.spawn(|| (0..40).map(|_| env.manent(&["show", "--raw", name])).collect::<Vec<_>>())
            })
            .into();
        for (reader, text) in readers.into_iter().zip(["one\n", "one\ntwo\n", "one\n"]) {
            for output in reader.join().unwrap() {
                assert_eq!((output.stdout().as_str(), output.code()), (text, Some(0)), "{output}");
                assert!(output.stderr_bytes.is_empty(), "{output}");
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(mover.join().unwrap() > 4, "it moved meanwhile");
    });
}

/// A check of the whole store that runs while sessions are put away, brought back and renamed. What is merely elsewhere
/// by now is neither an error nor damage, and everything is checked.
#[test]
fn verify_and_doctor_find_nothing_wrong_while_sessions_move() {
    let env = TestEnvironment::new();
    for key in ["a", "b", "c"] {
        env.append(key, "one");
    }
    env.done(&["fork", "a", "d"]);
    env.append("d", "two");
    let ids: Vec<String> = ["a", "b", "c", "d"].iter().map(|key| env.id_in("live", key)).collect();
    let foreign = records::plain("of another program") + "\n";
    let names = ["foreign", "renamed"].map(|key| env.plant(key, &foreign));
    std::fs::remove_file(&names[1]).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let is_done = || done.load(std::sync::atomic::Ordering::Relaxed);
    let there_and_back = [
        &[["archive", "a"], ["unarchive", "a"]][..],
        &[["rm", "b"], ["restore", "b"]],
        &[["archive", "c"], ["rm", "c"], ["restore", "c"], ["unarchive", "c"]],
    ];
    std::thread::scope(|scope| {
        let movers = there_and_back.map(|steps| {
            let (env, is_done) = (&env, &is_done);
            scope.spawn(move || {
                let mut rounds = 0;
                while !is_done() {
                    for args in steps {
                        env.done(args);
                    }
                    rounds += 1;
                }
                rounds
            })
        });
        let renamer = scope.spawn(|| {
            while !is_done() {
                std::fs::rename(&names[0], &names[1]).unwrap();
                std::thread::sleep(Duration::from_micros(300));
                std::fs::rename(&names[1], &names[0]).unwrap();
            }
        });
        // Judged when the others have ended: they would go on for ever behind a panic.
        let mut outputs = Vec::new();
        for _ in 0..VERIFICATIONS {
            outputs.push((env.manent(&["verify", "--json"]), env.manent(&["doctor"])));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        renamer.join().unwrap();
        let rounds = movers.map(|mover| mover.join().unwrap());
        for (verified, doctored) in outputs {
            verified.assert_code(0);
            for id in &ids {
                assert!(verified.stdout().contains(id.as_str()), "{id} was not checked: {verified}");
            }
            doctored.assert_code(0);
        }
        assert!(rounds.iter().all(|rounds| *rounds > 1), "they moved meanwhile: {rounds:?}");
    });
}

/// One is archived and the next one begun, between the moment in which somebody looked and that in which it acts: what
/// was meant is what was seen.
#[test]
fn whoever_waits_for_a_session_does_not_take_the_next_one_of_its_key() {
    for args in [["archive", "a"], ["rm", "a"]] {
        let env = TestEnvironment::new();
        let holder = Stream::hold(&env, "a");
        let first = env.id_in("live", "a");
        let waiting = Stream::start(&env, &[&args[..], &["--wait", "30s"]].concat());
        assert!(waiting.is_silent_for(Duration::from_millis(200)), "it waits");
        // By hand, under everybody's locks.
        std::fs::create_dir_all(env.archive()).unwrap();
        std::fs::rename(env.log("a"), env.archive().join(format!("a.{first}.jsonl"))).unwrap();
        env.append("a", "the next one");
        holder.finish();
        let (_, lines, errors) = waiting.finish();
        assert_eq!(env.said(&format!("@{first}")), ["held"], "{lines:?} {errors:?}");
        let all = ["live", "archived", "trash"].map(|place| env.listed(place)).concat();
        assert_eq!(all.len(), 2, "{all:?}");
        let next = all.iter().find(|row| row["id"] != first.as_str()).unwrap();
        assert_eq!(
            env.said(&format!("@{}", next["id"].as_str().unwrap())),
            ["the next one"],
            "{lines:?} {errors:?}"
        );
    }
}

/// Either the fork came first, and keeps what it shares, or the purge did, and there is nothing to fork.
#[test]
fn a_fork_and_a_purge_at_once_leave_no_fork_without_its_beginning() {
    for round in 0..15 {
        let env = TestEnvironment::new();
        env.append("a", "one");
        let both = [&["fork", "a", "b"][..], &["rm", "--purge", "a"]].map(|args| Stream::start(&env, args));
        let [fork, purge] = both.map(Stream::finish);
        assert!(purge.0.success(), "round {round}: {purge:?}");
        assert!(matches!(fork.0.code(), Some(0 | 4)), "round {round}: {fork:?}");
        assert_eq!(env.listed("live").len(), usize::from(fork.0.success()), "round {round}");
        if fork.0.success() {
            assert_eq!(env.said("b"), ["one"], "round {round}");
        }
        env.manent(&["verify"]).assert_code(0);
    }
}

/// The work of each of twenty processes for a while.
fn churn(env: &TestEnvironment, seed: u64, until: Instant) -> Vec<String> {
    let mut random = Random::new(seed);
    let mut receipts = Vec::new();
    for n in 0.. {
        if Instant::now() > until {
            break;
        }
        let key = ["a", "b", "c"][random.below(3) as usize];
        let text = format!("{seed}-{n}");
        let args = match random.below(10) {
            0..=4 => vec!["append", "--durability", "flush", key, &text],
            5 => vec!["archive", key],
            6 => vec!["unarchive", key],
            7 => vec!["rm", key],
            8 => vec!["restore", key],
            _ => vec!["fork", key],
        };
        let output = env.manent(&[&args[..], &["--wait", "10s"]].concat());
        let code = output.code();
        // Not there, in the way, held: somebody else was faster. Nothing else may happen.
        assert!(matches!(code, Some(0 | 4 | 5 | 6)), "seed {seed}: {args:?}: {output}");
        if code == Some(0) && args[0] == "append" {
            receipts.push(text);
        }
    }
    receipts
}

#[test]
fn twenty_processes_that_append_fork_and_move_lose_nothing() {
    let seed = Random::seed();
    let env = TestEnvironment::new();
    let until = Instant::now() + Duration::from_secs(4);
    let receipts: Vec<String> = std::thread::scope(|scope| {
        let env = &env;
        let all: Vec<_> =
            (0..20).map(|n| scope.spawn(move || churn(env, seed.wrapping_add(n), until))).collect();
        all.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(receipts.len() > 20, "MANENT_SEED={seed}: they got something done: {}", receipts.len());
    // A record lies in one file, whatever forks show it too.
    let mut kept: Vec<String> = Vec::new();
    for (name, bytes) in env.tree() {
        let bytes = if ends(&name, "zst") { zstd::stream::decode_all(&bytes[..]).unwrap() } else { bytes };
        let text = String::from_utf8(bytes).unwrap();
        kept.extend(text.lines().filter_map(content_of));
    }
    for receipt in &receipts {
        let found = kept.iter().filter(|text| *text == receipt).count();
        assert_eq!(found, 1, "MANENT_SEED={seed}: {receipt} is there {found} times");
    }
    let verified = env.manent(&["verify"]);
    verified.assert_code(0);
    // And each is shown by the session that holds it.
    let all = ["live", "archived", "trash"].map(|place| env.listed(place)).concat();
    let mut shown = std::collections::HashSet::new();
    for row in &all {
        shown.extend(env.said(&format!("@{}", row["id"].as_str().unwrap())));
    }
    assert!(receipts.iter().all(|receipt| shown.contains(receipt)), "MANENT_SEED={seed}");
}

/// The number of checks of a store while its sessions move.
const VERIFICATIONS: u32 = 20;
