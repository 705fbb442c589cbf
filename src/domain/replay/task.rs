//! A task's history through today's rules.

use super::Replayed;
use crate::domain::task::{
    Ending, Failed, ParkedBecause, Phase, Task, TaskCommand, TaskEvent, command, decide, evolve,
};
use crate::domain::{Event, Refusal, StreamKey};
use crate::kernel::ids::TaskId;

pub(super) struct Tasks;

impl Replayed for Tasks {
    type State = Task;
    type Event = TaskEvent;
    type Command = TaskCommand;

    fn pick(event: &Event) -> Option<&TaskEvent> {
        match event {
            Event::Task(event) => Some(event),
            _ => None,
        }
    }

    fn evolve(stream: StreamKey, state: Option<Task>, event: &TaskEvent) -> Option<Task> {
        evolve::evolve(TaskId(stream.id), state, event)
    }

    fn command(_: Option<&Task>, events: &[&TaskEvent]) -> Option<TaskCommand> {
        let (first, rest) = events.split_first()?;
        Some(match (*first).clone() {
            TaskEvent::Queued(facts) => TaskCommand::Queue(facts),
            TaskEvent::Claimed(e) => TaskCommand::Claim(command::Claim {
                daemon: e.daemon,
                runtime: e.runtime,
                incarnation: e.incarnation,
                agent_slot: e.agent_slot,
                daemon_slot: e.daemon_slot,
                built_from: e.built_from,
                resources: e.resources,
                comments: e.comments,
            }),
            TaskEvent::ClaimReceived(e) => TaskCommand::Receive { generation: e.generation },
            TaskEvent::ClaimReleased(e) => {
                TaskCommand::ReleaseClaim { generation: e.generation, reason: e.reason }
            }
            TaskEvent::DirectoryEntered(e) => {
                TaskCommand::Enter { generation: e.generation, directory: e.directory, label: e.label }
            }
            TaskEvent::Parked(e) => TaskCommand::Park {
                generation: e.generation,
                directory: e.directory,
                label: e.label,
                holder: e.holder,
                place: e.place,
                because: e.because,
            },
            TaskEvent::Promoted(e) => TaskCommand::Promote {
                directory: e.directory,
                agent_slot: e.agent_slot,
                daemon_slot: e.daemon_slot,
            },
            TaskEvent::Prepared(e) => TaskCommand::Prepared(e),
            TaskEvent::Started(e) => TaskCommand::Start { generation: e.generation },
            TaskEvent::ProcessStarted(e) => TaskCommand::ProcessStarted(e),
            TaskEvent::SessionPinned(e) => {
                TaskCommand::PinSession { generation: e.generation, session_id: e.session_id }
            }
            TaskEvent::UsageRecorded(e) => {
                TaskCommand::RecordUsage { generation: e.generation, usage: e.usage }
            }
            TaskEvent::CancelRequested(_) => {
                let cancelled = rest.iter().find_map(|event| match event {
                    TaskEvent::Cancelled(e) => Some(TaskCommand::Cancel { reason: e.reason.clone() }),
                    _ => None,
                });
                // Or the server ended it without the machine's word.
                let lost = || {
                    let Failed { reason, detail, ending, .. } =
                        rest.iter().find_map(|event| failed(event))?;
                    Some(TaskCommand::Fail { generation: None, reason, detail, ending })
                };
                cancelled.or_else(lost)?
            }
            TaskEvent::Cancelled(e) => TaskCommand::Cancel { reason: e.reason },
            TaskEvent::CancelReceived(e) => TaskCommand::CancelReceived { generation: e.generation },
            TaskEvent::ProcessExited(e) => TaskCommand::ProcessExited(e),
            TaskEvent::Finalized(e) => TaskCommand::Finalized(e),
            TaskEvent::SidecarsLeft(e) => TaskCommand::SidecarsLeft(e),
            TaskEvent::SidecarsRemoved(e) => TaskCommand::SidecarsRemoved(e),
            TaskEvent::CancelAcknowledged(e) => {
                TaskCommand::AcknowledgeCancel { generation: e.generation, reason: e.reason }
            }
            TaskEvent::Completed(e) => {
                TaskCommand::Complete { generation: e.generation, output: e.output, ending: e.ending }
            }
            TaskEvent::PrepareFailed(_) => rest.iter().find_map(|event| failure(event))?,
            TaskEvent::Failed(_) => failure(first)?,
            TaskEvent::Retried(e) => TaskCommand::MarkRetried { by: e.by },
            TaskEvent::LateReportRecorded(e) => match e.kind.as_str() {
                "complete" => TaskCommand::Complete {
                    generation: e.generation,
                    output: e.detail,
                    ending: Ending::default(),
                },
                "fail" => TaskCommand::Fail {
                    generation: Some(e.generation),
                    reason: e.reason?,
                    detail: e.detail,
                    ending: Ending::default(),
                },
                _ => return None,
            },
        })
    }

    fn decide(state: Option<&Task>, command: TaskCommand) -> Result<Vec<TaskEvent>, Refusal> {
        decide::decide(state, command)
    }

    fn told(task: &Task) -> String {
        let mut told = vec![task.status().name().to_owned()];
        if let Some(claim) = task.claim() {
            let receipt = if claim.received { "" } else { ", not yet confirmed" };
            told.push(format!("claim {} of {}{receipt}", claim.generation, claim.daemon));
            match claim.parked {
                Some(ParkedBecause::Held) => told.push("waits for its directory".to_owned()),
                Some(ParkedBecause::ForeignLock) => told.push("waits for a foreign lock".to_owned()),
                Some(ParkedBecause::PromotionUnanswered) => {
                    told.push("waits again: its promotion wasn't answered".to_owned());
                }
                None if claim.promoted => told.push("promoted".to_owned()),
                None if claim.directory.is_some() => told.push("in its directory".to_owned()),
                None => {}
            }
            if claim.session_id.is_some() {
                told.push("session known".to_owned());
            }
        }
        if let Phase::Ended { .. } = task.phase
            && task.retried_by.is_some()
        {
            told.push("tried again".to_owned());
        }
        told.join(", ")
    }
}

fn failed(event: &TaskEvent) -> Option<Failed> {
    let TaskEvent::Failed(failed) = event else { return None };
    Some(failed.clone())
}

fn failure(event: &TaskEvent) -> Option<TaskCommand> {
    let Failed { generation, reason, detail, ending } = failed(event)?;
    Some(TaskCommand::Fail { generation, reason, detail, ending })
}
