//! Whose skills are used: decisions that last, and a list that nobody else may write.

use std::os::unix::fs::PermissionsExt;

use manent_agent::skills::{Copies, Trusted};

use super::{World, lines};

#[test]
fn skills_of_a_project_are_used_once_its_folder_is_trusted() {
    let world = World::new();
    world.skill("project/.agents/skills/a", "x");
    assert_eq!(lines(&world.find()), ["a project untrusted"]);
    assert_eq!(world.find().callable().count(), 0);
    assert_eq!(world.trust(), world.path("project"));
    assert_eq!(lines(&world.find()), ["a project used"]);
    world.distrust();
    assert_eq!(lines(&world.find()), ["a project untrusted"]);
    world.trust();
    assert_eq!(lines(&world.find()), ["a project used"]);
}

#[test]
fn trust_is_about_one_folder_behind_all_links() {
    let world = World::new();
    world.link("way", world.path("project"));
    let store = world.path("store");
    let noted = Trusted::trust(&*world.disk, &store, &world.path("way"), &Copies::new()).unwrap();
    assert_eq!(noted, world.path("project"));
    let trusted = Trusted::load(&*world.disk, &store);
    assert!(trusted.holds(&world.path("project")));
    assert!(!trusted.holds(&world.path("project/sub")) && !trusted.holds(&world.path("")));
    assert_eq!(trusted.folders().collect::<Vec<_>>(), [world.path("project")]);
}

#[test]
fn a_torn_end_takes_no_decision_with_it() {
    let world = World::new();
    world.trust();
    let list = world.path("store/trusted.jsonl");
    let mut bytes = std::fs::read(&list).unwrap();
    bytes.extend(b"{\"folder\":\"/half");
    std::fs::write(&list, bytes).unwrap();
    let trusted = || Trusted::load(&*world.disk, &world.path("store"));
    assert!(trusted().holds(&world.path("project")));
    world.distrust();
    assert!(!trusted().holds(&world.path("project")));
}

#[test]
fn a_list_that_others_may_write_trusts_nothing() {
    let world = World::new();
    world.trust();
    let list = world.path("store/trusted.jsonl");
    let mode = |mode| std::fs::set_permissions(&list, std::fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(std::fs::metadata(&list).unwrap().permissions().mode() & 0o777, 0o600);
    let load = || Trusted::load(&*world.disk, &world.path("store"));
    mode(0o666);
    assert!(!load().holds(&world.path("project")));
    assert!(load().trouble().unwrap().contains("chmod 600"));
    mode(0o600);
    assert!(load().holds(&world.path("project")) && load().trouble().is_none());
    std::fs::rename(&list, world.path("other")).unwrap();
    world.link("store/trusted.jsonl", world.path("other"));
    assert!(!load().holds(&world.path("project")), "a link is no list");
    assert!(load().trouble().is_some());
}

#[test]
fn whatever_stands_in_the_list_there_is_an_answer() {
    let world = World::new();
    let project = world.path("project");
    let line = serde_json::json!({"folder": project, "trusted": true}).to_string();
    for junk in
        ["\0\0", "[]", "{\"folder\":3}", "{\"folder\":\"/x\"}", "null", "{", "\u{feff}", &"[".repeat(100_000)]
    {
        let path = world.write("store/trusted.jsonl", format!("{junk}\n{line}\n{junk}\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Trusted::load(&*world.disk, &world.path("store")).holds(&project), "{junk:?}");
    }
    world.write("store/trusted.jsonl", vec![b'\n'; 5 << 20]);
    assert!(Trusted::load(&*world.disk, &world.path("store")).trouble().is_some());
}
