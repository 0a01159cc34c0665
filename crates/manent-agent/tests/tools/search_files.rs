//! Lines by a pattern, files by their names; what is passed over.

use serde_json::json;

use super::{World, has};

fn world() -> World {
    let world = World::new();
    world.write("src/main.rs", "fn main() {\n    start();\n}\n");
    world.write("src/deep/start.rs", "pub fn start() {}\n\nfn Start() {}\n");
    world.write("docs/start.md", "# Start\nhere\n");
    world.write(".github/ci.yml", "start: now\n");
    world
}

#[test]
fn lines_come_under_the_name_of_their_file() {
    let got = world().gets("search_files", &json!({"pattern": r"start\("}));
    let wanted = "src/deep/start.rs\n     1: pub fn start() {}\nsrc/main.rs\n     2:     start();\n\
                  [2 lines match; 4 files searched]\n";
    assert_eq!(got, wanted);
}

#[test]
fn names_and_places_narrow_it() {
    let world = world();
    let got = world.gets("search_files", &json!({"pattern": "(?i)start", "glob": "*.md"}));
    assert_eq!(got, "docs/start.md\n     1: # Start\n[1 lines match; 1 files searched]\n");
    let got = world.gets("search_files", &json!({"glob": "src/**/*.rs"}));
    assert_eq!(got, "src/deep/start.rs\nsrc/main.rs\n[2 files]\n");
    let got = world.gets("search_files", &json!({"glob": "deep/*.rs", "path": "src"}));
    assert_eq!(got, "src/deep/start.rs\n[1 files]\n");
    let got = world.gets("search_files", &json!({"pattern": "start", "path": "src/main.rs"}));
    has(&got, "src/main.rs\n     2:     start();\n");
    let got = world.gets("search_files", &json!({"glob": "*.yml"}));
    has(&got, ".github/ci.yml");
    let got = world.gets("search_files", &json!({"pattern": "start\\(\\);", "context": 1}));
    has(&got, "     1- fn main() {\n     2:     start();\n     3- }\n");
    assert_eq!(world.gets("search_files", &json!({"glob": "*.py"})), "[nothing found]\n");
}

#[test]
fn what_git_ignores_is_passed_over_and_so_is_git_and_what_is_hidden() {
    let world = World::new();
    world.write(".gitignore", "target/\n*.log\n!keep.log\n");
    world.write("sub/.gitignore", "only-here\n");
    for path in ["target/x", "a.log", "keep.log", "sub/only-here", "only-here", ".git/config", "private/key"]
    {
        world.write(path, "needle\n");
    }
    std::fs::write(world.path("elsewhere/out"), "needle\n").unwrap();
    world.link("out", world.path("elsewhere"));
    world.link("linked", "keep.log");
    let got = world.gets("search_files", &json!({"pattern": "needle"}));
    let files: Vec<&str> = got.lines().filter(|line| !line.starts_with([' ', '['])).collect();
    assert_eq!(files, ["keep.log", "only-here"]);
    has(&world.fails("search_files", &json!({"pattern": "x", "path": "private"})), "hidden from tools");
    has(&world.fails("search_files", &json!({"pattern": "x", "path": "out"})), "outside of the workspace");
    let tools = world.tools().without(&["keep.*".to_owned()]).unwrap();
    let call = super::call("search_files", &json!({"pattern": "needle"}));
    let got = tools.prepare(&call).unwrap().run(&|| false).content;
    assert!(!got.contains("keep.log"), "{got}");
    assert!(tools.prepare(&super::call("read_file", &json!({"path": "linked"}))).is_err());
}

#[test]
fn results_are_bounded_and_counted() {
    let world = World::new();
    world.write("many.txt", format!("{}\n", "hit ".repeat(400)).repeat(3000));
    world.write("other.txt", "hit\n".repeat(7));
    world.write("odd.bin", b"hit\0\0hit\n");
    let got = world.gets("search_files", &json!({"pattern": "hit"}));
    assert!(got.len() < (50 << 10) + 300, "{}", got.len());
    has(&got, "of 3007 lines match shown; narrow the search");
    has(&got, "3 files searched, 1 of them binary]");
    has(&got, "… [1100 bytes more]");
    for n in 0..300 {
        world.write(&format!("names/{n:03}.x"), "");
    }
    has(&world.gets("search_files", &json!({"glob": "*.x"})), "[200 of 300 files shown; narrow the search");
}

#[test]
fn patterns_that_are_none_are_told() {
    let world = World::new();
    has(&world.fails("search_files", &json!({"pattern": "a("})), "\"pattern\" is no regular expression");
    has(&world.fails("search_files", &json!({"glob": "a[", "pattern": "x"})), "is no pattern for paths");
    has(&world.fails("search_files", &json!({})), "there is neither a \"pattern\" nor a \"glob\"");
    has(&world.fails("search_files", &json!({"pattern": "a{1000}{1000}{1000}"})), "is no regular expression");
    has(&world.fails("search_files", &json!({"pattern": "x", "path": "nowhere"})), "there is no \"nowhere\"");
}
