//! What people and machines get wrong, on a running installation: each with a code, a sentence and a next
//! step wherever one looks, and the directory as it was.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::installation::{Installation, eventually};
use super::kill::until_it_waits;
use super::story::contents;

/// The stable code that a verb failed with; it said what and what to do now, and didn't panic.
#[track_caller]
fn code_of(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && !said.contains("panicked"), "{said}");
    let problem: Value = serde_json::from_str(said.lines().last().unwrap_or_default())
        .or_else(|_| serde_json::from_str(&said))
        .unwrap_or_else(|error| panic!("{error} in {said}"));
    for member in ["error", "next_step"] {
        assert!(problem[member].as_str().is_some_and(|text| text.len() > 5), "{member} in {problem}");
    }
    problem["code"].as_str().unwrap().to_owned()
}

fn run(installation: &Installation, arguments: &[&OsStr]) -> Output {
    let mut command = installation.command();
    command.args(arguments).args(["--output", "json"]).stdin(Stdio::null()).output().unwrap()
}

fn words<'a>(arguments: &[&'a str]) -> Vec<&'a OsStr> {
    arguments.iter().map(|argument| OsStr::new(*argument)).collect()
}

fn attach(installation: &Installation, project: &str, path: &Path) -> Output {
    let mut arguments =
        words(&["project", "resource", "add", project, "--type", "local_directory", "--local-path"]);
    arguments.push(path.as_os_str());
    run(installation, &arguments)
}

/// Everything that shows a failed task says why and what to do now.
fn assert_told(installation: &Installation, task: &str, reason: &str, sentence: &str, next_step: &str) {
    let failed = installation.until(task, "failed");
    assert_eq!(failed["failure_reason"], reason, "{failed}");
    assert!(failed["error"].as_str().unwrap_or_default().contains(sentence), "{failed}");
    assert!(failed["failure"]["next_step"].is_string(), "{failed}");
    let shown = installation.text(&["task", "show", task]);
    for wanted in [reason, sentence, "NEXT"] {
        assert!(shown.contains(wanted), "{wanted} in {shown}");
    }
    for verb in ["explain", "history"] {
        let told = installation.text(&["task", verb, task]);
        assert!(told.contains(sentence), "{sentence} in {told}");
    }
    let explained = installation.text(&["task", "explain", task]);
    assert!(explained.contains(next_step), "{next_step} in {explained}");
}

/// A directory of an ordinary account, where this is root.
fn owned(path: &Path, mode: u32) -> bool {
    let root = chown(path, Some(4_242), Some(4_242)).is_ok();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    root
}

#[test]
fn each_wrong_directory_is_refused_at_once_by_the_machine_that_would_have_it() {
    let installation = Installation::start("bad-paths");
    let project =
        installation.json(&["project", "create", "--title", "Game"])["id"].as_str().unwrap().to_owned();
    let code = installation.base().join("code");
    let good = installation.directory("good");
    fs::write(code.join("file"), "x").unwrap();
    symlink("/etc", code.join("to-etc")).unwrap();
    symlink("loop", code.join("loop")).unwrap();
    for name in ["read-only", "closed"] {
        fs::create_dir(code.join(name)).unwrap();
    }
    owned(&code.join("read-only"), 0o555);
    owned(&code.join("closed"), 0o333);
    let before = contents(&code);
    let mut cases: Vec<(PathBuf, &str)> = vec![
        (code.join("nothing"), "does_not_exist"),
        (code.join("file"), "not_a_directory"),
        (code.join("file/below"), "not_a_directory"),
        (code.join("loop"), "stat_failed"),
        (code.join("to-etc"), "protected_via_symlink"),
        (code.join("read-only"), "not_writable"),
        (code.join("closed"), "not_readable"),
        ("/".into(), "protected_root"),
        ("/home".into(), "protected_root"),
        ("/etc".into(), "protected_root"),
        ("/var/../tmp/".into(), "protected_root"),
        (installation.base().join("home"), "home_directory"),
        (installation.base().to_owned(), "home_parent"),
        (installation.base().join("data/work"), "daemon_folder"),
        (installation.base().join("data/pg"), "daemon_folder"),
    ];
    if multica::process::owner::current_uid() == 0 {
        let elsewhere = installation.base().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        cases.push((elsewhere, "owner_not_allowed"));
    }
    for (path, expected) in cases {
        assert_eq!(code_of(&attach(&installation, &project, &path)), expected, "{}", path.display());
    }
    // Neither replaced by another path, nor sent.
    let not_utf8 = code.join(OsString::from_vec(b"caf\xe9".to_vec()));
    assert_eq!(code_of(&attach(&installation, &project, &not_utf8)), "usage");
    let resources = installation.json(&["project", "resource", "list", &project]);
    assert_eq!(resources.as_array().map(Vec::len), Some(0), "{resources}");
    assert_eq!(contents(&code), before, "looking changes nothing");

    let attached = attach(&installation, &project, &good);
    let attached: Value = serde_json::from_slice(&attached.stdout).unwrap();
    assert_eq!(attached["verified"], true, "{attached}");
    assert_eq!(code_of(&attach(&installation, &project, &good)), "duplicate_for_daemon");
    // An update is looked at too; the resource stays as it was.
    let resource = attached["id"].as_str().unwrap();
    let update = ["project", "resource", "update", &project, resource, "--local-path", "/nowhere/at/all"];
    assert_eq!(code_of(&run(&installation, &words(&update))), "does_not_exist");
    let inside =
        installation.json(&["project", "create", "--title", "Inside"])["id"].as_str().unwrap().to_owned();
    fs::create_dir(good.join("engine")).unwrap();
    let mut inner = installation.command();
    inner.args(["project", "resource", "add", &inside, "--local-path"]).arg(good.join("engine"));
    let inner = inner.output().unwrap();
    let said = String::from_utf8_lossy(&inner.stdout);
    assert!(inner.status.success() && said.contains("lies inside"), "{said}");

    let cases: [(&[&str], &str); 9] = [
        (
            &["project", "resource", "add", &project, "--type", "spaceship", "--ref", "{\"a\":1}"],
            "unknown_resource_type",
        ),
        (&["project", "resource", "add", &project, "--type", "spaceship", "--ref", "[1]"], "usage"),
        (&["project", "resource", "add", &project, "--type", "spaceship"], "usage"),
        (&["project", "resource", "add", "no-such-project", "--local-path", "/srv/x"], "not_found"),
        (&["agent", "create", "--name", "x", "--provider", "skynet"], "usage"),
        (&["agent", "create", "--name", "a\tb", "--provider", "command", "--command", "sh"], "bad_name"),
        (&["issue", "create", "--title", " "], "invalid_field"),
        (&["issue", "get", "GAME-0"], "not_found"),
        (&["task", "show", "%00#\u{1b}"], "not_found"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(code_of(&run(&installation, &words(arguments))), expected, "{arguments:?}");
    }
    let garbage = OsString::from_vec(b"\xff\xfe".to_vec());
    for verb in [&["issue", "create", "--title"][..], &["task", "show"], &["project", "create", "--title"]] {
        let mut arguments = words(verb);
        arguments.push(&garbage);
        let output = run(&installation, &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("UTF-8") && !said.contains("panicked"), "{said}");
    }
    installation.assert_verified();
}

#[test]
fn what_goes_wrong_after_the_attach_ends_the_task_by_name_and_frees_the_directory() {
    let installation = Installation::start("bad-runs");
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    let before = contents(&directory);
    let missing = ["agent", "create", "--name", "missing", "--provider", "command", "--command"];
    installation.json(&[&missing[..], &["/nowhere/agent"]].concat());
    fs::write(installation.base().join("plain"), "not a program").unwrap();
    let plain = installation.base().join("plain").display().to_string();
    installation.json(&["agent", "create", "--name", "plain", "--provider", "command", "--command", &plain]);
    for (agent, reason, step) in [
        ("missing", "agent_error.runtime_missing_executable", "Install it or correct its path"),
        ("plain", "agent_error.runtime_not_executable", "chmod +x"),
    ] {
        let task = format!("{}#1", installation.issue(agent, &project, agent));
        assert_told(&installation, &task, reason, "can't be started", step);
        assert_eq!(contents(&directory), before, "{agent}: the agent never ran");
    }

    // What an agent says can't reach a terminal or a page as commands, and breaks nothing on its way.
    installation
        .agent("rude", "printf 'a\\033]0;owned\\007b\\000c\\377d\\n'; printf '\\033[2Jbye' >&2; exit 3");
    let task = format!("{}#1", installation.issue("Rude\u{1b}[31m", &project, "rude"));
    assert_told(&installation, &task, "agent_error.process_failure", "exit code 3", "Read the detail");
    for verb in [["task", "logs"], ["task", "show"], ["task", "explain"], ["task", "history"]] {
        let told = installation.text(&[verb[0], verb[1], &task]);
        assert!(!told.contains('\u{7}') && !told.contains("\u{1b}[2J") && !told.contains('\0'), "{told:?}");
    }
    assert_eq!(contents(&directory), before);

    // The directory goes away while a task waits for it.
    installation.agent("holder", "while [ ! -e go ]; do sleep 0.05; done; rm -f go");
    installation.agent("next", "touch next.txt");
    let first = format!("{}#1", installation.issue("First", &project, "holder"));
    until_it_waits(&installation, &first);
    let second = format!("{}#1", installation.issue("Second", &project, "next"));
    installation.until(&second, "waiting_local_directory");
    let moved = installation.base().join("code/moved");
    fs::rename(&directory, &moved).unwrap();
    fs::write(moved.join("go"), "").unwrap();
    installation.until(&first, "completed");
    assert_told(
        &installation,
        &second,
        "local_directory_error",
        "nothing is at this path. Check the path",
        "Read the detail",
    );
    assert_eq!(contents(&moved), before, "what was moved is as it was");
    assert!(!directory.exists());
    let freed = || {
        let directories = installation.call("GET", "/api/directories", &Value::Null)?;
        if directories.to_string().contains("\"holder\":{") { Err(directories.to_string()) } else { Ok(()) }
    };
    eventually(Duration::from_secs(20), "the release", freed);

    // Back again, the queue goes on; a file in its place is named as such.
    fs::write(&directory, "a file").unwrap();
    let third = format!("{}#1", installation.issue("Third", &project, "next"));
    assert_told(
        &installation,
        &third,
        "local_directory_error",
        "something else than a directory",
        "Read the detail",
    );
    fs::remove_file(&directory).unwrap();
    fs::rename(&moved, &directory).unwrap();
    let fourth = format!("{}#1", installation.issue("Fourth", &project, "next"));
    installation.until(&fourth, "completed");
    assert!(directory.join("next.txt").exists());
    installation.assert_verified();
}
