//! Why a task stands where it stands, what is missing, and what would help: pure, from facts.
//!
//! Invariants: every state is explained; a task that isn't over has at least one cause, and says when it
//! ends.
//!
//! Not here: how the facts are found (`app`, `readmodel`).

mod facts;
mod holder;

use jiff::{SignedDuration, Timestamp};

use super::event::ParkedBecause;
use super::failure::{self, Again};
use super::state::{Claim, Fact, Outcome, Phase, Task};
use crate::domain::directory::{LockBlocked, LockingRun};
use crate::domain::sentence::{Link, ordinal};
use crate::kernel::ids::{DirectoryId, TaskId};

pub use facts::{AgentFacts, DaemonFacts, Facts, HolderFacts, Since, Terms};

/// One cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// What it is.
    pub sentence: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// What it speaks of.
    pub link: Option<Link>,
}

/// Why a task stands where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// In one sentence.
    pub sentence: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// The facts that made it so, the one that is missing last.
    pub causes: Vec<Cause>,
    /// When it goes on, or what becomes of it; none when it is over for good.
    pub ends_when: Option<String>,
    /// By when at the latest, where a time limit ends it.
    pub until: Option<Timestamp>,
    /// What helps, in words.
    pub advice: Vec<String>,
    /// Commands that help.
    pub commands: Vec<String>,
}

/// Explains a task.
#[must_use]
pub fn explain(task: &Task, facts: &Facts<'_>) -> Explanation {
    let mut explanation = match &task.phase {
        Phase::Queued => queued(task, facts),
        Phase::Dispatched(claim) => dispatched(task, claim, facts),
        Phase::Parked(claim) => parked(task, claim, facts),
        Phase::Running(claim) => running(task, claim, facts),
        Phase::Ended { outcome, claim } => ended(task, outcome, claim.as_ref(), facts),
    };
    explanation.since = facts.since.status;
    explanation.commands.push(format!("multica task history {}", task.name()));
    explanation
}

fn because(sentence: impl Into<String>) -> Cause {
    Cause { sentence: sentence.into(), since: None, link: None }
}

fn daemon_link(id: &str, facts: &Facts<'_>) -> Link {
    let label = facts.names.daemon(id).unwrap_or_else(|| id.to_owned());
    Link { rel: "daemon", id: id.to_owned(), label }
}

fn task_link(id: TaskId, facts: &Facts<'_>) -> Link {
    let label = facts.names.task(id).unwrap_or_else(|| format!("task {}", id.short()));
    Link { rel: "task", id: id.to_string(), label }
}

/// What commands call a task whose name may not be known.
fn called(link: &Link, facts: &Facts<'_>) -> String {
    let id = link.id.parse().ok();
    id.and_then(|id| facts.names.task(id)).unwrap_or_else(|| link.id.clone())
}

fn directory_link(id: DirectoryId, facts: &Facts<'_>) -> Link {
    let own = facts.directory.map(|directory| directory.place.label.clone());
    let label = facts.names.directory(id).or(own).unwrap_or_else(|| "its directory".to_owned());
    Link { rel: "directory", id: id.to_string(), label }
}

/// What keeps the task's daemon from work, if anything does.
fn absence(daemon: &str, facts: &Facts<'_>) -> Option<Cause> {
    absence_of(daemon, &facts.daemon, facts)
}

fn absence_of(daemon: &str, known: &DaemonFacts, facts: &Facts<'_>) -> Option<Cause> {
    let link = daemon_link(daemon, facts);
    let name = &link.label;
    let sentence = if !known.known {
        format!("the daemon {name} has never registered")
    } else if !known.online {
        format!("the daemon on {name} isn't there")
    } else if !known.runtime_online {
        format!("the daemon on {name} is there, but doesn't offer the agent's provider now")
    } else {
        return None;
    };
    Some(Cause { sentence, since: known.last_seen, link: Some(link) })
}

/// The end of a time limit.
fn after(since: Option<Timestamp>, limit: SignedDuration) -> Option<Timestamp> {
    since?.checked_add(limit).ok()
}

/// Slots that are all taken.
fn full(task: &Task, daemon: &str, facts: &Facts<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if facts.agent.slots > 0 && facts.agent.slots_taken >= facts.agent.slots {
        let id = task.facts.agent;
        let label = facts.names.agent(id).unwrap_or_else(|| task.facts.agent_name.clone());
        causes.push(Cause {
            sentence: format!(
                "{label} runs {} tasks at once, and all {0} slots are taken",
                facts.agent.slots
            ),
            since: None,
            link: Some(Link { rel: "agent", id: id.to_string(), label }),
        });
    }
    if facts.daemon.slots > 0 && facts.daemon.slots_taken >= facts.daemon.slots {
        let link = daemon_link(daemon, facts);
        causes.push(Cause {
            sentence: format!("the daemon on {} has all {} slots taken", link.label, facts.daemon.slots),
            since: None,
            link: Some(link),
        });
    }
    causes
}

fn queued(task: &Task, facts: &Facts<'_>) -> Explanation {
    let mut causes = Vec::new();
    let mut commands = Vec::new();
    if facts.agent.archived {
        causes.push(because(format!("the agent {} is archived and takes no tasks", task.facts.agent_name)));
        commands.push(format!("multica task cancel {}", task.name()));
    }
    if let Some(absent) = absence(&task.facts.daemon, facts) {
        causes.push(absent);
        commands.push("multica daemon start".to_owned());
    } else if facts.daemon.draining {
        let link = daemon_link(&task.facts.daemon, facts);
        let sentence = format!("the daemon on {} is stopping and takes no new tasks", link.label);
        causes.push(Cause { sentence, since: None, link: Some(link) });
        commands.push("multica daemon start".to_owned());
    }
    causes.extend(full(task, &task.facts.daemon, facts));
    let mut sibling = None;
    if let Some(other) = facts.conversation {
        let link = task_link(other, facts);
        let name = called(&link, facts);
        commands.push(format!("multica task explain {name}"));
        commands.push(format!("multica task cancel {name}"));
        sibling = Some(link.label.clone());
        causes.push(Cause {
            sentence: format!(
                "{} of the same issue and agent isn't over; they run one after the other",
                link.label
            ),
            since: None,
            link: Some(link),
        });
    }
    if facts.ahead > 0 {
        let tasks = if facts.ahead == 1 { "1 task is" } else { &format!("{} tasks are", facts.ahead) };
        causes.push(because(format!("{tasks} more urgent or older on the same runtime")));
    }
    if let Some(damage) = facts.damage {
        causes.push(because(format!("it can't be given to a daemon: {damage}")));
        commands.push("multica verify".to_owned());
        commands.push(format!("multica task cancel {}", task.name()));
    }
    if facts.undelivered > 0 {
        let times = if facts.undelivered == 1 { "once" } else { &format!("{} times", facts.undelivered) };
        causes.push(because(format!("it was claimed {times} before, and the daemon didn't confirm")));
        commands.push("multica daemon logs".to_owned());
    }
    if causes.is_empty() {
        causes.push(because("nothing is in the way: its daemon takes it with its next claim"));
    }
    let sentence = format!("{} waits for a machine to take it", task.name());
    let limit = "after the queue's time limit it fails as `queued_expired`";
    let ends_when = match sibling {
        Some(other) => format!("{other} is over, and a daemon claims it then; {limit}"),
        None => format!("a daemon claims it; {limit}"),
    };
    let until = after(facts.since.status, facts.terms.queued);
    Explanation {
        sentence,
        since: None,
        causes,
        ends_when: Some(ends_when),
        until,
        advice: Vec::new(),
        commands,
    }
}

fn dispatched(task: &Task, claim: &Claim, facts: &Facts<'_>) -> Explanation {
    let link = daemon_link(&claim.daemon, facts);
    let daemon = link.label.clone();
    let how = if claim.promoted { "was promoted" } else { "was claimed" };
    let mut causes = vec![Cause {
        sentence: format!("it {how} for the daemon on {daemon} ({} claim)", ordinal(claim.generation)),
        since: facts.since.status,
        link: Some(link),
    }];
    let absent = absence(&claim.daemon, facts);
    let mut commands = Vec::new();
    if absent.is_some() {
        commands.push("multica daemon start".to_owned());
    }
    causes.extend(absent);
    let (missing, ends_when) = if !claim.received {
        let after =
            if claim.promoted { "it is parked again at its old place" } else { "it is back in the queue" };
        (
            "the daemon hasn't confirmed yet that it knows".to_owned(),
            format!("the daemon confirms; without that {after} in a few seconds"),
        )
    } else if let Some(blocked) = foreign_lock(task, facts) {
        (blocked, "whoever has the lock lets the directory go; until then the task is parked".to_owned())
    } else if claim.place.is_none() && facts.stalled && facts.daemon.online {
        commands.push("multica daemon logs".to_owned());
        commands.push(format!("multica task cancel {}", task.name()));
        (
            "its place to work is still being made ready, unusually long: the directory's file system may \
             not answer"
                .to_owned(),
            "the place is ready, or the time limit for that is over and the task fails".to_owned(),
        )
    } else if claim.place.is_none() {
        (
            "its place to work is being made ready".to_owned(),
            "the place is ready and the agent starts".to_owned(),
        )
    } else {
        ("the agent is about to start".to_owned(), "the agent starts".to_owned())
    };
    causes.push(because(missing));
    let until = match (claim.received, facts.daemon.online) {
        (false, _) => after(facts.since.status, facts.terms.receipt),
        (true, false) => after(facts.daemon.last_seen, facts.terms.grace),
        (true, true) => None,
    };
    let sentence = format!("{} is getting ready on {daemon}", task.name());
    Explanation {
        sentence,
        since: None,
        causes,
        ends_when: Some(ends_when),
        until,
        advice: Vec::new(),
        commands,
    }
}

/// Who keeps the task out of the directory that it holds.
fn foreign_lock(task: &Task, facts: &Facts<'_>) -> Option<String> {
    let holder = facts.directory?.holder.as_ref().filter(|holder| holder.who.task == task.id)?;
    Some(locked(holder.blocked.as_ref()?, facts))
}

fn locked(lock: &LockBlocked, facts: &Facts<'_>) -> String {
    let who = lock.who(|id| task_link(id, facts).label);
    match &lock.run {
        Some(LockingRun::Task { .. }) => {
            format!("{who} has locked the directory: its machine hasn't stopped it yet")
        }
        Some(LockingRun::Elsewhere {}) => format!("{who} has locked the directory"),
        None => format!("{who} has locked the directory, and isn't one of ours"),
    }
}

fn parked(task: &Task, claim: &Claim, facts: &Facts<'_>) -> Explanation {
    let link = claim.directory.map(|id| directory_link(id, facts));
    let label = link.as_ref().map_or_else(|| "its directory".to_owned(), |link| link.label.clone());
    let sentence = format!("{} waits for {label}", task.name());
    let mut commands = vec![format!("multica task cancel {}", task.name())];
    if claim.parked == Some(ParkedBecause::ForeignLock) {
        let who = foreign_lock(task, facts)
            .unwrap_or_else(|| "another program had locked the directory when it was tried last".to_owned());
        let mut causes = vec![
            Cause { sentence: format!("{label} is its own"), since: facts.since.holder, link },
            because(who),
        ];
        if let Some(absent) = absence(&claim.daemon, facts) {
            causes.push(absent);
            commands.insert(0, "multica daemon start".to_owned());
        }
        let ends_when = Some("that program lets the directory go: it is tried every second".to_owned());
        return Explanation {
            sentence,
            since: None,
            causes,
            ends_when,
            until: None,
            advice: Vec::new(),
            commands,
        };
    }
    let place = facts.directory.and_then(|directory| directory.place_in_line(task.id));
    let place = place.and_then(|place| u32::try_from(place).ok());
    let in_line = place.map_or_else(|| "in line".to_owned(), |place| format!("{} in line", ordinal(place)));
    let mut causes = vec![Cause {
        sentence: format!("runs in {label} go one after the other, and it is {in_line}"),
        since: facts.since.status,
        link,
    }];
    let mut until = None;
    let ends_when = match facts.directory.and_then(|directory| directory.holder.as_ref()) {
        Some(holder) => {
            let link = task_link(holder.who.task, facts);
            commands.insert(0, format!("multica task explain {}", called(&link, facts)));
            let ends =
                format!("{} has released the directory and every task before it had its turn", link.label);
            let held = format!("{} holds {label}", link.label);
            let behind = holder::behind(&link, facts);
            causes.push(Cause { sentence: held, since: facts.since.holder, link: Some(link) });
            causes.extend(behind.causes);
            commands.extend(behind.commands);
            until = behind.until;
            ends
        }
        None => {
            causes.push(because(format!("nobody holds {label}: the first in line with free slots gets it")));
            "it is promoted, within a second of the moment its daemon is there and slots are free".to_owned()
        }
    };
    if let Some(absent) = absence(&claim.daemon, facts) {
        causes.push(absent);
        commands.insert(0, "multica daemon start".to_owned());
    }
    causes.extend(full(task, &claim.daemon, facts));
    if claim.parked == Some(ParkedBecause::PromotionUnanswered) {
        causes.push(because("it had been promoted before, but its daemon didn't answer; it kept its place"));
    }
    Explanation {
        sentence,
        since: None,
        causes,
        ends_when: Some(ends_when),
        until,
        advice: Vec::new(),
        commands,
    }
}

fn running(task: &Task, claim: &Claim, facts: &Facts<'_>) -> Explanation {
    let link = daemon_link(&claim.daemon, facts);
    let sentence = format!("{} runs on {}", task.name(), link.label);
    let mut causes = vec![Cause {
        sentence: format!("{} started it", link.label),
        since: facts.since.status,
        link: Some(link),
    }];
    let mut commands = Vec::new();
    let mut ends_when = "the agent is done, or it says nothing for too long and is stopped".to_owned();
    let exited = task.reported.contains(&(claim.generation, Fact::ProcessExited));
    if let Some(absent) = absence(&claim.daemon, facts) {
        causes.push(absent);
        commands.push("multica daemon start".to_owned());
        commands.push(format!("multica daemon declare-dead {}", claim.daemon));
        ends_when = "its daemon is back and reports, or the time to reconnect is over: then it fails as \
                     `runtime_offline`"
            .to_owned();
    } else if exited {
        causes.push(because("its processes have ended; its place is being put in order"));
        ends_when = "the place is in order and the outcome reported".to_owned();
    } else {
        causes.push(match facts.last_output {
            None => because("the agent is at work and hasn't said anything yet"),
            since => {
                let sentence = "the agent is at work; this is when it last said something".to_owned();
                Cause { sentence, since, link: None }
            }
        });
    }
    let until = match (facts.daemon.online, exited) {
        (false, _) => after(facts.daemon.last_seen, facts.terms.grace),
        (true, false) => after(facts.last_output.or(facts.since.status), facts.terms.idle),
        (true, true) => None,
    };
    commands.push(format!("multica task logs -f {}", task.name()));
    commands.push(format!("multica task cancel {}", task.name()));
    Explanation {
        sentence,
        since: None,
        causes,
        ends_when: Some(ends_when),
        until,
        advice: Vec::new(),
        commands,
    }
}

fn ended(task: &Task, outcome: &Outcome, claim: Option<&Claim>, facts: &Facts<'_>) -> Explanation {
    let name = task.name();
    let (mut causes, mut advice, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    let sentence = match outcome {
        Outcome::Completed { .. } => format!("{name} is completed"),
        Outcome::Cancelled { reason: None } => format!("{name} was cancelled"),
        Outcome::Cancelled { reason: Some(code) } => format!("{name} was cancelled: {}", words(code)),
        Outcome::Failed { reason, .. } => {
            if let Some(known) = failure::find(reason) {
                let again = Again::of(task.retried_by.is_some(), facts.retry);
                advice.push(known.next_step(again, facts.daemon.online).to_owned());
            }
            commands.push(format!("multica task logs {name}"));
            format!("{name} failed: {}", words(reason))
        }
    };
    if let Some(by) = task.retried_by {
        let link = task_link(by, facts);
        commands.push(format!("multica task explain {}", called(&link, facts)));
        let sentence = match facts.retry {
            Some(status) => format!("{} stands in its place, and is {}", link.label, status.words()),
            None => format!("{} stands in its place", link.label),
        };
        causes.push(Cause { sentence, since: None, link: Some(link) });
    } else if !matches!(outcome, Outcome::Completed { .. }) {
        commands.push(format!("multica issue rerun {}", task.facts.issue_key));
    }
    let holds = facts.directory.is_some_and(|directory| directory.is_held_by(task.id));
    if let (false, true, Some(claim)) = (holds, task.is_stopping(), claim) {
        return stopping(
            claim,
            facts,
            Explanation { sentence, since: None, causes, ends_when: None, until: None, advice, commands },
        );
    }
    if !holds {
        return Explanation { sentence, since: None, causes, ends_when: None, until: None, advice, commands };
    }
    let link = claim.and_then(|claim| claim.directory).map(|id| directory_link(id, facts));
    let label = link.as_ref().map_or_else(|| "its directory".to_owned(), |link| link.label.clone());
    causes.push(Cause {
        sentence: format!("it still holds {label}: its machine is stopping what runs there"),
        since: facts.since.holder,
        link,
    });
    let absent = claim.and_then(|claim| absence(&claim.daemon, facts));
    let until = if absent.is_some() { after(facts.daemon.last_seen, facts.terms.grace) } else { None };
    if let (Some(claim), true) = (claim, absent.is_some()) {
        commands.push("multica daemon start".to_owned());
        commands.push(format!("multica daemon declare-dead {}", claim.daemon));
    }
    causes.extend(absent);
    let ends_when =
        Some("the process tree is empty and the place in order; then the next in line goes on".to_owned());
    Explanation { sentence, since: None, causes, ends_when, until, advice, commands }
}

/// A run that was ended without its machine's word, which may work on until that machine is back.
fn stopping(claim: &Claim, facts: &Facts<'_>, mut over: Explanation) -> Explanation {
    let link = daemon_link(&claim.daemon, facts);
    over.causes.push(Cause {
        sentence: format!(
            "{} was told to stop what it left, and hasn't said that it has: until then it may be at work",
            link.label
        ),
        since: facts.since.told_to_stop,
        link: Some(link),
    });
    let absent = absence(&claim.daemon, facts);
    if absent.is_some() {
        over.commands.push("multica daemon start".to_owned());
    }
    over.causes.extend(absent);
    over.ends_when = Some("its machine is there and says that nothing of it is left".to_owned());
    over
}

fn words(code: &str) -> String {
    failure::find(code).map_or_else(|| code.to_owned(), |known| known.sentence.to_owned())
}
