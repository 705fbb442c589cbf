//! Context files in somebody's directory, and the directory afterwards.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use multica::kernel::ids::{ProjectId, ResourceId};
use multica::wire::daemon::{AssignedResource, ReportBody};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::world::{Daemon, World, is_free, picture};

/// A run of a provider with a brief file, played by a shell script that says at last that it is done.
fn world_of(provider: &str, script: &str, done: &str) -> World {
    let world = World::new("");
    let program = world.root.path().join(provider);
    let script = format!("#!/bin/sh\ncat > \"$MULTICA_TASK_CONFIG_ROOT/prompt\"\n{script}\necho '{done}'\n");
    fs::write(&program, script).expect("write");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    let mut world = world.provider(provider, &program.display().to_string());
    world.charge.assignment.project_id = Some(ProjectId(Uuid::from_u128(8)));
    world.charge.assignment.project_title = "Doors".to_owned();
    world
}

/// One whose brief goes to `AGENTS.md`.
fn world(script: &str) -> World {
    world_of("codex", script, r#"{"type":"turn.completed"}"#)
}

/// Runs it to its good end.
async fn completes(world: &World) {
    world.run().await;
    world.output();
}

fn keep(world: &World, from: &str) -> String {
    fs::read_to_string(world.env_root().join("output").join(from)).unwrap_or_default()
}

const KEEP: &str = "out=\"$MULTICA_TASK_WORKSPACES_ROOT/output\"; cp AGENTS.md .multica/project/resources.json .agent_context/issue_context.md .multica/daemon_task_context.json \"$out\"";

#[tokio::test]
async fn an_empty_directory_is_empty_again() {
    let world = world(KEEP);
    completes(&world).await;
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
    completes(&with).await;
    let seen: Value = serde_json::from_str(&keep(&with, "resources.json")).expect("json");
    assert_eq!(seen["project_title"], "Doors");
    assert_eq!(seen["resources"][0]["resource_ref"], json!({"odd": {"k": [1]}}));
    assert_eq!(seen["resources"][1]["resource_ref"], json!({}));
    let none = world(KEEP);
    completes(&none).await;
    let seen: Value = serde_json::from_str(&keep(&none, "resources.json")).expect("json");
    assert_eq!(seen["resources"], json!([]));
    let mut without = world(KEEP);
    without.charge.assignment.project_id = None;
    completes(&without).await;
    assert_eq!(keep(&without, "resources.json"), "");
}

/// A repository with staged, changed, untracked and ignored files, and with files of a person's where ours
/// would stand.
fn lived_in(world: &World) {
    let at = |path: &str| world.directory.join(path);
    for directory in [".claude/skills/mine", ".agent_context", ".multica/project"] {
        fs::create_dir_all(at(directory)).expect("mkdir");
    }
    for (path, bytes) in [
        ("CLAUDE.md", b"tracked, no line end \xff".as_slice()),
        ("tracked", b"tracked"),
        (".gitignore", b"ignored\n"),
        (".claude/skills/mine/SKILL.md", b"mine"),
        (".agent_context/issue_context.md", b"mine too"),
        (".multica/project/resources.json", b"{\"mine\": 1}"),
    ] {
        fs::write(at(path), bytes).expect("write");
    }
    let git = |arguments: &[&str]| {
        let author = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
        let mut command = std::process::Command::new("git");
        let done = command.current_dir(&world.directory).args(author).args(arguments).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "CLAUDE.md", "tracked", ".gitignore"]);
    git(&["commit", "-qm", "first"]);
    fs::write(at("tracked"), "stashed").expect("write");
    git(&["stash", "-q"]);
    fs::write(at("staged"), "staged").expect("write");
    git(&["add", "staged"]);
    for (path, bytes) in [("tracked", "changed"), ("untracked", "u"), ("ignored", "i")] {
        fs::write(at(path), bytes).expect("write");
    }
    fs::set_permissions(at("CLAUDE.md"), std::os::unix::fs::PermissionsExt::from_mode(0o640)).expect("chmod");
}

/// S077, S079, S080: the run goes its way to the good end, sees the person's files and its own brief, and
/// afterwards files, modes, index (its time too), stash and branches are what they were.
#[tokio::test]
async fn every_byte_of_a_person_s_files_is_as_it_was() {
    let keep_all = "out=\"$MULTICA_TASK_WORKSPACES_ROOT/output\"; \
        cp CLAUDE.md .multica/project/resources.json .agent_context/issue_context.md \"$out\"";
    let done = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;
    let mut world = world_of("claude", keep_all, done);
    let resource_ref: Map<String, Value> =
        [("url".to_owned(), json!("https://example.org/doors.git"))].into_iter().collect();
    let (id, resource_type) = (ResourceId(Uuid::from_u128(7)), "github_repo".to_owned());
    world.charge.assignment.project_resources =
        vec![AssignedResource { id, resource_type, resource_ref, label: None }];
    lived_in(&world);
    let index =
        || fs::metadata(world.directory.join(".git/index")).expect("an index").modified().expect("a time");
    let (before, indexed) = (picture(&world.directory), index());
    completes(&world).await;
    assert_eq!(picture(&world.directory), before);
    assert_eq!(index(), indexed);
    assert_eq!(keep(&world, "issue_context.md"), "mine too");
    assert_eq!(keep(&world, "resources.json"), "{\"mine\": 1}");
    let brief = fs::read(world.env_root().join("output/CLAUDE.md")).expect("a brief");
    let brief = String::from_utf8_lossy(&brief);
    assert!(brief.starts_with("tracked, no line end"), "{brief}");
    assert!(brief.contains("https://example.org/doors.git"), "{brief}");
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
    completes(&world).await;
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
        completes(&world).await;
        assert_eq!(keep(&world, "n").trim(), "1", "{before:?}");
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), after, "{before:?}");
    }
}

#[tokio::test]
async fn what_the_agent_adds_stays_and_what_it_removes_is_gone() {
    let script = "echo note >> AGENTS.md; sed -i 's/^first/FIRST/' AGENTS.md; echo x > .agent_context/own; rm .multica/project/resources.json; echo more >> .multica/daemon_task_context.json";
    let world = world(script);
    fs::write(world.directory.join("AGENTS.md"), "first\nsecond").expect("write");
    completes(&world).await;
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
async fn a_file_in_place_of_our_folder_is_left_alone_and_the_run_goes_on() {
    let world = world("true");
    fs::write(world.directory.join(".agent_context"), "a file").expect("write");
    let before = picture(&world.directory);
    completes(&world).await;
    assert_eq!(picture(&world.directory), before);
}

/// S086: whatever of the context files can't be written, once others are: nothing of them stays.
#[tokio::test]
async fn a_failure_after_any_context_file_leaves_the_directory_as_it_was() {
    let mut failed = std::collections::BTreeMap::new();
    for (point, reason) in [
        ("manifest", "machine_error"),
        ("sidecar-directory", "local_directory_error"),
        ("sidecar-file", "local_directory_error"),
        ("sidecar-brief", "local_directory_error"),
    ] {
        for count in 1..=9 {
            let world = world("touch ran");
            fs::write(world.directory.join("AGENTS.md"), "mine, without a line end").expect("write");
            let before = picture(&world.directory);
            let armed = format!("{point}:{count}:fail");
            let environment = vec![("MULTICA_FAILPOINT", armed.as_str())];
            world.run_with(Daemon { environment, ..Daemon::default() }).await;
            if world.directory.join("ran").exists() {
                break;
            }
            assert_eq!(world.failure().0, reason, "{armed}");
            assert!(!world.kinds().contains(&"process-started") && !world.kinds().contains(&"sidecars-left"));
            assert_eq!(picture(&world.directory), before, "{armed}");
            assert!(is_free(&world.directory), "{armed}");
            failed.insert(point, count);
        }
    }
    // The marker is the second file, the resources the last: each was written before something failed.
    let all = [("manifest", 1), ("sidecar-directory", 3), ("sidecar-file", 5), ("sidecar-brief", 1)];
    assert_eq!(failed, all.into_iter().collect());
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
    completes(&with).await;
    let brief = keep(&with, "AGENTS.md");
    for wanted in ["## Project Context", "Doors", "All doors open.", "https://example.org/doors.git"] {
        assert!(brief.contains(wanted), "{wanted} in {brief}");
    }
    let mut without = world(KEEP);
    without.charge.assignment.project_id = None;
    completes(&without).await;
    assert!(!keep(&without, "AGENTS.md").contains("Project Context"));
}

const COMMIT_ALL: &str = "git init -q . && echo work > work.txt && git add -A && \
     git -c user.name=a -c user.email=a@localhost commit -qm work && \
     git ls-files > \"$MULTICA_TASK_WORKSPACES_ROOT/output/n\"";

#[tokio::test]
async fn an_agent_that_commits_everything_commits_no_context_folder() {
    let world = world(COMMIT_ALL);
    completes(&world).await;
    let committed = keep(&world, "n");
    assert!(committed.contains("work.txt"), "{committed}");
    assert!(!committed.contains(".multica") && !committed.contains(".agent_context"), "{committed}");
}

#[tokio::test]
async fn files_of_a_person_s_own_folder_of_that_name_are_not_hidden_from_git() {
    let world = world(COMMIT_ALL);
    fs::create_dir(world.directory.join(".agent_context")).expect("mkdir");
    fs::write(world.directory.join(".agent_context/mine"), "mine").expect("write");
    completes(&world).await;
    let committed = keep(&world, "n");
    assert!(committed.contains(".agent_context/mine"), "{committed}");
    assert!(!committed.contains(".multica"), "{committed}");
    assert!(!world.directory.join(".agent_context/.gitignore").exists());
}
