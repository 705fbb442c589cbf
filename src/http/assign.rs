//! A claimed task as its daemon gets it.
//!
//! Invariants: built from the streams themselves; the agent is what it was when it claimed, however often and
//! late that is asked for, all else is at the versions of now; what can't be read is left out and said so, except
//! the task, its agent and its issue; the task's token is computed here.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::App;
use super::error::ApiError;
use crate::domain::agent::{self, Agent};
use crate::domain::issue::{self, Author, Issue, IssueEvent};
use crate::domain::project::{self, Project};
use crate::domain::task::{self, Phase, Task, TaskEvent};
use crate::domain::workspace::{self, Workspace};
use crate::domain::{ContentRef, Envelope, Event, Impossible, StreamKey};
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::{AgentId, ContentId, TaskId, WorkspaceId};
use crate::readmodel::{directory_queue, task_status};
use crate::store::{StoreError, read};
use crate::wire::daemon::{
    AssignedAgent, AssignedComment, AssignedRepo, AssignedResource, Assignment, DirectoryIdentity,
};

/// Bytes of comments that an assignment carries at most; older ones are left out.
const COMMENT_BYTES: usize = 512 * 1024;

/// Builds the assignment of a live claim; none when that claim isn't the live one any more.
///
/// # Errors
/// What went wrong with the database, or a stream that can't be folded.
pub async fn build(
    app: &App,
    workspace: WorkspaceId,
    id: TaskId,
    generation: u32,
) -> Result<Option<Assignment>, ApiError> {
    let task_stream = task::evolve::stream(id);
    let events = read::stream(&app.store, task_stream).await?;
    if events.first().is_none_or(|first| first.workspace != workspace) {
        return Err(ApiError::NotFound("task"));
    }
    let Some(task) = folded(task::evolve::fold(&events))? else { return Err(ApiError::NotFound("task")) };
    let live = task.claim().is_some_and(|claim| claim.generation == generation)
        && matches!(task.phase, Phase::Dispatched(_) | Phase::Running(_) | Phase::Parked(_));
    if !live {
        return Ok(None);
    }
    let claimed_agent = version_claimed(&events, generation, agent::evolve::stream(task.facts.agent));
    let sources = Sources::load(app, workspace, &task, claimed_agent).await?;
    let mut assignment = sources.assignment(app, &task, generation);
    assignment.workspace_id = workspace;
    assignment.created_at = seconds(events.first().and_then(|first| first.recorded_at));
    assignment.dispatched_at = seconds(claimed_at(&events));
    if let Some(prior) = task_status::prior(&app.store, &app.registry, workspace, &task).await? {
        assignment.prior_session_id = prior.session_id;
        assignment.prior_work_dir = prior.work_dir;
    }
    if let Some(directory) = assignment.directory {
        let row = directory_queue::of(&app.store, &app.registry, directory).await?.map(|found| found.row);
        assignment.directory_identity =
            row.map(|row| DirectoryIdentity { boot_id: row.boot_id, device: row.device, inode: row.inode });
    }
    Ok(Some(assignment))
}

/// What of a task can't be read, of all that its assignment can't do without; none when it can be built.
///
/// # Errors
/// What went wrong with the database.
pub async fn damage(app: &App, id: TaskId) -> Result<Option<String>, ApiError> {
    let task = match state(read::stream(&app.store, task::evolve::stream(id)).await, task::evolve::fold)? {
        Ok(task) => task,
        Err(why) => return Ok(Some(format!("its own history {why}"))),
    };
    let agent = read::stream(&app.store, agent::evolve::stream(task.facts.agent)).await;
    let issue = read::stream(&app.store, issue::evolve::stream(task.facts.issue)).await;
    if let Err(why) = state(agent, agent::evolve::fold)? {
        return Ok(Some(format!("the history of its agent {why}")));
    }
    if let Err(why) = state(issue, issue::evolve::fold)? {
        return Ok(Some(format!("the history of its issue {why}")));
    }
    Ok(None)
}

/// A stream's state, or why there is none.
fn state<T>(
    events: Result<Vec<Envelope>, StoreError>,
    fold: impl Fn(&[Envelope]) -> Result<Option<T>, Impossible>,
) -> Result<Result<T, String>, ApiError> {
    let events = match events {
        Err(error) if error.is_damage() => return Ok(Err(format!("can't be read: {}", Chain(&error)))),
        events => events?,
    };
    Ok(match fold(&events) {
        Ok(Some(state)) => Ok(state),
        Ok(None) => Err("is not in the log".to_owned()),
        Err(impossible) => Err(format!("can't be read: {}", Chain(&impossible))),
    })
}

fn folded<T>(folded: Result<Option<T>, Impossible>) -> Result<Option<T>, ApiError> {
    folded.map_err(|impossible| ApiError::Unfoldable { source: impossible })
}

/// The version of a stream that a claim was built from.
fn version_claimed(events: &[Envelope], generation: u32, stream: StreamKey) -> Option<i32> {
    let built_from = events.iter().find_map(|envelope| match &envelope.event {
        Event::Task(TaskEvent::Claimed(e)) if e.generation == generation => Some(&e.built_from),
        _ => None,
    })?;
    built_from
        .iter()
        .find(|from| from.family == stream.family && from.stream == stream.id)
        .map(|from| from.version)
}

fn claimed_at(events: &[Envelope]) -> Option<Timestamp> {
    events
        .iter()
        .rev()
        .find(|envelope| {
            matches!(envelope.event, Event::Task(TaskEvent::Claimed(_) | TaskEvent::Promoted(_)))
        })
        .and_then(|envelope| envelope.recorded_at)
}

/// RFC 3339 with seconds.
#[must_use]
pub fn seconds(time: Option<Timestamp>) -> String {
    time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default()
}

struct Sources {
    agent: Agent,
    issue: Issue,
    issue_events: Vec<Envelope>,
    project: Option<Project>,
    workspace: Option<Workspace>,
    names: BTreeMap<AgentId, String>,
    texts: BTreeMap<ContentId, String>,
    left_out: Vec<String>,
}

impl Sources {
    async fn load(
        app: &App,
        id: WorkspaceId,
        task: &Task,
        claimed_agent: Option<i32>,
    ) -> Result<Self, ApiError> {
        let agent_key = agent::evolve::stream(task.facts.agent);
        let issue_key = issue::evolve::stream(task.facts.issue);
        let workspace_key = workspace::evolve::stream(id);
        let mut keys = vec![agent_key, issue_key, workspace_key];
        let project_key = task.facts.project.map(project::evolve::stream);
        keys.extend(project_key);
        let mut streams = read::each(&app.store, &keys).await?;
        let mut take = |key: StreamKey| streams.remove(&key).unwrap_or_else(|| Ok(Vec::new()));
        let mut agent_events = take(agent_key)?;
        agent_events.retain(|event| claimed_agent.is_none_or(|version| event.version <= version));
        let agent = folded(agent::evolve::fold(&agent_events))?.ok_or(ApiError::NotFound("agent"))?;
        let issue_events = take(issue_key)?;
        let issue = folded(issue::evolve::fold(&issue_events))?.ok_or(ApiError::NotFound("issue"))?;
        let mut left_out = Vec::new();
        // The rest is context: the run begins without it, and the agent is told.
        let workspace = state(take(workspace_key), workspace::evolve::fold)?.ok();
        if workspace.is_none() {
            left_out.push("the workspace's repositories and its members' names could not be read".to_owned());
        }
        let project = match project_key.map(take) {
            None => None,
            Some(events) => state(events, project::evolve::fold)?.ok(),
        };
        if project.is_none() && project_key.is_some() {
            left_out.push("the project could not be read".to_owned());
        }
        let project = project.filter(|project| !project.deleted);
        let mut sources = Self {
            agent,
            issue,
            issue_events,
            project,
            workspace,
            names: BTreeMap::new(),
            texts: BTreeMap::new(),
            left_out,
        };
        sources.load_names(app).await?;
        sources.texts = read::contents(&app.store, &sources.content_ids()).await?.into_iter().collect();
        Ok(sources)
    }

    async fn load_names(&mut self, app: &App) -> Result<(), ApiError> {
        self.names.insert(self.agent.id, self.agent.facts.name.clone());
        let others: Vec<AgentId> = self
            .issue
            .comments
            .iter()
            .filter_map(|comment| match comment.author {
                Author::Agent(agent) if agent != self.agent.id => Some(agent),
                Author::Agent(_) | Author::Member(_) => None,
            })
            .collect();
        let keys: Vec<StreamKey> = others.into_iter().map(agent::evolve::stream).collect();
        // A name that can't be read is missing, as an erased one is.
        for events in read::each(&app.store, &keys).await?.into_values().flatten() {
            if let Ok(Some(agent)) = agent::evolve::fold(&events) {
                self.names.insert(agent.id, agent.facts.name);
            }
        }
        Ok(())
    }

    fn content_ids(&self) -> Vec<ContentId> {
        let mut refs: Vec<&ContentRef> = vec![&self.issue.title];
        refs.extend(self.issue.description.iter());
        refs.extend(self.agent.facts.instructions.iter());
        if let Some(project) = &self.project {
            refs.push(&project.title);
            refs.extend(project.description.iter());
        }
        refs.extend(self.issue.comments.iter().map(|comment| &comment.body));
        if let Some(workspace) = &self.workspace {
            refs.extend(workspace.members.values().map(|member| &member.name));
        }
        refs.into_iter().map(|reference| reference.id).collect()
    }

    fn text(&self, reference: Option<&ContentRef>) -> String {
        reference.and_then(|reference| self.texts.get(&reference.id)).cloned().unwrap_or_default()
    }

    fn assignment(&self, app: &App, task: &Task, generation: u32) -> Assignment {
        let facts = &task.facts;
        let (comments, mut left_out) = self.comments();
        left_out.extend(self.left_out.iter().cloned());
        let project = self.project.as_ref();
        Assignment {
            id: task.id,
            generation,
            name: task.name(),
            runtime_id: facts.runtime,
            workspace_id: WorkspaceId(uuid::Uuid::nil()),
            agent_id: facts.agent,
            agent: AssignedAgent {
                id: self.agent.id,
                name: self.agent.facts.name.clone(),
                provider: self.agent.facts.provider.clone(),
                instructions: self.text(self.agent.facts.instructions.as_ref()),
                model: self.agent.facts.model.clone(),
                command: self.agent.facts.command.clone(),
                custom_args: self.agent.facts.custom_arguments.clone(),
                skills: Vec::new(),
            },
            issue_id: facts.issue,
            issue_key: facts.issue_key.clone(),
            thread_name: self.text(Some(&self.issue.title)),
            issue_description: self.text(self.issue.description.as_ref()),
            comments,
            status: task.status().name().to_owned(),
            priority: facts.priority,
            attempt: facts.attempt,
            max_attempts: facts.max_attempts,
            auth_token: app.key.task_token(task.id, generation),
            project_id: project.map(|project| project.id),
            project_title: self.text(project.map(|project| &project.title)),
            project_description: self.text(project.and_then(|project| project.description.as_ref())),
            project_resources: self.resources(),
            repos: self.repos(),
            left_out,
            prior_session_id: None,
            prior_work_dir: None,
            directory: task.claim().filter(|claim| claim.promoted).and_then(|claim| claim.directory),
            directory_identity: None,
            delivered_comment_ids: self.issue.comments.iter().map(|comment| comment.id.to_string()).collect(),
            leader_role_resolved: true,
            is_leader_task: false,
            created_at: String::new(),
            dispatched_at: String::new(),
        }
    }

    fn comments(&self) -> (Vec<AssignedComment>, Vec<String>) {
        let mut room = COMMENT_BYTES;
        let mut comments = Vec::new();
        for comment in self.issue.comments.iter().rev() {
            let body = self.text(Some(&comment.body));
            if body.len() > room {
                let older = self.issue.comments.len() - comments.len();
                comments.reverse();
                return (comments, vec![format!("{older} older comments are left out for their length")]);
            }
            room -= body.len();
            let author = match comment.author {
                Author::Agent(agent) => self.names.get(&agent).cloned().unwrap_or_default(),
                Author::Member(user) => self.text(
                    self.workspace
                        .as_ref()
                        .and_then(|workspace| workspace.members.get(&user))
                        .map(|member| &member.name),
                ),
            };
            let at = self.issue_events.iter().find_map(|envelope| match &envelope.event {
                Event::Issue(IssueEvent::Commented(said)) if said.comment == comment.id => {
                    envelope.recorded_at
                }
                _ => None,
            });
            comments.push(AssignedComment { author, body, created_at: seconds(at) });
        }
        comments.reverse();
        (comments, Vec::new())
    }

    fn resources(&self) -> Vec<AssignedResource> {
        let mut resources: Vec<_> =
            self.project.iter().flat_map(|project| project.resources.iter()).collect();
        resources.sort_by_key(|resource| resource.position);
        resources
            .into_iter()
            .map(|resource| AssignedResource {
                id: resource.id,
                resource_type: resource.resource_type.clone(),
                resource_ref: resource.resource_ref.clone(),
                label: resource.label.clone(),
            })
            .collect()
    }

    /// The project's repositories first, then those of the workspace whose URL isn't there yet.
    fn repos(&self) -> Vec<AssignedRepo> {
        let mut repos: Vec<AssignedRepo> = Vec::new();
        for resource in self.project.iter().flat_map(|project| project.resources.iter()) {
            let text = |key: &str| {
                resource.resource_ref.get(key).and_then(serde_json::Value::as_str).map(str::to_owned)
            };
            if resource.resource_type != "github_repo" {
                continue;
            }
            let Some(url) = text("url") else { continue };
            if repos.iter().any(|repo| repo.url == url) {
                continue;
            }
            let default_branch_hint = text("default_branch_hint");
            repos.push(AssignedRepo { url, checkout: text("ref"), default_branch_hint });
        }
        for repo in self.workspace.iter().flat_map(|workspace| workspace.repos.iter()) {
            if !repos.iter().any(|known| known.url == repo.url) {
                repos.push(AssignedRepo { url: repo.url.clone(), checkout: None, default_branch_hint: None });
            }
        }
        repos
    }
}
