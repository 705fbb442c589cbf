//! The daemon as a process, against a small server that speaks its protocol.

mod damage;
mod ends;
mod fake;
mod strays;
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

/// What the daemon says of itself.
fn status(machine: &Machine) -> serde_json::Value {
    let assert = machine.command(&["daemon", "status", "--output", "json"]).assert().success();
    serde_json::from_slice(&assert.get_output().stdout).expect("json")
}

/// How many tasks wait for a directory on this machine, as the daemon says.
fn waiting(machine: &Machine) -> Option<u64> {
    status(machine)["resource_wait_task_count"].as_u64()
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

/// S271: on whatever port, the one of the first too; the first goes on as if nothing had been.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_of_the_profile_is_refused_and_status_tells_of_the_first() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    until("it is registered", || !fake.keys("/api/daemon/heartbeat").is_empty()).await;
    let first = machine.local_state();
    let port = first["port"].to_string();
    for port in ["0", port.as_str()] {
        let second = ["daemon", "start", "--foreground", "--health-port", port];
        let assert = machine.command(&second).assert().code(1);
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(said.contains(&first["pid"].to_string()), "{said}");
    }
    assert_eq!(machine.local_state(), first);
    assert_eq!(fake.keys("/api/daemon/register").len(), 1);
    let beats = fake.keys("/api/daemon/heartbeat").len();
    until("the first beats on", || fake.keys("/api/daemon/heartbeat").len() > beats).await;
    let status = status(&machine);
    assert_eq!((status["status"].as_str(), status["connected"].as_bool()), (Some("running"), Some(true)));
    assert_eq!(status["pid"], first["pid"]);
    let task = fake.offer(assignment(QUICK));
    until("it does its work", || fake.has(&task, "complete")).await;
    machine.stop().await;
}

/// S002, S029, S243.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_entered_before_it_is_touched_and_released_with_the_last_report() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let mut assignment = in_directory("cat > /dev/null; pwd", &machine.repo());
    // As an older server may have kept it, and beside a repository that could be checked out elsewhere.
    assignment["project_resources"][0]["resource_ref"]["local_path"] =
        json!(format!("  {} ", machine.repo().display()));
    let repository = json!({"id": "0190aaaa-0000-7000-8000-000000000006", "resource_type": "github_repo",
        "resource_ref": {"url": "https://example.invalid/game.git"}});
    assignment["project_resources"].as_array_mut().expect("a list").insert(0, repository);
    let task = fake.offer(assignment);
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
    let env_root = fake.report(&task, "prepared")["env_root"].as_str().expect("a path").to_owned();
    assert!(!std::path::Path::new(&env_root).join("workdir").exists(), "nothing is checked out beside it");
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

/// S037: who waits on this machine is counted, as long as it waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_lock_is_waited_for_and_its_end_is_told() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let foreign = std::fs::File::open(machine.repo()).expect("opened");
    foreign.try_lock().expect("locked");
    let script = "cat > /dev/null; while [ ! -e go ]; do sleep 0.02; done";
    let task = fake.offer(in_directory(script, &machine.repo()));
    let states = |fake: &Fake| fake.kinds(&task).iter().filter(|kind| *kind == "directory-lock").count();
    until("the lock is told", || states(&fake) == 1).await;
    assert_eq!(fake.report(&task, "directory-lock")["lock"]["state"], "blocked");
    until("it counts as waiting", || waiting(&machine) == Some(1)).await;
    let seen = status(&machine);
    assert_eq!(seen["tasks"][0]["state"], "waiting for a foreign lock", "{seen}");
    assert_eq!(seen["running_task_count"], 0, "it has no slot: {seen}");
    drop(foreign);
    until("the end of it is told", || states(&fake) == 2).await;
    promote(&fake, &task);
    until("the agent runs", || fake.has(&task, "process-started")).await;
    let seen = status(&machine);
    assert_eq!(
        (&seen["resource_wait_task_count"], &seen["running_task_count"]),
        (&json!(0), &json!(1)),
        "{seen}"
    );
    std::fs::write(machine.repo().join("go"), "").expect("written");
    until("it is complete", || fake.has(&task, "complete")).await;
    machine.stop().await;
}

/// S035: without a grant nothing starts, whether the answer is a failure or never comes; the same question is
/// asked until it is answered, and can be seen. The answer is that it has to queue: even then nothing starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_asked_for_under_one_key_until_the_answer_comes() {
    let fake = Fake::start().await;
    fake.queue();
    let limits = fake::LIMITS.replace(r#""http_timeout":5000"#, r#""http_timeout":400"#);
    let machine = Machine::with(&fake, &[], vec![("MULTICA_LIMITS", limits)]);
    let assignment = in_directory("cat > /dev/null; touch ran", &machine.repo());
    let path = format!("/api/daemon/tasks/{}/enter-directory", assignment["id"].as_str().expect("an id"));
    fake.fail(&path, 500, u32::MAX);
    let task = fake.offer(assignment);
    until("it has asked thrice", || fake.keys(&path).len() >= 3).await;
    let untouched = || std::fs::read_dir(machine.repo()).expect("read").count() == 0;
    assert!(!fake.has(&task, "prepared") && untouched());
    let seen = status(&machine);
    assert_eq!(seen["tasks"][0]["state"], "entering", "{seen}");
    assert_eq!(seen["tasks"][0]["id"], task.as_str(), "{seen}");
    fake.silence(&path);
    let asked = fake.keys(&path).len();
    until("it has asked twice more", || fake.keys(&path).len() >= asked + 2).await;
    assert!(!fake.has(&task, "prepared") && untouched());
    fake.allow(&path);
    until("it is forgotten: it has to queue", || machine.recorded().is_empty()).await;
    let keys = fake.keys(&path);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert!(!fake.has(&task, "prepared") && untouched());
    promote(&fake, &task);
    until("it is complete", || fake.has(&task, "complete")).await;
    assert!(machine.repo().join("ran").exists());
    machine.stop().await;
}

/// S031, S037: a server that knows the task no more is told nothing more of it, and nothing of it stays here:
/// neither while its directory is asked for, nor once the lock is free that it waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_the_server_knows_no_more_is_let_go_without_a_word() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let unknown = in_directory("cat > /dev/null; touch ran", &machine.other());
    let path = |task: &str, kind: &str| format!("/api/daemon/tasks/{task}/{kind}");
    let asking = unknown["id"].as_str().expect("an id").to_owned();
    fake.refuse(&path(&asking, "enter-directory"), 404, "not_found");
    fake.offer(unknown);
    until("it asked", || !fake.keys(&path(&asking, "enter-directory")).is_empty()).await;
    until("nothing is in hand", || machine.recorded().is_empty()).await;
    assert_eq!(fake.kinds(&asking), ["receipt"]);

    let foreign = std::fs::File::open(machine.repo()).expect("opened");
    foreign.try_lock().expect("locked");
    let task = fake.offer(in_directory("cat > /dev/null; touch ran", &machine.repo()));
    until("it counts as waiting", || waiting(&machine) == Some(1)).await;
    fake.refuse(&path(&task, "directory-lock"), 404, "not_found");
    let told = fake.kinds(&task);
    drop(foreign);
    until("nothing is in hand", || machine.recorded().is_empty()).await;
    let seen = status(&machine);
    assert_eq!((&seen["resource_wait_task_count"], &seen["tasks"]), (&json!(0), &json!([])), "{seen}");
    assert_eq!(fake.kinds(&task), told);
    // Who comes behind it gets the directory.
    let next = fake.offer(in_directory(QUICK, &machine.repo()));
    until("the next one is complete", || fake.has(&next, "complete")).await;
    assert!(!machine.repo().join("ran").exists());
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

/// What the server refuses for good isn't done: an agent never works without the server's word.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_the_server_refuses_starts_no_agent() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    for (code, status, told) in [("not_granted", 409, None), ("invalid_field", 400, Some("runtime_recovery"))]
    {
        let assignment = in_directory("cat > /dev/null; touch ran", &machine.repo());
        let task = assignment["id"].as_str().expect("an id").to_owned();
        let start = format!("/api/daemon/tasks/{task}/start");
        fake.refuse(&start, status, code);
        fake.offer(assignment);
        until("its start was refused", || !fake.keys(&start).is_empty()).await;
        until("it is forgotten", || machine.recorded().is_empty()).await;
        assert_eq!(std::fs::read_dir(machine.repo()).expect("read").count(), 0, "{}", machine.log());
        assert!(!fake.has(&task, "process-started"), "{:?}", fake.kinds(&task));
        let failed = fake.has(&task, "fail").then(|| fake.report(&task, "fail")["failure_reason"].clone());
        assert_eq!(failed, told.map(|reason| json!(reason)), "{code}");
    }
    machine.stop().await;
}

/// Whoever waited by another path of a directory when the machine was started anew: device and inode of the boot
/// before say nothing, and it asks for the directory again instead of failing.
#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_of_an_earlier_boot_asks_for_the_directory_that_is_there_now() {
    let (fake, machine, task) = in_the_queue("cat > /dev/null; touch ran").await;
    let elsewhere = uuid::Uuid::now_v7();
    let mut assignment = in_directory("cat > /dev/null; touch ran", &machine.repo());
    assignment["id"] = json!(task);
    assignment["directory"] = json!(elsewhere);
    assignment["directory_identity"] = json!({"boot_id": "before", "device": 1, "inode": 2});
    fake.assign(&task, assignment);
    fake.order(json!({"kind": "promoted", "task": task, "generation": 1, "directory": elsewhere}));
    let asked = || fake.kinds(&task).iter().filter(|kind| *kind == "enter-directory").count();
    until("it asks again", || asked() == 2).await;
    assert!(!fake.has(&task, "fail"));
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
