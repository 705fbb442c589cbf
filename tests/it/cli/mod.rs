//! The command line as a process: what is said, and which exit code.

use std::path::Path;

use assert_cmd::Command;

fn multica(home: &Path) -> Command {
    let mut command = Command::cargo_bin("multica").expect("built");
    command.env_clear().env("HOME", home).current_dir(home);
    command
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a home")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_names_every_verb() {
    let home = home();
    let output = multica(home.path()).arg("--help").assert().success().get_output().stdout.clone();
    let text = said(&output);
    for verb in [
        "up",
        "server",
        "daemon",
        "project",
        "agent",
        "issue",
        "task",
        "directory",
        "feed",
        "workspace",
        "token",
        "login",
        "auth",
        "config",
        "verify",
        "seal",
        "erase",
        "retention",
        "webhook",
        "completions",
        "man",
        "help",
    ] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(verb)), "{verb} in {text}");
    }
    multica(home.path()).args(["help", "local-directories"]).assert().success();
    multica(home.path()).args(["help", "webhooks"]).assert().success();
    multica(home.path()).args(["help", "project", "resource", "add"]).assert().success();
}

#[test]
fn a_line_that_means_nothing_is_1_and_says_so_on_standard_error() {
    let home = home();
    let assert = multica(home.path()).args(["task", "frobnicate"]).assert().code(1);
    assert!(assert.get_output().stdout.is_empty());
    let text = said(&assert.get_output().stderr);
    assert!(text.contains("frobnicate") && text.contains("Next: "), "{text}");
    let text = said(&multica(home.path()).args(["help", "nosuch"]).assert().get_output().stderr);
    assert!(text.contains("local-directories"), "{text}");
}

#[test]
fn every_error_is_json_for_a_program_whatever_goes_wrong_first() {
    let home = home();
    for words in [
        &["task", "frobnicate"][..],
        &["task"],
        &["task", "show"],
        &["task", "list", "--nothing"],
        &["server", "--port", "many"],
        &["server", "--bind", "nowhere"],
        &["server", "--bind", "192.0.2.1"],
        &["server"],
        &["daemon", "start", "--foreground"],
        &["project", "list"],
    ] {
        for flag in [&["--output", "json"][..], &["--output=json"]] {
            let plain = multica(home.path()).args(words).assert().get_output().clone();
            let output = multica(home.path()).args(words).args(flag).assert().get_output().clone();
            assert_eq!(output.status.code(), plain.status.code(), "{words:?}");
            assert!(output.stdout.is_empty(), "{words:?}");
            let text = said(&output.stderr);
            let error: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
            for member in ["error", "code", "next_step"] {
                assert!(error[member].as_str().is_some_and(|text| !text.is_empty()), "{words:?}: {text}");
            }
        }
    }
}

#[test]
fn what_is_written_is_sent_as_it_is_or_refused_before_anything_is_sent() {
    let home = home();
    for (text, code) in [(&b"a\0b"[..], "text_holds_nul"), (b"caf\xe9", "text_not_utf8"), (b" \n", "usage")] {
        for verb in [
            &["issue", "create", "--title", "x", "--description-stdin"][..],
            &["issue", "comment", "add", "GAME-1", "--content-stdin"],
        ] {
            let mut command = multica(home.path());
            let assert = command.args(verb).args(["--output", "json"]).write_stdin(text).assert().code(5);
            let error: serde_json::Value = serde_json::from_slice(&assert.get_output().stderr).expect("json");
            assert_eq!(error["code"], code, "{verb:?}");
        }
    }
}

/// A daemon alone would keep the profile's `up` from starting, and reach no server.
#[test]
fn a_profile_of_up_is_started_with_up() {
    let home = home();
    let profile = home.path().join(".multica/profiles/local");
    std::fs::create_dir_all(&profile).expect("made");
    let config = serde_json::json!({"server_url": "http://127.0.0.1:9", "token": "mul_x"});
    std::fs::write(profile.join("config.json"), config.to_string()).expect("written");
    let last =
        serde_json::json!({"pid": 7, "data_dir": "/data/multica/local", "log": "/data/multica/local/log"});
    let up = profile.join("up.lock");
    std::fs::write(&up, last.to_string()).expect("written");
    let status = multica(home.path()).args(["daemon", "status"]).assert().success();
    assert_eq!(said(&status.get_output().stdout), "It isn't running: `multica up`.\n");
    for start in [&["daemon", "start"][..], &["daemon", "start", "--foreground"]] {
        let refused = multica(home.path()).args(start).assert().code(1);
        let text = said(&refused.get_output().stderr);
        assert!(text.contains("belong to `multica up`") && text.contains("Next: "), "{text}");
    }
    // Another server than up's has a daemon of its own.
    let status = multica(home.path())
        .args(["daemon", "status", "--profile", "local", "--server-url", "http://127.0.0.1:10"])
        .assert()
        .success();
    assert!(said(&status.get_output().stdout).contains("`multica daemon start`"));
    std::fs::remove_file(&up).expect("removed");
    let status = multica(home.path()).args(["daemon", "status"]).assert().success();
    assert!(said(&status.get_output().stdout).contains("`multica daemon start`"));
}

#[test]
fn a_server_that_is_not_there_is_2_and_the_next_step_is_named() {
    let home = home();
    // Port 9 is nobody's on a loopback address here; a refused connection is what is wanted.
    let assert = multica(home.path())
        .env("MULTICA_TOKEN", "mul_x")
        .args(["--server-url", "http://127.0.0.1:9", "project", "list"])
        .assert()
        .code(2);
    assert!(said(&assert.get_output().stderr).contains("Next: "));
    let assert = multica(home.path())
        .env("MULTICA_TOKEN", "mul_x")
        .args(["--server-url", "http://127.0.0.1:9", "project", "list", "--output", "json"])
        .assert()
        .code(2);
    let error: serde_json::Value = serde_json::from_slice(&assert.get_output().stderr).expect("json");
    assert_eq!(error["code"], "server_unreachable");
}

#[test]
fn without_a_token_it_is_3_and_without_a_server_it_says_how_to_get_one() {
    let home = home();
    multica(home.path()).args(["--server-url", "http://127.0.0.1:9", "project", "list"]).assert().code(3);
    let assert = multica(home.path()).args(["project", "list"]).assert().code(1);
    assert!(said(&assert.get_output().stderr).contains("multica up"));
}

#[test]
fn inside_a_task_a_persons_verbs_and_token_are_refused() {
    let home = home();
    for words in [
        &["login", "--token", "mul_x"][..],
        &["daemon", "stop"],
        &["daemon", "start"],
        &["daemon", "start", "--foreground"],
        &["daemon", "logs"],
        &["config", "show"],
        &["project", "list"],
    ] {
        let mut command = multica(home.path());
        command.env("MULTICA_TASK_ID", "t").env("MULTICA_TOKEN", "mul_person");
        let assert = command.env("MULTICA_SERVER_URL", "http://127.0.0.1:9").args(words).assert().code(3);
        assert!(said(&assert.get_output().stderr).contains("inside a task"), "{words:?}");
    }
    multica(home.path())
        .env("MULTICA_TASK_ID", "t")
        .args(["--profile", "x", "project", "list"])
        .assert()
        .code(3);
}

#[test]
fn a_leftover_marker_is_named_and_the_work_roots_marker_is_not_called_one() {
    let home = home();
    let folder = home.path().join("repo/.multica");
    std::fs::create_dir_all(&folder).expect("made");
    let marker = folder.join("daemon_task_context.json");
    let run = |json: &str| {
        std::fs::write(&marker, json).expect("written");
        let mut command = multica(home.path());
        let assert = command.current_dir(home.path().join("repo")).args(["daemon", "stop"]).assert().code(3);
        said(&assert.get_output().stderr)
    };
    let task = run(r#"{"managed_by":"multica-daemon-task","agent_id":"a","issue_id":"i"}"#);
    assert!(task.contains("daemon_task_context.json") && task.contains("left over"), "{task}");
    let root = run(r#"{"managed_by":"multica-daemon-task"}"#);
    assert!(root.contains("daemon_task_context.json") && !root.contains("left over"), "{root}");
}

#[test]
fn a_relative_path_and_a_missing_one_are_told_apart_before_anything_is_sent() {
    let home = home();
    let assert = multica(home.path())
        .env("MULTICA_TOKEN", "mul_x")
        .args([
            "--server-url",
            "http://127.0.0.1:9",
            "project",
            "resource",
            "add",
            "p",
            "--type",
            "local_directory",
        ])
        .assert()
        .code(5);
    assert!(said(&assert.get_output().stderr).contains("--local-path"));
}

#[test]
fn completions_and_man_pages_are_made() {
    let home = home();
    multica(home.path()).args(["completions", "bash"]).assert().success();
    let man = home.path().join("man");
    multica(home.path()).arg("man").arg(&man).assert().success();
    assert!(man.join("multica.1").exists());
}

#[test]
fn a_wrongly_typed_key_is_named_with_its_file_and_nothing_is_overwritten() {
    let home = home();
    let path = home.path().join(".multica/config.json");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let wrong = r#"{"server_url":"http://127.0.0.1:9","token":"mul_x","allowed_directories":"/srv/game"}"#;
    std::fs::write(&path, wrong).expect("written");
    for words in [
        &["daemon", "start"][..],
        &["daemon", "start", "--foreground"],
        &["project", "list"],
        &["config", "set", "device_name", "box"],
        &["login", "--token", "mul_y"],
    ] {
        let text = said(&multica(home.path()).args(words).assert().code(1).get_output().stderr);
        assert!(text.contains("allowed_directories") && text.contains(".multica/config.json"), "{text}");
        assert!(text.contains("Next: ") && text.contains("[\"/srv/game\"]"), "{text}");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("there"), wrong);
}

#[test]
fn config_set_writes_a_private_file_and_show_hides_the_token() {
    let home = home();
    multica(home.path()).args(["config", "set", "token", "mul_secret_secret_secret"]).assert().success();
    let assert = multica(home.path()).args(["config", "show"]).assert().success();
    assert!(!said(&assert.get_output().stdout).contains("mul_secret"));
}

#[test]
fn the_schema_of_an_event_is_printed_offline_and_one_that_is_none_is_named() {
    let home = home();
    let run = |words: &[&str]| multica(home.path()).args(words).output().expect("run");
    let printed = run(&["events", "schema", "task.queued"]);
    assert!(printed.status.success(), "{}", said(&printed.stderr));
    let file = include_str!("../../../event-schemas/task/queued.v1.json");
    assert_eq!(said(&printed.stdout).trim_end(), file.trim_end());
    assert_eq!(said(&run(&["events", "schema", "task.queued@1"]).stdout), said(&printed.stdout));
    let listed = said(&run(&["events", "schema"]).stdout);
    assert!(listed.contains("task.queued") && listed.contains("operation.read_model_rebuilt"), "{listed}");
    let none = run(&["events", "schema", "task.queued@99"]);
    assert_eq!(none.status.code(), Some(5));
    assert!(said(&none.stderr).contains("`task.queued@99`; its versions are 1"), "{}", said(&none.stderr));
    let none = run(&["events", "schema", "task.danced"]);
    assert!(said(&none.stderr).contains("no schema of `task.danced`"), "{}", said(&none.stderr));
}
