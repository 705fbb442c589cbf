//! One run in one real directory, however it is spelled.

use std::os::unix::fs::symlink;

use multica::process::lock::{Try, try_directory};
use multica::wire::daemon::{LockReport, ReportBody};

use super::world::{Daemon, World, come, is_free, picture};

#[tokio::test]
async fn a_foreign_lock_is_named_and_leaves_no_trace_and_the_same_claim_can_come_again() {
    let world = World::new("echo here");
    let before = picture(&world.directory);
    let Try::Taken(foreign) = try_directory(&world.directory).expect("lock") else { panic!("free") };
    let ran = world.run().await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(picture(&world.directory), before);
    let reports = world.reports();
    let [report] = &reports[..] else { panic!("{reports:?}") };
    let ReportBody::DirectoryLock { lock: LockReport::Blocked { pid, program, task }, .. } = &report.body
    else {
        panic!("{report:?}")
    };
    assert_eq!(*pid, Some(std::process::id()));
    assert!(program.is_some());
    assert_eq!(*task, None, "it is no run of ours");
    drop(foreign);
    world.run().await;
    assert!(world.output().contains("here"));
    let ordinals: Vec<u64> = world.reports().iter().map(|report| report.ordinal).collect();
    assert_eq!(ordinals, (1..=ordinals.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn while_a_run_has_a_directory_nobody_else_gets_it_by_another_spelling() {
    let mut world = World::new("while [ ! -e go ]; do sleep 0.02; done");
    let link = world.root.path().join("link");
    symlink(&world.directory, &link).expect("symlink");
    let mut other = World::new("echo never");
    other.directory = link.clone();
    other.attach(&link);
    world.charge.limits.lock_wait = multica::kernel::limits::Millis(100);
    let first = world.run();
    let second = async {
        come(|| !is_free(&world.directory) && world.directory.join(".multica").exists()).await;
        other.run().await;
        assert_eq!(other.kinds(), ["directory-lock"]);
        let reports = other.reports();
        let ReportBody::DirectoryLock { lock: LockReport::Blocked { task, .. }, .. } = &reports[0].body
        else {
            panic!("{reports:?}")
        };
        assert_eq!(*task, Some(world.charge.assignment.id), "whose lock it is can be told");
        std::fs::write(world.directory.join("go"), "").expect("write");
    };
    tokio::join!(first, second);
    world.terminal();
}

#[tokio::test]
async fn a_bind_mount_is_the_same_directory() {
    let world = World::new("");
    let mount = world.root.path().join("mount");
    std::fs::create_dir(&mount).expect("mkdir");
    let bound = std::process::Command::new("mount").arg("--bind").arg(&world.directory).arg(&mount).output();
    if !bound.is_ok_and(|output| output.status.success()) {
        eprintln!("this account or system can't bind mount: nothing to see here");
        return;
    }
    let Try::Taken(held) = try_directory(&world.directory).expect("lock") else { panic!("free") };
    let busy = matches!(try_directory(&mount).expect("lock"), Try::Busy(_));
    drop(held);
    assert!(std::process::Command::new("umount").arg(&mount).status().expect("umount").success());
    assert!(busy);
}

#[tokio::test]
async fn another_directory_at_the_granted_path_is_not_touched() {
    let world = World::new("touch entered");
    std::fs::rename(&world.directory, world.root.path().join("away")).expect("rename");
    std::fs::create_dir(&world.directory).expect("mkdir");
    world.run().await;
    assert_eq!(world.failure().0, "local_directory_error");
    assert_eq!(picture(&world.directory).len(), 1);
}

#[tokio::test]
async fn a_cancel_while_waiting_for_the_lock_ends_the_run_without_a_trace() {
    let mut world = World::new("");
    world.charge.limits.lock_wait = multica::kernel::limits::Millis(20_000);
    let Try::Taken(_foreign) = try_directory(&world.directory).expect("lock") else { panic!("free") };
    // Nothing is in the spool yet: the daemon cancels as soon as it is connected.
    world.run_with(Daemon { cancel_after: Some(("", "cancelled")), ..Daemon::default() }).await;
    assert!(matches!(world.terminal(), ReportBody::CancelAck { .. }));
    assert_eq!(picture(&world.directory).len(), 1);
}
