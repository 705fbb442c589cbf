//! What the daemon makes of its own files when a disk or a hand has damaged them, and of answers that come
//! at a bad moment.

use std::collections::BTreeSet;

use super::fake::{Fake, Machine, assignment, in_directory, until};

/// Whoever damages the notes doesn't keep the directory for ever, nor an agent in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_notes_are_damaged_is_ended_by_name_and_nothing_of_it_runs_on() {
    for damaged in [&["charge"][..], &["charge", "json"]] {
        let fake = Fake::start().await;
        let mut machine = Machine::start(&fake, &[]);
        let task = fake.offer(in_directory("cat > /dev/null; exec sleep 600", &machine.repo()));
        until("the agent runs", || fake.has(&task, "process-started")).await;
        let agent = fake.report(&task, "process-started")["pid"].as_u64().expect("a pid");
        machine.kill().await;
        kill_parent(agent);
        for path in machine.recorded() {
            if damaged.iter().any(|kind| path.extension().is_some_and(|ending| ending == *kind)) {
                std::fs::write(&path, "{\"task\":").expect("damaged");
            }
        }
        machine.start_again(&fake);
        until("its end is told", || fake.has(&task, "fail")).await;
        assert_eq!(fake.report(&task, "fail")["failure_reason"], "machine_error", "{damaged:?}");
        assert!(!runs(agent), "the agent is gone");
        until("it is forgotten", || machine.recorded().is_empty()).await;
        let next = fake.offer(in_directory("cat > /dev/null; echo done", &machine.repo()));
        until("the next one is done", || fake.has(&next, "complete")).await;
        machine.stop().await;
    }
}

const WIPE: &str = "rm -rf \"$MULTICA_TASK_WORKSPACES_ROOT\"";
const SCRIBBLE: &str =
    "for f in \"$MULTICA_TASK_WORKSPACES_ROOT\"/runs/*/*; do [ ! -f \"$f\" ] || echo garbage > \"$f\"; done";

/// The run's files lie where the agent's account can reach them: what it does to them costs it nothing but
/// its own folders.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_destroys_the_run_s_files_ends_as_any_other() {
    for deed in [WIPE, SCRIBBLE] {
        let fake = Fake::start().await;
        let machine = Machine::start(&fake, &[]);
        let script = format!("cat > /dev/null; {deed}; echo done");
        let task = fake.offer(in_directory(&script, &machine.repo()));
        until("its end is told", || fake.has(&task, "complete") || fake.has(&task, "fail")).await;
        assert!(fake.has(&task, "complete"), "{deed}: {:?} {}", fake.kinds(&task), machine.log());
        assert_eq!(std::fs::read_dir(machine.repo()).expect("read").count(), 0, "context files are gone");
        until("it is forgotten", || machine.recorded().is_empty()).await;
        machine.stop().await;
    }
}

/// The same with nobody left who remembers: the end is told all the same, and the directory is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_files_are_destroyed_and_whose_supervisor_dies_is_ended() {
    for deed in [WIPE, SCRIBBLE] {
        let fake = Fake::start().await;
        let machine = Machine::start(&fake, &[]);
        let [go, done] = ["deed-may-begin", "deed-done"].map(|name| machine.repo().with_file_name(name));
        let script = format!(
            "cat > /dev/null; until [ -e {} ]; do sleep 0.02; done; {deed}; touch {}; exec sleep 600",
            go.display(),
            done.display(),
        );
        let task = fake.offer(in_directory(&script, &machine.repo()));
        until("the agent runs", || fake.has(&task, "process-started")).await;
        std::fs::write(&go, "").expect("written");
        until("the deed is done", || done.exists()).await;
        let agent = fake.report(&task, "process-started")["pid"].as_u64().expect("a pid");
        kill_parent(agent);
        until("its end is told", || fake.has(&task, "fail")).await;
        assert!(!runs(agent), "the agent is gone");
        until("it is forgotten", || machine.recorded().is_empty()).await;
        let next = fake.offer(in_directory("cat > /dev/null; echo done", &machine.repo()));
        until("the next one is done", || fake.has(&next, "complete")).await;
        machine.stop().await;
    }
}

/// Whether that process runs: one that is dead and not yet taken away has no command line.
fn runs(pid: u64) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// Kills the supervisor of that agent, as a crash would.
fn kill_parent(agent: u64) {
    let status = std::fs::read_to_string(format!("/proc/{agent}/status")).expect("it lives");
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a parent").trim();
    let killed = std::process::Command::new("kill").args(["-9", parent]).status().expect("kill");
    assert!(killed.success());
}

/// Nobody else would tell the server later: the task would wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_s_end_is_told_again_until_there_is_a_slot() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let foreign = std::fs::File::open(machine.repo()).expect("opened");
    foreign.try_lock().expect("locked");
    let task = fake.offer(in_directory("cat > /dev/null; echo done", &machine.repo()));
    until("the lock is told", || fake.has(&task, "directory-lock")).await;
    let path = format!("/api/daemon/tasks/{task}/directory-lock");
    let before = fake.keys(&path).len();
    fake.refuse(&path, 409, "no_free_slot");
    drop(foreign);
    until("it is told several times", || fake.keys(&path).len() >= before + 3).await;
    let keys = fake.keys(&path);
    assert_ne!(keys[before], keys[before + 1], "a refusal is kept under its key");
    machine.stop().await;
}

/// A request holds so many bytes: what an agent says is cut into requests, not lost with one that is too long.
#[tokio::test(flavor = "multi_thread")]
async fn a_talkative_agent_is_heard_to_the_last_line() {
    let fake = Fake::start().await;
    let script = r"cat > /dev/null; line=$(head -c 60000 /dev/zero | tr '\0' x); i=0
        while [ $i -lt 150 ]; do echo $i-$line; i=$((i+1)); done";
    let machine = Machine::start(&fake, &[]);
    let task = fake.offer(assignment(script));
    until("it is complete", || fake.has(&task, "complete")).await;
    // A delivery that was cut off is made again; the server keeps each number once. What was said may come
    // after the end, which doesn't wait for it.
    let heard = || {
        let messages = fake.messages(&task);
        messages.iter().filter_map(|message| message["seq"].as_u64()).collect::<BTreeSet<u64>>()
    };
    until("all of it is heard", || heard().len() >= 150).await;
    assert_eq!(heard(), (1..=150).collect::<BTreeSet<u64>>());
    let largest = fake.largest_request(&format!("/api/daemon/tasks/{task}/messages"));
    assert!(largest <= 2 * 1_024 * 1_024, "{largest} bytes in one request");
    machine.stop().await;
}
