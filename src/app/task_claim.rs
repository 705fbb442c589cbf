//! A daemon is given tasks.
//!
//! Invariants: candidates come from a plain read and are judged again here; a claim takes a slot of its
//! agent, a slot of its daemon and the conversation, all as reservations, so that a lost race is decided
//! again; what the run is built from is recorded with it; claiming takes no directory; a task that it can't be
//! built for, because the log is damaged there, is named and keeps no other from being given.

use std::collections::BTreeSet;

use serde_json::json;

use super::decision::{Decided, Decision, Halt, View};
use super::draft::Draft;
use super::load;
use crate::domain::issue::IssueEvent;
use crate::domain::task::command::Claim;
use crate::domain::task::{BuiltFrom, Phase, Task, TaskCommand};
use crate::domain::{Event, Family, Refusal, StreamKey};
use crate::kernel::ids::{AgentId, CommentId, Incarnation, RuntimeId, TaskId, WorkspaceId};

/// See the module.
pub struct TaskClaim {
    /// Whose tasks.
    pub workspace: WorkspaceId,
    /// The daemon.
    pub daemon: String,
    /// Its process; none from public daemons.
    pub incarnation: Option<Incarnation>,
    /// The runtimes it claims for.
    pub runtimes: Vec<RuntimeId>,
    /// Tasks that were seen waiting, best first.
    pub candidates: Vec<TaskId>,
    /// At most so many.
    pub max: usize,
    /// Slots of a daemon.
    pub daemon_slots: u32,
}

impl Decision for TaskClaim {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let daemon =
            load::daemon(view, self.workspace, &self.daemon)?.ok_or_else(|| Refusal::not_found("daemon"))?;
        if let Some(incarnation) = self.incarnation {
            daemon.must_be_live(incarnation)?;
        }
        let (mut claimed, mut unreadable, mut full) = (Vec::new(), Vec::new(), BTreeSet::new());
        // One that was given up or has signed off says first that it is back: nobody would miss it otherwise.
        if !daemon.draining && !daemon.dead && !daemon.signed_off {
            for candidate in &self.candidates {
                if claimed.len() >= self.max {
                    break;
                }
                let public = self.incarnation.is_none();
                match self.claim(&mut draft, *candidate, daemon.incarnation(), public, &mut full) {
                    Ok(Some(generation)) => {
                        claimed.push(json!({"id": candidate, "generation": generation}));
                    }
                    Ok(None) => {}
                    Err(Halt::Corrupt(why)) => unreadable.push(json!({"id": candidate, "why": why})),
                    Err(halt) => return Err(halt),
                }
            }
        }
        Ok(draft.finish(json!({"tasks": claimed, "unreadable": unreadable, "full": full})))
    }
}

impl TaskClaim {
    fn claim(
        &self,
        draft: &mut Draft<'_>,
        id: TaskId,
        incarnation: Incarnation,
        public: bool,
        full: &mut BTreeSet<AgentId>,
    ) -> Result<Option<u32>, Halt> {
        let Some(task) = draft.task(id)?.cloned() else { return Ok(None) };
        let facts = &task.facts;
        if !matches!(task.phase, Phase::Queued)
            || facts.daemon != self.daemon
            || !self.runtimes.contains(&facts.runtime)
        {
            return Ok(None);
        }
        let agent = load::agent(draft.view, self.workspace, facts.agent)?
            .ok_or_else(|| Halt::Corrupt(format!("agent {} is not in the log", facts.agent)))?;
        load::issue(draft.view, self.workspace, facts.issue)?
            .ok_or_else(|| Halt::Corrupt(format!("issue {} is not in the log", facts.issue)))?;
        let conversation = format!("conversation/{}/{}", facts.issue, facts.agent);
        let stream = load::daemon_stream(self.workspace, &self.daemon);
        let agent_prefix = format!("agent/{}/slot/", facts.agent);
        let daemon_prefix = format!("daemon/{}/slot/", stream.id);
        if draft.free_number(&agent_prefix, agent.facts.max_concurrent_tasks)?.is_none() {
            full.insert(facts.agent);
            return Ok(None);
        }
        if draft.is_held(&conversation)? || draft.free_number(&daemon_prefix, self.daemon_slots)?.is_none() {
            return Ok(None);
        }
        let (built_from, resources, comments) = self.sources(draft, &task, stream)?;
        let agent_slot = draft.take_number(&agent_prefix, agent.facts.max_concurrent_tasks)?.unwrap_or(0);
        let daemon_slot = draft.take_number(&daemon_prefix, self.daemon_slots)?.unwrap_or(0);
        draft.note_taken(conversation);
        let claim = Claim {
            daemon: self.daemon.clone(),
            runtime: facts.runtime,
            incarnation,
            agent_slot,
            daemon_slot,
            built_from,
            resources,
            comments,
        };
        draft.tell_task(id, TaskCommand::Claim(claim))?;
        let generation = task.generation + 1;
        if public {
            // Public daemons know no receipts; theirs is the answer's arrival, which they can't tell.
            draft.tell_task(id, TaskCommand::Receive { generation })?;
        }
        Ok(Some(generation))
    }

    fn sources(&self, draft: &Draft<'_>, task: &Task, daemon: StreamKey) -> Result<Sources, Halt> {
        let facts = &task.facts;
        let issue = StreamKey::new(Family::Issue, facts.issue);
        let mut streams = vec![issue, agent_stream(facts.agent), daemon];
        let mut resources = Vec::new();
        // A project that can't be read is left out, and the agent is told so.
        if let Some(id) = facts.project
            && let Some(project) = load::if_readable(load::project(draft.view, self.workspace, id))?
        {
            streams.push(StreamKey::new(Family::Project, id));
            resources =
                project.iter().flat_map(|project| &project.resources).map(|resource| resource.id).collect();
        }
        let mut built_from = Vec::with_capacity(streams.len());
        for stream in streams {
            let version = draft.view.version(stream)?;
            built_from.push(BuiltFrom { family: stream.family, stream: stream.id, version });
        }
        let comments: BTreeSet<CommentId> = draft
            .view
            .stream(issue)?
            .iter()
            .filter_map(|envelope| match &envelope.event {
                Event::Issue(IssueEvent::Commented(said)) => Some(said.comment),
                _ => None,
            })
            .collect();
        Ok((built_from, resources, comments.into_iter().collect()))
    }
}

type Sources = (Vec<BuiltFrom>, Vec<crate::kernel::ids::ResourceId>, Vec<CommentId>);

fn agent_stream(agent: AgentId) -> StreamKey {
    StreamKey::new(Family::Agent, agent)
}
