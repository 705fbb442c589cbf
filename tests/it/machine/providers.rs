//! What a provider's program is started with, played by a shell script, and what of its words is kept.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use multica::kernel::limits::Millis;
use multica::supervisor::frame::Workplace;
use multica::wire::daemon::ReportBody;

use super::world::{Daemon, World, is_free, picture};

/// An executable shell script of that name in the world's folder.
fn program(world: &World, name: &str, script: &str) -> String {
    let path = world.root.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    path.display().to_string()
}

/// A run of Claude Code that goes on with a session of `prior`, and what its program was given.
async fn resumed_from(prior: impl FnOnce(&World) -> Option<String>) -> (String, String) {
    let world = World::new("");
    let keep = "out=\"$MULTICA_TASK_WORKSPACES_ROOT/output\"; printf '%s\\n' \"$@\" > \"$out/arguments\"; \
                cat > \"$out/prompt\"";
    let claude = program(&world, "claude", keep);
    let mut world = world.provider("claude", &claude);
    world.charge.assignment.prior_session_id = Some("session-1".to_owned());
    world.charge.assignment.prior_work_dir = prior(&world);
    world.run().await;
    let kept = |name: &str| fs::read_to_string(world.env_root().join("output").join(name)).expect("kept");
    (kept("arguments"), kept("prompt"))
}

/// S293: the same directory, however it is spelled, goes on with its session.
#[tokio::test]
async fn a_follow_up_in_the_same_directory_goes_on_with_its_session() {
    let as_attached = |world: &World| Some(world.directory.display().to_string());
    let by_link = |world: &World| {
        let link = world.root.path().join("link");
        symlink(&world.directory, &link).expect("symlink");
        Some(link.display().to_string())
    };
    for (arguments, prompt) in [resumed_from(as_attached).await, resumed_from(by_link).await] {
        assert!(arguments.contains("--resume\nsession-1\n"), "{arguments}");
        assert!(!prompt.contains("A fresh session"), "{prompt}");
    }
}

/// S292: a session of another directory, or of one that isn't there or isn't known, is not gone on with.
#[tokio::test]
async fn a_session_of_another_directory_is_not_gone_on_with_and_the_agent_is_told() {
    let other = |world: &World| {
        let other = world.root.path().join("other");
        fs::create_dir(&other).expect("mkdir");
        Some(other.display().to_string())
    };
    let gone = |world: &World| Some(world.root.path().join("gone").display().to_string());
    for (arguments, prompt) in
        [resumed_from(other).await, resumed_from(gone).await, resumed_from(|_| None).await]
    {
        assert!(!arguments.contains("--resume"), "{arguments}");
        assert!(prompt.contains("A fresh session"), "{prompt}");
    }
}

/// S267: what a cancelled run used is told like any other's.
#[tokio::test]
async fn what_was_used_is_told_also_of_a_cancelled_run() {
    let script = r#"cat > /dev/null
echo '{"type":"assistant","message":{"id":"m1","model":"opus","content":[],"usage":{"input_tokens":7,"output_tokens":3}}}'
echo '{"type":"system","subtype":"init","session_id":"s-1"}'
sleep 600"#;
    let world = World::new("");
    let claude = program(&world, "claude", script);
    let world = world.provider("claude", &claude);
    let cancel_after = Some(("session", "cancelled"));
    world.run_with(Daemon { cancel_after, ..Daemon::default() }).await;
    assert!(matches!(world.terminal(), ReportBody::CancelAck { .. }));
    let used: Vec<_> = world
        .reports()
        .into_iter()
        .filter_map(|report| match report.body {
            ReportBody::Usage { usage } => Some(usage),
            _ => None,
        })
        .flatten()
        .collect();
    let [used] = &used[..] else { panic!("{used:?}") };
    assert_eq!((used.model.as_str(), used.input_tokens, used.output_tokens), ("opus", 7, 3));
}

/// S294: a program that ends well without a word has done its work; one that says anything but that it is done
/// hasn't, however it ends, and the next run can go on with its session in the same place.
#[tokio::test]
async fn an_end_without_words_is_a_good_one_and_a_status_that_nobody_knows_is_none() {
    let world = World::new("cat > /dev/null");
    world.run().await;
    assert_eq!(world.output(), "");
    let said = |result: &str| {
        let world = World::new("");
        let script = format!(
            "cat > /dev/null\necho '{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s-1\"}}'\necho '{result}'"
        );
        let claude = program(&world, "claude", &script);
        world.provider("claude", &claude)
    };
    let world = said(r#"{"type":"result","subtype":"success","is_error":false,"result":""}"#);
    world.run().await;
    assert_eq!(world.output(), "");
    for status in ["blocked", "something_new"] {
        let world =
            said(&format!(r#"{{"type":"result","subtype":"{status}","is_error":false,"result":"x"}}"#));
        world.run().await;
        let ReportBody::Fail { failure_reason, ending, .. } = world.terminal() else { panic!("{status}") };
        assert_eq!(failure_reason, "agent_error.unknown", "{status}");
        assert_eq!(ending.session_id.as_deref(), Some("s-1"), "{status}");
        assert_eq!(ending.work_dir, Some(world.directory.display().to_string()), "{status}");
    }
}

/// S300: however the two outputs mix, and over every flush, each message has a number of its own.
#[tokio::test]
async fn no_two_messages_of_a_run_share_a_number() {
    let script = "(for i in 1 2 3 4 5; do echo out $i; sleep 0.03; done) & \
                  for i in 1 2 3 4 5; do echo err $i >&2; sleep 0.03; done; wait; seq 300";
    let world = World::new(script);
    world.run().await;
    world.output();
    let numbers: Vec<i64> = world.transcript().iter().map(|message| message.seq).collect();
    assert_eq!(numbers, (1..=i64::try_from(numbers.len()).expect("few")).collect::<Vec<_>>());
    assert!(numbers.len() >= 310, "{}", numbers.len());
}

/// A program that goes on with no session, says so before it does anything, and works without one.
const FORGETFUL: &str = r#"echo "$@" >> "$MULTICA_TASK_WORKSPACES_ROOT/output/starts"
cat > "$MULTICA_TASK_WORKSPACES_ROOT/output/prompt"
for word in "$@"; do if [ "$word" = --resume ]; then
    echo '{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: session-1"]}'
    echo 'No conversation found with session ID: session-1' >&2
    (setsid sleep 300 &)
    exit 1
fi; done
echo '{"type":"system","subtype":"init","session_id":"session-2"}'
echo '{"type":"assistant","message":{"id":"m1","model":"opus","content":[{"type":"text","text":"at work"}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"done"}'"#;

/// A run of it that is to go on with a session in its own directory.
fn forgetful() -> World {
    let world = World::new("");
    let claude = program(&world, "claude", FORGETFUL);
    let mut world = world.provider("claude", &claude);
    world.charge.assignment.prior_session_id = Some("session-1".to_owned());
    world.charge.assignment.prior_work_dir = Some(world.directory.display().to_string());
    world
}

/// S300: a session that isn't there any more is no end: in the same run the agent begins afresh, is told so, and the
/// numbers of what it says go on.
#[tokio::test]
async fn a_session_that_is_gone_is_begun_afresh_in_the_same_run_and_the_numbers_go_on() {
    let world = forgetful();
    let before = picture(&world.directory);
    world.run().await;
    assert_eq!(world.output(), "done");
    let kept = |name: &str| fs::read_to_string(world.env_root().join("output").join(name)).expect("kept");
    let starts: Vec<bool> = kept("starts").lines().map(|line| line.contains("--resume session-1")).collect();
    assert_eq!(starts, [true, false]);
    assert!(kept("prompt").contains("A fresh session"), "{}", kept("prompt"));
    let transcript = world.transcript();
    let numbers: Vec<i64> = transcript.iter().map(|message| message.seq).collect();
    assert_eq!(numbers, (1..=i64::try_from(numbers.len()).expect("few")).collect::<Vec<_>>());
    let said: Vec<_> = transcript.iter().filter_map(|message| message.content.clone()).collect();
    let place = |words: &str| said.iter().position(|line| line.contains(words));
    assert!(place("a fresh one is begun") < place("at work") && place("at work").is_some(), "{said:?}");
    let processes: Vec<_> = world.kinds().into_iter().filter(|kind| kind.starts_with("process-")).collect();
    assert_eq!(processes, ["process-started", "process-exited", "process-started", "process-exited"]);
    let ReportBody::Complete { ending, .. } = world.terminal() else { panic!("not complete") };
    assert_eq!(ending.session_id.as_deref(), Some("session-2"), "the next run goes on with it");
    assert_eq!(picture(&world.directory), before);
    assert_eq!(world.processes(), [0; 0]);
}

/// The same, and its supervisor dies between the two starts or after the second.
#[tokio::test]
async fn a_run_that_dies_while_it_begins_afresh_is_recovered_as_any_other() {
    for point in ["exited:1", "spawning:2", "process-started:2", "exited:2"] {
        let world = forgetful();
        let before = picture(&world.directory);
        let environment = vec![("MULTICA_FAILPOINT", point)];
        let ran = world.run_with(Daemon { environment, ..Daemon::default() }).await;
        assert_eq!(ran.signal, Some(9), "{point}");
        assert_eq!(world.recover().await.code, Some(0), "{point}");
        assert_eq!(world.failure().0, "runtime_recovery", "{point}");
        let last = world.kinds().into_iter().rfind(|kind| kind.starts_with("process-"));
        assert_eq!(last, Some("process-exited"), "{point}");
        assert_eq!(picture(&world.directory), before, "{point}");
        assert_eq!(world.processes(), [0; 0], "{point}");
        assert!(is_free(&world.directory), "{point}");
    }
}

/// S097: an agent whose program reads no brief file is told in its prompt, and the directory gets none.
#[tokio::test]
async fn a_program_without_a_brief_file_gets_the_brief_in_its_prompt() {
    let world = World::new("cat; echo; echo NAMES; ls -A; cat /dev/null");
    world.run().await;
    let output = world.output();
    let (prompt, names) = output.split_once("NAMES").expect("both");
    assert!(prompt.contains("## Available Commands"), "{prompt}");
    assert!(!names.contains(".md") && names.contains(".multica"), "{names}");
}

/// S097: a provider that isn't one of ours has no program to start: said by name, before anything is touched.
#[tokio::test]
async fn an_unknown_provider_is_named_and_touches_nothing() {
    let world = World::new("touch ran");
    let world = world.provider("gemini", "/bin/true");
    let before = picture(&world.directory);
    world.run().await;
    let (reason, detail) = world.failure();
    assert_eq!(reason, "agent_error.runtime_missing_executable");
    assert!(detail.contains("gemini"), "{detail}");
    assert_eq!(picture(&world.directory), before);
}

/// S288: with anything but a task's token no agent starts, least of all with a person's.
#[tokio::test]
async fn without_a_task_token_no_agent_starts() {
    for token in ["", "mul_thedaemonsown"] {
        let mut world = World::new("touch ran");
        world.charge.assignment.auth_token = token.to_owned();
        let before = picture(&world.directory);
        let environment = vec![("MULTICA_TOKEN", "mul_thedaemonsown")];
        world.run_with(Daemon { environment, ..Daemon::default() }).await;
        assert_eq!(world.failure().0, "invalid_task_identity", "{token:?}");
        assert!(!world.kinds().contains(&"process-started"));
        assert_eq!(picture(&world.directory), before);
    }
}

/// S072: getting ready has a limit; whatever it was waiting for is gone with it.
#[tokio::test]
async fn getting_ready_for_too_long_fails_by_name_and_leaves_no_process() {
    let mut world = World::new("touch ran");
    let bin = world.root.path().join("bin");
    fs::create_dir(&bin).expect("mkdir");
    let asked = world.root.path().join("asked");
    program(&world, "bin/git", &format!("echo $$ >> {}\nsleep 600", asked.display()));
    world.charge.limits.prepare = Millis(300);
    world.charge.limits.git_timeout = Millis(1_500);
    let before = picture(&world.directory);
    let path = format!("{}:/usr/bin:/bin", bin.display());
    world.run_with(Daemon { environment: vec![("PATH", &path)], ..Daemon::default() }).await;
    assert_eq!(world.failure().0, "timeout");
    assert_eq!(picture(&world.directory), before);
    assert!(is_free(&world.directory));
    for pid in fs::read_to_string(&asked).expect("git was asked").lines() {
        let command = fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
        assert_eq!(command, b"", "{pid} lives");
    }
}

/// S074: a relative base would be another place in every process.
#[tokio::test]
async fn a_relative_place_for_temporary_files_fails_before_the_agent_starts() {
    let mut world = World::new("touch ran");
    world.charge.temporary_base = Some("var/tmp".to_owned());
    let before = picture(&world.directory);
    world.run().await;
    let (reason, detail) = world.failure();
    assert_eq!(reason, "machine_error");
    assert!(detail.contains("MULTICA_AGENT_TEMP_BASE") && detail.contains("var/tmp"), "{detail}");
    assert!(!world.kinds().contains(&"process-started"));
    assert_eq!(picture(&world.directory), before);
}

/// S074: temporary files go where the machine's configuration wants them, and with the run, killed or not.
#[tokio::test]
async fn temporary_files_go_to_the_configured_place_and_end_with_the_run() {
    let world_in = |base: &str, script: &str| {
        let mut world = World::new(script);
        let base = world.root.path().join(base);
        fs::create_dir(&base).expect("mkdir");
        world.charge.temporary_base = Some(base.display().to_string());
        (world, base)
    };
    let (world, base) = world_in("base", "echo x > \"$TMPDIR/file\"; echo $TMPDIR; stat -c %a \"$TMPDIR\"");
    world.run().await;
    let made = base.join(format!("multica-task-{}-1", world.charge.assignment.id.key()));
    assert_eq!(world.output().trim(), format!("{}\n700", made.display()));
    assert_eq!(picture(&base).len(), 1, "it is gone");

    let (world, base) = world_in("base", "sleep 600");
    let environment = vec![("MULTICA_FAILPOINT", "process-started:1")];
    world.run_with(Daemon { environment, ..Daemon::default() }).await;
    assert_eq!(picture(&base).len(), 2, "its supervisor died");
    world.recover().await;
    assert_eq!(picture(&base).len(), 1, "its recovery has put that in order too");

    let (world, base) = world_in("base", "touch ran");
    let foreign = base.join(format!("multica-task-{}-1", world.charge.assignment.id.key()));
    symlink("/etc", &foreign).expect("symlink");
    world.run().await;
    assert_eq!(world.failure().0, "machine_error");
    assert!(!world.directory.join("ran").exists() && foreign.is_symlink());
}

/// A further run of the same conversation on the same machine, beside the first.
fn follow_up(first: &World, script: &str) -> World {
    let mut next = World::new(script);
    next.charge.workplace = Workplace::Managed;
    let beside = first.env_root().parent().expect("a workspace").to_path_buf();
    next.charge.env_root = beside.join(next.charge.assignment.id.key()).display().to_string();
    next.charge.assignment.prior_work_dir = Some(first.env_root().join("workdir").display().to_string());
    next
}

fn managed(script: &str) -> World {
    let mut world = World::new(script);
    world.charge.workplace = Workplace::Managed;
    world
}

/// S066: what a run made in a directory of its own is there for the conversation's next run.
#[tokio::test]
async fn a_follow_up_goes_on_in_the_work_directory_of_the_conversation() {
    let first = managed("echo one > file");
    first.run().await;
    let second = follow_up(&first, "cat file; echo two > file; pwd");
    second.run().await;
    let workdir = first.env_root().join("workdir");
    assert_eq!(second.output().trim(), format!("one\n{}", workdir.display()));
    assert!(!second.env_root().join("workdir").exists());
    let mut third = follow_up(&first, "cat file");
    third.charge.assignment.prior_work_dir = Some(workdir.display().to_string());
    third.run().await;
    assert_eq!(third.output().trim(), "two");
    let names: Vec<_> = picture(&workdir).into_keys().collect();
    assert_eq!(names, [Path::new(""), Path::new("file")], "context files are gone");
}

/// S066: neither another agent's work directory nor one by a link or elsewhere is gone on in.
#[tokio::test]
async fn a_work_directory_that_is_not_the_conversation_s_is_left_alone() {
    let first = managed("echo one > file");
    first.run().await;
    let before = picture(&first.env_root().join("workdir"));
    let mut other_agent = follow_up(&first, "ls");
    let agent = multica::kernel::ids::AgentId(uuid::Uuid::from_u128(77));
    (other_agent.charge.assignment.agent_id, other_agent.charge.assignment.agent.id) = (agent, agent);
    let mut by_link = follow_up(&first, "ls");
    let link = first.env_root().parent().expect("a workspace").join("0123456789ab");
    symlink(first.env_root(), &link).expect("symlink");
    by_link.charge.assignment.prior_work_dir = Some(link.join("workdir").display().to_string());
    let mut elsewhere = follow_up(&first, "ls");
    elsewhere.charge.assignment.prior_work_dir = Some(first.directory.display().to_string());
    for world in [other_agent, by_link, elsewhere] {
        world.run().await;
        assert_eq!(world.output().trim(), "", "an empty directory of its own");
        assert!(world.env_root().join("workdir").is_dir());
    }
    assert_eq!(picture(&first.env_root().join("workdir")), before);
}

/// S070: in somebody's directory a run works there, whatever the conversation's last run had of its own.
#[tokio::test]
async fn a_run_in_place_goes_on_in_no_other_directory_and_has_an_env_root_of_its_own() {
    let first = managed("echo one > file");
    first.run().await;
    let before = picture(&first.env_root().join("workdir"));
    let mut second = follow_up(&first, "pwd; ls");
    let directory = second.directory.clone();
    second.attach(&directory);
    second.run().await;
    assert_eq!(second.output().trim(), directory.display().to_string());
    assert_ne!(second.env_root(), first.env_root());
    assert!(second.env_root().join(".task_owner").is_file() && !second.env_root().join("workdir").exists());
    assert_eq!(picture(&first.env_root().join("workdir")), before);
}

/// S069: of two that would go on in one work directory one does, the other begins afresh.
#[tokio::test]
async fn of_two_follow_ups_at_once_one_goes_on_and_the_other_begins_afresh() {
    let first = managed("echo one > file");
    first.run().await;
    let gate = first.root.path().join("gate");
    let script = format!("ls; while [ ! -e {} ]; do sleep 0.02; done", gate.display());
    let (one, other) = (follow_up(&first, &script), follow_up(&first, &script));
    let open = async {
        let started = |world: &World| {
            multica::supervisor::spool::read_reports(
                &world.env_root(),
                world.charge.assignment.id,
                1,
                &world.charge.limits,
            )
            .is_ok_and(|all| all.iter().any(|r| matches!(r.body, ReportBody::ProcessStarted { .. })))
        };
        let limit = std::time::Duration::from_secs(60);
        crate::support::eventually(limit, || async { started(&one) && started(&other) }).await;
        fs::write(&gate, "").expect("opened");
    };
    tokio::join!(one.run(), other.run(), open);
    let mut outputs = [one.output().trim().to_owned(), other.output().trim().to_owned()];
    outputs.sort();
    assert_eq!(outputs, ["", "file"]);
}

/// S066: a run that goes on in an earlier one's directory and dies there leaves it as any other run does.
#[tokio::test]
async fn a_follow_up_that_dies_leaves_no_context_file_behind() {
    let first = managed("echo one > file");
    first.run().await;
    let workdir = first.env_root().join("workdir");
    let before = picture(&workdir);
    let second = follow_up(&first, "sleep 600");
    let environment = vec![("MULTICA_FAILPOINT", "process-started:1")];
    second.run_with(Daemon { environment, ..Daemon::default() }).await;
    assert_ne!(picture(&workdir), before);
    assert_eq!(second.recover().await.code, Some(0));
    assert_eq!(picture(&workdir), before);
    assert_eq!(second.failure().0, "runtime_recovery");
}
