//! Calls as models write them, right and wrong.

use manent_agent::providers::ToolCall;
use manent_agent::tools::{CallSubject, ToolEffect, Tools};
use serde_json::{Value, json};

use super::{World, has};

fn raw(world: &World, tool: &str, arguments: &str) -> Result<String, String> {
    let call = ToolCall { id: "1".to_owned(), name: tool.to_owned(), arguments: arguments.to_owned() };
    world.tools().prepare(&call).map(|prepared| prepared.what).map_err(|e| e.to_string())
}

#[test]
fn schemas_are_an_array_of_functions_with_all_members_described() {
    let schemas: Value = serde_json::from_str(&World::new().tools().schemas()).unwrap();
    let names: Vec<&str> =
        schemas.as_array().unwrap().iter().map(|s| s["function"]["name"].as_str().unwrap()).collect();
    let all = ["read_file", "write_file", "edit_file", "search_files", "run_command", "recall", "remember"];
    assert_eq!(names, all);
    for schema in schemas.as_array().unwrap() {
        assert_eq!(schema["type"], "function");
        let function = &schema["function"];
        assert!(function["description"].as_str().unwrap().len() < 110, "small models read it");
        let parameters = &function["parameters"];
        assert_eq!(parameters["type"], "object");
        for needed in parameters["required"].as_array().unwrap() {
            let member = &parameters["properties"][needed.as_str().unwrap()];
            assert!(!member["description"].as_str().unwrap().is_empty());
        }
    }
}

#[test]
fn without_a_shell_nobody_is_told_of_commands() {
    let world = World::new();
    let mut surroundings = world.surroundings();
    surroundings.shell = None;
    let tools = Tools::new(surroundings).unwrap();
    assert!(!tools.schemas().contains("run_command"));
    let error = tools.prepare(&super::call("run_command", &json!({"command": "ls"}))).unwrap_err();
    has(&error.to_string(), "there is no tool \"run_command\"");
}

#[test]
fn a_name_that_nobody_knows_gets_the_nearest_one() {
    let world = World::new();
    has(&raw(&world, "readfile", "{}").unwrap_err(), "did you mean \"read_file\"?");
    has(&raw(&world, "Edit_File", "{}").unwrap_err(), "did you mean \"edit_file\"?");
    let error = raw(&world, "launch_rocket", "{}").unwrap_err();
    has(&error, "the tools are read_file, write_file");
    assert!(!error.contains("did you mean"), "{error}");
    assert!(raw(&world, &"x".repeat(100_000), "{}").unwrap_err().len() < 500);
}

#[test]
fn arguments_that_are_wrong_say_what_would_be_right() {
    let world = World::new();
    world.write("a", "text");
    let cases = [
        ("{", "they are no JSON"),
        ("", "\"path\" is missing"),
        ("[1]", "they are a list, and no object"),
        ("null", "they are null, and no object"),
        (r#""a""#, "they are a string, and no object"),
        ("{}", "\"path\" is missing"),
        (r#"{"path": null}"#, "\"path\" is missing"),
        (r#"{"path": 7}"#, "\"path\" must be a string, and is 7"),
        (r#"{"path": {"a": 1}}"#, "\"path\" must be a string, and is an object"),
        (r#"{"path": "a", "offest": 3}"#, "nobody knows \"offest\", did you mean \"offset\"?"),
        (r#"{"path": "a", "offset": -1}"#, "\"offset\" must be a whole number up to"),
        (r#"{"path": "a", "offset": 1.5}"#, "\"offset\" must be a whole number"),
        (r#"{"path": "a", "offset": "soon"}"#, "\"offset\" must be a whole number"),
        (r#"{"path": "a", "offset": 1e300}"#, "\"offset\" must be a whole number"),
        (r#"{"path": ""}"#, "is no path"),
        (r#"{"path": "a\u0000b"}"#, "is no path"),
    ];
    for (arguments, wanted) in cases {
        let error = raw(&world, "read_file", arguments).unwrap_err();
        has(&error, wanted);
        if !error.contains("no path") {
            has(&error, "It takes a JSON object with \"path\" (a string)");
        }
    }
}

#[test]
fn what_is_plainly_meant_is_taken() {
    let world = World::new();
    world.write("a", "text");
    for arguments in [
        r#"{"path": "a"}"#,
        r#"{"path": "a", "offset": null, "limit": null}"#,
        r#"{"path": "a", "offset": "1", "limit": 1.0}"#,
        r#"{"path": "a", "offset": 0}"#,
        r#""{\"path\": \"a\"}""#,
    ] {
        assert_eq!(raw(&world, "read_file", arguments).unwrap(), "read a", "{arguments}");
    }
    let edit = r#"{"path": "a", "old": "text", "new": "texts", "all": "true"}"#;
    assert_eq!(raw(&world, "edit_file", edit).unwrap(), "edit a");
}

#[test]
fn a_prepared_call_says_what_it_does_and_to_what() {
    let world = World::new();
    world.write("src/main.rs", "fn main() {}\n");
    world.link("alias.rs", "src/main.rs");
    let edit = json!({"path": "alias.rs", "old": "main", "new": "start"});
    let prepared = world.prepare("edit_file", &edit).unwrap();
    assert_eq!((prepared.tool, prepared.effect), ("edit_file", ToolEffect::Write));
    assert_eq!(prepared.what, "edit src/main.rs", "by its real name");
    assert_eq!(prepared.subject, CallSubject::Path("src/main.rs".to_owned()));
    let prepared = world.prepare("run_command", &json!({"command": "cargo test"})).unwrap();
    assert_eq!((prepared.effect, prepared.what.as_str()), (ToolEffect::Run, "run cargo test"));
    let prepared = world.prepare("write_file", &json!({"path": "new.txt", "content": ""})).unwrap();
    assert_eq!(prepared.what, "make new.txt");
    assert!(!world.path("work/new.txt").exists(), "nothing is done yet");
}
