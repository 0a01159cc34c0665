//! Whose skills are used: decisions that last, and a list that nobody else may write.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use manent::backend::InMemoryBlobs;
use manent::{InMemory, Store, StoreOptions};
use manent_agent::skills::{TrustState, TrustedCopies, TrustedFolders};
use serde_json::Value;

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
    let store = world.store();
    let noted =
        TrustedFolders::trust(&*world.disk, &store, &world.path("way"), &TrustedCopies::new()).unwrap();
    assert_eq!(noted, world.path("project"));
    let trusted = TrustedFolders::load(&store);
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
    let trusted = || TrustedFolders::load(&world.store());
    assert!(trusted().holds(&world.path("project")));
    world.distrust();
    assert!(!trusted().holds(&world.path("project")));
}

#[test]
fn trust_on_a_backend_in_memory_keeps_decisions_and_copies() {
    let world = World::new();
    world.skill("project/.agents/skills/a", "x");
    let (project, copies) = (world.path("project"), world.find().copies);
    let blobs = Arc::new(InMemoryBlobs::default());
    let store = Store::on(Arc::new(InMemory::default()), Some(blobs), StoreOptions::default());
    assert_eq!(TrustedFolders::trust(&*world.disk, &store, &project, &copies).unwrap(), project);
    assert_eq!(TrustedFolders::load(&store).of(&project), TrustState::As(copies));
    TrustedFolders::distrust(&*world.disk, &store, &project).unwrap();
    assert_eq!(TrustedFolders::load(&store).of(&project), TrustState::None);
    assert!(store.blobs().unwrap().list("trusted").unwrap().is_empty(), "no decision names the copy");
    let without = Store::on(Arc::new(InMemory::default()), None, StoreOptions::default());
    let refused = TrustedFolders::trust(&*world.disk, &without, &project, &TrustedCopies::new()).unwrap_err();
    assert!(refused.to_string().contains("no place for copies"), "{refused}");
    assert!(!TrustedFolders::load(&without).holds(&project), "no decision without its copy");
}

/// Earlier versions write lines without numbers and look for members by their names, whatever else a line holds.
#[test]
fn lines_of_earlier_versions_and_ours_are_read_together_by_both() {
    let world = World::new();
    let (project, list) = (world.path("project"), world.path("store/trusted.jsonl"));
    let decided_by_earlier = || {
        let text = std::fs::read_to_string(&list).unwrap();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.rfind(|line| line["folder"] == project.to_str().unwrap()).unwrap()
    };
    let append = |trusted: bool| {
        let line = serde_json::json!({"folder": project, "trusted": trusted, "ts": "x"});
        let before = std::fs::read_to_string(&list).unwrap();
        std::fs::write(&list, format!("{before}\n{line}\n")).unwrap();
    };
    world.trust();
    assert_eq!(decided_by_earlier()["trusted"], true);
    assert_eq!(decided_by_earlier()["copy"].as_str().unwrap().len(), 64);
    append(false);
    assert!(!TrustedFolders::load(&world.store()).holds(&project));
    world.trust();
    assert!(TrustedFolders::load(&world.store()).holds(&project));
    world.distrust();
    assert_eq!(decided_by_earlier()["trusted"], false);
    // A list that an earlier version began never gets a header.
    std::fs::remove_file(&list).unwrap();
    world.write("store/trusted.jsonl", "");
    std::fs::set_permissions(&list, std::fs::Permissions::from_mode(0o600)).unwrap();
    append(true);
    assert!(TrustedFolders::load(&world.store()).holds(&project));
    world.distrust();
    assert!(!TrustedFolders::load(&world.store()).holds(&project));
    assert_eq!(decided_by_earlier()["trusted"], false);
    assert!(!std::fs::read_to_string(&list).unwrap().contains("\"meta\""));
}

#[test]
fn a_list_that_others_may_write_trusts_nothing() {
    let world = World::new();
    world.trust();
    let list = world.path("store/trusted.jsonl");
    let mode = |mode| std::fs::set_permissions(&list, std::fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(std::fs::metadata(&list).unwrap().permissions().mode() & 0o777, 0o600);
    let load = || TrustedFolders::load(&world.store());
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
        assert!(TrustedFolders::load(&world.store()).holds(&project), "{junk:?}");
    }
    world.write("store/trusted.jsonl", vec![b'\n'; 5 << 20]);
    assert!(TrustedFolders::load(&world.store()).trouble().is_some());
}
