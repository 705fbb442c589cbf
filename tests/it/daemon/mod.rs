//! The daemon as a process, against a small server that speaks its protocol.

mod damage;
mod fake;
mod waits;

use fake::{Fake, Machine, assignment, in_directory, until};
use serde_json::json;

const QUICK: &str = "cat > /dev/null; echo done";

/// A daemon whose task wanted into the directory, has to queue there, and is forgotten.
async fn in_the_queue(script: &str) -> (Fake, Machine, String) {
    let fake = Fake::start().await;
    fake.queue();
    let machine = Machine::start(&fake, &[]);
    let task = fake.offer(in_directory(script, &machine.repo()));
    until("it wants in", || fake.has(&task, "enter-directory")).await;
    until("it is forgotten", || machine.recorded().is_empty()).await;
    (fake, machine, task)
}

/// Orders that the task goes on: the directory that it asked for is its own.
fn promote(fake: &Fake, task: &str) {
    let directory = fake.report(task, "enter-directory")["directory"].clone();
    fake.order(json!({"kind": "promoted", "task": task, "generation": 1, "directory": directory}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_is_lost_is_asked_again_under_its_key_and_runs_once() {
    let fake = Fake::start().await;
    fake.fail("/api/daemon/tasks/claim", 503, 2);
    let task = fake.offer(assignment(QUICK));
    let machine = Machine::start(&fake, &[]);
    until("the task is complete", || fake.has(&task, "complete")).await;
    let claims = fake.keys("/api/daemon/tasks/claim");
    assert_eq!((&claims[0], &claims[1]), (&claims[1], &claims[2]), "{claims:?}");
    until("it asks for more under another key", || {
        fake.keys("/api/daemon/tasks/claim").iter().any(|key| *key != claims[0])
    })
    .await;
    assert_eq!(fake.kinds(&task).iter().filter(|kind| *kind == "receipt").count(), 1);
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_receipt_leaves_nothing_behind() {
    let fake = Fake::start().await;
    let task = fake.offer(assignment(QUICK));
    fake.refuse(&format!("/api/daemon/tasks/{task}/receipt"), 409, "claim_released");
    let machine = Machine::start(&fake, &[]);
    until("the receipt was tried", || !fake.keys(&format!("/api/daemon/tasks/{task}/receipt")).is_empty())
        .await;
    until("nothing is in hand", || machine.recorded().is_empty()).await;
    assert_eq!(fake.kinds(&task), Vec::<String>::new());
    assert!(!machine.work_root().join(fake::WORKSPACE).exists());
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_arrive_in_order_and_once_although_the_server_fails_on_the_way() {
    let fake = Fake::start().await;
    let task = fake.offer(assignment(QUICK));
    for kind in ["receipt", "prepared", "start", "process-started", "complete"] {
        fake.fail(&format!("/api/daemon/tasks/{task}/{kind}"), 503, 2);
    }
    let machine = Machine::start(&fake, &[]);
    until("the task is complete", || fake.has(&task, "complete")).await;
    let kinds = fake.kinds(&task);
    let place =
        |kind: &str| kinds.iter().position(|k| k == kind).unwrap_or_else(|| panic!("{kind} in {kinds:?}"));
    let order = ["receipt", "prepared", "start", "process-started", "process-exited", "complete"];
    assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "{kinds:?}");
    assert!(order.iter().all(|kind| kinds.iter().filter(|k| k == kind).count() == 1), "{kinds:?}");
    until("the run is forgotten", || machine.recorded().is_empty()).await;
    assert!(fake.messages(&task).iter().any(|m| m["content"] == "done"));
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordered_cancel_stops_the_agent_and_is_acknowledged() {
    let fake = Fake::start().await;
    let task = fake.offer(assignment("exec sleep 600"));
    let machine = Machine::start(&fake, &[]);
    until("the agent runs", || fake.has(&task, "process-started")).await;
    fake.order(json!({"kind": "cancel", "task": task, "generation": 1}));
    until("the cancel is acknowledged", || fake.has(&task, "cancel-ack")).await;
    let kinds = fake.kinds(&task);
    let place = |kind: &str| kinds.iter().position(|k| k == kind);
    assert!(place("cancel-received") < place("process-exited"), "{kinds:?}");
    assert!(place("process-exited") < place("cancel-ack"), "{kinds:?}");
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_finds_its_run_again_and_the_agent_never_noticed() {
    let fake = Fake::start().await;
    let gate = tempfile::tempdir().expect("a folder");
    let open = gate.path().join("open");
    let script =
        format!("cat > /dev/null; while [ ! -e {} ]; do sleep 0.05; done; echo done", open.display());
    let task = fake.offer(assignment(&script));
    let mut machine = Machine::start(&fake, &[]);
    until("the agent runs", || fake.has(&task, "process-started")).await;
    machine.kill().await;
    machine.start_again(&fake);
    until("it is registered again", || fake.keys("/api/daemon/register").len() >= 2).await;
    std::fs::write(&open, "").expect("opened");
    until("the task is complete", || fake.has(&task, "complete")).await;
    assert_eq!(fake.kinds(&task).iter().filter(|kind| *kind == "process-started").count(), 1);
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_daemon_says_so_and_exits() {
    let fake = Fake::start().await;
    fake.refuse("/api/daemon/heartbeat", 409, "daemon_superseded");
    let mut machine = Machine::start(&fake, &[]);
    assert_eq!(machine.exit_code().await, Some(1));
    assert!(machine.log().contains("a newer process of this daemon has registered"), "{}", machine.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_leaves_no_agent_and_signs_off_last() {
    let fake = Fake::start().await;
    let task = fake.offer(assignment("exec sleep 600"));
    let mut machine = Machine::start(&fake, &["--drain", "0"]);
    until("the agent runs", || fake.has(&task, "process-started")).await;
    let pid = fake.report(&task, "process-started")["pid"].as_u64().expect("a pid");
    machine.command(&["daemon", "stop"]).assert().success();
    assert_eq!(machine.exit_code().await, Some(0));
    assert_eq!(fake.report(&task, "fail")["failure_reason"], "runtime_recovery");
    assert!(!std::path::Path::new(&format!("/proc/{pid}/cmdline")).exists());
    let calls = fake.calls();
    assert_eq!(calls.last().map(String::as_str), Some("/api/daemon/deregister"), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_of_the_profile_is_refused_and_status_tells_of_the_first() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    until("it is registered", || !fake.keys("/api/daemon/heartbeat").is_empty()).await;
    machine.command(&["daemon", "start", "--foreground", "--health-port", "0"]).assert().code(1);
    let assert = machine.command(&["daemon", "status", "--output", "json"]).assert().success();
    let status: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).expect("json");
    assert_eq!((status["status"].as_str(), status["connected"].as_bool()), (Some("running"), Some(true)));
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_entered_before_it_is_touched_and_released_with_the_last_report() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let task = fake.offer(in_directory("cat > /dev/null; pwd", &machine.repo()));
    until("the task is over", || fake.has(&task, "complete") || fake.has(&task, "fail")).await;
    let kinds = fake.kinds(&task);
    let place = |kind: &str| kinds.iter().position(|k| k == kind);
    assert!(
        place("receipt") < place("enter-directory") && place("enter-directory") < place("prepared"),
        "{kinds:?}"
    );
    let (entered, complete) = (fake.report(&task, "enter-directory"), fake.report(&task, "complete"));
    assert_eq!(complete["directory"], entered["directory"], "{complete}");
    assert_eq!(complete["output"].as_str().map(str::trim), machine.repo().to_str());
    assert_eq!(std::fs::read_dir(machine.repo()).expect("read").count(), 0, "context files are gone");
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_task_is_forgotten_until_it_is_promoted() {
    let (fake, machine, task) = in_the_queue(QUICK).await;
    promote(&fake, &task);
    until("it is complete", || fake.has(&task, "complete")).await;
    let kinds = fake.kinds(&task);
    assert_eq!(kinds.iter().filter(|kind| *kind == "receipt").count(), 2, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "enter-directory").count(), 1, "{kinds:?}");
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_lock_is_waited_for_and_its_end_is_told() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let foreign = std::fs::File::open(machine.repo()).expect("opened");
    foreign.try_lock().expect("locked");
    let task = fake.offer(in_directory(QUICK, &machine.repo()));
    let states = |fake: &Fake| fake.kinds(&task).iter().filter(|kind| *kind == "directory-lock").count();
    until("the lock is told", || states(&fake) == 1).await;
    assert_eq!(fake.report(&task, "directory-lock")["lock"]["state"], "blocked");
    drop(foreign);
    until("the end of it is told", || states(&fake) == 2).await;
    promote(&fake, &task);
    until("it is complete", || fake.has(&task, "complete")).await;
    machine.stop().await;
}

/// S035: without a grant nothing starts; the same question is asked until it is answered, and can be seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_asked_for_under_one_key_until_the_answer_comes() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let task = fake.offer(in_directory("cat > /dev/null; touch ran", &machine.repo()));
    let path = format!("/api/daemon/tasks/{task}/enter-directory");
    fake.fail(&path, 503, u32::MAX);
    until("it has asked thrice", || fake.keys(&path).len() >= 3).await;
    let keys = fake.keys(&path);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert!(!fake.has(&task, "prepared") && std::fs::read_dir(machine.repo()).expect("read").count() == 0);
    let assert = machine.command(&["daemon", "status", "--output", "json"]).assert().success();
    let status: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).expect("json");
    assert_eq!(status["tasks"].as_array().map(Vec::len), Some(1), "{status}");
    fake.fail(&path, 503, 0);
    until("it is complete", || fake.has(&task, "complete")).await;
    assert!(machine.repo().join("ran").exists());
    machine.stop().await;
}

/// A promotion whose receipt is refused is forgotten: its grant was taken back, nothing is touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_answered_too_late_touches_nothing() {
    let (fake, machine, task) = in_the_queue("cat > /dev/null; touch ran").await;
    let receipt = format!("/api/daemon/tasks/{task}/receipt");
    fake.refuse(&receipt, 409, "not_granted");
    promote(&fake, &task);
    until("its receipt was refused", || fake.keys(&receipt).len() >= 2).await;
    until("it is forgotten again", || machine.recorded().is_empty()).await;
    assert_eq!(std::fs::read_dir(machine.repo()).expect("read").count(), 0);
    assert!(!fake.has(&task, "prepared"));
    machine.stop().await;
}

/// C-033: a stop ends within its limits although the agent ignores every signal that it can.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_in_time_although_the_agent_ignores_every_signal() {
    let fake = Fake::start().await;
    let task = fake.offer(assignment("trap '' TERM INT HUP QUIT; while :; do sleep 0.1; done"));
    let mut machine = Machine::start(&fake, &["--drain", "0"]);
    until("the agent runs", || fake.has(&task, "process-started")).await;
    let begun = std::time::Instant::now();
    machine.command(&["daemon", "stop"]).assert().success();
    assert_eq!(machine.exit_code().await, Some(0));
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(fake.report(&task, "fail")["failure_reason"], "runtime_recovery");
}

/// S018, S019: of two own directories neither is chosen; those of other machines are passed over.
#[tokio::test(flavor = "multi_thread")]
async fn two_directories_of_one_daemon_are_refused_by_both_names_and_foreign_ones_are_none_of_its_business() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let mut both = in_directory("cat > /dev/null; touch ran", &machine.repo());
    let mut second = both["project_resources"][0].clone();
    second["resource_ref"]["local_path"] = json!("/srv/second");
    both["project_resources"].as_array_mut().expect("a list").push(second.clone());
    let task = fake.offer(both);
    until("it is refused", || fake.has(&task, "fail")).await;
    let failed = fake.report(&task, "fail");
    assert_eq!(failed["failure_reason"], "local_directory_error");
    let error = failed["error"].as_str().expect("a sentence");
    assert!(
        error.contains(&machine.repo().display().to_string()) && error.contains("/srv/second"),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(machine.repo()).expect("read").count(), 0);
    let mut foreign = assignment("cat > /dev/null; pwd");
    second["resource_ref"]["daemon_id"] = json!("somebody-else");
    foreign["project_resources"] = json!([second]);
    let task = fake.offer(foreign);
    until("it is complete", || fake.has(&task, "complete")).await;
    assert!(!fake.has(&task, "enter-directory"), "a foreign path is not even looked at");
    machine.stop().await;
}
