//! One issue with one run of an agent, from its creation to its end: what a log consists of many times over.

use jiff::Timestamp;
use multica::domain::issue::event as issue;
use multica::domain::task::event as task;
use multica::domain::{Actor, ActorKind, ContentRef, Envelope, Event, Family, NewContent, StreamKey, Via};
use multica::kernel::ids::{
    AgentId, CommandId, CommentId, ContentId, CorrelationId, EventId, Incarnation, IssueId, ProjectId,
    RuntimeId, TaskId, UserId, WorkspaceId,
};
use uuid::Uuid;

/// Who takes part.
#[derive(Debug, Clone)]
pub struct Cast {
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub agent: AgentId,
    pub runtime: RuntimeId,
    pub daemon: String,
    pub incarnation: Incarnation,
    pub project: Option<ProjectId>,
}

impl Cast {
    /// Nobody that an installation knows.
    pub fn invented() -> Self {
        Self {
            workspace: WorkspaceId(Uuid::from_u128(0xabc)),
            user: UserId(Uuid::from_u128(0xabd)),
            agent: AgentId(Uuid::from_u128(0xabe)),
            runtime: RuntimeId(Uuid::from_u128(0xabf)),
            daemon: "machine-1".to_owned(),
            incarnation: Incarnation(Uuid::from_u128(0xac0)),
            project: None,
        }
    }

    pub fn member(&self) -> Actor {
        Actor { kind: ActorKind::Member, id: self.user.to_string(), via: Via::Web }
    }

    fn machine(&self) -> Actor {
        Actor { kind: ActorKind::Daemon, id: self.daemon.clone(), via: Via::Daemon }
    }
}

/// The ids of one story: each named by its number.
pub trait Ids {
    fn id(&self, n: u8) -> Uuid;
}

/// Which id is which; the commands' and events' follow from [`COMMANDS`] and [`EVENTS`] on.
pub const ISSUE: u8 = 0;
pub const TASK: u8 = 1;
pub const TITLE: u8 = 2;
pub const OUTPUT: u8 = 3;
pub const BODY: u8 = 4;
const COMMENT: u8 = 5;
const CORRELATION: u8 = 6;
pub const COMMANDS: u8 = 32;
const EVENTS: u8 = 96;

/// Texts of a story, by their ids.
pub const TEXTS: [(u8, &str); 3] = [
    (TITLE, "Let the enemies of level three turn around at walls"),
    (OUTPUT, "The enemies turn around now; the two tests of movement cover walls and ledges."),
    (BODY, "Done. I also found that the boss of level two can leave its room."),
];

/// Salts every text.
pub const SALT: [u8; 32] = [9; 32];

fn content(ids: &impl Ids, which: u8) -> ContentRef {
    let text = TEXTS.iter().find(|(n, _)| *n == which).map_or("", |(_, text)| text);
    NewContent::new(ContentId(ids.id(which)), SALT, text.to_owned()).reference
}

/// What happens to the task, in order.
pub fn life(cast: &Cast, ids: &impl Ids, issue_key: &str) -> Vec<task::TaskEvent> {
    use task::TaskEvent as T;
    let generation = 1;
    let queued = task::Queued {
        issue: IssueId(ids.id(ISSUE)),
        issue_key: issue_key.to_owned(),
        run: 1,
        agent: cast.agent,
        agent_name: "Dev".to_owned(),
        runtime: cast.runtime,
        daemon: cast.daemon.clone(),
        provider: "command".to_owned(),
        project: cast.project,
        priority: 2,
        trigger: task::Trigger::Assignment,
        attempt: 1,
        max_attempts: 2,
    };
    let claimed = task::Claimed {
        generation,
        issue: IssueId(ids.id(ISSUE)),
        agent: cast.agent,
        daemon: cast.daemon.clone(),
        runtime: cast.runtime,
        incarnation: cast.incarnation,
        agent_slot: 0,
        daemon_slot: 0,
        built_from: vec![task::BuiltFrom { family: Family::Issue, stream: ids.id(ISSUE), version: 1 }],
        resources: Vec::new(),
        comments: Vec::new(),
    };
    let git = Some(task::GitState {
        head: Some("3f1c0de2".repeat(5)),
        branch: Some("main".to_owned()),
        changed_paths: 3,
        more: false,
    });
    let ending = task::Ending {
        session_id: Some("0f6a1f9e-session".to_owned()),
        work_dir: Some("/srv/game".to_owned()),
        branch: None,
        transcript_messages: 212,
        transcript_sha256: Some("c4".repeat(32)),
    };
    vec![
        T::Queued(queued),
        T::Claimed(claimed),
        T::ClaimReceived(task::Generation { generation }),
        T::Prepared(task::Prepared {
            generation,
            place: task::WorkPlace::InPlace,
            work_dir: "/srv/game".to_owned(),
            env_root: "/var/lib/runs/level-three".to_owned(),
            sidecars: 2,
            git: git.clone(),
        }),
        T::Started(task::Generation { generation }),
        T::ProcessStarted(task::ProcessStarted { generation, pid: 4242, program: "agent".to_owned() }),
        T::SessionPinned(task::SessionPinned { generation, session_id: "0f6a1f9e-session".to_owned() }),
        T::UsageRecorded(task::UsageRecorded {
            generation,
            usage: vec![task::Usage {
                provider: "command".to_owned(),
                model: "a-model".to_owned(),
                input_tokens: 18_220,
                output_tokens: 4_101,
                cache_read_tokens: 90_112,
                cache_write_tokens: 2_048,
                cost_usd_ticks: Some(1_200_000),
            }],
        }),
        T::ProcessExited(task::ProcessExited { generation, code: Some(0), signal: None, killed: 0 }),
        T::Finalized(task::Finalized { generation, git }),
        T::Completed(task::Completed { generation, output: Some(content(ids, OUTPUT)), ending }),
    ]
}

/// The whole story as it stands in the log from that position on.
pub fn tell(cast: &Cast, ids: &impl Ids, number: u32, first: i64, at: Timestamp) -> Vec<Envelope> {
    let key = format!("LOC-{number}");
    let issue = StreamKey::new(Family::Issue, ids.id(ISSUE));
    let run = StreamKey::new(Family::Task, ids.id(TASK));
    let created = issue::IssueEvent::Created(issue::Created {
        number,
        key: key.clone(),
        title: content(ids, TITLE),
        description: None,
        project: cast.project,
        status: "todo".to_owned(),
        priority: "medium".to_owned(),
        assignee: Some(issue::Assignee::Agent(cast.agent)),
    });
    let moved = |from: &str, to: &str| {
        let because_of = Some(TaskId(ids.id(TASK)));
        issue::IssueEvent::StatusChanged(issue::StatusChanged {
            from: from.to_owned(),
            to: to.to_owned(),
            because_of,
        })
    };
    let commented = issue::IssueEvent::Commented(issue::Commented {
        comment: CommentId(ids.id(COMMENT)),
        author: issue::Author::Agent(cast.agent),
        kind: "comment".to_owned(),
        body: content(ids, BODY),
        parent: None,
        task: Some(TaskId(ids.id(TASK))),
    });
    let mut happened: Vec<(StreamKey, Event, Actor)> = vec![(issue, created.into(), cast.member())];
    for (n, event) in life(cast, ids, &key).into_iter().enumerate() {
        let by = if n == 0 { cast.member() } else { cast.machine() };
        if n == 4 {
            happened.push((issue, moved("todo", "in_progress").into(), cast.machine()));
        }
        if n == 10 {
            happened.push((issue, commented.clone().into(), cast.machine()));
        }
        happened.push((run, event.into(), by));
    }
    happened.push((issue, moved("in_progress", "in_review").into(), cast.machine()));
    let mut versions = [0_i32; 2];
    (0_u8..)
        .zip(happened)
        .map(|(n, (stream, event, actor))| {
            let version = &mut versions[usize::from(stream.family == Family::Task)];
            *version += 1;
            Envelope {
                position: Some(first + i64::from(n)),
                workspace: cast.workspace,
                stream,
                version: *version,
                event_id: EventId(ids.id(EVENTS + n)),
                command_id: CommandId(ids.id(COMMANDS + n)),
                correlation: CorrelationId(ids.id(CORRELATION)),
                causation: None,
                actor,
                occurred_at: at,
                recorded_at: Some(at),
                event,
            }
        })
        .collect()
}

/// Ids of one story among many: rising with it, as version 7 does with time.
pub struct Numbered {
    pub micros: i64,
    pub story: u64,
}

impl Ids for Numbered {
    fn id(&self, n: u8) -> Uuid {
        let millis = (self.micros / 1_000).unsigned_abs();
        // Spread, so that no order but that of time is in them.
        let mixed = (self.story.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16) | 1;
        let high = (millis << 16) | 0x7000 | (self.story & 0xfff);
        let low = (1 << 63) | ((mixed & 0xffff_ffff_ffff) << 8) | u64::from(n);
        Uuid::from_u64_pair(high, low)
    }
}
