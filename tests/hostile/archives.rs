//! Archives that a fault or a vandal left. Each is named, takes little memory and little time, and hides no other.

use std::path::PathBuf;

use crate::support::{Output, TestEnvironment, machine, records};

const ID: &str = "01a1e14a-05ca-731a-9829-bf4cb9d544dd";
/// The program itself, its libraries, and what it takes to unpack a frame; far less than what the bombs unpack to.
const MEMORY: [&str; 2] = ["prlimit", "--as=134217728"];

/// A store with a good archive beside a bad one.
fn beside_good(bad: &[u8]) -> (TestEnvironment, PathBuf) {
    let env = TestEnvironment::in_memory();
    env.plant("good", records::session("good", &["still here"]));
    env.done(&["archive", "good"]);
    let path = env.archive().join(format!("bad.{}.jsonl.zst", ID.replace("01a1", "02b2")));
    std::fs::write(&path, bad).unwrap();
    (env, path)
}

/// Runs a command in little memory.
fn bounded(env: &TestEnvironment, args: &[&str]) -> Output {
    let output = env.manent_under(&MEMORY, args);
    assert!(output.signal().is_none() && !output.stderr().contains("panicked"), "{args:?}: {output}");
    output
}

/// Whatever is wrong with it: it is named, the other one is not hidden, and nothing is changed.
fn assert_named(what: &str, bad: &[u8]) {
    let (env, path) = beside_good(bad);
    let listed = bounded(&env, &["sessions", "--archived"]);
    listed.assert_code(0);
    assert!(listed.stdout().contains("still here"), "{what}: {listed}");
    let verified = bounded(&env, &["verify"]);
    assert!(matches!(verified.code(), Some(1 | 3)), "{what}: {verified}");
    assert!(verified.stdout().contains("ok       good"), "{what}: {verified}");
    assert!(verified.to_string().contains("bad"), "{what} is named: {verified}");
    let shown = bounded(&env, &["show", "bad"]);
    assert!(shown.stderr().contains("bad"), "{what} is named: {shown}");
    let back = bounded(&env, &["unarchive", "bad"]);
    assert!(matches!(back.code(), Some(1 | 3)), "{what}: {back}");
    assert!(back.stderr().contains("bad."), "{what}: {back}");
    assert_eq!(std::fs::read(&path).unwrap(), bad, "{what}: it stays as it is");
    assert!(!env.log("bad").exists(), "{what}: no half of a session becomes live");
    assert_eq!(env.tree().len(), 2, "{what}: nothing is left over: {:?}", env.tree().keys());
    // It can be put into the trash, brought back and removed like any other.
    for args in [["rm", "bad"], ["restore", "bad"]] {
        let output = bounded(&env, &args);
        output.assert_code(0);
    }
    assert_eq!(std::fs::read(&path).unwrap(), bad, "{what}");
    bounded(&env, &["rm", "--purge", "bad"]).assert_code(0);
    assert_eq!((env.said("good"), env.tree().len()), (vec!["still here".to_owned()], 1), "{what}");
}

/// A real archive of a session with several turns.
fn archive() -> Vec<u8> {
    let env = TestEnvironment::new();
    let texts: Vec<String> = (0..50).map(|n| format!("text number {n}")).collect();
    env.plant("bad", records::session("bad", &texts.iter().map(String::as_str).collect::<Vec<_>>()));
    env.done(&["archive", "bad"]);
    env.tree().into_values().next().unwrap()
}

#[test]
fn a_cut_archive_is_named() {
    if !machine::has("prlimit") {
        return machine::skip("a_cut_archive_is_named", "there is no prlimit");
    }
    let whole = archive();
    for len in [0, 1, 4, whole.len() / 2, whole.len() - 1] {
        assert_named(&format!("cut at {len}"), &whole[..len]);
    }
}

#[test]
fn a_flipped_bit_in_an_archive_is_named_and_never_read_as_something_else() {
    if !machine::has("prlimit") {
        return machine::skip("a_flipped_bit_in_an_archive", "there is no prlimit");
    }
    let whole = archive();
    let flipped = |at: usize| {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        bad
    };
    for at in [0, 6, 20, whole.len() / 2] {
        assert_named(&format!("bit {at}"), &flipped(at));
    }
    // In the table, and in its checksum: all that was said is still there.
    for at in [30, 27, 20, 12, 7, 2].map(|back| whole.len() - back) {
        let (env, _) = beside_good(&flipped(at));
        assert_eq!(env.said("bad").len(), 50, "bit {at}");
        let verified = bounded(&env, &["verify", "bad"]);
        verified.assert_code(3);
        assert!(verified.stdout().contains("archive_table"), "bit {at}: {verified}");
        // It comes back, unless nobody can know whether something stood behind the last frame.
        let back = bounded(&env, &["unarchive", "bad"]);
        assert!(matches!(back.code(), Some(0 | 3)), "bit {at}: {back}");
        assert_eq!(env.said("bad").len(), 50, "bit {at}");
    }
}

#[test]
fn alien_bytes_in_the_place_of_an_archive_are_named() {
    if !machine::has("prlimit") {
        return machine::skip("alien_bytes_in_the_place_of_an_archive", "there is no prlimit");
    }
    let plain = zstd::stream::encode_all(&records::session("bad", &["one"])[..], 3).unwrap();
    let cases: [(&str, &[u8]); 5] = [
        ("plain text", b"{\"role\":\"user\",\"content\":\"not packed\"}\n"),
        ("gzip", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]),
        ("zeros", &vec![0; 100_000]),
        ("zstd without a table", &plain),
        ("a table and nothing else", b"\x5e\x2a\x4d\x18\x09\x00\x00\x00\xff\xff\xff\x07\x00\xb1\xea\x92\x8f"),
    ];
    for (what, bytes) in cases {
        assert_named(what, bytes);
    }
}

/// A few kilobytes that unpack to a gigabyte, with and without a table that says so.
#[test]
fn a_bomb_in_the_archive_takes_little_memory_and_little_time() {
    if !machine::has("prlimit") {
        return machine::skip("a_bomb_in_the_archive", "there is no prlimit");
    }
    let bomb = zstd::stream::encode_all(std::io::Read::take(std::io::repeat(b'x'), 1 << 30), 3).unwrap();
    assert!(bomb.len() < 200_000);
    assert_named("a bomb", &bomb);
    for plain in [1_u32 << 20, u32::MAX] {
        let mut with_table = bomb.clone();
        let entry = [u32::try_from(bomb.len()).unwrap().to_le_bytes(), plain.to_le_bytes()].concat();
        with_table.extend(0x184D_2A5E_u32.to_le_bytes());
        with_table.extend((entry.len() as u32 + 9).to_le_bytes());
        with_table.extend(entry);
        with_table.extend(1_u32.to_le_bytes());
        with_table.push(0);
        with_table.extend(0x8F92_EAB1_u32.to_le_bytes());
        assert_named(&format!("a bomb that says it is {plain} bytes"), &with_table);
    }
}
