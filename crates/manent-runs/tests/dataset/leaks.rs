//! Credentials and names, planted wherever a text can stand: none is in any file.

use manent::context::PromptConfig;
use manent_runs::dataset::{DatasetFormat, Recipe};
use serde_json::{Value, json};

use super::scene::{FORMATS, Scene, key, passage, words};

/// Credentials of many shapes, each another for every place that it is planted in.
fn secret(n: usize) -> String {
    let tail: String =
        (0..36).map(|i| char::from(b"Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"[(i * 7 + n * 11) % 32])).collect();
    match n % 5 {
        0 => format!("ghp_{tail}"),
        1 => format!("sk-{tail}"),
        2 => format!("AKIA{}", tail.to_uppercase().chars().take(16).collect::<String>()),
        3 => format!("npm_{tail}"),
        _ => format!("glpat-{tail}"),
    }
}

struct Planted {
    secrets: Vec<String>,
}

impl Planted {
    fn one(&mut self) -> String {
        self.secrets.push(secret(self.secrets.len()));
        self.secrets.last().unwrap().clone()
    }

    fn text(&mut self, n: u64) -> String {
        format!(
            "{} use {} then cat /home/zaphodb/notes and C:\\Users\\zaphodb\\x {}",
            words(n, 12),
            self.one(),
            words(n + 1, 12)
        )
    }
}

/// A store in which every field of every record holds a credential of its own.
fn plant(scene: &Scene) -> Planted {
    let mut planted = Planted { secrets: Vec::new() };
    let p = &mut planted;
    let mut session = scene.store.session(&key("s")).unwrap();
    let tools = json!([{"type": "function", "function": {"name": "read", "description": p.text(90),
        "parameters": {"type": "object", "properties": {"path": {"default": p.one()}}}}}]);
    let setting = PromptConfig {
        system: Some(p.text(91)),
        tools: Some(tools.to_string()),
        memory: Some(p.text(92)),
        ..PromptConfig::default()
    };
    session.set_context(&setting).unwrap();
    drop(session);
    let asked = scene.say("s", "user", &p.text(1));
    let arguments = json!({"path": p.one(), "password": "tr0ub4dor&3xyz", "deep": {"token": [p.one()]}});
    let call = json!({"id": p.one(), "name": "read", "arguments": arguments});
    let text = json!({"id": "c2", "name": "read", "arguments": format!("not json {}", p.one())});
    scene.record("s", &json!({"role": "assistant", "content": p.text(3), "tool_calls": [call, text]}));
    let id = call["id"].clone();
    scene.record("s", &json!({"role": "tool", "tool_call_id": id, "name": p.one(), "content": p.text(5)}));
    scene.record(
        "s",
        &json!({"role": "tool", "tool_call_id": "c2", "name": "read", "content": "tr0ub4dor&3xyz again"}),
    );
    let answered = scene.say("s", "assistant", &p.text(7));
    let other = scene.say("s", "assistant", &p.text(9));
    let fields = |p: &mut Planted, n: u64| {
        json!({"skill": p.one(), "phase": p.one(), "project_root": format!("/home/zaphodb/{}", p.one()),
            "input": {"task": p.text(n), "api_key": p.one()}, "file_path": p.one(), "model_used": p.one(),
            "final_status": p.one(), "session_id": p.one(), "run_id": p.one(), "idempotency_key": p.one(),
            "timestamp": "2026-05-01T10:00:00Z"})
    };
    let more = |p: &mut Planted, n: u64, mut attempt: Value| {
        for name in ["model", "skill_hash", "sandbox"] {
            attempt[name] = json!(p.one());
        }
        attempt["output_summary"] = json!(p.text(n));
        attempt["runner_output"] = json!(p.text(n + 2));
        attempt["params"] = json!({"secret": p.one()});
        attempt["usage"] = json!({"secret": p.one()});
        attempt
    };
    let prompt = passage("s", 1, asked);
    let mut run = fields(p, 11);
    run["attempts"] = json!([
        more(
            p,
            13,
            json!({"attempt": 1, "verified": false, "prompt_ref": prompt, "output_ref": passage("s", other, other)})
        ),
        more(
            p,
            15,
            json!({"attempt": 2, "verified": true, "prompt_ref": prompt, "output_ref": passage("s", 3, answered)})
        ),
    ]);
    scene.run("s", &run);
    let mut run = fields(p, 21);
    let class = p.one();
    run["attempts"] = json!([
        more(p, 23, json!({"attempt": 1, "verified": false, "error_class": class})),
        more(p, 25, json!({"attempt": 2, "verified": true})),
    ]);
    scene.run(&format!("log-{}", p.one()), &run);
    planted
}

#[test]
fn no_credential_and_no_name_is_in_any_file_of_any_format() {
    let scene = Scene::new();
    let planted = plant(&scene);
    assert!(planted.secrets.len() > 40);
    for (format, summaries, with_memory) in
        FORMATS.into_iter().flat_map(|format| [(format, false, false), (format, true, true)])
    {
        let recipe = Recipe {
            validation: 0,
            summaries,
            with_memory,
            project: Some("/home/zaphodb".into()),
            ..Recipe::new(format)
        };
        let rows = scene.make(&recipe);
        let written: u64 = rows.made.files.iter().map(|file| file.rows).sum();
        assert!(written > 0, "{format:?}: something is written, or nothing is shown");
        assert!(rows.made.counts.secrets > 3);
        for (name, bytes) in rows.files() {
            let text = String::from_utf8(bytes).unwrap();
            for secret in &planted.secrets {
                assert!(!text.contains(secret.as_str()), "{format:?}: {secret} is in {name}");
            }
            assert!(
                !text.contains("tr0ub4dor"),
                "{format:?}: a value that only its name tells of is in {name}"
            );
            assert!(!text.contains("zaphodb"), "{format:?}: a name is in {name}");
        }
    }
}

#[test]
fn what_is_asked_for_is_told_without_credentials_too() {
    let scene = Scene::new();
    let token = secret(0);
    let recipe = Recipe {
        skill: Some(token.clone()),
        model: Some(format!("/home/zaphodb/{token}")),
        summaries: true,
        ..Recipe::new(DatasetFormat::Kto)
    };
    let attempt = json!({"verified": true, "model": recipe.model, "output_summary": "done"});
    scene.run("s", &json!({"skill": token, "input": "mend it", "attempts": [attempt]}));
    for (name, bytes) in scene.make(&recipe).files() {
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains(&token) && !text.contains("zaphodb"), "{name}");
    }
}

/// Tools are the same in many rows. What is found in them is taken out of every row, and counted in each.
#[test]
fn a_credential_in_tools_is_taken_out_of_every_row_that_has_them() {
    let scene = Scene::new();
    let mut session = scene.store.session(&key("s")).unwrap();
    let about = "reads /home/zaphodb/notes, log in with password=tr0ub4dor99xyz";
    let tools = json!([{"type": "function", "function": {"name": "read", "description": about}}]);
    let setting = PromptConfig { tools: Some(tools.to_string()), ..PromptConfig::default() };
    session.set_context(&setting).unwrap();
    drop(session);
    for n in 0..20 {
        let asked = format!("{} log in with tr0ub4dor99xyz", words(n, 20));
        scene.asked("s", "/p", &asked, &words(n + 100, 20), true);
    }
    for format in FORMATS {
        let rows = scene.make_all(format);
        for (name, bytes) in rows.files() {
            let text = String::from_utf8(bytes).unwrap();
            assert!(!text.contains("tr0ub4dor"), "{format:?}: a credential is in {name}");
            assert!(!text.contains("zaphodb"), "{format:?}: a name is in {name}");
        }
        let counts = &rows.made.counts;
        assert_eq!(counts.homes, 20, "{format:?}: once in each row");
        assert!(counts.secrets >= 40, "{format:?}: in the tools and in the question of each row: {counts:?}");
        assert_eq!(rows.files(), scene.make_all(format).files());
    }
}
