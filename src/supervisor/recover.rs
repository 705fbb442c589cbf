//! What is left to do for a run whose supervisor died: a pure plan over its journal and the world.
//!
//! Invariants: following the plan from any point, any number of times, ends at the same place: no process
//! of the run, no context file, no lock, one terminal report.

use super::journal::{Entry, FinalizeStep, is_over, latest};
use crate::kernel::ids::DirectoryId;
use crate::wire::daemon::{EndingReport, ReportBody};

/// What recovery sees besides the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct World {
    /// The terminal report is in the spool.
    pub terminal_reported: bool,
    /// The place's last state is in the spool.
    pub place_reported: bool,
    /// There is a manifest of context files.
    pub manifest: bool,
    /// There is a folder for temporary files outside of the env root.
    pub temporary: bool,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The steps, in order.
    pub steps: Vec<FinalizeStep>,
    /// What to report at the end.
    pub verdict: ReportBody,
    /// Whether all context files were certainly written.
    pub written: bool,
    /// Whether there may have been an agent whose end isn't reported.
    pub exit_unknown: bool,
}

/// Plans; nothing when nothing is left to do.
#[must_use]
pub fn plan(entries: &[Entry], world: World, ending: &EndingReport) -> Option<Plan> {
    // A supervisor that died before its first record has done nothing, but its task still waits for an end.
    if is_over(entries) && !entries.is_empty() {
        return None;
    }
    let now = latest(entries);
    let has = |wanted: fn(&Entry) -> bool| now.iter().any(wanted);
    let mut steps = vec![FinalizeStep::EmptyTree];
    if world.manifest {
        steps.push(FinalizeStep::RemoveSidecars);
    }
    if world.temporary {
        steps.push(FinalizeStep::RemoveTemporary);
    }
    let touched = has(|entry| matches!(entry, Entry::PreparePlan { .. }));
    if touched && !world.place_reported && !world.terminal_reported {
        steps.push(FinalizeStep::ReportPlace);
    }
    steps.push(FinalizeStep::Unlock);
    if !world.terminal_reported {
        steps.push(FinalizeStep::ReportEnd);
    }
    // The program may have been started twice: the last start counts.
    let since = now.iter().rposition(|entry| matches!(entry, Entry::Spawning {}));
    let exit_unknown =
        since.is_some_and(|at| !now[at..].iter().any(|entry| matches!(entry, Entry::Exited { .. })));
    Some(Plan {
        steps,
        verdict: verdict(now, ending),
        written: has(|entry| matches!(entry, Entry::Prepared {})),
        exit_unknown,
    })
}

fn verdict(now: &[Entry], ending: &EndingReport) -> ReportBody {
    let known = now.iter().rev().find_map(|entry| match entry {
        Entry::Verdict { report } => Some((**report).clone()),
        _ => None,
    });
    let cancelled = now.iter().find_map(|entry| match entry {
        Entry::CancelAsked { reason } => Some(reason.as_str()),
        _ => None,
    });
    match (known, cancelled) {
        (Some(report), _) => report,
        (None, Some(reason)) => cancelled_report(reason, ending),
        (None, None) => interrupted("its supervisor was gone", ending),
    }
}

/// The report of a run that was stopped for that reason.
#[must_use]
pub fn cancelled_report(reason: &str, ending: &EndingReport) -> ReportBody {
    if reason == "interrupted" {
        return interrupted("its daemon was stopped", ending);
    }
    ReportBody::CancelAck { failure_reason: None, error_message: None, directory: ending.directory }
}

fn interrupted(by: &str, ending: &EndingReport) -> ReportBody {
    ReportBody::Fail {
        error: format!("the run was interrupted: {by}"),
        failure_reason: "runtime_recovery".to_owned(),
        ending: ending.clone(),
    }
}

/// What is known of an ending without the agent's help.
#[must_use]
pub fn ending(work_dir: &str, session_id: Option<String>, directory: Option<DirectoryId>) -> EndingReport {
    EndingReport { session_id, work_dir: Some(work_dir.to_owned()), branch_name: None, directory }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::identity::Identity;

    /// A machine in memory: what a run can leave behind.
    #[derive(Debug, Clone, Default)]
    struct Machine {
        journal: Vec<Entry>,
        processes: bool,
        sidecars: bool,
        temporary: bool,
        locked: bool,
        world: World,
        terminals: u32,
    }

    fn ending_of_test() -> EndingReport {
        ending("/work", None, None)
    }

    fn complete() -> ReportBody {
        ReportBody::Complete { output: "done".to_owned(), ending: ending_of_test() }
    }

    type Step = Box<dyn Fn(&mut Machine)>;

    /// Every journalled step of a run to its end, each with its effect, as `run` and `finalize` order them.
    fn steps(verdict: &ReportBody) -> Vec<Step> {
        fn write(entry: Entry) -> Step {
            Box::new(move |m| m.journal.push(entry.clone()))
        }
        let agent = Identity { boot_id: "b".to_owned(), pid: 1, start_time: 1 };
        vec![
            write(Entry::Began {}),
            Box::new(|m| m.locked = true),
            Box::new(|m| (m.temporary, m.world.temporary) = (true, true)),
            Box::new(|m| m.world.manifest = true),
            write(Entry::PreparePlan { steps: Vec::new() }),
            Box::new(|m| m.sidecars = true),
            write(Entry::Prepared {}),
            write(Entry::Spawning {}),
            Box::new(|m| m.processes = true),
            write(Entry::Started { agent }),
            write(Entry::CancelAsked { reason: "interrupted".to_owned() }),
            Box::new(|m| m.processes = false),
            write(Entry::Exited { code: Some(0), signal: None, killed: 0 }),
            write(Entry::Verdict { report: Box::new(verdict.clone()) }),
            write(Entry::FinalizePlan { steps: Vec::new() }),
            Box::new(|m| m.sidecars = false),
            Box::new(|m| m.world.manifest = false),
            Box::new(|m| (m.temporary, m.world.temporary) = (false, false)),
            Box::new(|m| m.world.place_reported = true),
            Box::new(|m| m.locked = false),
            Box::new(|m| {
                m.world.terminal_reported = true;
                m.terminals += 1;
            }),
            write(Entry::Ended {}),
        ]
    }

    fn apply(m: &mut Machine, step: FinalizeStep) {
        match step {
            FinalizeStep::EmptyTree => m.processes = false,
            FinalizeStep::RemoveSidecars => (m.sidecars, m.world.manifest) = (false, false),
            FinalizeStep::RemoveTemporary => (m.temporary, m.world.temporary) = (false, false),
            FinalizeStep::ReportPlace => m.world.place_reported = true,
            FinalizeStep::Unlock => m.locked = false,
            FinalizeStep::ReportEnd => {
                let left = m.processes || m.sidecars || m.temporary || m.locked;
                assert!(!left, "the end is reported too soon: {m:?}");
                m.world.terminal_reported = true;
                m.terminals += 1;
            }
        }
    }

    #[test]
    fn died_at_any_step_and_again_at_any_step_of_the_recovery_a_run_ends_in_order_and_once() {
        let all = steps(&complete());
        for died_after in 0..=all.len() {
            let mut dead = Machine::default();
            all[..died_after].iter().for_each(|step| step(&mut dead));
            // The lock dies with its holder; the processes don't.
            dead.locked = false;
            let length =
                plan(&dead.journal, dead.world, &ending_of_test()).map_or(0, |plan| plan.steps.len());
            for died_again_after in 0..=length {
                let mut m = dead.clone();
                if let Some(first) = plan(&m.journal, m.world, &ending_of_test()) {
                    first.steps[..died_again_after].iter().for_each(|step| apply(&mut m, *step));
                }
                if let Some(second) = plan(&m.journal, m.world, &ending_of_test()) {
                    second.steps.iter().for_each(|step| apply(&mut m, *step));
                    m.journal.push(Entry::Ended {});
                }
                let left = m.processes || m.sidecars || m.temporary || m.locked;
                assert!(!left, "{died_after}/{died_again_after}: {m:?}");
                assert_eq!(m.terminals, 1, "{died_after}/{died_again_after}");
                assert_eq!(plan(&m.journal, m.world, &ending_of_test()), None);
            }
        }
    }

    #[test]
    fn a_verdict_that_was_written_down_is_what_is_reported() {
        let entries = [Entry::Began {}, Entry::Verdict { report: Box::new(complete()) }];
        let plan = plan(&entries, World::default(), &ending_of_test()).expect("unfinished");
        assert_eq!(plan.verdict, complete());
    }

    #[test]
    fn without_a_verdict_a_cancelled_run_is_acknowledged_and_any_other_was_interrupted() {
        for (entry, reason) in [
            (Entry::CancelAsked { reason: "cancelled".to_owned() }, None),
            (Entry::CancelAsked { reason: "interrupted".to_owned() }, Some("runtime_recovery")),
            (Entry::Spawning {}, Some("runtime_recovery")),
        ] {
            let plan =
                plan(&[Entry::Began {}, entry], World::default(), &ending_of_test()).expect("unfinished");
            match (plan.verdict, reason) {
                (ReportBody::CancelAck { .. }, None) => {}
                (ReportBody::Fail { failure_reason, .. }, Some(reason)) => assert_eq!(failure_reason, reason),
                (other, _) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_run_that_met_a_foreign_lock_needs_nothing() {
        assert_eq!(plan(&[Entry::Began {}, Entry::Blocked {}], World::default(), &ending_of_test()), None);
    }
}
