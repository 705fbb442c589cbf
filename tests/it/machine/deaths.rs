//! A supervisor killed at every point of its work, and what recovery makes of it.

use std::collections::BTreeSet;

use super::world::{Daemon, World, come, eventually, is_free, picture};

/// Every point that a run passes, in order.
const POINTS: [&str; 27] = [
    "claimed",
    "began",
    "laid-out",
    "locked",
    "manifest",
    "prepare-plan",
    "sidecar-directory",
    "sidecar-file",
    "sidecar-brief",
    "prepared",
    "start-reported",
    "spawning",
    "spawned",
    "process-started",
    "tree-emptied",
    "exited",
    "verdict",
    "finalize-plan",
    "finalize-step",
    "remove-brief",
    "remove-file",
    "remove-directory",
    "sidecars-removed",
    "report-file",
    "terminal-reported",
    "ended",
    "brief-rewrite",
];

fn world() -> World {
    // A provider with a brief file, played by a script.
    let mut world = World::new("");
    let program = world.root.path().join("codex");
    std::fs::write(&program, "#!/bin/sh\n(setsid sleep 300 &)\necho '{}'\nsleep 0.05\n").expect("write");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    world.charge.assignment.project_id = Some(multica::kernel::ids::ProjectId(uuid::Uuid::from_u128(8)));
    world.provider("codex", &program.display().to_string())
}

async fn dies_and_recovers(world: &World, point: &str, again: Option<&str>) -> bool {
    let before = picture(&world.directory);
    let environment = vec![("MULTICA_FAILPOINT", point)];
    let ran = world.run_with(Daemon { environment, ..Daemon::default() }).await;
    let died = ran.signal == Some(9);
    if let Some(again) = again {
        let environment = vec![("MULTICA_FAILPOINT", again)];
        world.supervise(true, Daemon { environment, ..Daemon::default() }).await;
    }
    let recovered = world.recover().await;
    assert_eq!(recovered.code, Some(0), "{point}: {}", recovered.stderr);
    world.terminal();
    eventually("the tree is empty", || world.processes().is_empty());
    assert!(is_free(&world.directory), "{point}");
    assert_eq!(picture(&world.directory), before, "{point}");
    let reports = world.reports();
    assert_eq!(world.recover().await.code, Some(0));
    assert_eq!(world.reports(), reports, "{point}: a second recovery adds nothing");
    died
}

#[tokio::test]
async fn killed_at_any_point_a_run_is_recovered_to_the_same_end() {
    let mut passed = BTreeSet::new();
    for name in POINTS {
        for count in 1..=9 {
            let world = world();
            std::fs::write(world.directory.join("AGENTS.md"), "mine, without a line end").expect("write");
            if name == "brief-rewrite" {
                let old = "mine\n\n<!-- BEGIN MULTICA-RUNTIME -->\nold\n<!-- END MULTICA-RUNTIME -->\nrest";
                std::fs::write(world.directory.join("AGENTS.md"), old).expect("write");
                // An older block goes for good: the rest is what must stay.
                let environment = vec![("MULTICA_FAILPOINT", "brief-rewrite:1")];
                world.run_with(Daemon { environment, ..Daemon::default() }).await;
                assert_eq!(world.recover().await.code, Some(0));
                let kept = std::fs::read_to_string(world.directory.join("AGENTS.md")).expect("read");
                assert_eq!(kept, "minerest");
                passed.insert(name);
                break;
            }
            if !dies_and_recovers(&world, &format!("{name}:{count}"), None).await {
                break;
            }
            passed.insert(name);
        }
    }
    assert_eq!(passed, POINTS.into_iter().collect());
}

/// S043: on the machine the directory is in order and free before there is a word of the end to be sent.
#[tokio::test]
async fn a_directory_is_in_order_and_free_before_the_end_is_told() {
    let world = world();
    let before = picture(&world.directory);
    let armed = world.root.path().join("armed");
    std::fs::write(&armed, "report-file:1:stop").expect("write");
    let (arming, hit) = (format!("@{}", armed.display()), world.root.path().join("armed.hit"));
    let stopped = async {
        let pid = || std::fs::read_to_string(&hit).unwrap_or_default();
        come(|| pid().ends_with('\n')).await;
        let pid: u32 = pid().trim().parse().expect("a pid");
        come(|| multica::process::identity::stat(pid).is_some_and(|stat| stat.state == b'T')).await;
        assert_eq!(world.kinds().last(), Some(&"finalized"));
        assert_eq!(picture(&world.directory), before);
        assert_eq!(world.processes(), [0; 0]);
        assert!(is_free(&world.directory));
        let woken = std::process::Command::new("kill").args(["-CONT", &pid.to_string()]).status();
        assert!(woken.expect("kill").success());
    };
    let environment = vec![("MULTICA_FAILPOINT", arming.as_str())];
    tokio::join!(world.run_with(Daemon { environment, ..Daemon::default() }), stopped);
    world.terminal();
}

#[tokio::test]
async fn a_recovery_that_is_killed_is_recovered_too() {
    for again in [
        "verdict:1",
        "finalize-plan:1",
        "remove-brief:1",
        "remove-file:2",
        "sidecars-removed:1",
        "terminal-reported:1",
    ] {
        let world = world();
        assert!(dies_and_recovers(&world, "process-started:1", Some(again)).await);
    }
}

#[tokio::test]
async fn a_run_killed_in_another_account_s_directory_is_recovered_as_that_account() {
    if multica::process::owner::current_uid() != 0 {
        eprintln!("only root can become somebody else: nothing to see here as another account");
        return;
    }
    for point in ["sidecar-file:1", "process-started:1", "remove-file:1"] {
        let mut world = world();
        std::fs::write(world.directory.join("AGENTS.md"), "mine").expect("write");
        world.owned_by(4_242);
        assert!(dies_and_recovers(&world, point, None).await);
    }
}

#[tokio::test]
async fn where_control_groups_can_be_made_recovery_finds_what_hid_its_session_and_its_mark() {
    let mut world = World::new("env -i setsid sleep 98.7654 & echo $! > pid; mv pid hidden; sleep 300");
    world.charge.limits.kill_grace = multica::kernel::limits::Millis(200);
    if multica::process::cgroup::make("multica-probe").is_none() {
        eprintln!("no control groups can be made here: nothing to see");
        return;
    }
    let dying = async {
        come(|| world.directory.join("hidden").exists()).await;
        let lock = std::fs::File::open(world.env_root().join(".task_lock")).expect("lock file");
        let pid = multica::process::lock::holder(&lock).pid.expect("a supervisor");
        let killed =
            std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill");
        assert!(killed.success());
    };
    tokio::join!(world.run(), dying);
    let hidden: u32 =
        std::fs::read_to_string(world.directory.join("hidden")).expect("read").trim().parse().expect("a pid");
    let alive = || multica::process::identity::stat(hidden).is_some_and(|stat| !stat.is_dead());
    assert!(alive());
    assert_eq!(world.recover().await.code, Some(0));
    assert!(!alive());
    world.terminal();
    assert!(is_free(&world.directory));
}
