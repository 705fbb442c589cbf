//! The last word of a run: a server that won't have it, that doesn't answer, a daemon that stops meanwhile.

use std::time::Duration;

use super::fake::{self, Fake, Machine, assignment, in_directory, until};
use super::{QUICK, status};

/// A script that ends once a file is there.
fn gated(gate: &std::path::Path) -> String {
    format!("cat > /dev/null; while [ ! -e {} ]; do sleep 0.02; done; echo done", gate.display())
}

fn count(fake: &Fake, task: &str, kind: &str) -> usize {
    fake.kinds(task).iter().filter(|known| *known == kind).count()
}

/// S258: a good end that the server won't have for good is told as a failure, with all that was to be kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_is_refused_for_good_is_told_as_a_failure_that_names_the_work() {
    let fake = Fake::start().await;
    let machine = Machine::start(&fake, &[]);
    let assignment = in_directory("cat > /dev/null; touch work; echo done", &machine.repo());
    let task = assignment["id"].as_str().expect("an id").to_owned();
    fake.refuse(&format!("/api/daemon/tasks/{task}/complete"), 400, "invalid_field");
    fake.offer(assignment);
    until("it is told as a failure", || fake.has(&task, "fail")).await;
    let failed = fake.report(&task, "fail");
    assert_eq!(failed["work_dir"].as_str(), machine.repo().to_str(), "{failed}");
    assert_eq!(failed["directory"], fake.report(&task, "enter-directory")["directory"], "the next gets it");
    assert!(failed["error"].as_str().is_some_and(|said| said.contains("refused")), "{failed}");
    until("the run is forgotten", || machine.recorded().is_empty()).await;
    assert_eq!((count(&fake, &task, "fail"), fake.has(&task, "complete")), (1, false));
    assert!(machine.repo().join("work").exists());
    machine.stop().await;
}

/// S043, S258, S283: as long as the server won't listen a good end stays a good end, frees the directory on this
/// machine, is no reason not to stop, and is told once by the next start.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_can_not_be_told_holds_up_nobody_and_is_told_by_the_next_start() {
    let fake = Fake::start().await;
    let limits = fake::LIMITS.replacen('{', r#"{"farewell":200,"#, 1);
    let mut machine = Machine::with(&fake, &[], vec![("MULTICA_LIMITS", limits)]);
    let assignment = in_directory(QUICK, &machine.repo());
    let first = assignment["id"].as_str().expect("an id").to_owned();
    let complete = format!("/api/daemon/tasks/{first}/complete");
    fake.refuse(&complete, 503, "not_now");
    fake.offer(assignment);
    until("its end is tried again and again", || fake.keys(&complete).len() >= 3).await;
    // The server gives the same directory to the next one, without having heard of that end.
    let second = fake.offer(in_directory("cat > /dev/null; touch ran", &machine.repo()));
    until("the next one is complete", || fake.has(&second, "complete")).await;
    assert!(machine.repo().join("ran").exists());
    assert!(!fake.has(&first, "complete") && !fake.has(&first, "fail"), "{:?}", fake.kinds(&first));
    machine.command(&["daemon", "stop", "--now"]).assert().success();
    assert_eq!(machine.exit_code().await, Some(0), "{}", machine.log());
    let tried = fake.keys(&complete).len();
    fake.allow(&complete);
    machine.start_again(&fake);
    until("it is told", || fake.has(&first, "complete")).await;
    until("the run is forgotten", || machine.recorded().is_empty()).await;
    let keys = fake.keys(&complete);
    assert!(keys.len() > tried && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_eq!((count(&fake, &first, "complete"), fake.has(&first, "fail")), (1, false));
    machine.stop().await;
}

/// S279, S283: within the drain what runs goes on to its own end, which is told although the daemon is about to
/// be gone; nothing new is taken; who signs off does so last.
#[tokio::test(flavor = "multi_thread")]
async fn within_the_drain_a_run_ends_by_itself_and_nothing_new_is_taken() {
    let fake = Fake::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let gate = folder.path().join("open");
    let task = fake.offer(assignment(&gated(&gate)));
    let mut machine = Machine::start(&fake, &["--drain", "60"]);
    until("the agent runs", || fake.has(&task, "process-started")).await;
    let complete = format!("/api/daemon/tasks/{task}/complete");
    fake.slow(&complete, Duration::from_millis(300));
    let mut stop = machine.command(&["daemon", "stop"]);
    let stopping = std::thread::spawn(move || stop.assert().success());
    until("it drains", || fake.calls().iter().any(|path| path == "/api/daemon/drain")).await;
    let beats = fake.keys("/api/daemon/heartbeat").len();
    let late = fake.offer(assignment(QUICK));
    until("it beats on", || fake.keys("/api/daemon/heartbeat").len() > beats + 2).await;
    assert_eq!(status(&machine)["status"], "stopping");
    assert!(!fake.has(&task, "complete") && !fake.has(&task, "fail"));
    std::fs::write(&gate, "").expect("opened");
    assert_eq!(machine.exit_code().await, Some(0), "{}", machine.log());
    stopping.join().expect("it says so");
    assert_eq!((fake.keys(&complete).len(), fake.has(&task, "fail")), (1, false));
    assert_eq!(fake.kinds(&late), Vec::<String>::new());
    let calls = fake.calls();
    let place = |wanted: &str| calls.iter().position(|path| path == wanted);
    assert!(place("/api/daemon/drain") < place(&complete), "{calls:?}");
    assert_eq!(calls.last().map(String::as_str), Some("/api/daemon/deregister"), "{calls:?}");
}

/// S260: the same claim given again, while it gets ready and while it runs, is not begun a second time.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_given_again_is_begun_once() {
    let fake = Fake::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let gate = folder.path().join("open");
    let claim = assignment(&gated(&gate));
    let receipt = format!("/api/daemon/tasks/{}/receipt", claim["id"].as_str().expect("an id"));
    // It can't begin before its receipt is accepted.
    fake.refuse(&receipt, 503, "not_now");
    let task = fake.offer(claim.clone());
    fake.offer(claim.clone());
    let machine = Machine::start(&fake, &[]);
    until("its receipt is tried", || fake.keys(&receipt).len() >= 2).await;
    let taken = |fake: &Fake| {
        let asked = fake.keys("/api/daemon/tasks/claim").len();
        move |fake: &Fake| fake.keys("/api/daemon/tasks/claim").len() > asked + 1
    };
    fake.offer(claim.clone());
    let again = taken(&fake);
    until("it was given again", || again(&fake)).await;
    fake.allow(&receipt);
    until("the agent runs", || fake.has(&task, "process-started")).await;
    fake.offer(claim);
    let again = taken(&fake);
    until("it was given once more", || again(&fake)).await;
    std::fs::write(&gate, "").expect("opened");
    until("it is complete", || fake.has(&task, "complete")).await;
    until("the run is forgotten", || machine.recorded().is_empty()).await;
    let keys = fake.keys(&receipt);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    let kinds = fake.kinds(&task);
    for once in ["receipt", "prepared", "process-started", "process-exited", "complete"] {
        assert_eq!(count(&fake, &task, once), 1, "{once} in {kinds:?}");
    }
    assert!(!fake.has(&task, "fail"), "{kinds:?}");
    machine.stop().await;
}
