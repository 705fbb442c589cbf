//! What the README shows works as it is written there.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use super::installation::{Installation, binary};

/// The shell lines of the README between a heading and the next, apart from what a fresh installation can't do.
fn shown(heading: &str) -> String {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let section = readme.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    // It is up already; it would go on for ever; it needs somebody else's program.
    let apart = ["bin/up", "multica feed -f", "--provider claude", "--assignee dev"];
    blocks
        .flat_map(str::lines)
        .filter(|line| !apart.iter().any(|word| line.contains(word)))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_readme_s_first_steps_work_as_they_are_written() {
    let mut installation = Installation::new("readme");
    let game = installation.base().join("home/code/game");
    fs::create_dir_all(&game).unwrap();
    fs::write(game.join("one.txt"), "1\n").unwrap();
    installation.allow(&game);
    let programs = installation.base().join("programs");
    fs::create_dir_all(&programs).unwrap();
    symlink(binary(), programs.join("multica")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    installation.set("PATH", &path);
    installation.up();

    let lines = shown("With your own code");
    assert!(lines.contains("project create") && lines.contains("task explain"), "{lines}");
    let (first_steps, looks) = lines.split_once("multica task list").unwrap();
    run(&installation, first_steps);
    installation.until("LOCA-1#1", "completed");
    run(&installation, &format!("multica task list{looks}"));
    let counted = fs::read_to_string(game.join("files.txt")).unwrap();
    assert!(counted.trim().parse::<u32>().is_ok(), "{counted}");
}

fn run(installation: &Installation, script: &str) {
    let mut shell = installation.command_of("bash");
    let output = shell.args(["-euo", "pipefail", "-c", script]).stdin(Stdio::null()).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{said}\n{}", installation.log());
}
