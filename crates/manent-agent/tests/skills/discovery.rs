//! Where skills are looked for, what goes before what, links in circles and out, bounds.

use std::os::unix::fs::PermissionsExt;

use manent_agent::skills::{Caller, Skill, SkillError, SkillStatus, Skills, project_of};

use super::{World, lines};

#[test]
fn all_places_are_looked_through_and_the_nearest_counts() {
    let world = World::trusting();
    for dir in [
        "project/.agents/skills/a",
        "project/.claude/skills/b",
        "project/.manent/skills/c",
        "user/.agents/skills/d",
        "user/.claude/skills/e",
        "user/.manent/skills/f",
        "store/skills/g",
    ] {
        world.skill(dir, "x");
    }
    let found = world.find();
    let wanted = [
        "a project used",
        "b project used",
        "c project used",
        "d user used",
        "e user used",
        "f user used",
        "g store used",
    ];
    assert_eq!(lines(&found), wanted);
    assert_eq!(found.notes, []);
}

#[test]
fn of_the_same_name_the_nearest_is_used_and_the_others_are_named() {
    let world = World::trusting();
    let project = world.skill("project/.claude/skills/a", "of the project");
    world.skill("user/.agents/skills/a", "of the user");
    world.skill("store/skills/a", "of the store");
    let own = world.skill("user/.manent/skills/b", "ours");
    world.skill("user/.agents/skills/deep/b", "another");
    let found = world.find();
    assert_eq!(
        lines(&found),
        ["a project used", "a user shadowed", "a store shadowed", "b user used", "b user shadowed"]
    );
    let by = |at: usize| match &found.all[at].standing {
        SkillStatus::Shadowed { by } => by.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!([by(1), by(2), by(4)], [project.clone(), project, own]);
    assert_eq!(found.get("a").unwrap().manifest.description, "of the project");
}

#[test]
fn what_cannot_be_used_hides_nothing() {
    let world = World::new();
    world.skill("project/.agents/skills/a", "not trusted");
    world.write("user/.manent/skills/b/SKILL.md", "no frontmatter");
    world.skill("user/.agents/skills/a", "of the user");
    world.skill("user/.agents/skills/b", "whole");
    let found = world.find();
    assert_eq!(lines(&found), ["a project untrusted", "a user used", "b user used", "b user skipped"]);
    assert_eq!(found.get("a").unwrap().manifest.description, "of the user");
    assert_eq!(found.get("b").unwrap().manifest.description, "whole");
}

#[test]
fn git_and_node_modules_are_passed_over_and_skills_in_skills_too() {
    let world = World::new();
    world.skill("user/.agents/skills/node_modules/x", "x");
    world.skill("user/.agents/skills/.git/y", "x");
    world.skill("user/.agents/skills/a", "x");
    world.skill("user/.agents/skills/a/inner", "x");
    world.skill("user/.agents/skills/group/sub/b", "x");
    assert_eq!(lines(&world.find()), ["a user used", "b user used"]);
}

#[test]
fn depth_and_number_are_bounded_and_that_is_said() {
    let world = World::new();
    world.skill("user/.agents/skills/1/2/3/4/5/six", "x");
    world.skill("user/.agents/skills/1/2/3/4/5/6/seven", "x");
    for i in 0..2100 {
        std::fs::create_dir_all(world.path(&format!("store/skills/d{i:04}"))).unwrap();
    }
    world.skill("store/skills/zzz", "beyond the last that is looked at");
    let found = world.find();
    assert_eq!(lines(&found), ["six user used"]);
    let notes: Vec<&str> = found.notes.iter().map(|note| note.what.as_str()).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("deeper than 6") && notes[1].contains("more than 2000"), "{notes:?}");
}

#[test]
fn links_in_circles_end_and_the_same_directory_is_one_skill() {
    let world = World::trusting();
    world.skill("project/.agents/skills/a", "x");
    world.link("project/.agents/skills/loop", ".");
    world.link("project/.agents/skills/up", "../..");
    world.link("project/.claude/skills", "../.agents/skills");
    world.link("project/.manent/skills/a", "../../.agents/skills/a");
    world.link("project/.agents/skills/self", "self");
    let found = world.find();
    assert_eq!(lines(&found), ["a project used"]);
    assert!(found.notes.iter().all(|note| note.what.contains("leads nowhere")), "{:?}", found.notes);
}

#[test]
fn the_user_may_link_anywhere_and_a_project_only_into_itself() {
    let world = World::trusting();
    let elsewhere = world.skill("elsewhere/a", "x");
    world.skill("project/tools/b", "x");
    world.link("user/.agents/skills/a", &elsewhere);
    world.link("project/.agents/skills/b", "../../tools/b");
    world.link("project/.agents/skills/out", &elsewhere);
    world.link("project/.claude", world.path("elsewhere"));
    world.skill("elsewhere/skills/c", "x");
    let found = world.find();
    assert_eq!(lines(&found), ["b project used", "a user used"]);
    let notes: Vec<String> = found.notes.iter().map(|note| note.what.clone()).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains("out of the project")), "{notes:?}");
}

#[test]
fn a_file_of_a_project_may_not_be_a_link_out() {
    let world = World::trusting();
    let text = "---\nname: a\ndescription: x\n---\nsecret\n";
    let secret = world.write("elsewhere/file.md", text);
    std::fs::create_dir_all(world.path("project/.agents/skills/a")).unwrap();
    world.link("project/.agents/skills/a/SKILL.md", &secret);
    world.link("user/.agents/skills/a/SKILL.md", &secret);
    world.write("project/.agents/skills/b/real.md", text.replace("name: a", "name: b"));
    world.link("project/.agents/skills/b/SKILL.md", "real.md");
    let found = world.find();
    assert_eq!(lines(&found), ["a project skipped", "b project used", "a user used"]);
    assert!(found.all[0].problems[0].what.contains("link out"), "{:?}", found.all[0].problems);
    assert!(found.all[0].activate().is_err());
}

#[test]
fn what_is_no_file_or_cannot_be_read_is_skipped_with_its_reason() {
    let world = World::new();
    std::fs::create_dir_all(world.path("store/skills/dir/SKILL.md")).unwrap();
    world.link("store/skills/gone/SKILL.md", "nowhere");
    world.link("store/skills/zero/SKILL.md", "/dev/zero");
    let closed = world.skill("store/skills/closed", "x");
    std::fs::set_permissions(closed.join("SKILL.md"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let fifo = world.path("store/skills/fifo");
    std::fs::create_dir_all(&fifo).unwrap();
    let made = std::process::Command::new("mkfifo").arg(fifo.join("SKILL.md")).status();
    let found = world.find();
    for skill in found.all.iter().filter(|skill| skill.name() != "closed") {
        assert!(matches!(skill.standing, SkillStatus::Skipped(_)), "{skill:?}");
        assert!(skill.problems[0].what.contains("cannot be read"), "{skill:?}");
    }
    let names: Vec<&str> = found.all.iter().map(Skill::name).collect();
    let fifo = if made.is_ok_and(|status| status.success()) { &["fifo"][..] } else { &[] };
    assert_eq!(names, [&["closed"], fifo, &["gone", "zero"]].concat());
}

#[test]
fn other_spellings_of_the_file_are_found_with_a_warning() {
    let world = World::new();
    let text = "---\nname: a\ndescription: x\n---\nlower\n";
    world.write("store/skills/a/skill.md", text);
    world.write("store/skills/b/SKILL.md", text.replace("name: a", "name: b").replace("lower", "upper"));
    world.write("store/skills/b/skill.md", text);
    world.write("store/skills/SKILL.md", text);
    let found = world.find();
    assert_eq!(lines(&found), ["a store used", "b store used"]);
    assert_eq!(found.all[0].problems.iter().map(|p| p.rule.word()).collect::<Vec<_>>(), ["file-name"]);
    assert_eq!(found.all[1].problems, []);
    assert_eq!(found.all[1].read().0.body, "upper");
    assert_eq!(found.notes.len(), 1);
    assert!(found.notes[0].what.contains("directory of its own"));
}

#[test]
fn calling_asks_whether_one_may() {
    let world = World::new();
    world.skill("project/.agents/skills/theirs", "x");
    world.skill("user/.agents/skills/mine", "x");
    let text = "---\nname: held\ndescription: x\ndisable-model-invocation: true\n---\nx";
    world.write("user/.agents/skills/held/SKILL.md", text);
    let found = world.find();
    assert_eq!(found.call("mine", Caller::Model).unwrap().name(), "mine");
    assert_eq!(found.call("held", Caller::User).unwrap().name(), "held");
    for (name, why) in [("held", "only the user"), ("theirs", "not trusted")] {
        let refused = found.call(name, Caller::Model).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    assert!(found.call("theirs", Caller::User).is_err(), "not by mistake either");
    assert!(matches!(found.call("nobody", Caller::User), Err(SkillError::NoSuch { .. })));
}

#[test]
fn the_project_is_what_git_knows_but_never_the_home() {
    let world = World::new();
    let disk = &*world.disk;
    std::fs::create_dir_all(world.path("user/work/repo/.git")).unwrap();
    std::fs::create_dir_all(world.path("user/work/repo/src/deep")).unwrap();
    std::fs::create_dir_all(world.path("user/.git")).unwrap();
    let user = world.path("user");
    let of = |dir: &str| project_of(disk, &world.path(dir), Some(&user));
    assert_eq!(of("user/work/repo/src/deep"), world.path("user/work/repo"));
    assert_eq!(of("user/work"), world.path("user/work"), "the home is a repository, and no project");
    assert_eq!(of("gone"), world.path("gone"));
}

#[test]
fn who_works_at_home_has_only_skills_of_his_own_which_commands_there_could_change() {
    let world = World::new();
    world.skill("user/.agents/skills/a", "x");
    let user = world.path("user");
    let places =
        manent_agent::skills::SkillDirs { project: Some(user.clone()), user: Some(user), store: None };
    let found = Skills::find(&world.disk, &places, &manent_agent::skills::TrustedFolders::default());
    assert_eq!(lines(&found), ["a user untrusted"]);
}
