//! Thousands of damaged files: whatever the bytes, there is an answer, it comes soon, and no name leads out.

use manent::tokens::{Counting, Tokens};
use manent_agent::skills::{Severity, SkillDocument};
use manent_sim::Rng;

use super::World;

const SEEDS: [&str; 5] = [
    "---\nname: my-skill\ndescription: Does it. Use when asked.\nlicense: MIT\n---\n# Do\n\n---\n\nit.\n",
    "---\nname: my-skill\ndescription: >-\n  Folded\n  text: here\nmetadata:\n  a: \"1\"\n  b: {c: [d, e]}\n---\nx\n",
    "---\r\nname: my-skill\r\ndescription: 'It''s: quoted'\r\nallowed-tools: Bash(git:*) Read\r\n---\r\nbody\r\n",
    "\u{feff}---\nname: &a my-skill\ndescription: *a\nversion: 1.0\n? complex\n: value\n---\n日本語 👩\u{200d}👧\n",
    "---\nname: my-skill\ndescription: use: this: when\n  more: lines\ndisable-model-invocation: true\n---\nx",
];

/// Fragments that break parsers.
const PIECES: [&[u8]; 26] = [
    b"---\n",
    b"...\n",
    b": ",
    b"\n",
    b"\r\n",
    b"\t",
    b"&a ",
    b"*a ",
    b"<<: *a\n",
    b"[",
    b"{",
    b"]",
    b"}",
    b"|\n",
    b">\n",
    b"\"",
    b"'",
    b"!!binary ",
    b"%YAML 9\n",
    b"\0",
    b"\xff\xfe",
    b"\xe2\x80\xae",
    b"#",
    b"- ",
    b"? ",
    b"name: ../../../etc\n",
];

fn mutated(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = SEEDS[rng.below(SEEDS.len() as u64) as usize].as_bytes().to_vec();
    for _ in 0..=rng.below(6) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        let end = (at + rng.below(24) as usize).min(bytes.len());
        match rng.below(7) {
            0 => bytes.insert(at, rng.next_u64() as u8),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.truncate(at),
            3 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            4 => {
                let piece = bytes[at..end].to_vec();
                let times = rng.below(200) as usize;
                bytes.splice(at..at, piece.repeat(times));
            }
            _ => {
                let piece = PIECES[rng.below(PIECES.len() as u64) as usize];
                let times = if rng.chance(1, 20) { 3000 } else { 1 };
                bytes.splice(at..at, piece.repeat(times));
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

#[test]
fn whatever_the_bytes_there_is_an_answer() {
    let (mut used, mut skipped) = (0, 0);
    for seed in 0..20_000 {
        let bytes = mutated(&mut Rng::new(seed));
        let document = SkillDocument::read(&bytes, "my-skill");
        if let Some(problem) = document.fatal() {
            assert!(!problem.what.is_empty(), "seed {seed}");
            skipped += 1;
        } else {
            let name = &document.manifest.name;
            let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
            assert!(
                !name.is_empty() && name.len() <= 256 && name.chars().all(plain),
                "seed {seed}: {name:?}"
            );
            assert!(!name.starts_with(['.', '-', '_']), "seed {seed}: {name:?}");
            assert!(!document.manifest.description.trim().is_empty(), "seed {seed}");
            used += 1;
        }
        let grades = document.problems.iter().map(|problem| problem.rule.grade());
        assert_eq!(grades.max() == Some(Severity::Fatal), document.fatal().is_some(), "seed {seed}");
    }
    assert!(
        used > 2000 && skipped > 2000,
        "{used} used, {skipped} skipped: the mutations are too mild or too wild"
    );
}

#[test]
fn whatever_lies_on_the_disk_the_catalogue_holds_and_no_file_leads_out() {
    let world = World::new();
    world.write("secret.txt", "the secret");
    let tokens = Tokens::new(Counting::Estimate);
    for seed in 0..40 {
        let rng = &mut Rng::new(seed);
        let _ = std::fs::remove_dir_all(world.path("store/skills"));
        for i in 0..25 {
            world.write(&format!("store/skills/my-skill-{i}/SKILL.md"), mutated(rng));
            world.link(&format!("store/skills/my-skill-{i}/l"), world.path("secret.txt"));
        }
        let found = world.find();
        assert_eq!(found.all.len(), 25, "seed {seed}");
        let catalogue = found.catalogue(600, &tokens);
        assert!(catalogue.tokens <= 600, "seed {seed}");
        assert_eq!(
            catalogue.text.lines().count(),
            catalogue.names.len() + 3 * usize::from(!catalogue.text.is_empty())
        );
        assert!(catalogue.text.matches('<').count() <= 2, "seed {seed}: {}", catalogue.text);
        for skill in &found.all {
            if let Ok(activation) = skill.activate() {
                let end = format!("</skill {}>", &activation.hash[..16]);
                assert_eq!(activation.text.matches(&end).count(), 1, "seed {seed}");
            }
            for path in [strange(rng), "l".to_owned(), "../../../secret.txt".to_owned()] {
                let given = skill.file(&path).map(|file| file.bytes).unwrap_or_default();
                assert_ne!(given, b"the secret", "seed {seed}: {path:?}");
            }
        }
    }
}

/// A path that somebody hopes leads out.
fn strange(rng: &mut Rng) -> String {
    let parts =
        ["..", ".", "/", "SKILL.md", "l", "~", "secret.txt", "\\..", "%2e%2e", "//", "my-skill-1", ""];
    let part = |rng: &mut Rng| parts[rng.below(parts.len() as u64) as usize];
    (0..rng.range(1..=8)).map(|_| part(rng)).collect::<Vec<_>>().join("/")
}
