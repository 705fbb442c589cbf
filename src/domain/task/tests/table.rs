//! The transition table of the module's head, from the code.

use super::*;

const ROWS: [&str; 5] = ["queued", "dispatched", "parked", "running", "ended"];

fn state(row: &str) -> Vec<TaskEvent> {
    match row {
        "queued" => queued(),
        "dispatched" => dispatched(),
        "parked" => waiting(ParkedBecause::Held),
        "running" => running(),
        _ => running().into_iter().chain([TaskEvent::Cancelled(Cancelled { reason: None })]).collect(),
    }
}

fn columns() -> Vec<(&'static str, TaskCommand)> {
    let server_fail = TaskCommand::Fail {
        generation: None,
        reason: "runtime_offline".to_owned(),
        detail: None,
        ending: Ending::default(),
    };
    vec![
        ("claim", TaskCommand::Claim(claim())),
        ("receive", TaskCommand::Receive { generation: 1 }),
        ("park", park(ParkedBecause::Held)),
        ("promote", promote()),
        ("start", TaskCommand::Start { generation: 1 }),
        ("cancel", cancel()),
        ("complete", complete()),
        ("fail", fail("timeout")),
        ("server fails", server_fail),
        ("release claim", TaskCommand::ReleaseClaim { generation: 1, reason: "returned".to_owned() }),
    ]
}

fn cell(row: &str, command: TaskCommand) -> String {
    let task = given(state(row)).state();
    match decide::decide(Some(&task), command) {
        Err(refusal) => format!("✗ {}", refusal.code),
        Ok(events) if events.is_empty() => "–".to_owned(),
        Ok(events) => {
            let late = matches!(events[0], TaskEvent::LateReportRecorded(_));
            let after =
                events.iter().try_fold(task, |task, event| evolve(TASK, Some(task), event)).expect("folds");
            if late { "late".to_owned() } else { after.status().name().to_owned() }
        }
    }
}

#[test]
fn the_table_of_the_head_is_the_tables_of_the_code() {
    let mut lines = Vec::new();
    for (name, command) in columns() {
        let cells: Vec<String> =
            ROWS.iter().map(|row| format!("{row}: {}", cell(row, command.clone()))).collect();
        lines.push(format!("{name}: {}", cells.join(" | ")));
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    claim: queued: dispatched | dispatched: ✗ already_claimed | parked: ✗ already_claimed | running: ✗ already_claimed | ended: ✗ already_ended
    receive: queued: ✗ stale_generation | dispatched: – | parked: ✗ not_granted | running: – | ended: –
    park: queued: ✗ stale_generation | dispatched: waiting_local_directory | parked: – | running: ✗ not_dispatched | ended: –
    promote: queued: ✗ not_parked | dispatched: ✗ not_parked | parked: dispatched | running: ✗ not_parked | ended: ✗ not_parked
    start: queued: ✗ stale_generation | dispatched: running | parked: ✗ not_granted | running: – | ended: late
    cancel: queued: cancelled | dispatched: cancelled | parked: cancelled | running: cancelled | ended: –
    complete: queued: ✗ stale_generation | dispatched: ✗ not_running | parked: ✗ not_running | running: completed | ended: late
    fail: queued: ✗ stale_generation | dispatched: failed | parked: failed | running: failed | ended: late
    server fails: queued: failed | dispatched: failed | parked: failed | running: failed | ended: –
    release claim: queued: – | dispatched: queued | parked: – | running: ✗ already_running | ended: –
    ");
}
