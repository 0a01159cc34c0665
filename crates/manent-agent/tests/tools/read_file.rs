//! Files of every kind, as a model gets them.

use serde_json::json;

use super::{World, has};

#[test]
fn lines_come_with_numbers_and_a_count() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\nthree");
    assert_eq!(world.reads("a.txt"), "     1\tone\n     2\ttwo\n     3\tthree\n[lines 1 to 3 of 3]\n");
    assert_eq!(world.reads(&world.path("work/a.txt").display().to_string()), world.reads("./src/../a.txt"));
}

#[test]
fn a_part_says_how_to_go_on() {
    let world = World::new();
    world.write("a.txt", "1\n2\n3\n4\n5\n");
    let got = world.gets("read_file", &json!({"path": "a.txt", "offset": 2, "limit": 2}));
    assert_eq!(got, "     2\t2\n     3\t3\n[lines 2 to 3 of 5; read on with offset 4]\n");
    let got = world.gets("read_file", &json!({"path": "a.txt", "offset": 5}));
    has(&got, "[lines 5 to 5 of 5]");
    has(
        &world.fails("read_file", &json!({"path": "a.txt", "offset": 6})),
        "has 5 lines; give an offset up to that",
    );
    world.write("empty", "");
    assert_eq!(world.reads("empty"), "[empty is empty]");
}

#[test]
fn much_is_cut_by_lines_and_by_bytes_and_all_of_it_can_be_had() {
    let world = World::new();
    world.write("long.txt", (1..=5000).map(|n| format!("{n}\n")).collect::<Vec<_>>().concat());
    let (mut offset, mut seen) = (1, Vec::new());
    loop {
        let got = world.gets("read_file", &json!({"path": "long.txt", "offset": offset, "limit": 1_000_000}));
        assert!(got.lines().count() <= 2001 && got.len() <= (50 << 10) + 200);
        seen.extend(
            got.lines().filter_map(|l| l.split_once('\t')).map(|(_, line)| line.parse::<u32>().unwrap()),
        );
        match got.split("offset ").nth(1) {
            Some(next) => offset = next.trim_end_matches("]\n").parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(seen, (1..=5000).collect::<Vec<_>>());
    world.write("wide.txt", format!("{}\n", "é".repeat(300)).repeat(1000));
    let got = world.reads("wide.txt");
    assert!(got.len() <= (50 << 10) + 200, "{}", got.len());
    has(&got, "of 1000; read on with offset ");
}

#[test]
fn a_line_without_end_is_cut_and_its_length_told() {
    let world = World::new();
    world.write("min.js", "é".repeat(500_000));
    let got = world.reads("min.js");
    has(&got, "… [cut: the line has 1000000 bytes]");
    assert!(got.chars().count() < 2200 && !got.contains('\u{fffd}'), "cut between characters");
    world.write("exact.txt", format!("{}\r\n{}\n", "x".repeat(2000), "y".repeat(2001)));
    let got = world.reads("exact.txt");
    has(&got, &format!("{}\n", "x".repeat(2000)));
    has(&got, "y… [cut: the line has 2001 bytes]");
}

#[test]
fn what_is_no_text_is_named() {
    let world = World::new();
    world.write("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    assert_eq!(world.reads("a.png"), "[a.png is a binary file of 16 bytes; its content is not shown]");
    world.write("b.txt", b"\xff\xfeh\0i\0");
    has(&world.reads("b.txt"), "is UTF-16 text of 6 bytes");
    world.write("c.txt", b"good\nb\xffd \xc3\nfine\r\n");
    let got = world.reads("c.txt");
    has(&got, "     2\tb\u{fffd}d \u{fffd}\n     3\tfine\n");
    has(&got, "[1 of these lines hold bytes that are no UTF-8, shown as \u{fffd}]");
    has(&got, "[lines end with CRLF]");
}

#[test]
fn what_is_no_file_is_told_with_what_to_do() {
    let world = World::new();
    world.write("src/main.rs", "");
    has(&world.fails("read_file", &json!({"path": "src"})), "is a directory; search_files");
    has(&world.fails("read_file", &json!({"path": "src/mian.rs"})), "did you mean \"src/main.rs\"?");
    has(&world.fails("read_file", &json!({"path": "no/such/dir"})), "there is no \"no/such/dir\"");
    has(&world.fails("read_file", &json!({"path": "src/main.rs/x"})), "cannot look at");
    has(&world.fails("read_file", &json!({"path": "x".repeat(5000)})), "cannot look at");
    let made = std::process::Command::new("mkfifo").arg(world.path("work/pipe")).status().unwrap();
    assert!(made.success());
    has(&world.fails("read_file", &json!({"path": "pipe"})), "is no file that can be read");
    world.link("null", "/dev/null");
    has(&world.fails("read_file", &json!({"path": "null"})), "outside of the workspace");
}

#[test]
fn a_call_that_is_stopped_ends() {
    let world = World::new();
    world.write("a.txt", "text");
    let done = world.prepare("read_file", &json!({"path": "a.txt"})).unwrap().run(&|| true);
    assert!(done.failed);
    assert_eq!(done.content, "stopped before it was done");
}
