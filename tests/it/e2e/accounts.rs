//! Directories that belong to somebody else than the daemon: agents work there as their owner.
//!
//! Only root can run as others. Under another account the same tests run in that account's own directories,
//! where agents work as that account.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::installation::{Installation, eventually, system_dir};

/// The account that owns the directory.
struct Account {
    uid: u32,
    gid: u32,
    /// Name and home where the agent's are to be these.
    other: Option<(String, String)>,
}

impl Account {
    /// As root, a person's account of this machine; otherwise one's own.
    fn to_work_for() -> Self {
        let me = fs::metadata("/proc/self").unwrap();
        if me.uid() != 0 {
            return Self { uid: me.uid(), gid: me.gid(), other: None };
        }
        let passwd = fs::read_to_string("/etc/passwd").unwrap();
        passwd
            .lines()
            .filter_map(|line| {
                let [name, _, uid, gid, _, home, _] = line.split(':').collect::<Vec<_>>().try_into().ok()?;
                let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
                (uid >= 1_000).then(|| Self { uid, gid, other: Some((name.to_owned(), home.to_owned())) })
            })
            .min_by_key(|account| account.uid)
            .expect("an account with a number from 1000 on, at least `nobody`")
    }

    fn directory(&self, installation: &Installation) -> PathBuf {
        let directory = installation.directory("theirs");
        for path in [directory.join("mine.txt"), directory.clone()] {
            chown(path, Some(self.uid), Some(self.gid)).unwrap();
        }
        // Nobody else gets in.
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        directory
    }
}

fn read(directory: &Path, file: &str) -> String {
    fs::read_to_string(directory.join(file)).unwrap_or_default().trim().to_owned()
}

#[test]
fn an_agent_works_as_the_directory_s_owner_and_reports_from_there() {
    let account = Account::to_work_for();
    let installation = Installation::start("owner");
    let directory = account.directory(&installation);
    let project = installation.project("Theirs", &directory);
    let script = "id -u > uid; id -g > gid; printf %s \"$HOME\" > home; printf %s \"$USER\" > user; \
        command -v multica > which; stat -c %u .multica/project/resources.json > context; \
        ls /proc/self/fd > /dev/null; touch $TMPDIR/mine && stat -c %u $TMPDIR > temporary; \
        key=$(sed -n 's/^# \\([^:]*\\):.*/\\1/p' .agent_context/issue_context.md); \
        multica issue comment add $key --content 'from there' && multica issue status $key in_review";
    installation.agent("dev", script);
    let key = installation.issue("Theirs", &project, "dev");
    let done = installation.until(&format!("{key}#1"), "completed");

    let uid = account.uid.to_string();
    for file in ["uid", "context", "temporary"] {
        assert_eq!(read(&directory, file), uid, "{file} {done}");
    }
    assert_eq!(read(&directory, "gid"), account.gid.to_string());
    for file in ["uid", "mine.txt", "home"] {
        assert_eq!(fs::metadata(directory.join(file)).unwrap().uid(), account.uid, "{file}");
    }
    let program = PathBuf::from(read(&directory, "which"));
    if let Some((name, home)) = &account.other {
        assert_eq!((&read(&directory, "user"), &read(&directory, "home")), (name, home));
        assert!(program.starts_with(system_dir().join("bin")), "{program:?}");
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
    } else {
        assert_eq!(read(&directory, "home"), installation.base().join("home").display().to_string());
        assert!(program.ends_with("multica"), "{program:?}");
    }
    let comments = installation.json(&["issue", "comment", "list", &key]).to_string();
    assert!(comments.contains("from there") && comments.contains("\"agent\""), "{comments}");
    assert_eq!(installation.json(&["issue", "get", &key])["status"], "in_review");
    let left: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    installation.assert_verified();
}

#[test]
fn a_foreign_lock_on_an_owner_s_directory_is_waited_for_and_the_task_runs_after_it() {
    let account = Account::to_work_for();
    let installation = Installation::start("owner-lock");
    let directory = account.directory(&installation);
    let project = installation.project("Theirs", &directory);
    installation.agent("dev", "id -u > uid");
    let foreign = fs::File::open(&directory).unwrap();
    foreign.lock().unwrap();
    let task = format!("{}#1", installation.issue("Theirs", &project, "dev"));
    let parked = installation.until(&task, "waiting_local_directory");
    assert_eq!(parked["waiting"]["because"], "foreign_lock", "{parked}");
    let explained = installation.text(&["task", "explain", &task]);
    assert!(explained.contains(&std::process::id().to_string()), "{explained}");
    drop(foreign);
    installation.until(&task, "completed");
    assert_eq!(read(&directory, "uid"), account.uid.to_string());
    installation.assert_verified();
}

#[test]
fn what_was_just_written_is_found_at_once_by_the_next_command() {
    let installation = Installation::start("at-once");
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    installation.agent("dev", "true");
    for n in 0..10 {
        let issue =
            installation.json(&["issue", "create", "--title", &format!("Issue {n}"), "--project", &project]);
        let key = issue["identifier"].as_str().unwrap();
        let listed = installation.json(&["issue", "list"]).to_string();
        assert!(listed.contains(&format!("\"{key}\"")), "{key} isn't in {listed}");
        installation.json(&["issue", "comment", "add", key, "--content", "said"]);
        installation.json(&["issue", "status", key, "backlog"]);
        assert_eq!(installation.json(&["issue", "get", key])["status"], "backlog");
    }
    let task = format!("{}#1", installation.issue("Last", &project, "dev"));
    // Known at once, whatever it does by then.
    assert_eq!(installation.task(&task)["name"], task.as_str());
    eventually(std::time::Duration::from_secs(30), "its end", || {
        let seen = installation.task(&task);
        if seen["status"] == "completed" { Ok(()) } else { Err(seen.to_string()) }
    });
}
