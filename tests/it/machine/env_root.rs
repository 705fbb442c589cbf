//! Who has an env root.

use std::fs;

use multica::execenv::env_root::{EnvRoot, EnvRootError};
use multica::kernel::ids::TaskId;
use uuid::Uuid;

fn task(n: u128) -> TaskId {
    TaskId(Uuid::from_u128(n))
}

#[test]
fn a_rerun_of_the_same_task_clears_everything_but_bookkeeping_and_runs() {
    let root = tempfile::tempdir().expect("tempdir");
    let path = root.path().join("ws/key");
    let first = EnvRoot::claim(&path, task(1)).expect("claim");
    first.run_folder(1).expect("run");
    fs::create_dir(path.join("workdir")).expect("mkdir");
    fs::write(path.join("workdir/f"), "x").expect("write");
    std::os::unix::fs::symlink("/etc", path.join("link")).expect("symlink");
    drop(first);
    let _second = EnvRoot::claim(&path, task(1)).expect("claim again");
    let mut names: Vec<_> = fs::read_dir(&path)
        .expect("list")
        .map(|e| e.expect("entry").file_name().into_string().expect("name"))
        .collect();
    names.sort();
    assert_eq!(names, [".task_lock", ".task_owner", "runs"]);
    assert!(path.join("runs/1").is_dir() && fs::metadata("/etc/passwd").is_ok());
}

/// S056: a folder that is there and empty is taken as it is, and has an owner from then on.
#[test]
fn an_empty_folder_is_adopted_as_it_is() {
    use std::os::unix::fs::MetadataExt;
    let root = tempfile::tempdir().expect("tempdir");
    let path = root.path().join("ws/key");
    fs::create_dir_all(&path).expect("mkdir");
    let inode = fs::metadata(&path).expect("stat").ino();
    drop(EnvRoot::claim(&path, task(1)).expect("claim"));
    assert_eq!(fs::metadata(&path).expect("stat").ino(), inode);
    assert_eq!(fs::read_to_string(path.join(".task_owner")).expect("an owner"), task(1).to_string());
    assert!(matches!(EnvRoot::claim(&path, task(2)), Err(EnvRootError::Foreign { .. })));
}

/// S059: while a rerun clears what the run before left, the folder stays the same one and at no moment has no
/// owner.
#[test]
fn a_rerun_clears_the_folder_without_ever_leaving_it_ownerless() {
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let root = tempfile::tempdir().expect("tempdir");
    drop(EnvRoot::claim(root.path(), task(1)).expect("claim"));
    let inode = fs::metadata(root.path()).expect("stat").ino();
    let (over, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let owner = fs::read_to_string(root.path().join(".task_owner")).expect("an owner");
                assert_eq!(owner, task(1).to_string());
                assert_eq!(fs::metadata(root.path()).expect("stat").ino(), inode);
                looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 0..50 {
            fs::create_dir(root.path().join("workdir")).expect("mkdir");
            for n in 0..20 {
                fs::write(root.path().join(format!("workdir/{n}")), "x").expect("write");
            }
            let seen = looks.load(Ordering::Relaxed);
            drop(EnvRoot::claim(root.path(), task(1)).expect("claim again"));
            assert!(!root.path().join("workdir").exists(), "{round}");
            crate::support::waiting::came_true(std::time::Duration::from_secs(10), || {
                looking.is_finished() || looks.load(Ordering::Relaxed) > seen
            });
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(looks.load(Ordering::Relaxed) >= 50);
}

#[test]
fn while_it_is_held_not_even_the_same_task_gets_it() {
    let root = tempfile::tempdir().expect("tempdir");
    let held = EnvRoot::claim(root.path(), task(1)).expect("claim");
    fs::write(root.path().join("precious"), "x").expect("write");
    let refused = EnvRoot::claim(root.path(), task(1)).expect_err("busy");
    assert!(
        matches!(refused, EnvRootError::Busy { pid: Some(pid) } if pid == std::process::id()),
        "{refused:?}"
    );
    assert!(root.path().join("precious").exists());
    drop(held);
}

#[test]
fn another_task_s_env_root_is_refused_by_name_and_stays() {
    let root = tempfile::tempdir().expect("tempdir");
    drop(EnvRoot::claim(root.path(), task(1)).expect("claim"));
    fs::write(root.path().join("precious"), "x").expect("write");
    let refused = EnvRoot::claim(root.path(), task(2)).expect_err("foreign");
    assert!(refused.to_string().contains(&task(1).to_string()), "{refused}");
    assert!(root.path().join("precious").exists());
}

#[test]
fn a_torn_owner_file_is_adopted_when_there_is_nothing_else_and_fails_closed_otherwise() {
    let root = tempfile::tempdir().expect("tempdir");
    fs::write(root.path().join(".task_owner"), "\n").expect("write");
    drop(EnvRoot::claim(root.path(), task(1)).expect("adopts"));
    fs::write(root.path().join(".task_owner"), "").expect("write");
    fs::write(root.path().join("precious"), "x").expect("write");
    assert!(matches!(EnvRoot::claim(root.path(), task(1)), Err(EnvRootError::NoOwner)));
    assert!(root.path().join("precious").exists());
}

#[test]
fn of_many_that_claim_at_once_exactly_one_gets_it() {
    let root = tempfile::tempdir().expect("tempdir");
    let path = root.path().join("ws/key");
    let claimed: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(|| EnvRoot::claim(&path, task(1)))).collect();
        threads.into_iter().map(|thread| thread.join().expect("thread")).collect()
    });
    assert_eq!(claimed.iter().filter(|claim| claim.is_ok()).count(), 1);
    assert!(
        claimed
            .iter()
            .filter_map(|claim| claim.as_ref().err())
            .all(|e| matches!(e, EnvRootError::Busy { .. }))
    );
}

/// S064: a folder that is there already is as private as one that is made.
#[test]
fn folders_have_their_modes_whatever_was_there() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().expect("tempdir");
    let claimed = EnvRoot::claim(root.path(), task(1)).expect("claim");
    for name in ["multica-config", "tmp"] {
        fs::create_dir(root.path().join(name)).expect("mkdir");
        fs::set_permissions(root.path().join(name), fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    claimed.lay_out(true).expect("laid out");
    let mode = |name: &str| fs::metadata(root.path().join(name)).expect("there").permissions().mode() & 0o777;
    assert_eq!(["multica-config", "tmp", "workdir", "logs"].map(mode), [0o700, 0o700, 0o755, 0o755]);
}
