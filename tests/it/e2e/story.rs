//! One directory, a few tasks: their stories, what is left behind, what people are told.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::installation::Installation;

/// Every path below a directory with its content, links as their targets.
pub fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        let entries = match fs::read_dir(&next) {
            // One that its own owner can't list; only root looks into it.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => continue,
            entries => entries.unwrap(),
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if path.is_symlink() {
                found.insert(name, fs::read_link(&path).unwrap().display().to_string().into_bytes());
            } else if path.is_dir() {
                found.insert(format!("{name}/"), Vec::new());
                open.push(path);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_task_in_place_leaves_only_its_work_and_tells_its_whole_story() {
    let installation = Installation::start("story");
    let directory = installation.directory("game");
    fs::write(directory.join("AGENTS.md"), "# Mine\n").unwrap();
    let before = contents(&directory);
    let project = installation.project("Game", &directory);
    let agent = installation.agent("dev", "cat > prompt.txt; ls -A > seen.txt; echo worked");
    let key = installation.issue("Fix the build", &project, "dev");
    let task = format!("{key}#1");
    let seen = installation.until(&task, "completed");
    assert_eq!(seen["agent_id"], agent.as_str());

    let mut after = contents(&directory);
    let prompt = String::from_utf8(after.remove("prompt.txt").unwrap()).unwrap();
    assert!(prompt.contains("Fix the build"), "{prompt}");
    let during = String::from_utf8(after.remove("seen.txt").unwrap()).unwrap();
    assert!(during.contains(".multica"), "{during}");
    assert_eq!(after, before, "the directory is as it was, but for the agent's own files");

    let story = installation.story(&task);
    let expected = [
        "task.queued",
        "task.claimed",
        "task.claim_received",
        "directory.acquired",
        "task.prepared",
        "task.started",
        "task.process_started",
        "task.process_exited",
        "task.finalized",
        "task.completed",
        "directory.released",
    ];
    let mut rest = story.iter();
    for wanted in expected {
        assert!(rest.any(|have| have == wanted), "{wanted} is missing or out of order in {story:#?}");
    }
    let text = installation.text(&["task", "history", &task]);
    assert!(text.contains(&task) && text.contains("dev"), "{text}");
    installation.assert_verified();
}

#[test]
fn a_second_task_parks_is_explained_and_is_promoted_when_the_first_ends() {
    let installation = Installation::start("park");
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    installation.agent("holder", "while [ ! -e go ]; do sleep 0.05; done; rm go");
    installation.agent("next", "echo next > next.txt");
    let first = format!("{}#1", installation.issue("First", &project, "holder"));
    installation.until(&first, "running");
    let second = format!("{}#1", installation.issue("Second", &project, "next"));
    let third = format!("{}#1", installation.issue("Third", &project, "next"));
    let parked = installation.until(&second, "waiting_local_directory");
    assert_eq!(parked["waiting"]["holder_name"], first.as_str());
    assert_eq!(parked["waiting"]["label"], "game");
    installation.until(&third, "waiting_local_directory");
    let explained = installation.text(&["task", "explain", &third]);
    assert!(explained.contains(&first), "{explained}");
    assert!(!explained.to_lowercase().contains("unknown"), "{explained}");

    installation.json(&["task", "cancel", &second]);
    let cancelled = installation.task(&second);
    assert_eq!(cancelled["status"], "cancelled");
    assert!(!directory.join("next.txt").exists());

    fs::write(directory.join("go"), "").unwrap();
    installation.until(&first, "completed");
    installation.until(&third, "completed");
    assert_eq!(fs::read_to_string(directory.join("next.txt")).unwrap(), "next\n");
    let story = installation.story(&third);
    for wanted in ["task.parked", "directory.queued", "directory.promoted", "task.promoted", "task.completed"]
    {
        assert!(story.iter().any(|have| have == wanted), "{wanted} is missing in {story:#?}");
    }
    let story = installation.story(&second);
    assert!(story.iter().any(|have| have == "directory.left_queue"), "{story:#?}");
    installation.assert_verified();
}

#[test]
fn a_cancelled_run_is_gone_with_everything_it_started() {
    let installation = Installation::start("cancel");
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    // Ignores TERM, forks a child in a session of its own that ignores it too, and closes its output.
    let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > child.pid; while :; do sleep 1; done' & \
                  echo $$ > agent.pid; exec >&- 2>&-; while :; do sleep 1; done";
    installation.agent("stubborn", script);
    let task = format!("{}#1", installation.issue("Never ends", &project, "stubborn"));
    installation.until(&task, "running");
    super::installation::eventually(std::time::Duration::from_secs(20), "both processes", || {
        let pids = ["agent.pid", "child.pid"]
            .map(|file| fs::read_to_string(directory.join(file)).unwrap_or_default());
        if pids.iter().all(|pid| pid.ends_with('\n')) { Ok(()) } else { Err(format!("{pids:?}")) }
    });
    let pids: Vec<String> = ["agent.pid", "child.pid"]
        .map(|file| fs::read_to_string(directory.join(file)).unwrap().trim().to_owned())
        .into();
    installation.json(&["task", "cancel", &task]);
    super::installation::eventually(std::time::Duration::from_secs(10), "the release", || {
        let story = installation.story(&task);
        if story.iter().any(|kind| kind == "directory.released") {
            Ok(())
        } else {
            Err(format!("{story:#?}"))
        }
    });
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} lives on");
    }
    assert_eq!(installation.task(&task)["status"], "cancelled");
    installation.assert_verified();
}
