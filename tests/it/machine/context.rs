//! Context files in somebody's directory, and the directory afterwards.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use multica::kernel::ids::{ProjectId, ResourceId};
use multica::wire::daemon::{AssignedResource, ReportBody};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::world::{World, picture};

/// A run of a provider with a brief file, played by a shell script.
fn world(script: &str) -> World {
    let world = World::new("");
    let program = world.root.path().join("codex");
    fs::write(&program, format!("#!/bin/sh\ncat > \"$MULTICA_TASK_CONFIG_ROOT/prompt\"\n{script}\n"))
        .expect("write");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    let mut world = world.provider("codex", &program.display().to_string());
    world.charge.assignment.project_id = Some(ProjectId(Uuid::from_u128(8)));
    world.charge.assignment.project_title = "Doors".to_owned();
    world
}

fn keep(world: &World, from: &str) -> String {
    fs::read_to_string(world.env_root().join("output").join(from)).unwrap_or_default()
}

const KEEP: &str = "out=\"$MULTICA_TASK_WORKSPACES_ROOT/output\"; cp AGENTS.md .multica/project/resources.json .agent_context/issue_context.md .multica/daemon_task_context.json \"$out\"";

#[tokio::test]
async fn an_empty_directory_is_empty_again() {
    let world = world(KEEP);
    world.run().await;
    assert_eq!(picture(&world.directory).len(), 1);
    assert!(
        keep(&world, "AGENTS.md").contains("multica issue comment add GAME-1"),
        "{}",
        keep(&world, "AGENTS.md")
    );
    assert!(keep(&world, "issue_context.md").contains("Mend the door"));
    let marker: Value = serde_json::from_str(&keep(&world, "daemon_task_context.json")).expect("json");
    assert_eq!(marker["managed_by"], "multica-daemon-task");
}

#[tokio::test]
async fn resources_are_passed_on_as_they_are_and_the_file_is_there_only_with_a_project() {
    let mut with = world(KEEP);
    let reference: Map<String, Value> = [("odd".to_owned(), json!({"k": [1]}))].into_iter().collect();
    for resource_ref in [reference, Map::new()] {
        let (id, resource_type) = (ResourceId(Uuid::from_u128(7)), "local_directory".to_owned());
        let resource = AssignedResource { id, resource_type, resource_ref, label: None };
        with.charge.assignment.project_resources.push(resource);
    }
    with.run().await;
    let seen: Value = serde_json::from_str(&keep(&with, "resources.json")).expect("json");
    assert_eq!(seen["project_title"], "Doors");
    assert_eq!(seen["resources"][0]["resource_ref"], json!({"odd": {"k": [1]}}));
    assert_eq!(seen["resources"][1]["resource_ref"], json!({}));
    let none = world(KEEP);
    none.run().await;
    let seen: Value = serde_json::from_str(&keep(&none, "resources.json")).expect("json");
    assert_eq!(seen["resources"], json!([]));
    let mut without = world(KEEP);
    without.charge.assignment.project_id = None;
    without.run().await;
    assert_eq!(keep(&without, "resources.json"), "");
}

#[tokio::test]
async fn every_byte_of_a_person_s_files_is_as_it_was() {
    let world = world("true");
    let at = |path: &str| world.directory.join(path);
    for directory in [".claude/skills/mine", ".agent_context", ".multica/project"] {
        fs::create_dir_all(at(directory)).expect("mkdir");
    }
    for (path, bytes) in [
        ("AGENTS.md", b"no line end \xff".as_slice()),
        (".claude/skills/mine/SKILL.md", b"mine"),
        (".agent_context/issue_context.md", b"mine too"),
        (".multica/project/resources.json", b"{}"),
    ] {
        fs::write(at(path), bytes).expect("write");
    }
    fs::set_permissions(at("AGENTS.md"), std::os::unix::fs::PermissionsExt::from_mode(0o640)).expect("chmod");
    let before = picture(&world.directory);
    world.run().await;
    assert_eq!(picture(&world.directory), before);
}

#[tokio::test]
async fn a_foreign_marker_fails_the_run_by_name_and_nothing_is_touched() {
    for foreign in ["{\"managed_by\":\"other\"}", "not json"] {
        let world = world("touch ran");
        fs::create_dir(world.directory.join(".multica")).expect("mkdir");
        fs::write(world.directory.join(".multica/daemon_task_context.json"), foreign).expect("write");
        let before = picture(&world.directory);
        world.run().await;
        assert_eq!(world.failure().0, "context_file_taken");
        assert_eq!(picture(&world.directory), before);
    }
}

#[tokio::test]
async fn a_link_in_place_of_our_folder_is_not_followed() {
    let world = world("touch ran");
    let elsewhere = world.root.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("mkdir");
    symlink(&elsewhere, world.directory.join(".multica")).expect("symlink");
    let before = picture(&world.directory);
    world.run().await;
    assert_eq!(world.failure().0, "context_file_taken");
    assert_eq!(picture(&world.directory), before);
    assert_eq!(picture(&elsewhere).len(), 1);
}

#[tokio::test]
async fn a_brief_file_behind_a_link_is_left_alone_and_the_prompt_has_the_brief() {
    let world = world("true");
    fs::write(world.directory.join("REAL.md"), "mine").expect("write");
    symlink("REAL.md", world.directory.join("AGENTS.md")).expect("symlink");
    let before = picture(&world.directory);
    world.run().await;
    assert_eq!(picture(&world.directory), before);
    let prompt = fs::read_to_string(world.env_root().join("multica-config/prompt")).expect("prompt");
    assert!(prompt.contains("## Available Commands"), "{prompt}");
}

#[tokio::test]
async fn brief_files_of_every_shape_come_back() {
    let block =
        |text: &str| format!("<!-- BEGIN MULTICA-RUNTIME -->\n{text}\n<!-- END MULTICA-RUNTIME -->\n");
    let old_in_the_middle = format!("mine\n\n{}later", block("old"));
    let old_at_the_end = format!("mine\n\n{}", block("old"));
    let cases: Vec<(Option<String>, Option<&str>)> = vec![
        (None, None),
        (Some("mine".to_owned()), Some("mine")),
        (Some(String::new()), Some("")),
        (Some("mine\r\n".to_owned()), Some("mine\r\n")),
        (Some(old_in_the_middle), Some("minelater")),
        (Some(old_at_the_end), Some("mine")),
        (Some("mine\n\n<!-- BEGIN MULTICA-RUNTIME -->\nhalf".to_owned()), Some("mine")),
        (
            Some("a\n<!-- END MULTICA-RUNTIME -->\nb\n".to_owned()),
            Some("a\n<!-- END MULTICA-RUNTIME -->\nb\n"),
        ),
    ];
    for (before, after) in cases {
        let world =
            world("grep -c 'BEGIN MULTICA-RUNTIME' AGENTS.md > \"$MULTICA_TASK_WORKSPACES_ROOT/output/n\"");
        let path = world.directory.join("AGENTS.md");
        if let Some(before) = &before {
            fs::write(&path, before).expect("write");
        }
        world.run().await;
        assert_eq!(keep(&world, "n").trim(), "1", "{before:?}");
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), after, "{before:?}");
    }
}

#[tokio::test]
async fn what_the_agent_adds_stays_and_what_it_removes_is_gone() {
    let script = "echo note >> AGENTS.md; sed -i 's/^first/FIRST/' AGENTS.md; echo x > .agent_context/own; rm .multica/project/resources.json; echo more >> .multica/daemon_task_context.json";
    let world = world(script);
    fs::write(world.directory.join("AGENTS.md"), "first\nsecond").expect("write");
    world.run().await;
    let seen = fs::read_to_string(world.directory.join("AGENTS.md")).expect("read");
    assert_eq!(seen, "FIRST\nsecondnote\n");
    assert_eq!(names(&world.directory), [".agent_context", ".agent_context/own", "AGENTS.md"]);
}

#[tokio::test]
async fn what_can_not_be_removed_is_named() {
    let script = "rm .multica/daemon_task_context.json; mkdir -p .multica/daemon_task_context.json/x";
    let world = world(script);
    world.run().await;
    let left: Vec<_> = world
        .reports()
        .into_iter()
        .filter_map(|report| match report.body {
            ReportBody::SidecarsLeft { paths } => Some(paths),
            _ => None,
        })
        .collect();
    assert_eq!(left, [[".multica/daemon_task_context.json".to_owned()]]);
}

#[tokio::test]
async fn a_failed_prepare_leaves_the_directory_as_it_was() {
    let world = world("true");
    // The second directory can't be made: a file stands on its way, made after the plan would be too late.
    fs::write(world.directory.join(".agent_context"), "a file").expect("write");
    let before = picture(&world.directory);
    world.run().await;
    world.terminal();
    assert_eq!(picture(&world.directory), before);
}

fn names(root: &Path) -> Vec<String> {
    picture(root).into_keys().map(|path| path.display().to_string()).filter(|name| !name.is_empty()).collect()
}

/// S095: the brief has the context of the project that the issue is in, and of none without one.
#[tokio::test]
async fn the_brief_has_the_context_of_the_issue_s_project() {
    let mut with = world(KEEP);
    with.charge.assignment.project_description = "All doors open.".to_owned();
    let resource_ref: Map<String, Value> =
        [("url".to_owned(), json!("https://example.org/doors.git"))].into_iter().collect();
    let (id, resource_type) = (ResourceId(Uuid::from_u128(7)), "github_repo".to_owned());
    with.charge.assignment.project_resources =
        vec![AssignedResource { id, resource_type, resource_ref, label: None }];
    with.run().await;
    let brief = keep(&with, "AGENTS.md");
    for wanted in ["## Project Context", "Doors", "All doors open.", "https://example.org/doors.git"] {
        assert!(brief.contains(wanted), "{wanted} in {brief}");
    }
    let mut without = world(KEEP);
    without.charge.assignment.project_id = None;
    without.run().await;
    assert!(!keep(&without, "AGENTS.md").contains("Project Context"));
}

const COMMIT_ALL: &str = "git init -q . && echo work > work.txt && git add -A && \
     git -c user.name=a -c user.email=a@localhost commit -qm work && \
     git ls-files > \"$MULTICA_TASK_WORKSPACES_ROOT/output/n\"";

#[tokio::test]
async fn an_agent_that_commits_everything_commits_no_context_folder() {
    let world = world(COMMIT_ALL);
    world.run().await;
    let committed = keep(&world, "n");
    assert!(committed.contains("work.txt"), "{committed}");
    assert!(!committed.contains(".multica") && !committed.contains(".agent_context"), "{committed}");
}

#[tokio::test]
async fn files_of_a_person_s_own_folder_of_that_name_are_not_hidden_from_git() {
    let world = world(COMMIT_ALL);
    fs::create_dir(world.directory.join(".agent_context")).expect("mkdir");
    fs::write(world.directory.join(".agent_context/mine"), "mine").expect("write");
    world.run().await;
    let committed = keep(&world, "n");
    assert!(committed.contains(".agent_context/mine"), "{committed}");
    assert!(!committed.contains(".multica"), "{committed}");
    assert!(!world.directory.join(".agent_context/.gitignore").exists());
}
