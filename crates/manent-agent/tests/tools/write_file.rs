//! Files made and replaced, as a whole.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::{World, has};

fn mode(world: &World, path: &str) -> u32 {
    std::fs::metadata(world.path("work").join(path)).unwrap().permissions().mode() & 0o7777
}

fn set_mode(world: &World, path: &str, mode: u32) {
    let path = world.path("work").join(path);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_new_file_is_shown_then_made_with_its_directories() {
    let world = World::new();
    set_mode(&world, ".", 0o755);
    let prepared =
        world.prepare("write_file", &json!({"path": "a/b/c.txt", "content": "one\ntwo\n"})).unwrap();
    let shown = prepared.preview().unwrap().unwrap();
    assert_eq!(shown, "--- /dev/null\n+++ b/a/b/c.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n");
    assert!(!world.path("work/a").exists());
    assert_eq!(prepared.run(&|| false).content, "made a/b/c.txt: 2 lines, 8 bytes");
    assert_eq!(world.read("a/b/c.txt"), "one\ntwo\n");
    assert_eq!((mode(&world, "a"), mode(&world, "a/b"), mode(&world, "a/b/c.txt")), (0o755, 0o755, 0o644));
    world.leaves_nothing();
}

#[test]
fn an_old_file_is_replaced_and_keeps_its_mode_and_its_links() {
    let world = World::new();
    world.write("run.sh", "old\n");
    set_mode(&world, "run.sh", 0o750);
    world.link("alias", "run.sh");
    let prepared = world.prepare("write_file", &json!({"path": "alias", "content": "new\n"})).unwrap();
    has(&prepared.preview().unwrap().unwrap(), "--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-old\n+new\n");
    assert_eq!(prepared.run(&|| false).content, "replaced run.sh: 1 lines, 4 bytes");
    assert_eq!((world.read("run.sh"), mode(&world, "run.sh")), ("new\n".to_owned(), 0o750));
    assert!(world.path("work/alias").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn a_name_with_line_breaks_is_one_line_for_a_person() {
    let world = World::new();
    let arguments = json!({"path": "a\n+++ b/harmless\u{1b}[2K.txt", "content": "x\n"});
    let prepared = world.prepare("write_file", &arguments).unwrap();
    assert_eq!(prepared.what, "make a +++ b/harmless\u{fffd}[2K.txt");
    assert_eq!(prepared.preview().unwrap().unwrap().lines().count(), 4);
}

#[test]
fn what_changed_since_it_was_shown_is_left_as_it_is() {
    let world = World::new();
    world.write("a.txt", "old\n");
    let replace = world.prepare("write_file", &json!({"path": "a.txt", "content": "new\n"})).unwrap();
    let make = world.prepare("write_file", &json!({"path": "b.txt", "content": "new\n"})).unwrap();
    let gone = world.prepare("edit_file", &json!({"path": "a.txt", "old": "old", "new": "new"})).unwrap();
    for prepared in [&replace, &make, &gone] {
        prepared.preview().unwrap();
    }
    world.write("a.txt", "somebody else's\n");
    world.write("b.txt", "somebody else's\n");
    for prepared in [replace, make] {
        let done = prepared.run(&|| false);
        assert!(done.failed);
        has(&done.content, "changed since this was prepared, and was left as it is");
    }
    assert_eq!(world.read("a.txt") + &world.read("b.txt"), "somebody else's\n".repeat(2));
    std::fs::remove_file(world.path("work/a.txt")).unwrap();
    assert!(gone.run(&|| false).failed);
    assert!(!world.path("work/a.txt").exists());
    world.leaves_nothing();
}

#[test]
fn what_should_not_be_written_is_not() {
    let world = World::new();
    world.write(".git/config", "[core]\n");
    world.write("sub/.git/hooks/x", "");
    world.write("fixed.txt", "fixed");
    set_mode(&world, "fixed.txt", 0o444);
    let write = |path: &str| world.fails("write_file", &json!({"path": path, "content": "x"}));
    for path in [".git/config", ".git/hooks/pre-commit", "sub/.git/hooks/x", ".GIT/config", "src/../.git/x"] {
        has(&write(path), "belongs to a repository");
    }
    has(&write("fixed.txt"), "is read-only");
    has(&write("src"), "is a directory");
    has(&write("fixed.txt/below"), "cannot look at");
    has(&write("new/../../x"), "outside of the workspace");
    assert_eq!(world.read("fixed.txt"), "fixed");
}

#[test]
fn previews_are_bounded_and_say_what_is_no_text() {
    let world = World::new();
    world.write("a.bin", b"\0\x01\x02");
    let prepared = world.prepare("write_file", &json!({"path": "a.bin", "content": "text"})).unwrap();
    assert_eq!(prepared.preview().unwrap().unwrap(), "a.bin: a binary file, 3 bytes before, 4 after\n");
    let long = "line\n".repeat(30_000);
    let prepared = world.prepare("write_file", &json!({"path": "long", "content": long})).unwrap();
    let shown = prepared.preview().unwrap().unwrap();
    assert!(shown.len() < 52 << 10);
    has(&shown, "[28003 more lines]");
    let same = json!({"path": "a.bin", "content": "\u{0}\u{1}\u{2}"});
    assert_eq!(
        world.prepare("write_file", &same).unwrap().preview().unwrap().unwrap(),
        "a.bin: nothing changes\n"
    );
}

#[test]
fn nothing_of_a_repository_is_ever_written_and_none_is_made() {
    let world = World::new();
    for dir in ["r/.git/hooks", "bare/objects", "bare/refs", "half/objects", "half/refs", "tree"] {
        std::fs::create_dir_all(world.path("work").join(dir)).unwrap();
    }
    for file in ["r/.git/config", "bare/HEAD", "bare/config", "tree/HEAD"] {
        world.write(file, "text\n");
    }
    world.link("alias", "r/.git/config");
    let paths =
        ["r/.git/config", "r/.git/hooks/pre-commit", "alias", "bare/config", "bare/sub/x", "half/HEAD"];
    let new = ["new/.git", "new/.git/config", ".GIT/config", "tree/commondir"];
    for path in paths.into_iter().chain(new) {
        let said = world.fails("write_file", &json!({"path": path, "content": "x"}));
        has(&said, "belongs to a repository, or would make one");
    }
    for path in ["r/.git/config", "bare/config", "alias"] {
        let said = world.fails("edit_file", &json!({"path": path, "old": "text", "new": "x"}));
        has(&said, "belongs to a repository");
    }
    world.done("write_file", &json!({"path": "half/other", "content": "x"}));
}

#[test]
fn a_protected_file_is_for_a_person_to_allow_each_time() {
    let world = World::new();
    for dir in ["r/.git", "plain", "docs"] {
        std::fs::create_dir_all(world.path("work").join(dir)).unwrap();
    }
    world.write("AGENTS.md", "text\n");
    world.write("docs/gemini", "text\n");
    world.link("GEMINI.md", "docs/gemini");
    let write = |path: &str| world.prepare("write_file", &json!({"path": path, "content": "x"})).unwrap();
    let protected =
        ["AGENTS.md", "agents.MD", ".envrc", ".vscode/tasks.json", "r/.mcp.json", "GEMINI.md", "docs/gemini"];
    for path in protected {
        has(write(path).once_because.unwrap_or(path), "obey this file without asking");
    }
    let edit = world.prepare("edit_file", &json!({"path": "AGENTS.md", "old": "text", "new": "x"})).unwrap();
    assert!(edit.once_because.is_some());
    for path in ["plain/AGENTS.md", "docs/.envrc", "r/src/.vscode/x", "README.md"] {
        assert_eq!(write(path).once_because, None, "{path}");
    }
    // What has become protected since somebody allowed it was not allowed.
    let before = write("plain/CLAUDE.md");
    std::fs::create_dir(world.path("work/plain/.git")).unwrap();
    has(&before.run(&|| false).content, "changed since this was prepared");
    assert!(!world.path("work/plain/CLAUDE.md").exists());
}
