//! A text replaced by another, where it stands exactly once.

use serde_json::{Value, json};

use super::{World, has};

fn edit(old: &str, new: &str) -> Value {
    json!({"path": "a.txt", "old": old, "new": new})
}

fn edited(before: &str, old: &str, new: &str) -> String {
    let world = World::new();
    world.write("a.txt", before);
    world.gets("edit_file", &edit(old, new));
    world.read("a.txt")
}

fn refused(before: impl AsRef<[u8]>, old: &str) -> String {
    let world = World::new();
    world.write("a.txt", &before);
    let told = world.fails("edit_file", &edit(old, "something else"));
    assert_eq!(std::fs::read(world.path("work/a.txt")).unwrap(), before.as_ref(), "nothing changed");
    told
}

#[test]
fn what_stands_once_is_replaced_and_shown_before() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\nthree\n");
    let prepared = world.prepare("edit_file", &edit("two", "2")).unwrap();
    let shown = prepared.preview().unwrap().unwrap();
    assert_eq!(shown, "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(prepared.run(&|| false).content, "edited a.txt at line 2");
    assert_eq!(world.read("a.txt"), "one\n2\nthree\n");
}

#[test]
fn what_stands_more_than_once_is_told_by_its_lines() {
    has(&refused("x\ny\nx\nx\n", "x\n"), "holds \"old\" 3 times, at the lines 1, 3, 4; add lines around it");
    has(&refused("aaa", "aa"), "holds \"old\" 2 times");
    has(&refused("x\n".repeat(100), "x"), "18, 19, 20 and more");
    let world = World::new();
    world.write("a.txt", "x\ny\nx\n");
    let all = json!({"path": "a.txt", "old": "x", "new": "xx", "all": true});
    assert_eq!(world.gets("edit_file", &all), "edited a.txt at line 1, 3");
    assert_eq!(world.read("a.txt"), "xx\ny\nxx\n");
    world.write("a.txt", "aaaaa");
    world.gets("edit_file", &json!({"path": "a.txt", "old": "aa", "new": "b", "all": true}));
    assert_eq!(world.read("a.txt"), "bba");
}

#[test]
fn what_is_not_there_is_answered_with_what_is_like_it() {
    let code = "fn main() {\n    let count = 1;\n    print(count);\n}\n";
    let told = refused(code, "let conut = 1;");
    has(&told, "Lines that are like its first one:\n     2\t    let count = 1;");
    let told = refused(code, "fn main() {\n  let count  = 1;");
    has(&told, "from line 1 on it differs in blanks only");
    has(&refused(code, "completely different words"), "nor anything like it");
    has(&refused("", "x"), "nor anything like it");
    has(&refused(code, "\n\n\n"), "does not hold");
}

#[test]
fn line_ends_stay_as_they_are() {
    assert_eq!(edited("a\r\nb\r\nc\r\n", "a\nb", "x\ny"), "x\r\ny\r\nc\r\n");
    assert_eq!(edited("a\r\nb\r\nc\r\n", "b", "x\ny"), "a\r\nx\r\ny\r\nc\r\n");
    assert_eq!(edited("a\r\nb\r\n", "a\r\nb", "x\r\ny"), "x\r\ny\r\n");
    assert_eq!(edited("a\nb\nc\n", "a\nb", "x\ny"), "x\ny\nc\n");
    assert_eq!(edited("a\nb\nc\r\nd\r\n", "c\nd", "x\ny"), "a\nb\nx\r\ny\r\n");
    assert_eq!(edited("no end", "end", "END"), "no END");
}

#[test]
fn bytes_that_are_no_text_stay_as_they_are() {
    let world = World::new();
    world.write("a.txt", b"\xef\xbb\xbfb\xffd\nold\n\xfe");
    world.gets("edit_file", &edit("old", "new"));
    assert_eq!(std::fs::read(world.path("work/a.txt")).unwrap(), b"\xef\xbb\xbfb\xffd\nnew\n\xfe");
    has(&refused(b"a\0b", "a"), "is a binary file and cannot be edited");
    has(&refused(vec![b'a'; 11 << 20], "a"), "can be changed at most");
}

#[test]
fn an_edit_does_not_fill_the_disk() {
    let world = World::new();
    world.write("a.txt", vec![b'a'; 1 << 20]);
    let all = json!({"path": "a.txt", "old": "a", "new": "b".repeat(1000), "all": true});
    has(&world.fails("edit_file", &all), "replace less at once");
}

#[test]
fn edits_that_mean_nothing_are_refused() {
    let world = World::new();
    world.write("a.txt", "text");
    has(&world.fails("edit_file", &edit("", "x")), "\"old\" is empty; write_file makes a file");
    has(&world.fails("edit_file", &edit("text", "text")), "are the same");
    has(
        &world.fails("edit_file", &json!({"path": "b.txt", "old": "a", "new": "b"})),
        "did you mean \"a.txt\"?",
    );
}
