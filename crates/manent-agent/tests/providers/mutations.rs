//! Answers changed, cut and split at random: nothing panics, nothing hangs, and nothing is made up.
//!
//! `MANENT_SEED=N cargo test -p manent-agent --test providers mutations` runs one of them again.

use manent_agent::providers::{ModelError, Reply};
use manent_sim::Rng;
use manent_sim::model_server::replies::{self, ollama_line, openai_event};
use manent_sim::model_server::{Closing, ModelServer, Script};
use serde_json::json;

use crate::client::{ReportedEvents, ask, both, question};

/// A stream as it was recorded: thoughts, text, calls, counts.
fn recorded_ollama() -> Vec<u8> {
    let assistant = |members: serde_json::Value| ollama_line(&members);
    [
        assistant(json!({ "role": "assistant", "content": "", "thinking": "Hm, „blau“…" })),
        assistant(json!({ "role": "assistant", "content": "Ich sehe" })),
        assistant(json!({ "role": "assistant", "content": " nach: 🦀\n" })),
        assistant(json!({ "role": "assistant", "content": "", "tool_calls": [
            { "function": { "name": "read", "arguments": { "path": "/tmp/ä", "lines": [1, 2] } } },
        ] })),
        replies::ollama_done("stop", 26, 290),
    ]
    .concat()
    .into_bytes()
}

fn recorded_openai() -> Vec<u8> {
    [
        ": OPENROUTER PROCESSING\n\n".to_owned(),
        openai_event(&json!({ "role": "assistant", "content": "" }), None),
        openai_event(&json!({ "reasoning_content": "Hm, „blau“…" }), None),
        openai_event(&json!({ "content": "Ich sehe" }), None),
        openai_event(&json!({ "content": " nach: 🦀\n" }), None),
        openai_event(
            &json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function",
                "function": { "name": "read", "arguments": "" } }] }),
            None,
        ),
        openai_event(
            &json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "{\"path\":" } }] }),
            None,
        ),
        openai_event(
            &json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "\"/tmp/ä\"}" } }] }),
            None,
        ),
        openai_event(&json!({}), Some("tool_calls")),
        replies::openai_usage(26, 290),
        replies::done(),
    ]
    .concat()
    .into_bytes()
}

/// The mutation of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Split,
    Cut,
    Changed,
}

fn harm(rng: &mut Rng, recorded: &[u8]) -> (Harm, Script) {
    let mut bytes = recorded.to_vec();
    let harm = match rng.below(4) {
        0 => Harm::Split,
        1 => Harm::Cut,
        _ => Harm::Changed,
    };
    match harm {
        Harm::Split => {}
        Harm::Cut => bytes.truncate(rng.below(bytes.len() as u64) as usize),
        Harm::Changed => (0..rng.range(1..=4)).for_each(|_| change(rng, &mut bytes)),
    }
    let mut script = Script::new();
    let mut rest = bytes.as_slice();
    let longest = rng.range(1..=200);
    while !rest.is_empty() {
        let (chunk, left) = rest.split_at(rng.range(1..=longest).min(rest.len() as u64) as usize);
        script = script.chunk(chunk);
        rest = left;
    }
    if harm == Harm::Cut && rng.chance(1, 3) && !bytes.is_empty() {
        script = script.close(Closing::Fin);
    }
    (harm, script)
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.below(bytes.len() as u64) as usize;
    let until = (at + rng.range(1..=60) as usize).min(bytes.len());
    match rng.below(6) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = b"{}[]\",:\\\n\r\0\xff"[rng.below(12) as usize],
        2 => drop(bytes.drain(at..until)),
        3 => {
            let again = bytes[at..until].to_vec();
            bytes.splice(at..at, again);
        }
        4 => bytes.insert(at, rng.below(256) as u8),
        _ => bytes.truncate(at),
    }
}

fn check(harm: Harm, good: &Reply, outcome: &Result<Reply, ModelError>, heard: &ReportedEvents) {
    match outcome {
        Err(ModelError::Stalled { .. }) => panic!("nothing stalled here"),
        Err(error) => {
            assert!(harm != Harm::Split, "{error}");
            if harm == Harm::Cut {
                assert!(matches!(error, ModelError::Ended { .. }), "{error}");
                assert!(good.text.starts_with(&heard.text) && good.thinking.starts_with(&heard.thinking));
            }
            assert!(!error.to_string().contains("sehe"), "content in an error: {error}");
        }
        Ok(reply) if harm == Harm::Changed => {
            // Its text is what was told, which `ask` has checked.
            let ids: std::collections::HashSet<_> = reply.calls.iter().map(|call| &call.id).collect();
            assert_eq!(ids.len(), reply.calls.len());
        }
        Ok(reply) => {
            let calls = |reply: &Reply| {
                let call =
                    |call: &manent_agent::providers::ToolCall| (call.name.clone(), call.arguments.clone());
                reply.calls.iter().map(call).collect::<Vec<_>>()
            };
            assert_eq!(
                (&reply.text, &reply.thinking, &reply.finish),
                (&good.text, &good.thinking, &good.finish)
            );
            assert_eq!(calls(reply), calls(good));
        }
    }
}

#[tokio::test]
async fn nothing_a_server_sends_panics_hangs_or_is_made_up() {
    let one = std::env::var("MANENT_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = one.map_or(0..SEEDS, |seed| seed..seed + 1);
    let recorded = [recorded_ollama(), recorded_openai()];
    let whole = recorded.clone();
    let server = ModelServer::start(move |request| {
        let which = usize::from(!request.path.starts_with("/api"));
        let body = request.json();
        match body["seed"].as_u64().or(body["options"]["seed"].as_u64()) {
            Some(seed) => harm(&mut Rng::new(seed), &whole[which]).1,
            None => Script::body(&whole[which]),
        }
    })
    .unwrap();
    for (model, recorded) in both(&server).iter().zip(&recorded) {
        let good = ask(model, &question()).await.0.unwrap();
        assert_eq!((good.text.as_str(), good.calls.len()), ("Ich sehe nach: 🦀\n", 1));
        for seed in seeds.clone() {
            let harm = harm(&mut Rng::new(seed), recorded).0;
            let request = manent_agent::providers::Request { seed: Some(seed), ..question() };
            let (outcome, heard) = ask(model, &request).await;
            let checked = std::panic::AssertUnwindSafe(|| check(harm, &good, &outcome, &heard));
            let is_right = std::panic::catch_unwind(checked).is_ok();
            assert!(is_right, "seed {seed} ({harm:?}) of {model:?}: {outcome:?}, heard {heard:?}");
        }
    }
}

const SEEDS: u64 = 3000;
