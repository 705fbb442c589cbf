//! Which directories agents may work in, as the machine that has them says.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use multica::execenv::directory::{Inspect, Inspected};
use multica::kernel::limits::Limits;
use multica::process::owner::current_uid;

struct Place {
    root: tempfile::TempDir,
    request: Inspect,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("multica-it-").tempdir().expect("tempdir");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let text = |path: &str| root.path().join(path).display().to_string();
        for name in ["home/me/code", "work/ws", "project"] {
            fs::create_dir_all(root.path().join(name)).expect("mkdir");
        }
        let request = Inspect {
            path: text("project"),
            home: text("home/me"),
            own_folders: vec![text("work")],
            allowed_directories: vec![root.path().display().to_string()],
            limits: Limits::default(),
        };
        Self { root, request }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn at(&self, path: impl AsRef<Path>) -> Inspected {
        let request = Inspect { path: path.as_ref().display().to_string(), ..self.request.clone() };
        inspect(&request)
    }

    fn code(&self, path: impl AsRef<Path>) -> String {
        code(&self.at(path))
    }
}

fn code(found: &Inspected) -> String {
    match found {
        Inspected::Usable { .. } => "usable".to_owned(),
        Inspected::Refused { code, sentence, next_step, .. } => {
            assert!(!sentence.is_empty() && !next_step.is_empty(), "{found:?}");
            code.clone()
        }
    }
}

fn inspect(request: &Inspect) -> Inspected {
    let mut child = Command::new(env!("CARGO_BIN_EXE_multica"))
        .arg("__inspect-directory")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawn");
    let mut stdin = child.stdin.take().expect("stdin");
    serde_json::to_writer(&mut stdin, request).expect("request");
    drop(stdin);
    let output = child.wait_with_output().expect("output");
    serde_json::from_slice(&output.stdout).expect("answer")
}

#[test]
fn each_wrong_path_has_its_own_refusal_and_they_come_in_order() {
    let place = Place::new();
    fs::write(place.path("file"), "").expect("write");
    symlink(place.path("file"), place.path("to-file")).expect("symlink");
    symlink("/etc", place.path("to-etc")).expect("symlink");
    symlink("loop", place.path("loop")).expect("symlink");
    symlink(place.path("home/me"), place.path("to-home")).expect("symlink");
    nix_mkfifo(&place.path("fifo"));
    let cases = [
        (PathBuf::from(""), "empty"),
        (PathBuf::from("relative/path"), "not_absolute"),
        (place.path("nothing"), "does_not_exist"),
        (place.path("file"), "not_a_directory"),
        (place.path("to-file"), "not_a_directory"),
        (place.path("fifo"), "not_a_directory"),
        (place.path("file/below"), "not_a_directory"),
        (place.path("loop"), "stat_failed"),
        (place.path("to-etc"), "protected_via_symlink"),
        (place.path("home/me"), "home_directory"),
        (place.path("to-home"), "home_directory"),
        (place.path("home"), "home_parent"),
        (place.path("home/me/code"), "usable"),
        (place.path("work"), "daemon_folder"),
        (place.path("work/ws"), "daemon_folder"),
        (place.path("project/."), "usable"),
        (place.path("project/../project/"), "usable"),
    ];
    for (path, expected) in cases {
        assert_eq!(place.code(&path), expected, "{}", path.display());
    }
}

#[test]
fn each_protected_directory_is_refused_in_every_spelling() {
    let place = Place::new();
    for entry in
        ["/", "/home", "/root", "/var", "/etc", "/tmp", "/usr", "/opt", "/var/tmp", "/dev/shm", "/proc"]
    {
        for spelling in [entry.to_owned(), format!("{entry}/"), format!("{entry}/."), format!("{entry}/x/..")]
        {
            assert_eq!(place.code(&spelling), "protected_root", "{spelling}");
        }
    }
}

#[test]
fn a_path_is_cleaned_but_not_resolved_for_the_agent_and_resolved_for_the_queue() {
    let place = Place::new();
    symlink(place.path("project"), place.path("link")).expect("symlink");
    let Inspected::Usable { path, real_path, .. } = place.at(place.path("link/./")) else { panic!("usable") };
    assert_eq!(path, place.path("link").display().to_string());
    assert_eq!(real_path, fs::canonicalize(place.path("project")).expect("real").display().to_string());
}

#[test]
fn looking_leaves_no_trace_and_git_s_state_is_told() {
    let place = Place::new();
    let git = |arguments: &[&str]| {
        let done =
            Command::new("git").arg("-C").arg(place.path("project")).args(arguments).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    let Inspected::Usable { git: Some(state), can_isolate, .. } = place.at(place.path("project")) else {
        panic!("usable, with git")
    };
    assert_eq!((state.head, state.branch.as_deref(), can_isolate), (None, Some("main"), false));
    fs::write(place.path("project/a"), "a").expect("write");
    git(&["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", "m"]);
    let before = super::world::picture(&place.path("project"));
    let Inspected::Usable { git: Some(state), can_isolate, .. } = place.at(place.path("project")) else {
        panic!("usable, with git")
    };
    assert!(state.head.is_some() && can_isolate && state.changed_paths == 1, "{state:?}");
    assert_eq!(super::world::picture(&place.path("project")), before);
}

#[test]
fn as_root_only_people_s_and_allowed_directories_are_used_and_as_their_owner() {
    if current_uid() != 0 {
        eprintln!("only root can become somebody else: nothing to see here as another account");
        return;
    }
    let mut place = Place::new();
    place.request.allowed_directories.clear();
    let project = place.path("project");
    let refused = place.at(&project);
    assert_eq!(code(&refused), "owner_not_allowed");
    let Inspected::Refused { next_step, failure_reason, .. } = refused else { panic!("refused") };
    let command = format!("`multica config set allowed_directories '[\"{}\"]'`", project.display());
    assert!(next_step.contains(&command) && next_step.contains("start its daemon anew"), "{next_step}");
    assert_eq!(failure_reason, "owner_not_allowed");
    std::os::unix::fs::chown(&project, Some(4_242), Some(4_242)).expect("chown");
    let Inspected::Usable { owner: Some(owner), .. } = place.at(&project) else { panic!("usable") };
    assert_eq!((owner.uid, owner.gid), (4_242, 4_242));
    for (mode, expected) in [(0o333, "not_readable"), (0o555, "not_writable"), (0o755, "usable")] {
        fs::set_permissions(&project, fs::Permissions::from_mode(mode)).expect("chmod");
        assert_eq!(place.code(&project), expected, "{mode:o}");
    }
    assert_eq!(fs::read_dir(&project).expect("list").count(), 0);
}

fn nix_mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

#[test]
fn as_root_a_published_copy_of_the_program_runs_for_accounts_that_can_not_reach_the_original() {
    if current_uid() != 0 {
        eprintln!("only root can become somebody else: nothing to see here as another account");
        return;
    }
    let root = tempfile::Builder::new().prefix("multica-it-").tempdir().expect("tempdir");
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o711)).expect("chmod");
    let first = multica::process::executable::publish(&root.path().join("bin")).expect("publish");
    let again = multica::process::executable::publish(&root.path().join("bin")).expect("publish again");
    assert_eq!(first.path, again.path);
    let listed =
        std::os::unix::process::CommandExt::uid(Command::new(&first.path).arg("--list"), 4_242).output();
    assert!(listed.expect("starts").status.success());
}
