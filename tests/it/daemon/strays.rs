//! Agents that a daemon finds at work without having a record of them, or with one that is out of date.

use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::QUICK;
use super::fake::{Fake, Machine, assignment, until};

/// Whether that process runs: one that is dead and not yet taken away has no command line.
fn runs(pid: u64) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn acknowledged(fake: &Fake, task: &str) -> usize {
    fake.kinds(task).iter().filter(|kind| *kind == "cancel-ack").count()
}

/// A program that has a supervisor's words, and nothing else of one.
struct Pretender {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Pretender {
    fn of(task: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("__supervise"), "read word").expect("written");
        let mut command = Command::new("/bin/sh");
        command.args(["__supervise", task]).current_dir(folder.path()).stdin(Stdio::piped());
        Self { child: command.spawn().expect("started"), _folder: folder }
    }
}

impl Drop for Pretender {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A killed daemon's supervisor works on; the same daemon id comes back from another home, which has no record of
/// it. That nothing is left is said only once it is so; the first home's daemon still tells how the run ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_another_home_is_stopped_before_its_cancel_is_acknowledged() {
    let fake = Fake::start().await;
    let mut first = Machine::start(&fake, &[]);
    let task = fake.offer(assignment("exec sleep 600"));
    until("the agent runs", || fake.has(&task, "process-started")).await;
    let agent = fake.report(&task, "process-started")["pid"].as_u64().expect("a pid");
    first.kill().await;
    let mut pretender = Pretender::of(&task);
    let second = Machine::start(&fake, &[]);
    // Another claim of the same task is none of its business.
    fake.order(json!({"kind": "cancel", "task": task, "generation": 2}));
    until("that there is no such claim is said", || acknowledged(&fake, &task) == 1).await;
    assert!(runs(agent), "the other claim's agent works on");
    fake.order(json!({"kind": "cancel", "task": task, "generation": 1}));
    until("the cancel is acknowledged", || acknowledged(&fake, &task) == 2).await;
    assert!(!runs(agent), "nothing of it is left");
    assert!(pretender.child.try_wait().expect("asked").is_none(), "words make no supervisor");
    second.stop().await;
    first.start_again(&fake);
    until("its end is told", || fake.has(&task, "fail")).await;
    assert_eq!(fake.report(&task, "fail")["failure_reason"], "runtime_recovery");
    until("the run is forgotten", || first.recorded().is_empty()).await;
    first.stop().await;
}

/// The order to stop was answered while this daemon was away: none comes again. That the server doesn't say yet
/// how it stands holds up nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_not_wanted_any_more_is_ended_when_its_daemon_comes_back() {
    let fake = Fake::start().await;
    let mut machine = Machine::start(&fake, &[]);
    let (over, wanted) = (fake.offer(assignment("exec sleep 600")), fake.offer(assignment("exec sleep 600")));
    until("the agents run", || [&over, &wanted].iter().all(|task| fake.has(task, "process-started"))).await;
    let pid = |task: &str| fake.report(task, "process-started")["pid"].as_u64().expect("a pid");
    let (agent, other) = (pid(&over), pid(&wanted));
    machine.kill().await;
    fake.stands(&over, "failed");
    let path = format!("/api/daemon/tasks/{over}/status");
    fake.refuse(&path, 503, "not_now");
    machine.start_again(&fake);
    let next = fake.offer(assignment(QUICK));
    until("the next one is complete", || fake.has(&next, "complete")).await;
    assert!(runs(agent) && runs(other));
    fake.allow(&path);
    until("the agent is gone and that is told", || fake.has(&over, "cancel-ack") && !runs(agent)).await;
    assert!(runs(other), "a run that is wanted goes on");
    machine.stop().await;
}

/// What a machine knows of is said when it registers, also by a process that has only just found its records.
#[tokio::test(flavor = "multi_thread")]
async fn a_registration_lists_the_claims_of_which_there_are_records() {
    let fake = Fake::start().await;
    let mut machine = Machine::start(&fake, &[]);
    until("it is registered", || !fake.registrations().is_empty()).await;
    assert_eq!(fake.registrations()[0]["claims"], json!([]));
    let task = fake.offer(assignment("exec sleep 600"));
    until("the agent runs", || fake.has(&task, "process-started")).await;
    machine.kill().await;
    let before = fake.registrations().len();
    machine.start_again(&fake);
    until("it is registered again", || fake.registrations().len() > before).await;
    assert_eq!(fake.registrations()[before]["claims"], json!([{"task": task, "generation": 1}]));
    machine.stop().await;
}
