//! Erasing what a person wrote, or what a run said: first what would go, then doing it.
//!
//! Invariants: persons only, admins and owners; an owner's texts are erased by owners alone; a repeat of a
//! request goes on where it broke off, and answers with what it took in all; no answer holds a text.
//!
//! Not here: which texts are whose (`domain::texts`), how they go (`app::erase`).

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::{id, tasks};
use crate::app::decision::Committed;
use crate::app::erase::{Erase, Plan, doomed};
use crate::domain::issue;
use crate::domain::operation::{ErasedOf, GoneTranscript};
use crate::domain::task::Task;
use crate::domain::workspace::Role;
use crate::domain::{Envelope, Event, Family, StreamKey};
use crate::http::App;
use crate::http::auth::Identity;
use crate::http::body::{Body, Query};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at};
use crate::http::left_out;
use crate::http::objects::task::task;
use crate::http::objects::{Loaded, Texts, ids};
use crate::kernel::ids::{ContentId, UserId, WorkspaceId};
use crate::readmodel::access;
use crate::store::raw::Reading;
use crate::store::{read, transcript, upkeep};
use crate::wire::api::{Erasure, ErasureRequest};

/// `GET /api/erasures?person=|task=`: what would go now. A person is named by id, name or address.
pub async fn plan(
    State(app): State<App>,
    who: Identity,
    Query(asked): Query<ErasureRequest>,
) -> Result<Json<Erasure>, ApiError> {
    who.must_be(Role::Admin)?;
    let (of, label) = match one_of_both(&asked)? {
        Named::Person(reference) => person(&app, &who, reference).await?,
        Named::Task(reference) => a_task(&app, who.workspace, reference).await?,
    };
    let plan = planned(&app, who.workspace, of).await?;
    Ok(Json(Erasure {
        kinds: plan.kinds(),
        texts: plan.texts.len() as u64,
        transcripts: plan.spoken(),
        messages: plan.messages(),
        ..nothing(of, label)
    }))
}

/// `POST /api/erasures`: a person by id, so that a repeat means the same one.
pub async fn erase(
    State(app): State<App>,
    call: Call,
    body: Body<ErasureRequest>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    let workspace = call.who.workspace;
    let (of, label) = match one_of_both(&body.value)? {
        Named::Person(reference) => {
            let user: UserId = id(reference, "person")?;
            may_erase(&call.who, member(&app, workspace, user).await?.role)?;
            (ErasedOf::Person(user), user.to_string())
        }
        Named::Task(reference) => a_task(&app, workspace, reference).await?,
    };
    let mut left = planned(&app, workspace, of).await?;
    let mut taken = nothing(of, label);
    let mut position = None;
    for n in 0_u64.. {
        let part = left.first_part(app.limits.erased_texts, app.limits.erased_bytes);
        let erase = Erase { workspace, of, part: part.clone() };
        let done = call.part(&n.to_string()).submit(&app, "operation.erase", &json!(of), erase).await?;
        position = position.max(Some(done.position));
        if done.events > 0 {
            count(&mut taken, &done)?;
        } else if part == Plan::default() {
            break;
        }
        // What a repeat finds done took nothing of what is left now.
        if !done.repeated {
            left.without(&part);
        }
        if n == 0 && done.events > 0 {
            left.written_before(done.position);
        }
        if left == Plan::default() && !call.has_key() {
            break;
        }
    }
    if let ErasedOf::Task(task) = of {
        while upkeep::purge_transcripts(&app.store, Some(task)).await? {}
    }
    Ok(at(position.unwrap_or_default(), Json(taken)))
}

enum Named<'a> {
    Person(&'a str),
    Task(&'a str),
}

fn one_of_both(asked: &ErasureRequest) -> Result<Named<'_>, ApiError> {
    match (asked.person.as_deref(), asked.task.as_deref()) {
        (Some(person), None) => Ok(Named::Person(person.trim())),
        (None, Some(task)) => Ok(Named::Task(task.trim())),
        _ => Err(ApiError::field("person", "name a `person` or a `task`, and not both")),
    }
}

fn nothing(of: ErasedOf, label: String) -> Erasure {
    let (kind, id) = match of {
        ErasedOf::Person(user) => ("person", user.to_string()),
        ErasedOf::Task(task) => ("task", task.to_string()),
    };
    Erasure {
        kind: kind.to_owned(),
        id,
        label,
        kinds: BTreeMap::new(),
        texts: 0,
        transcripts: 0,
        messages: 0,
        position: None,
    }
}

/// Adds what one event took.
fn count(taken: &mut Erasure, done: &Committed) -> Result<(), ApiError> {
    let kinds: BTreeMap<String, u64> = serde_json::from_value(done.result["kinds"].clone())?;
    for (kind, n) in kinds {
        *taken.kinds.entry(kind).or_insert(0) += n;
    }
    let number = |name: &str| done.result[name].as_u64().unwrap_or_default();
    taken.texts += number("texts");
    taken.transcripts += number("transcripts");
    taken.messages += number("messages");
    taken.position = Some(done.position);
    Ok(())
}

/// The member who is meant by an id, a name or an address.
async fn person(app: &App, who: &Identity, reference: &str) -> Result<(ErasedOf, String), ApiError> {
    let members = access::members(&app.store, &app.registry, who.workspace).await?;
    let references = members.iter().flat_map(|m| std::iter::once(&m.row.name).chain(m.row.email.iter()));
    let texts = Texts::load(app, ids(references)).await?;
    let wanted = reference.to_lowercase();
    let called = |text: &str| text.to_lowercase() == wanted && !wanted.is_empty();
    let mut found = members.iter().filter(|m| {
        m.row.user.to_string() == wanted
            || called(texts.of(&m.row.name))
            || m.row.email.as_ref().is_some_and(|email| called(texts.of(email)))
    });
    let first = found.next().ok_or_else(|| ApiError::unknown("member", reference))?;
    if found.next().is_some() {
        let same = members.iter().filter(|m| called(texts.of(&m.row.name)));
        let matches = same.map(|m| format!("{} {}", texts.of(&m.row.name), m.row.user)).collect();
        return Err(ApiError::Ambiguous { matches });
    }
    may_erase(who, first.row.role)?;
    Ok((ErasedOf::Person(first.row.user), texts.of(&first.row.name).to_owned()))
}

async fn member(
    app: &App,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<crate::fold::access::MemberRow, ApiError> {
    let found = access::member(&app.store, &app.registry, workspace, user).await?;
    found.map(|found| found.row).ok_or_else(|| ApiError::unknown("member", user))
}

fn may_erase(who: &Identity, role: Role) -> Result<(), ApiError> {
    if role == Role::Owner {
        who.must_be(Role::Owner)?;
    }
    Ok(())
}

async fn a_task(app: &App, workspace: WorkspaceId, reference: &str) -> Result<(ErasedOf, String), ApiError> {
    let named = tasks::named(app, workspace, reference).await?;
    let loaded = task(app, workspace, named).await?;
    Ok((ErasedOf::Task(named), loaded.state.name()))
}

/// What there is of that person or task, found in the log itself.
async fn planned(app: &App, workspace: WorkspaceId, of: ErasedOf) -> Result<Plan, ApiError> {
    let mut plan = Plan::default();
    let mut known = BTreeSet::new();
    match of {
        ErasedOf::Person(_) => {
            let mut after = 0;
            loop {
                let page = read::readings(&app.store, after, app.limits.follower_page).await?;
                let Some(last) = page.last() else { break };
                after = last.position();
                take(&mut plan, &mut known, of, workspace, page);
            }
        }
        ErasedOf::Task(id) => {
            let loaded = task(app, workspace, id).await?;
            let issue = issue::evolve::stream(loaded.state.facts.issue);
            plan.transcripts = transcripts(app, &loaded).await?;
            take(&mut plan, &mut known, of, workspace, loaded.events.into_iter().map(Reading::from));
            let told = read::stream_readings(&app.store, issue).await?;
            take(&mut plan, &mut known, of, workspace, told);
        }
    }
    let all: Vec<ContentId> = plan.texts.iter().map(|text| text.id).collect();
    let there = read::contents_there(&app.store, workspace, &all).await?;
    plan.texts.retain(|text| there.contains(&text.id));
    Ok(plan)
}

fn take(
    plan: &mut Plan,
    known: &mut BTreeSet<ContentId>,
    of: ErasedOf,
    workspace: WorkspaceId,
    readings: impl IntoIterator<Item = Reading>,
) {
    for reading in readings {
        match reading {
            // Whose its texts are, a newer build knows: the answer says that it was left out.
            Reading::Whole(event)
                if event.workspace == workspace && matches!(event.event, Event::Unknown(_)) =>
            {
                left_out::note(event.stream);
            }
            Reading::Whole(event) if event.workspace == workspace => {
                let event: &Envelope = &event;
                doomed(event, of).for_each(|text| plan.add(text, known));
            }
            Reading::Damaged(row) if row.workspace == workspace.0 => {
                // Its texts can't be told whose: the answer says that it was left out.
                if let Some(family) = Family::from_name(&row.family) {
                    left_out::note(StreamKey { family, id: row.stream });
                }
            }
            Reading::Whole(_) | Reading::Damaged(_) => {}
        }
    }
}

/// Those that there are; and the last one even if nothing is in it, unless it was erased before: its daemon may
/// still send what was said.
async fn transcripts(app: &App, task: &Loaded<Task>) -> Result<Vec<GoneTranscript>, ApiError> {
    let (id, last) = (task.state.id, task.state.generation);
    let kept = transcript::of_task(&app.store, id).await?;
    let one = |generation, messages| GoneTranscript { task: id, generation, messages };
    let mut all: Vec<_> = kept.iter().map(|kept| one(kept.generation, kept.messages)).collect();
    let silent = last > 0 && kept.iter().all(|kept| kept.generation != last);
    // One that was removed for its age is erased now: nothing of it comes back in a late report either.
    if silent && transcript::gone(&app.store, id, last).await?.is_none_or(|gone| gone.days.is_some()) {
        all.push(one(last, 0));
    }
    Ok(all)
}
