//! No way out of the workspace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use manent_agent::tools::Tools;
use serde_json::json;

use super::{World, call, has};

/// A world with something to get at, and links that lead there.
fn world() -> World {
    let world = World::new();
    std::fs::write(world.path("elsewhere/secret.txt"), "SECRET").unwrap();
    std::fs::write(world.path("work/private/key"), "SECRET").unwrap();
    std::fs::write(world.path("store/log"), "SECRET").unwrap();
    world.link("dir-out", world.path("elsewhere"));
    world.link("file-out", world.path("elsewhere/secret.txt"));
    world.link("relative-out", "../elsewhere/secret.txt");
    world.link("src/twice", "../dir-out");
    world.link("into-hidden", "private");
    world.link("to-key", "private/key");
    world.link("loop", "loop");
    world.link("nowhere", "../elsewhere/made-by-link");
    world.link("nowhere-dir", "../elsewhere/made-dir");
    world
}

#[test]
fn no_path_leads_out_or_to_what_is_hidden() {
    let world = world();
    let outside = world.path("elsewhere/secret.txt").display().to_string();
    let paths = [
        "../elsewhere/secret.txt",
        outside.as_str(),
        "dir-out/secret.txt",
        "file-out",
        "relative-out",
        "src/twice/secret.txt",
        "src/../../elsewhere/secret.txt",
        "/etc/passwd",
        "private/key",
        "./private/../private/key",
        "into-hidden/key",
        "to-key",
        "loop",
        "..",
        "/",
        "../work/../elsewhere/secret.txt",
        "../store/log",
        "dir-out/../secret.txt",
        "/proc/self/root/etc/passwd",
        "src/twice/../elsewhere/secret.txt",
    ];
    for path in paths {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "broken"})),
            ("edit_file", json!({"path": path, "old": "SECRET", "new": "broken"})),
            ("search_files", json!({"path": path, "pattern": "SECRET"})),
        ] {
            let told = world.fails(tool, &arguments);
            assert!(!told.contains("SECRET"), "{tool} {path}: {told}");
        }
    }
    let intact = ["elsewhere/secret.txt", "work/private/key", "store/log"];
    for path in intact {
        assert_eq!(std::fs::read(world.path(path)).unwrap(), b"SECRET", "{path}");
    }
    has(&world.fails("read_file", &json!({"path": "file-out"})), "only files in it can be used");
}

#[test]
fn no_new_file_is_made_outside_or_in_what_is_hidden() {
    let world = world();
    let paths = [
        "../elsewhere/new",
        "dir-out/new",
        "dir-out/a/b/new",
        "nowhere",
        "nowhere-dir/new",
        "private/new",
        "private/a/new",
        "into-hidden/new",
        "not/yet/new",
        "not/yet",
        "a/../../elsewhere/new",
        "src/twice/new",
        "..",
        "a/..",
        "a/../b/..",
        "/tmp/manent-should-not-be-there",
    ];
    for path in paths {
        let told = world.fails("write_file", &json!({"path": path, "content": "x"}));
        assert!(!told.is_empty());
    }
    let files = |dir: &str| super::walk(&world.path(dir)).len();
    assert_eq!((files("elsewhere"), files("work/private")), (1, 1));
    assert!(
        !world.path("work/not").exists() && !std::path::Path::new("/tmp/manent-should-not-be-there").exists()
    );
    has(&world.fails("write_file", &json!({"path": "nowhere", "content": "x"})), "a link to nothing");
}

#[test]
fn what_is_hidden_stays_so_when_it_comes_later_or_by_a_link() {
    let world = World::new();
    let tools = world.tools();
    std::fs::create_dir_all(world.path("work/not/yet")).unwrap();
    std::fs::write(world.path("work/not/yet/key"), "SECRET").unwrap();
    assert!(tools.prepare(&call("read_file", &json!({"path": "not/yet/key"}))).is_err());
    // The hidden name is a link to somewhere in the workspace.
    std::fs::remove_dir_all(world.path("work/private")).unwrap();
    world.write("really/key", "SECRET");
    world.link("private", "really");
    assert!(tools.prepare(&call("read_file", &json!({"path": "really/key"}))).is_err());
    assert!(tools.prepare(&call("read_file", &json!({"path": "private/key"}))).is_err());
}

#[test]
fn a_workspace_must_be_a_directory_that_is_not_hidden() {
    let world = World::new();
    world.write("file", "");
    for (workspace, told) in [
        ("work/file", "it is no directory"),
        ("nowhere", "cannot be a workspace"),
        ("work/private", "it is hidden from tools"),
    ] {
        let mut surroundings = world.surroundings();
        surroundings.workspace = world.path(workspace);
        has(&Tools::new(surroundings).unwrap_err().to_string(), told);
    }
    // A link to the workspace is the workspace; a workspace that becomes a link is none any more.
    std::os::unix::fs::symlink(world.path("work"), world.path("alias")).unwrap();
    let mut surroundings = world.surroundings();
    surroundings.workspace = world.path("alias");
    let tools = Tools::new(surroundings).unwrap();
    assert_eq!(tools.workspace(), world.path("work"));
    assert!(tools.prepare(&call("read_file", &json!({"path": "file"}))).is_ok());
    std::fs::write(world.path("elsewhere/file"), "SECRET").unwrap();
    std::fs::rename(world.path("work"), world.path("moved")).unwrap();
    std::os::unix::fs::symlink(world.path("elsewhere"), world.path("work")).unwrap();
    let told = tools.prepare(&call("read_file", &json!({"path": "file"}))).unwrap_err();
    has(&told.to_string(), "outside of the workspace");
}

#[test]
fn a_link_that_is_swapped_between_preparing_and_running_leads_nowhere() {
    let world = world();
    world.write("good/file", "harmless");
    let read = world.prepare("read_file", &json!({"path": "good/secret.txt"}));
    assert!(read.is_err());
    let read = world.prepare("read_file", &json!({"path": "good/file"})).unwrap();
    let edit =
        world.prepare("edit_file", &json!({"path": "good/file", "old": "SECRET", "new": "x"})).unwrap();
    let write = world.prepare("write_file", &json!({"path": "good/new", "content": "x"})).unwrap();
    std::fs::rename(world.path("work/good"), world.path("work/was")).unwrap();
    std::fs::write(world.path("elsewhere/file"), "SECRET").unwrap();
    world.link("good", world.path("elsewhere"));
    for prepared in [read, edit, write] {
        let what = prepared.what.clone();
        let done = prepared.run(&|| false);
        assert!(done.failed && !done.content.contains("SECRET"), "{what}: {}", done.content);
    }
    assert_eq!(std::fs::read(world.path("elsewhere/file")).unwrap(), b"SECRET");
    assert!(!world.path("elsewhere/new").exists());
}

#[test]
fn somebody_who_swaps_links_all_the_time_gets_nothing() {
    let world = world();
    world.write("real/secret.txt", "harmless");
    world.link("flip", "real");
    let (stop, flip) = (Arc::new(AtomicBool::new(false)), world.path("work/flip"));
    let swapping = std::thread::spawn({
        let (stop, outside, next) = (Arc::clone(&stop), world.path("elsewhere"), world.path("work/next"));
        move || {
            for target in [outside.as_path(), std::path::Path::new("real")].into_iter().cycle() {
                std::os::unix::fs::symlink(target, &next).unwrap();
                std::fs::rename(&next, &flip).unwrap();
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    });
    let tools = world.tools();
    let read = || tools.prepare(&call("read_file", &json!({"path": "flip/secret.txt"})));
    for n in 0..2000 {
        if let Ok(prepared) = read() {
            let done = prepared.run(&|| false);
            assert!(!done.content.contains("SECRET"), "{n}: {}", done.content);
        }
        if n % 10 == 0 {
            let write = json!({"path": format!("flip/new-{n}"), "content": "x"});
            let _ = tools.prepare(&call("write_file", &write)).map(|prepared| prepared.run(&|| false));
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    std::fs::remove_file(world.path("work/flip")).unwrap();
    world.link("flip", "real");
    assert!(!read().unwrap().run(&|| false).failed, "the same path can be read when it stays inside");
    assert_eq!(super::walk(&world.path("elsewhere")).len(), 1, "nothing was written there");
}
