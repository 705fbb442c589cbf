//! What a daemon does while something doesn't answer: a directory, a lock's holder, the server.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fake::{self, Fake, Machine, assignment, in_directory, until};
use super::{QUICK, in_the_queue, promote, status, waiting};

fn count(fake: &Fake, task: &str, kind: &str) -> usize {
    fake.kinds(task).iter().filter(|known| *known == kind).count()
}

/// Whether a process of that number runs; a dead one that nobody has taken leave of doesn't.
fn lives(pid: &str) -> bool {
    std::fs::read(format!("/proc/{}/cmdline", pid.trim())).is_ok_and(|words| !words.is_empty())
}

/// A folder with a `git` that never answers in a directory `repo`, and a file with the processes it was.
fn hanging_git(folder: &Path) -> String {
    let asked = folder.join("asked");
    let script = format!(
        "#!/bin/sh\ncase \"$(pwd -P)\" in */repo) echo $$ >> {}; exec sleep 600;; *) exit 128;; esac\n",
        asked.display()
    );
    std::fs::write(folder.join("git"), script).expect("written");
    std::fs::set_permissions(folder.join("git"), std::fs::Permissions::from_mode(0o755)).expect("executable");
    format!("{}:/usr/bin:/bin", folder.display())
}

/// A-003: a look at a directory that hangs is seen, can be cancelled, and holds up nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_does_not_answer_holds_up_its_own_task_only() {
    let fake = Fake::start().await;
    let bin = tempfile::tempdir().expect("a folder");
    let limits = json!({"git_timeout": 600_000, "heartbeat": 100, "order_poll": 100, "claim_poll": 200});
    let more = vec![("PATH", hanging_git(bin.path())), ("MULTICA_LIMITS", limits.to_string())];
    let machine = Machine::with(&fake, &[], more);
    let stuck = fake.offer(in_directory("cat > /dev/null", &machine.repo()));
    let asked = bin.path().join("asked");
    let pids = || std::fs::read_to_string(&asked).unwrap_or_default();
    until("the look at it hangs", || pids().ends_with('\n')).await;
    let beats = fake.keys("/api/daemon/heartbeat").len();
    let other = fake.offer(in_directory(QUICK, &machine.other()));
    until("a task of another directory is complete", || fake.has(&other, "complete")).await;
    until("heartbeats go on", || fake.keys("/api/daemon/heartbeat").len() > beats).await;
    let status = machine.command(&["daemon", "status", "--output", "json"]).assert().success();
    let status: Value = serde_json::from_slice(&status.get_output().stdout).expect("json");
    assert!(status["tasks"].to_string().contains("entering"), "{status}");
    fake.order(json!({"kind": "cancel", "task": stuck, "generation": 1}));
    until("the cancel is acknowledged", || fake.has(&stuck, "cancel-ack")).await;
    assert!(!fake.has(&stuck, "enter-directory"));
    until("nothing is left of the look", || !pids().lines().any(lives)).await;
    machine.stop().await;
}

/// A file system that answers nothing, mounted over a directory as long as this lives.
struct Hanging {
    holder: std::process::Child,
    over: std::path::PathBuf,
}

impl Hanging {
    /// None where this account or system can't mount.
    fn over(directory: &Path) -> Option<Self> {
        // Whoever answers for it is a shell that waits for its own end.
        let script = "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 hangs \
                      \"$1\" && echo hangs && read _; umount -l \"$1\"";
        let mut holder = std::process::Command::new("/bin/sh")
            .args(["-c", script, "sh"])
            .arg(directory)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("a shell");
        let mut said = String::new();
        let mut output = std::io::BufReader::new(holder.stdout.take().expect("its output"));
        std::io::BufRead::read_line(&mut output, &mut said).expect("read");
        let hanging = Self { holder, over: directory.to_owned() };
        (said == "hangs\n").then_some(hanging)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // Its input ends, and with it the file system and whoever still asks it.
        drop(self.holder.stdin.take());
        drop(self.holder.wait());
        assert!(std::thread::panicking() || std::fs::read_dir(&self.over).is_ok());
    }
}

/// A-003: a directory whose file system hangs (a network, a FUSE mount) is waited for by its own task, which is
/// seen and can be cancelled; tasks of others, probes of them and heartbeats go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_that_hangs_holds_up_its_own_task_only() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let Some(hanging) = Hanging::over(&machine.repo()) else {
        eprintln!("this account or system can't mount: nothing to see here");
        return machine.stop().await;
    };
    let stuck = fake.offer(in_directory("cat > /dev/null; touch ran", &machine.repo()));
    until("it is looked at", || fake.has(&stuck, "receipt")).await;
    let other = fake.offer(in_directory("cat > /dev/null; touch ran", &machine.other()));
    until("a task of another directory is complete", || fake.has(&other, "complete")).await;
    assert!(machine.other().join("ran").exists());
    let beats = fake.keys("/api/daemon/heartbeat").len();
    until("heartbeats go on", || fake.keys("/api/daemon/heartbeat").len() > beats).await;
    let seen = status(&machine);
    assert_eq!(
        (&seen["tasks"][0]["id"], &seen["tasks"][0]["state"]),
        (&json!(stuck), &json!("entering")),
        "{seen}"
    );
    fake.order(json!({"kind": "cancel", "task": stuck, "generation": 1}));
    until("the cancel is acknowledged", || fake.has(&stuck, "cancel-ack")).await;
    until("nothing is in hand", || machine.recorded().is_empty()).await;
    assert_eq!(fake.kinds(&stuck), ["receipt", "cancel-received", "cancel-ack"]);
    drop(hanging);
    machine.stop().await;
}

/// A-003: without a cancel too the wait for a directory that hangs has an end, by name.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_a_directory_has_a_limit() {
    let fake = Fake::start().await;
    let bin = tempfile::tempdir().expect("a folder");
    let limits = json!({"git_timeout": 600_000, "prepare": 500, "order_poll": 100, "claim_poll": 200});
    let more = vec![("PATH", hanging_git(bin.path())), ("MULTICA_LIMITS", limits.to_string())];
    let machine = Machine::with(&fake, &[], more);
    let stuck = fake.offer(in_directory("cat > /dev/null", &machine.repo()));
    until("it has failed", || fake.has(&stuck, "fail")).await;
    assert_eq!(fake.report(&stuck, "fail")["failure_reason"], "local_directory_error");
    let pids = std::fs::read_to_string(bin.path().join("asked")).expect("it was looked at");
    until("nothing is left of the look", || !pids.lines().any(lives)).await;
    machine.stop().await;
}

/// C-035, in place: a task that waits for a foreign lock is seen to wait, and cancelled at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_a_foreign_lock_is_cancelled_at_once() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let foreign = std::fs::File::open(machine.repo()).expect("opened");
    foreign.try_lock().expect("locked");
    let task = fake.offer(in_directory("cat > /dev/null; touch ran", &machine.repo()));
    until("the lock is told", || fake.has(&task, "directory-lock")).await;
    let waits = || {
        let status = machine.command(&["daemon", "status", "--output", "json"]).assert().success();
        String::from_utf8_lossy(&status.get_output().stdout).contains("waiting for a foreign lock")
    };
    until("it is seen to wait", waits).await;
    assert_eq!(waiting(&machine), Some(1));
    fake.order(json!({"kind": "cancel", "task": task, "generation": 1}));
    let ordered = Instant::now();
    until("the cancel is acknowledged", || fake.has(&task, "cancel-ack")).await;
    assert!(ordered.elapsed() < Duration::from_secs(3), "{:?}", ordered.elapsed());
    let directory = fake.report(&task, "enter-directory")["directory"].clone();
    assert_eq!(fake.report(&task, "cancel-ack")["directory"], directory, "it is given back");
    until("it is forgotten", || machine.recorded().is_empty()).await;
    assert_eq!(waiting(&machine), Some(0));
    drop(foreign);
    assert_eq!(std::fs::read_dir(machine.repo()).expect("read").count(), 0);
    machine.stop().await;
}

/// A lock that is free while no slot is: said again until there is one, else the task would wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_is_told_again_while_no_slot_is_free() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let foreign = std::fs::File::open(machine.repo()).expect("opened");
    foreign.try_lock().expect("locked");
    let task = fake.offer(in_directory(QUICK, &machine.repo()));
    until("the lock is told", || fake.has(&task, "directory-lock")).await;
    let path = format!("/api/daemon/tasks/{task}/directory-lock");
    let before = fake.keys(&path).len();
    fake.refuse(&path, 409, "no_free_slot");
    drop(foreign);
    until("it was told and refused twice", || fake.keys(&path).len() >= before + 2).await;
    fake.allow(&path);
    until("it is accepted", || count(&fake, &task, "directory-lock") == 2).await;
    promote(&fake, &task);
    until("it is complete", || fake.has(&task, "complete")).await;
    machine.stop().await;
}

/// S299: a server that takes no transcript keeps nobody's end from being told; the transcript follows.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_does_not_wait_for_its_transcript() {
    let fake = Fake::start().await;
    let task = fake.offer(assignment("while :; do echo more; done"));
    let path = format!("/api/daemon/tasks/{task}/messages");
    fake.silence(&path);
    let machine = Machine::start(&fake, &[]);
    until("a message is on its way", || !fake.keys(&path).is_empty()).await;
    fake.order(json!({"kind": "cancel", "task": task, "generation": 1}));
    until("the cancel is acknowledged", || fake.has(&task, "cancel-ack")).await;
    assert!(!machine.recorded().is_empty(), "what is left of it is still to be told");
    let told = fake.messages(&task).len();
    fake.allow(&path);
    until("the transcript follows", || fake.messages(&task).len() > told).await;
    until("the run is forgotten", || machine.recorded().is_empty()).await;
    machine.stop().await;
}

/// A directory hangs on the word of the end: it is told within its bound, however much transcript waits, and
/// the rest of the transcript follows in order and whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_chatty_run_s_directory_is_released_long_before_its_transcript_is_told() {
    let fake = Fake::start().await;
    // The product's own bound instead of the harness's.
    let limits = super::fake::LIMITS.replace(r#""transcript_drain":300,"#, "");
    let machine = Machine::with(&fake, &[], vec![("MULTICA_LIMITS", limits)]);
    let script = "cat > /dev/null; seq 1 6000; echo to stderr >&2";
    let assignment = in_directory(script, &machine.repo());
    let task = assignment["id"].as_str().expect("an id").to_owned();
    let path = |kind: &str| format!("/api/daemon/tasks/{task}/{kind}");
    fake.slow(&path("messages"), Duration::from_secs(2));
    fake.offer(assignment);
    until("it is complete", || fake.has(&task, "complete")).await;
    let told = fake.messages(&task).len();
    assert!(told < 6_001, "{told} messages were told before the end");
    assert!(!fake.report(&task, "complete")["directory"].is_null());
    let (exited, complete) = (fake.times(&path("process-exited"))[0], fake.times(&path("complete"))[0]);
    // Emptying the tree, clearing the place and the bound lie between the two; telling it all takes twelve seconds.
    assert!(complete - exited < Duration::from_secs(3), "{:?}", complete - exited);
    until("the run is forgotten", || machine.recorded().is_empty()).await;
    let messages = fake.messages(&task);
    let whole: BTreeSet<u64> = messages.iter().filter_map(|message| message["seq"].as_u64()).collect();
    assert_eq!(whole, (1..=6_001).collect());
    machine.stop().await;
}

/// S268: a server whose orders can't be had for a while stops no run; the next order is heard at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_for_a_while_stops_no_run() {
    let fake = Fake::start().await;
    let task = fake.offer(assignment("exec sleep 600"));
    let machine = Machine::start(&fake, &[]);
    until("the agent runs", || fake.has(&task, "process-started")).await;
    for path in ["/api/daemon/orders", "/api/daemon/heartbeat", "/api/daemon/tasks/claim"] {
        fake.fail(path, 500, 4);
    }
    let beats = fake.keys("/api/daemon/heartbeat").len();
    until("it got through again", || fake.keys("/api/daemon/heartbeat").len() > beats + 5).await;
    assert_eq!(fake.kinds(&task).last().map(String::as_str), Some("process-started"));
    fake.order(json!({"kind": "cancel", "task": task, "generation": 1}));
    until("the cancel is acknowledged", || fake.has(&task, "cancel-ack")).await;
    machine.stop().await;
}

/// S282: a server that doesn't know the daemon any more is told once, whatever part of it finds out.
#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_daemon_registers_again_once_and_backs_off_while_it_is_refused() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let registered = || fake.keys("/api/daemon/register").len();
    until("it beats", || !fake.keys("/api/daemon/heartbeat").is_empty()).await;
    assert_eq!(registered(), 1);
    for path in ["/api/daemon/orders", "/api/daemon/heartbeat", "/api/daemon/tasks/claim"] {
        fake.fail(path, 404, 1);
    }
    until("it has registered again", || registered() == 2).await;
    let task = fake.offer(assignment(QUICK));
    until("a task is complete", || fake.has(&task, "complete")).await;
    assert_eq!(registered(), 2);
    fake.fail("/api/daemon/heartbeat", 404, u32::MAX);
    fake.refuse("/api/daemon/register", 503, "not_now");
    until("it has tried again and again", || registered() >= 10).await;
    let times = fake.times("/api/daemon/register");
    let pause = |n: usize| times[n].duration_since(times[n - 1]);
    assert!(pause(8) >= Duration::from_millis(90) && pause(9) >= Duration::from_millis(90), "{times:?}");
    fake.allow("/api/daemon/register");
    fake.allow("/api/daemon/heartbeat");
    machine.stop().await;
}

/// S065, S288: an assignment that isn't one ends its task before a folder is made, and no other's.
#[tokio::test(flavor = "multi_thread")]
async fn an_assignment_that_is_none_ends_its_own_task_and_makes_no_folder() {
    let fake = Fake::start().await;
    let mut other_agent = assignment(QUICK);
    other_agent["agent_id"] = json!(uuid::Uuid::now_v7());
    let mut no_agent = assignment(QUICK);
    no_agent.as_object_mut().expect("an object").remove("agent");
    let mut persons_token = assignment(QUICK);
    persons_token["auth_token"] = json!("mul_somebodys");
    let bad = [other_agent, no_agent, persons_token].map(|assignment| fake.offer(assignment));
    let good = fake.offer(assignment(QUICK));
    let machine = Machine::start(&fake, &[]);
    for task in &bad {
        until("it is refused", || fake.has(task, "fail")).await;
        assert_eq!(fake.report(task, "fail")["failure_reason"], "invalid_task_identity");
        assert_eq!(fake.kinds(task), ["receipt", "fail"]);
    }
    until("the good one is complete", || fake.has(&good, "complete")).await;
    until("nothing is in hand", || machine.recorded().is_empty()).await;
    let folders = std::fs::read_dir(machine.work_root().join(fake::WORKSPACE)).expect("the good one's");
    assert_eq!(folders.count(), 1);
    machine.stop().await;
}

/// S065: also one that comes with a promotion: its directory must not be held for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_whose_assignment_can_not_be_read_is_ended() {
    let (fake, machine, task) = in_the_queue(QUICK).await;
    fake.assign(&task, json!({"id": task, "generation": 1}));
    promote(&fake, &task);
    until("it is refused", || fake.has(&task, "fail")).await;
    assert_eq!(fake.report(&task, "fail")["failure_reason"], "invalid_task_identity");
    until("nothing is in hand", || machine.recorded().is_empty()).await;
    machine.stop().await;
}

/// What was to be done in a directory isn't done in an empty folder once the directory is detached.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_directory_was_detached_while_it_waited_runs_nowhere_and_gives_it_back() {
    let (fake, machine, task) = in_the_queue("touch ran").await;
    let mut detached = assignment("touch ran");
    let directory = fake.report(&task, "enter-directory")["directory"].clone();
    (detached["id"], detached["directory"]) = (json!(task), directory.clone());
    fake.assign(&task, detached);
    promote(&fake, &task);
    until("it is over", || fake.has(&task, "complete") || fake.has(&task, "fail")).await;
    let failed = fake.report(&task, "fail");
    assert_eq!(failed["failure_reason"], "local_directory_error");
    assert!(failed["error"].as_str().is_some_and(|said| said.contains("was detached")), "{failed}");
    assert_eq!(failed["directory"], directory, "the next in line gets it");
    until("nothing is in hand", || machine.recorded().is_empty()).await;
    assert!(!machine.work_root().join(fake::WORKSPACE).exists() && !machine.repo().join("ran").exists());
    machine.stop().await;
}

/// S265: a task of a runtime that this daemon doesn't offer (any more) is told so, and tried elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_runtime_that_is_not_offered_fails_as_offline() {
    let fake = Fake::start().await;
    let mut gone = assignment(QUICK);
    gone["runtime_id"] = json!(uuid::Uuid::now_v7());
    let task = fake.offer(gone);
    let machine = Machine::start(&fake, &[]);
    until("it is refused", || fake.has(&task, "fail")).await;
    assert_eq!(fake.report(&task, "fail")["failure_reason"], "runtime_offline");
    assert!(!machine.work_root().join(fake::WORKSPACE).exists());
    machine.stop().await;
}

/// S021: who speaks for a squad works in no directory of anybody's, and none is looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_squad_leader_takes_no_directory() {
    let fake = Fake::start().await;
    let mut leader = in_directory("cat > /dev/null; pwd", Path::new("/nowhere/at/all"));
    leader["is_leader_task"] = json!(true);
    let task = fake.offer(leader);
    let machine = Machine::start(&fake, &[]);
    until("it is over", || fake.has(&task, "complete") || fake.has(&task, "fail")).await;
    assert!(!fake.has(&task, "enter-directory"));
    let key = &task.replace('-', "")[20..];
    let workdir = machine.work_root().join(fake::WORKSPACE).join(key).join("workdir");
    assert_eq!(fake.report(&task, "complete")["output"].as_str().map(str::trim), workdir.to_str());
    machine.stop().await;
}

/// S052: the env root is named by the workspace and the last twelve digits of the task.
#[tokio::test(flavor = "multi_thread")]
async fn an_env_root_is_named_by_workspace_and_task() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let task = fake.offer(in_directory(QUICK, &machine.repo()));
    until("it is complete", || fake.has(&task, "complete")).await;
    let key = &task.replace('-', "")[20..];
    let env_root = machine.work_root().join(fake::WORKSPACE).join(key);
    assert_eq!(fake.report(&task, "prepared")["env_root"].as_str(), env_root.to_str());
    assert!(env_root.join(".task_owner").is_file() && !env_root.join("workdir").exists());
    machine.stop().await;
}

/// A promotion that is faster than the word that there is a queue is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_that_overtakes_the_word_queued_is_heeded() {
    let fake = Fake::start().await;
    fake.queue();
    let machine = Machine::start(&fake, &[]);
    let task = fake.offer(in_directory(QUICK, &machine.repo()));
    let path = format!("/api/daemon/tasks/{task}/enter-directory");
    fake.fail(&path, 503, u32::MAX);
    until("it wants in", || fake.has(&task, "enter-directory")).await;
    let directory = fake.report(&task, "enter-directory")["directory"].clone();
    let order = json!({"kind": "promoted", "task": task, "generation": 1, "directory": directory});
    let position = fake.order(order);
    until("the daemon has the order", || fake.ordered() >= position).await;
    assert_eq!(count(&fake, &task, "receipt"), 1, "it still asks to enter");
    fake.allow(&path);
    until("it is complete", || fake.has(&task, "complete")).await;
    assert_eq!(count(&fake, &task, "receipt"), 2);
    machine.stop().await;
}
