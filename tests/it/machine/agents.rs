//! Agents that behave badly.

use multica::kernel::limits::{Limits, Millis};
use multica::wire::daemon::ReportBody;

use super::world::{Daemon, World, is_free, picture};

#[tokio::test]
async fn a_run_reports_its_whole_life_in_order_and_leaves_the_directory_as_it_was() {
    let world = World::new("cat >/dev/null; echo hello; echo oops >&2; pwd");
    std::fs::write(world.directory.join("mine"), "bytes").expect("write");
    let before = picture(&world.directory);
    let ran = world.run().await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let expected =
        ["directory-lock", "prepared", "start", "process-started", "process-exited", "finalized", "complete"];
    assert_eq!(world.kinds(), expected);
    let ordinals: Vec<u64> = world.reports().iter().map(|report| report.ordinal).collect();
    assert_eq!(ordinals, (1..=7).collect::<Vec<_>>());
    assert!(world.output().contains(&format!("hello\n{}", world.directory.display())), "{}", world.output());
    let transcript = world.transcript();
    assert!(transcript.iter().any(|m| m.stderr && m.content.as_deref() == Some("oops")), "{transcript:?}");
    assert_eq!(picture(&world.directory), before);
    assert!(is_free(&world.directory));
}

#[tokio::test]
async fn an_agent_gets_its_prompt_and_a_clean_environment() {
    let world = World::new("cat; echo; env");
    let environment =
        vec![("MULTICA_TOKEN", "mul_thedaemonsown"), ("DATABASE_URL", "postgres://x"), ("KEPT", "yes")];
    world.run_with(Daemon { environment, ..Daemon::default() }).await;
    let output = world.output();
    for wanted in ["It squeaks.", "Mend the door", "KEPT=yes", "MULTICA_TASK_SLOT=0", "PATH=/nowhere/bin:"] {
        assert!(output.contains(wanted), "{wanted} in {output}");
    }
    for unwanted in ["mul_thedaemonsown", "DATABASE_URL"] {
        assert!(!output.contains(unwanted), "{unwanted} in {output}");
    }
}

#[tokio::test]
async fn an_exit_code_other_than_zero_fails_with_code_and_last_words() {
    let world = World::new("echo sorry >&2; exit 7");
    world.run().await;
    let (reason, detail) = world.failure();
    assert_eq!(reason, "agent_error.process_failure");
    assert!(detail.contains('7') && detail.contains("sorry"), "{detail}");
}

#[tokio::test]
async fn a_missing_program_fails_by_name_and_the_directory_stays_as_it_was() {
    let mut world = World::new("");
    if let Some(command) = &mut world.charge.assignment.agent.command {
        command.program = "/nowhere/agent".to_owned();
    }
    let before = picture(&world.directory);
    world.run().await;
    assert_eq!(world.failure().0, "agent_error.runtime_missing_executable");
    assert_eq!(picture(&world.directory), before);
}

#[tokio::test]
async fn a_program_that_is_not_executable_fails_by_name() {
    let mut world = World::new("");
    let program = world.root.path().join("agent");
    std::fs::write(&program, "not a program").expect("write");
    if let Some(command) = &mut world.charge.assignment.agent.command {
        command.program = program.display().to_string();
    }
    world.run().await;
    assert_eq!(world.failure().0, "agent_error.runtime_not_executable");
}

#[tokio::test]
async fn an_agent_that_ignores_term_is_killed_on_cancel_and_acknowledged() {
    let world = World::new("trap '' TERM; echo up; while :; do sleep 0.05; done");
    let cancel_after = Some(("process-started", "cancelled"));
    world.run_with(Daemon { cancel_after, ..Daemon::default() }).await;
    assert!(matches!(world.terminal(), ReportBody::CancelAck { .. }));
    assert!(world.kinds().contains(&"cancel-received"));
    assert_eq!(world.processes(), [0; 0]);
    assert!(is_free(&world.directory));
}

#[tokio::test]
async fn a_clean_stop_of_the_daemon_ends_the_run_as_interrupted() {
    let world = World::new("sleep 100");
    let cancel_after = Some(("process-started", "interrupted"));
    world.run_with(Daemon { cancel_after, ..Daemon::default() }).await;
    assert_eq!(world.failure().0, "runtime_recovery");
    assert_eq!(world.processes(), [0; 0]);
}

#[tokio::test]
async fn a_cancel_while_the_start_is_not_accepted_starts_no_agent() {
    let world = World::new("touch started");
    let cancel_after = Some(("start", "cancelled"));
    world.run_with(Daemon { cancel_after, mute: true, ..Daemon::default() }).await;
    assert!(matches!(world.terminal(), ReportBody::CancelAck { .. }));
    assert!(!world.kinds().contains(&"process-started"));
    assert!(!world.directory.join("started").exists());
}

#[tokio::test]
async fn children_in_sessions_of_their_own_end_with_the_run_and_are_counted() {
    let script = "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.05; done' & env -i setsid sleep 1000 & sleep 0.2; echo done";
    let world = World::new(script);
    world.run().await;
    assert!(world.output().contains("done"));
    let killed = world.reports().iter().find_map(|report| match report.body {
        ReportBody::ProcessExited { killed, .. } => Some(killed),
        _ => None,
    });
    assert!(killed >= Some(2), "{killed:?}");
    assert_eq!(world.processes(), [0; 0]);
    assert!(is_free(&world.directory));
}

#[tokio::test]
async fn an_agent_that_closes_its_output_and_lives_on_is_waited_for() {
    let world = World::new("exec >&- 2>&-; sleep 0.3; touch late");
    world.run().await;
    world.output();
    assert!(world.directory.join("late").exists());
}

#[tokio::test]
async fn a_hundred_megabytes_without_a_line_end_are_one_bounded_message() {
    let mut world = World::new("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end");
    world.charge.limits.agent_line_bytes = 100_000;
    world.run().await;
    assert!(world.output().ends_with("end\n") || world.output().ends_with("end"), "{}", world.output().len());
    let longest = world.transcript().iter().filter_map(|m| m.content.as_ref().map(String::len)).max();
    assert!(longest <= Some(101_000), "{longest:?}");
}

#[tokio::test]
async fn binary_garbage_is_no_obstacle() {
    let world = World::new("head -c 300000 /dev/urandom; printf '\\n\\377\\000ok\\n'");
    world.run().await;
    assert!(world.output().contains("ok"));
}

#[tokio::test]
async fn an_agent_that_says_nothing_for_too_long_is_stopped_by_name() {
    let mut world = World::new("echo one; sleep 1000");
    world.charge.limits.idle_watchdog = Millis(300);
    world.run().await;
    assert_eq!(world.failure().0, "idle_watchdog");
    assert_eq!(world.processes(), [0; 0]);
}

/// S290: while a tool is at work the silence is the tool's, and has its own, longer limit.
#[tokio::test]
async fn a_tool_that_works_silently_is_waited_for_longer_and_not_for_ever() {
    let call = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}]}}"#;
    let answer =
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}"#;
    let done = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;
    let (idle, tool) = (Limits::default().idle_watchdog, Limits::default().tool_watchdog);
    assert_eq!((idle, tool), (Millis(30 * 60_000), Millis(120 * 60_000)));
    let playing = |seconds: &str| {
        let world = World::new("");
        let program = world.root.path().join("claude");
        let script = format!(
            "#!/bin/sh\ncat > /dev/null\necho '{call}'\nsleep {seconds}\necho '{answer}'\necho '{done}'\n"
        );
        std::fs::write(&program, script).expect("write");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("chmod");
        let mut world = world.provider("claude", &program.display().to_string());
        world.charge.limits.idle_watchdog = Millis(100);
        world.charge.limits.tool_watchdog = Millis(3_000);
        world
    };
    let world = playing("0.8");
    world.run().await;
    assert_eq!(world.output(), "done");
    let world = playing("600");
    world.run().await;
    assert_eq!(world.failure().0, "idle_watchdog");
    assert_eq!(world.processes(), [0; 0]);
}

#[tokio::test]
async fn a_managed_run_works_in_an_empty_directory_of_its_own() {
    let mut world = World::new("pwd; ls -A");
    world.charge.workplace = multica::supervisor::frame::Workplace::Managed;
    world.run().await;
    assert!(world.output().contains(&format!("{}/workdir", world.charge.env_root)), "{}", world.output());
}

#[tokio::test]
async fn as_root_a_run_is_its_directory_s_owner_and_nobody_else() {
    if multica::process::owner::current_uid() != 0 {
        eprintln!("only root can become somebody else: nothing to see here as another account");
        return;
    }
    let mut world =
        World::new("id -u; id -g; id -G; echo $HOME; touch made; cat /proc/self/status | grep CapEff");
    world.owned_by(4_242);
    let before = picture(&world.directory);
    let ran = world.run().await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(world.output().contains("4242\n4242\n4242\n/\nCapEff:\t0000000000000000"), "{}", world.output());
    let made = std::fs::metadata(world.directory.join("made")).expect("made");
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), 4_242);
    std::fs::remove_file(world.directory.join("made")).expect("remove");
    assert_eq!(picture(&world.directory), before);
}

#[tokio::test]
async fn a_full_spool_ends_the_run_by_name() {
    let mut world = World::new("true");
    world.charge.limits.spool_bytes = 1_200;
    world.run().await;
    assert_eq!(world.failure().0, "spool_full");
    assert_eq!(world.processes(), [0; 0]);
    assert!(is_free(&world.directory));
}

/// C-031: children that are made faster than anybody can list them are gone before the directory is free.
#[tokio::test]
async fn an_agent_that_never_stops_forking_is_gone_before_its_directory_is_free() {
    let world = World::new(
        "trap '' TERM; fork() { while :; do (trap '' TERM; setsid sleep 300) & sleep 0.005; done; }; fork & fork",
    );
    let cancel_after = Some(("process-started", "cancelled"));
    world.run_with(Daemon { cancel_after, ..Daemon::default() }).await;
    assert!(matches!(world.terminal(), ReportBody::CancelAck { .. }));
    assert_eq!(world.processes(), [0; 0]);
    assert!(is_free(&world.directory));
}
