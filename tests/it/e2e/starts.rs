//! Starts that go wrong or meet another: nothing is broken by them and nothing of them runs on.

use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use super::installation::{Installation, eventually, signal};

fn up(installation: &Installation, home: &str, words: &[&str]) -> Child {
    let home = installation.base().join(home);
    fs::create_dir_all(&home).unwrap();
    let mut command = installation.command();
    command.env("HOME", home).args(["up", "--no-daemon", "--data-dir"]).arg(installation.base().join("data"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn end(child: Child, how: &str) -> Output {
    signal(i32::try_from(child.id()).unwrap(), how);
    child.wait_with_output().unwrap()
}

/// The process ids that work in that folder: a PostgreSQL that was left.
fn working_in(folder: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let here = |pid: &str| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
    processes.filter_map(|entry| entry.file_name().into_string().ok()).filter(|pid| here(pid)).collect()
}

/// A database's helpers leave a moment after it.
pub(super) fn assert_nothing_left(installation: &Installation) {
    eventually(Duration::from_secs(10), "nothing to be left running", || {
        let left = working_in(installation.base());
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

fn answers(installation: &Installation, home: &str) -> bool {
    let mut list = installation.command();
    list.env("HOME", installation.base().join(home)).args(["workspace", "list"]).stdin(Stdio::null());
    list.output().unwrap().status.success()
}

/// The key that the log was begun with is made by whoever gets the data directory, and by nobody else.
#[test]
fn of_many_first_starts_at_once_one_goes_on_and_the_installation_starts_again() {
    let installation = Installation::new("first-starts");
    let homes = ["home-1", "home-2", "home-3", "home-4"];
    let mut children: Vec<(usize, Child)> =
        homes.iter().map(|home| up(&installation, home, &[])).enumerate().collect();
    let mut lost = Vec::new();
    eventually(Duration::from_secs(60), "all but one to give up", || {
        let mut on = Vec::new();
        for (index, mut child) in children.drain(..) {
            match child.try_wait().unwrap() {
                Some(_) => lost.push(child.wait_with_output().unwrap()),
                None => on.push((index, child)),
            }
        }
        children = on;
        if children.len() == 1 { Ok(()) } else { Err(format!("{} are left", children.len())) }
    });
    for output in &lost {
        let said = said(output);
        assert!(said.contains("is in use by another multica") && said.contains("Next: "), "{said}");
    }
    let (winner, child) = children.pop().unwrap();
    eventually(Duration::from_secs(60), "the one to serve", || {
        if answers(&installation, homes[winner]) { Ok(()) } else { Err("not yet".to_owned()) }
    });
    assert!(end(child, "INT").status.success());
    let again = up(&installation, homes[winner], &[]);
    eventually(Duration::from_secs(60), "it to serve again", || {
        if answers(&installation, homes[winner]) { Ok(()) } else { Err("not yet".to_owned()) }
    });
    assert!(end(again, "INT").status.success());
    assert_nothing_left(&installation);
}

#[test]
fn a_start_that_is_interrupted_or_fails_leaves_no_database_running() {
    let installation = Installation::new("no-start");
    let data = installation.base().join("data");
    // Interrupted as soon as there is a database to be left behind.
    let child = up(&installation, "home-1", &[]);
    eventually(Duration::from_secs(60), "the database", || {
        if data.join("pg/data/postmaster.pid").exists() { Ok(()) } else { Err("not yet".to_owned()) }
    });
    let output = end(child, "INT");
    assert!(output.status.code().is_some(), "a clean stop, not the signal's end: {}", said(&output));
    assert_nothing_left(&installation);
    // A terminal that is closed takes no line any more, and asks for the stop all the same.
    let mut child = up(&installation, "home-1", &[]);
    eventually(Duration::from_secs(60), "it to serve", || {
        if answers(&installation, "home-1") { Ok(()) } else { Err("not yet".to_owned()) }
    });
    drop((child.stdout.take(), child.stderr.take()));
    assert!(end(child, "HUP").status.success());
    assert_nothing_left(&installation);
    // Failing after the database is up: the log was begun with another key.
    let key = fs::read(data.join("instance.key")).unwrap();
    fs::write(data.join("instance.key"), [7; 32]).unwrap();
    let output = up(&installation, "home-1", &[]).wait_with_output().unwrap();
    assert!(!output.status.success() && said(&output).contains("Next: "), "{}", said(&output));
    assert_nothing_left(&installation);
    fs::write(data.join("instance.key"), key).unwrap();
    // The profile can't be written.
    let home = installation.base().join("home-2");
    fs::create_dir_all(home.join(".multica/profiles")).unwrap();
    fs::write(home.join(".multica/profiles/local"), "a file\n").unwrap();
    let output = up(&installation, "home-2", &[]).wait_with_output().unwrap();
    assert!(!output.status.success() && said(&output).contains("Next: "), "{}", said(&output));
    assert_nothing_left(&installation);
}

#[test]
fn a_second_demo_is_refused_and_the_first_one_s_data_stays() {
    let installation = Installation::new("two-demos");
    let first = up(&installation, "home-1", &["--demo"]);
    eventually(Duration::from_secs(60), "the demo to serve", || {
        let list = &["--profile", "demo", "workspace", "list"];
        let mut list_them = installation.command();
        list_them.env("HOME", installation.base().join("home-1")).args(list).stdin(Stdio::null());
        if list_them.output().unwrap().status.success() { Ok(()) } else { Err("not yet".to_owned()) }
    });
    let database = fs::read_to_string(installation.base().join("data/pg/data/postmaster.pid")).unwrap();
    let second = up(&installation, "home-2", &["--demo"]).wait_with_output().unwrap();
    assert!(said(&second).contains("is in use by another multica"), "{}", said(&second));
    let still = fs::read_to_string(installation.base().join("data/pg/data/postmaster.pid")).unwrap();
    assert_eq!(still.lines().next(), database.lines().next());
    end(first, "INT");
    assert_nothing_left(&installation);
}
