//! `multica webhook`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use crate::cli::error::CliError;
use crate::cli::output::{note, read, short};
use crate::cli::session::{Session, pick};
use crate::client::api::Call;
use crate::client::http::method::{DELETE, PUT};
use crate::domain::webhook::OffBecause;
use crate::wire::api::{Deliveries, Delivery, Progress, Replay, Test, Webhook};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum WebhookVerb {
    /// Creates a webhook; its secret is shown once.
    Create(Create),
    /// Lists the webhooks and how their deliveries stand.
    List,
    /// Shows a webhook.
    Show {
        /// Id, four or more characters of it, or the name.
        webhook: String,
    },
    /// Changes a webhook, switches it on or off.
    Update(Update),
    /// Removes a webhook; what waits for it is not delivered.
    Remove {
        /// Id, four or more characters of it, or the name.
        webhook: String,
    },
    /// Gives a webhook another secret, which is shown once; the old one signs too for a while.
    RotateSecret {
        /// Id, four or more characters of it, or the name.
        webhook: String,
        /// How long the old secret signs too, seconds; a day otherwise.
        #[arg(long, value_name = "SECONDS")]
        overlap: Option<u64>,
    },
    /// Lists a webhook's deliveries, those of the newest events first.
    Deliveries(DeliveriesArgs),
    /// Tries deliveries again that were given up.
    Retry(Retry),
    /// Delivers again what happened, under the same delivery ids: a receiver can tell what it has had.
    Replay(ReplayArgs),
    /// Sends a test and says what the receiver answered.
    Test {
        /// Id, four or more characters of it, or the name.
        webhook: String,
    },
}

/// `webhook create`.
#[derive(Debug, Args)]
pub struct Create {
    /// Its name.
    #[arg(long)]
    name: String,
    /// Where events are delivered to, https://….
    #[arg(long)]
    url: String,
    /// A type of events that it gets (`task.completed`), a family (`task`), or a beginning (`task.*`); may be given
    /// again; otherwise all.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
}

/// `webhook update`: what isn't given stays.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(CHANGES))]
pub struct Update {
    /// Id, four or more characters of it, or the name.
    webhook: String,
    /// Its new name.
    #[arg(long)]
    name: Option<String>,
    /// Its new address; what waits is delivered there too.
    #[arg(long)]
    url: Option<String>,
    /// A type of events that it gets from now on; may be given again.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Gets events of every type from now on.
    #[arg(long, conflicts_with = "types")]
    all_types: bool,
    /// Switches it on; what waited is delivered.
    #[arg(long)]
    enable: bool,
    /// Switches it off: what happens from now on isn't delivered.
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
}

/// What there is to change: one of them at least.
const CHANGES: [&str; 6] = ["name", "url", "types", "all_types", "enable", "disable"];

/// `webhook deliveries`.
#[derive(Debug, Args)]
pub struct DeliveriesArgs {
    /// Id, four or more characters of it, or the name.
    webhook: String,
    /// Only those that stand so.
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Only those of events before this position.
    #[arg(long, value_name = "POSITION")]
    before: Option<i64>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    /// To be tried, or tried again.
    Waiting,
    /// Taken by the receiver.
    Delivered,
    /// Given up after the last attempt.
    Dead,
}

/// `webhook retry`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["positions", "all"]))]
pub struct Retry {
    /// Id, four or more characters of it, or the name.
    webhook: String,
    /// Positions of the events whose delivery was given up.
    #[arg(value_name = "POSITION")]
    positions: Vec<i64>,
    /// All that were given up.
    #[arg(long)]
    all: bool,
}

/// `webhook replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Id, four or more characters of it, or the name.
    webhook: String,
    /// The first position; 1 for everything.
    #[arg(long, value_name = "POSITION")]
    from: i64,
    /// The last position; the last there is otherwise.
    #[arg(long, value_name = "POSITION")]
    to: Option<i64>,
}

pub async fn run(session: &Session, verb: WebhookVerb) -> Result<(), CliError> {
    match verb {
        WebhookVerb::Create(create) => run_create(session, create).await,
        WebhookVerb::List => list(session).await,
        WebhookVerb::Show { webhook } => show(session, &webhook).await,
        WebhookVerb::Update(update) => run_update(session, update).await,
        WebhookVerb::Remove { webhook } => {
            let found = named(session, &webhook).await?;
            let path = format!("/api/webhooks/{}", found.id);
            let answer = session.call(Call::write(DELETE, &path, &json!({}))?).await?;
            session.out.done(&answer, &format!("Removed {}.", found.name))
        }
        WebhookVerb::RotateSecret { webhook, overlap } => rotate(session, &webhook, overlap).await,
        WebhookVerb::Deliveries(asked) => deliveries(session, asked).await,
        WebhookVerb::Retry(retry) => run_retry(session, retry).await,
        WebhookVerb::Replay(replay) => run_replay(session, replay).await,
        WebhookVerb::Test { webhook } => test(session, &webhook).await,
    }
}

async fn named(session: &Session, reference: &str) -> Result<Webhook, CliError> {
    pick(read::<Vec<Webhook>>(&session.get("/api/webhooks").await?)?, reference)
}

async fn run_create(session: &Session, create: Create) -> Result<(), CliError> {
    let body = json!({"name": create.name, "url": create.url, "types": create.types});
    let made = session.call(Call::post("/api/webhooks", &body)?).await?;
    let webhook: Webhook = read(&made)?;
    note(&format!(
        "Created webhook {}. Its secret is shown this once; give it to the receiver.",
        webhook.name
    ));
    session.out.done(&made, &webhook.secret.unwrap_or_default())
}

async fn rotate(session: &Session, reference: &str, overlap: Option<u64>) -> Result<(), CliError> {
    let found = named(session, reference).await?;
    let path = format!("/api/webhooks/{}/rotate-secret", found.id);
    let body = overlap.map_or_else(|| json!({}), |seconds| json!({"overlap_seconds": seconds}));
    let made = session.call(Call::post(&path, &body)?).await?;
    let webhook: Webhook = read(&made)?;
    let until = match webhook.old_secret_until {
        Some(until) => format!("The old one signs too until {until}."),
        None => "The old one signs no more.".to_owned(),
    };
    note(&format!("The new secret is shown this once; give it to the receiver. {until}"));
    session.out.done(&made, &webhook.secret.unwrap_or_default())
}

async fn run_update(session: &Session, update: Update) -> Result<(), CliError> {
    let found = named(session, &update.webhook).await?;
    let types =
        if update.all_types { Some(Vec::new()) } else { Some(update.types).filter(|all| !all.is_empty()) };
    let switch = if update.enable { Some(true) } else { update.disable.then_some(false) };
    let members = [
        ("name", update.name.map(Value::from)),
        ("url", update.url.map(Value::from)),
        ("types", types.map(|types| json!(types))),
        ("enabled", switch.map(Value::from)),
    ];
    let body: Map<String, Value> =
        members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    let path = format!("/api/webhooks/{}", found.id);
    let answer = session.call(Call::write(PUT, &path, &Value::Object(body))?).await?;
    let webhook: Webhook = read(&answer)?;
    let sentence = if webhook.updated_at == found.updated_at {
        format!("{} is so already.", webhook.name)
    } else {
        format!("Changed {}: it is {}.", webhook.name, webhook.status)
    };
    session.out.done(&answer, &sentence)
}

fn types(webhook: &Webhook) -> String {
    if webhook.types.is_empty() { "all".to_owned() } else { webhook.types.join(", ") }
}

fn behind(progress: Option<&Progress>) -> String {
    progress.map(|progress| (progress.head - progress.position).max(0).to_string()).unwrap_or_default()
}

async fn list(session: &Session) -> Result<(), CliError> {
    let answer = session.get("/api/webhooks").await?;
    let rows = read::<Vec<Webhook>>(&answer)?
        .into_iter()
        .map(|webhook| {
            let progress = webhook.progress.as_ref();
            let (types, behind) = (types(&webhook), behind(progress));
            let waiting = progress.map(|progress| progress.waiting.to_string()).unwrap_or_default();
            let last = session.out.since(progress.and_then(|progress| progress.delivered_at));
            let dead = webhook.dead.to_string();
            vec![
                short(&webhook.id.to_string()),
                webhook.name,
                webhook.status,
                types,
                behind,
                waiting,
                dead,
                last,
            ]
        })
        .collect();
    let headers = ["id", "name", "status", "types", "behind", "waiting", "dead", "delivered"];
    let empty = "No webhook yet: `multica webhook create --name N --url https://…`.";
    session.out.list(&answer, &headers, rows, empty)
}

async fn show(session: &Session, reference: &str) -> Result<(), CliError> {
    let found = named(session, reference).await?;
    let answer = session.get(&format!("/api/webhooks/{}", found.id)).await?;
    let webhook: Webhook = read(&answer)?;
    let progress = webhook.progress.as_ref();
    let counted =
        |of: fn(&Progress) -> i64| progress.map(|progress| of(progress).to_string()).unwrap_or_default();
    let replays: Vec<String> = progress
        .iter()
        .flat_map(|progress| &progress.replays)
        .map(|replay| format!("at {} of {}", replay.position, replay.up_to))
        .collect();
    let because = match webhook.off_because {
        None => "",
        Some(OffBecause::Asked) => "somebody asked for it",
        Some(OffBecause::Gone) => "its receiver answered 410: it wants nothing any more",
        Some(OffBecause::Failing) => "too many deliveries were given up",
    };
    session.out.fields(
        &answer,
        &[
            ("ID", webhook.id.to_string()),
            ("NAME", webhook.name.clone()),
            ("STATUS", webhook.status.clone()),
            ("BECAUSE", because.to_owned()),
            ("URL", webhook.url.clone()),
            ("TYPES", types(&webhook)),
            ("AT", counted(|progress| progress.position)),
            ("BEHIND", behind(progress)),
            ("WAITING", counted(|progress| progress.waiting)),
            ("DEAD", webhook.dead.to_string()),
            ("LAST TAKEN", session.out.since(progress.and_then(|progress| progress.delivered_at))),
            ("LAST FAILED", session.out.since(progress.and_then(|progress| progress.failed_at))),
            ("REPLAYS", replays.join(", ")),
            ("OLD SECRET UNTIL", session.out.since(webhook.old_secret_until)),
            ("CREATED", session.out.since(webhook.created_at)),
            ("UPDATED", session.out.since(webhook.updated_at)),
        ],
    )
}

async fn deliveries(session: &Session, asked: DeliveriesArgs) -> Result<(), CliError> {
    let found = named(session, &asked.webhook).await?;
    let path = format!("/api/webhooks/{}/deliveries", found.id);
    let state = asked.state.map(|state| match state {
        State::Waiting => "waiting",
        State::Delivered => "delivered",
        State::Dead => "dead",
    });
    let mut call = Call::get(&path).query("limit", asked.limit).query_some("state", state);
    if let Some(before) = asked.before {
        call = call.query("before", before);
    }
    let answer = session.call(call).await?;
    let page: Deliveries = read(&answer)?;
    let rows = page.deliveries.into_iter().map(|one| row(session, one)).collect();
    let headers = ["position", "type", "state", "attempts", "tried", "answer", "next", "delivery"];
    session.out.list(&answer, &headers, rows, "No delivery so far.")?;
    if let Some(next) = page.next.filter(|_| !session.out.is_json()) {
        note(&format!("There are more: --before {next}."));
    }
    Ok(())
}

fn row(session: &Session, one: Delivery) -> Vec<String> {
    let status = one.status.map(|status| status.to_string()).unwrap_or_default();
    let answer = match one.problem_text {
        None => status,
        Some(text) if status.is_empty() => text,
        Some(text) => format!("{status}: {text}"),
    };
    vec![
        one.position.to_string(),
        one.event_type,
        one.state,
        one.attempts.to_string(),
        session.out.since(one.tried_at),
        answer,
        session.out.since(one.due_at),
        one.id,
    ]
}

async fn run_retry(session: &Session, retry: Retry) -> Result<(), CliError> {
    let found = named(session, &retry.webhook).await?;
    let body = if retry.all { json!({}) } else { json!({"positions": retry.positions}) };
    let path = format!("/api/webhooks/{}/retry", found.id);
    let answer = session.call(Call::post(&path, &body)?).await?;
    let webhook: Webhook = read(&answer)?;
    let again = found.dead.saturating_sub(webhook.dead);
    let sentence = match again {
        0 => format!("Nothing of {} was given up.", webhook.name),
        1 => format!("1 delivery to {} is tried again.", webhook.name),
        n => format!("{n} deliveries to {} are tried again.", webhook.name),
    };
    session.out.done(&answer, &sentence)
}

async fn run_replay(session: &Session, asked: ReplayArgs) -> Result<(), CliError> {
    let found = named(session, &asked.webhook).await?;
    let mut body = json!({"from": asked.from});
    if let Some(to) = asked.to {
        body["up_to"] = Value::from(to);
    }
    let path = format!("/api/webhooks/{}/replay", found.id);
    let answer = session.call(Call::post(&path, &body)?).await?;
    let replay: Replay = read(&answer)?;
    let (from, to) = (replay.from, replay.up_to);
    session.out.done(&answer, &format!("Events {from} to {to} are delivered again to {}.", found.name))
}

async fn test(session: &Session, reference: &str) -> Result<(), CliError> {
    let found = named(session, reference).await?;
    let path = format!("/api/webhooks/{}/test", found.id);
    let answer =
        session.patiently("testing the webhook", session.call(Call::post(&path, &json!({}))?)).await?;
    let test: Test = read(&answer)?;
    let status = test.status.map(|status| format!(" with {status}")).unwrap_or_default();
    if test.delivered {
        let sentence = format!("{} took the test{status} in {} ms.", found.name, test.millis);
        return session.out.done(&answer, &sentence);
    }
    if session.out.is_json() {
        session.out.json(&answer)?;
    }
    let why = test.problem_text.unwrap_or_default();
    Err(CliError::NotTaken { webhook: found.name, why: format!("{why}{status}") })
}
