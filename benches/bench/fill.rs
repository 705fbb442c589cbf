//! Makes logs of any length with COPY: events, chain, results, texts, reservations and the rows of read models.
//!
//! One story is folded for real, by the product's own folds, with ids, positions and times that can be found again in
//! what comes out; each further story is that text with others put in. So the tables are those that the product
//! would have written, but for what `shared` says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Cursor;

use futures_util::SinkExt;
use futures_util::future::join_all;
use jiff::Timestamp;
use multica::domain::{Envelope, codec};
use multica::fold::reservations::{Change, changes};
use multica::fold::{Mode, ReadModel, Rows};
use multica::kernel::digest::hex;
use multica::readmodel::{Registered, Registry};
use multica::store::raw::{RawEvent, block_hash};
use multica::store::{LOG, read};
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use super::place::Database;
use super::story::{self, Cast, ISSUE, Ids, Numbered, TASK};

/// What stands for a position, a time and an issue's number in the story that is folded.
const POSITION: i64 = 7_770_000_000_000_000;
const MICROS: i64 = 1_234_567_890_123_456;
const NUMBER: u32 = 414_141_414;
/// Events of one story.
pub const STORY: i64 = 15;
/// Stories sent at once.
const CHUNK: i64 = 1_000;
/// Between two stories, microseconds: some two years for ten million events.
const PACE: i64 = 90_000_000;

/// Ids that can be found again.
struct Marked;

impl Ids for Marked {
    fn id(&self, n: u8) -> Uuid {
        Uuid::from_u128(0x0bad_bad0_0000_7000_8000_0000_0000_0000 + u128::from(n))
    }
}

/// What one copy of the story puts in.
struct Copy {
    ids: Numbered,
    /// The position before its first event.
    before: i64,
    micros: i64,
    time: String,
    number: i64,
}

#[derive(Clone, Copy)]
enum Part {
    Id(u8),
    Position(i64),
    PaddedPosition(i64),
    Micros,
    Number,
}

/// A text with places to put things in: what comes before each of them, and the end.
struct Template {
    parts: Vec<(String, Part)>,
    end: String,
}

impl Template {
    fn of(text: &str) -> Self {
        let mut known: Vec<(String, Part)> =
            vec![(MICROS.to_string(), Part::Micros), (NUMBER.to_string(), Part::Number)];
        for n in 0..=u8::MAX {
            known.push((Marked.id(n).to_string(), Part::Id(n)));
        }
        for n in 0..=STORY {
            known.push((format!("{:019}", POSITION + n), Part::PaddedPosition(n)));
            known.push(((POSITION + n).to_string(), Part::Position(n)));
        }
        let mut parts = Vec::new();
        let (mut rest, mut plain) = (text, String::new());
        while let Some(next) = rest.chars().next() {
            match known.iter().find(|(mark, _)| rest.starts_with(mark.as_str())) {
                Some((mark, part)) => {
                    parts.push((std::mem::take(&mut plain), *part));
                    rest = &rest[mark.len()..];
                }
                None => {
                    plain.push(next);
                    rest = &rest[next.len_utf8()..];
                }
            }
        }
        Self { parts, end: plain }
    }

    fn is_shared(&self) -> bool {
        !self.parts.iter().any(|(_, part)| matches!(part, Part::Id(_) | Part::PaddedPosition(_)))
    }

    fn write(&self, copy: &Copy, into: &mut String) {
        for (text, part) in &self.parts {
            into.push_str(text);
            match part {
                Part::Id(n) => write!(into, "{}", copy.ids.id(*n)).unwrap(),
                Part::Position(n) => write!(into, "{}", copy.before + n).unwrap(),
                Part::PaddedPosition(n) => write!(into, "{:019}", copy.before + n).unwrap(),
                Part::Micros => write!(into, "{}", copy.micros).unwrap(),
                Part::Number => write!(into, "{}", copy.number).unwrap(),
            }
        }
        into.push_str(&self.end);
    }

    fn text(&self, copy: &Copy) -> String {
        let mut text = String::new();
        self.write(copy, &mut text);
        text
    }
}

/// As COPY wants it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t")
}

struct ModelRow {
    key: Template,
    row: Template,
    position: i64,
    /// The position that ended it, in a history.
    to: Option<i64>,
}

struct Model {
    copy: String,
    rows: Vec<ModelRow>,
    history: bool,
    table: String,
}

/// The log's length, and where in it one looks for things.
#[derive(Debug, Clone, Copy)]
pub struct Filled {
    pub head: i64,
    pub stories: i64,
}

impl Filled {
    fn story(self, n: i64) -> Numbered {
        Numbered { micros: micros_of(n), story: n.unsigned_abs() }
    }

    /// The task of the story in the middle of that part of the log.
    pub fn task(self, part: f64) -> Uuid {
        self.story(self.nth(part)).id(TASK)
    }

    pub fn issue(self, part: f64) -> Uuid {
        self.story(self.nth(part)).id(ISSUE)
    }

    pub fn correlation(self, part: f64) -> Uuid {
        self.story(self.nth(part)).id(6)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a story's number")]
    fn nth(self, part: f64) -> i64 {
        (self.stories as f64 * part) as i64
    }
}

fn micros_of(story: i64) -> i64 {
    1_700_000_000_000_000 + story * PACE
}

/// Goes on with the log up to that many events, with the rows of those read models of the registry. The others are
/// told that they are at the head.
pub async fn fill(
    database: &Database,
    registry: &Registry,
    cast: &Cast,
    events: i64,
    models: &[&str],
) -> Filled {
    let store = database.store().await;
    let head = read::head(&store).await.unwrap();
    let prelude = read::range(&store, 0, head.max(1)).await.unwrap();
    let at = Timestamp::from_microsecond(MICROS).unwrap();
    let told = story::tell(cast, &Marked, NUMBER, POSITION + 1, at);
    assert_eq!(told.len() as i64, STORY);
    let wanted = |one: &&Registered| models.contains(&"*") || models.contains(&one.model().name());
    let models: Vec<Model> = registry.all().filter(wanted).map(|one| folded(one, &prelude, &told)).collect();
    let stories = ((events - head) / STORY).max(1);
    let log = Log::new(&told);
    let owner = database.maker().await;
    let (_, mut hash, _) = read::head_block_in(&owner).await.unwrap();
    let indexes = if events >= 500_000 { drop_indexes(database, &models).await } else { Vec::new() };
    let mut tables = Tables::open(database, &models).await;
    let mut next = head;
    for chunk in (0..stories).step_by(usize::try_from(CHUNK).unwrap()) {
        let last = (chunk + CHUNK).min(stories);
        let mut texts = vec![String::new(); tables.statements.len()];
        for story in chunk..last {
            let micros = micros_of(story);
            let time = Timestamp::from_microsecond(micros).unwrap().to_string();
            let ids = Numbered { micros, story: story.unsigned_abs() };
            let copy = Copy { ids, before: next, micros, time, number: story + 1 };
            log.write(cast, &copy, &mut hash, &mut texts);
            for (model, text) in models.iter().zip(&mut texts[LOG_TABLES.len()..]) {
                model.write(cast, &copy, text);
            }
            next += STORY;
        }
        // A partition has to be there before its first event.
        let time = Timestamp::from_microsecond(micros_of(last - 1)).unwrap();
        owner
            .execute(
                "update es.log_head set last_seq = $1, last_block_hash = $2, last_recorded_at = $3",
                &[&next, &hash, &time],
            )
            .await
            .unwrap();
        owner.execute("select es.ensure_partitions()", &[]).await.unwrap();
        tables.send(texts).await;
    }
    let filled = Filled { head: next, stories };
    shared(database, cast, &models, filled).await;
    owner
        .execute("update es.projections set checkpoint = $1 where state = 'active'", &[&next])
        .await
        .unwrap();
    for (_, create) in indexes {
        database.model_maker().await.batch_execute(&create).await.unwrap();
    }
    for statement in ["vacuum analyze", "checkpoint"] {
        owner.batch_execute(statement).await.unwrap();
    }
    filled
}

/// What is left of an index after the rows are in.
async fn drop_indexes(database: &Database, models: &[Model]) -> Vec<(String, String)> {
    let maker = database.model_maker().await;
    let mut indexes = Vec::new();
    for model in models {
        let rows = maker
            .query(
                "select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) from pg_index i \
                 where i.indrelid = $1::text::regclass and not i.indisprimary",
                &[&model.table],
            )
            .await
            .unwrap();
        for row in rows {
            let (name, create): (String, String) = (row.get(0), row.get(1));
            maker.batch_execute(&format!("drop index {name}")).await.unwrap();
            indexes.push((name, create));
        }
    }
    indexes
}

/// What the story makes of a read model's table.
fn folded(registered: &Registered, prelude: &[Envelope], told: &[Envelope]) -> Model {
    let model = registered.model();
    let mut rows = Rows::new(Value::Null);
    feed(model, &mut rows, prelude);
    let history = registered.is_history();
    let mut versions: BTreeMap<String, Vec<(i64, Option<String>)>> = BTreeMap::new();
    for event in told {
        feed(model, &mut rows, std::slice::from_ref(event));
        for (key, row) in rows.take_changes() {
            let row = row.map(|row| row.object.to_string());
            versions.entry(key).or_default().push((event.position.unwrap() - POSITION, row));
        }
    }
    let mut found = Vec::new();
    for (key, all) in versions {
        let last = all.len() - 1;
        for (n, (position, row)) in all.iter().enumerate() {
            let Some(row) = row else { continue };
            if !history && n < last {
                continue;
            }
            let to = all.get(n + 1).map(|(position, _)| *position);
            let (key, row) = (Template::of(&escaped(&key)), Template::of(&escaped(row)));
            found.push(ModelRow { key, row, position: *position, to });
        }
    }
    let table = registered.table();
    let more = if history { ", to_position" } else { "" };
    let copy = format!("copy {table} (key, workspace_id, position, recorded_at, \"row\"{more}) from stdin");
    Model { copy, rows: found, history, table }
}

fn feed(model: &dyn ReadModel, rows: &mut Rows, events: &[Envelope]) {
    for event in events {
        for key in model.touches(event) {
            if !rows.holds(&key) {
                rows.load(key, None);
            }
        }
        rows.set_recorded_at(event.recorded_at.unwrap().as_microsecond().into());
        model.apply(rows, event).unwrap();
    }
    if events.len() != 1 {
        drop(rows.take_changes());
    }
}

impl Model {
    fn write(&self, cast: &Cast, copy: &Copy, text: &mut String) {
        for row in self.rows.iter().filter(|row| !row.key.is_shared()) {
            row.key.write(copy, text);
            write!(text, "\t{}\t{}\t{}\t", cast.workspace, copy.before + row.position, copy.time).unwrap();
            row.row.write(copy, text);
            if self.history {
                match row.to {
                    Some(to) => write!(text, "\t{}", copy.before + to).unwrap(),
                    None => text.push_str("\t\\N"),
                }
            }
            text.push('\n');
        }
    }
}

/// Rows that all stories change: as the last one leaves them. Histories of them are left out.
async fn shared(database: &Database, cast: &Cast, models: &[Model], filled: Filled) {
    let maker = database.model_maker().await;
    let story = filled.stories - 1;
    let micros = micros_of(story);
    let time = Timestamp::from_microsecond(micros).unwrap();
    let before = filled.head - STORY;
    let copy =
        Copy { ids: filled.story(story), before, micros, time: time.to_string(), number: filled.stories };
    for model in models.iter().filter(|model| !model.history) {
        for row in model.rows.iter().filter(|row| row.key.is_shared()) {
            let (key, object) = (row.key.text(&copy), row.row.text(&copy));
            let table = &model.table;
            let sql = format!(
                "insert into {table} (key, workspace_id, position, recorded_at, \"row\") \
                 values ($1, $2, $3, $4, $5::text::jsonb) on conflict (key) do update \
                 set position = excluded.position, recorded_at = excluded.recorded_at, \"row\" = excluded.\"row\""
            );
            let position = copy.before + row.position;
            maker.execute(&sql, &[&key, &cast.workspace.0, &position, &time, &object]).await.unwrap();
        }
    }
}

const LOG_TABLES: [&str; 6] = [
    "copy es.events (log_id, seq, workspace_id, family, stream_id, version, event_id, command_id, correlation_id, \
     causation, event_type, schema_version, actor_type, actor_id, actor_via, occurred_at, recorded_at, data, meta) \
     from stdin",
    "copy es.log_blocks (log_id, first_seq, last_seq, format, prev_hash, hash, recorded_at) from stdin",
    "copy es.streams (log_id, stream_id, family, workspace_id, version, last_seq) from stdin",
    "copy es.commands (log_id, command_id, workspace_id, kind, fingerprint, outcome, position, event_count, result, \
     actor_type, actor_id, actor_via, recorded_at) from stdin",
    "copy es.contents (log_id, id, workspace_id, salt, bytes) from stdin",
    "copy es.reservations (log_id, key, class, holder) from stdin",
];

const META: &str = "{\"build\":\"bench\"}";

/// The story as it stands in the log's own tables.
struct Log {
    events: Vec<(RawEvent, Template)>,
    reservations: Vec<(Template, &'static str, u8)>,
}

impl Log {
    fn new(told: &[Envelope]) -> Self {
        let events = told
            .iter()
            .map(|envelope| {
                let raw = RawEvent::new(envelope, codec::encode(&envelope.event).unwrap(), META);
                let data = Template::of(&raw.data);
                (raw, data)
            })
            .collect();
        let mut kept: Vec<(String, &'static str, Uuid)> = Vec::new();
        for change in told.iter().flat_map(changes) {
            match change {
                Change::Take { key, class, holder } => kept.push((key, class.name(), holder)),
                Change::Free { class, holder } => kept.retain(|(_, c, h)| *c != class.name() || *h != holder),
            }
        }
        let reservations = kept
            .into_iter()
            .map(|(key, class, holder)| {
                (Template::of(&key), class, if holder == Marked.id(ISSUE) { ISSUE } else { TASK })
            })
            .collect();
        Self { events, reservations }
    }

    fn write(&self, cast: &Cast, copy: &Copy, hash: &mut Vec<u8>, texts: &mut [String]) {
        let at = Timestamp::from_microsecond(copy.micros).unwrap();
        let own = |marked: Uuid| copy.ids.id(marked.as_bytes()[15]);
        let (workspace, time) = (cast.workspace, &copy.time);
        let mut leaves = Vec::with_capacity(self.events.len());
        let mut last = BTreeMap::new();
        for (n, (marked, data)) in self.events.iter().enumerate() {
            let event = RawEvent {
                stream: own(marked.stream),
                event_id: own(marked.event_id),
                command_id: own(marked.command_id),
                correlation: own(marked.correlation),
                occurred_at: at,
                data: data.text(copy),
                ..marked.clone()
            };
            leaves.push(event.leaf());
            let position = copy.before + 1 + n as i64;
            let (stream, version) = (event.stream, event.version);
            writeln!(
                texts[0],
                "{LOG}\t{position}\t{workspace}\t{}\t{stream}\t{version}\t{}\t{}\t{}\t\\N\t{}\t{}\t{}\t{}\t{}\t{time}\t{time}\t{}\t{META}",
                event.family, event.event_id, event.command_id, event.correlation, event.event_type,
                event.schema_version, event.actor_type, event.actor_id, event.actor_via, escaped(&event.data),
            )
            .unwrap();
            writeln!(
                texts[3],
                "{LOG}\t{}\t{workspace}\tbench\t\\\\x{}\t0\t{position}\t1\tnull\t{}\t{}\t{}\t{time}",
                event.command_id,
                "07".repeat(16),
                event.actor_type,
                event.actor_id,
                event.actor_via
            )
            .unwrap();
            last.insert(stream, (event.family, version, position));
        }
        let first = copy.before + 1;
        let block = block_hash(hash, first, at, &leaves);
        writeln!(
            texts[1],
            "{LOG}\t{first}\t{}\t1\t\\\\x{}\t\\\\x{}\t{time}",
            copy.before + STORY,
            hex(hash),
            hex(&block)
        )
        .unwrap();
        *hash = block.to_vec();
        for (stream, (family, version, position)) in last {
            writeln!(texts[2], "{LOG}\t{stream}\t{family}\t{workspace}\t{version}\t{position}").unwrap();
        }
        for (id, text) in story::TEXTS {
            let id = copy.ids.id(id);
            let (salt, text) = (hex(&story::SALT), hex(text.as_bytes()));
            writeln!(texts[4], "{LOG}\t{id}\t{workspace}\t\\\\x{salt}\t\\\\x{text}").unwrap();
        }
        for (key, class, holder) in &self.reservations {
            writeln!(texts[5], "{LOG}\t{}\t{class}\t{}", key.text(copy), copy.ids.id(*holder)).unwrap();
        }
    }
}

/// A connection for each table: several processors work on them.
struct Tables {
    statements: Vec<String>,
    clients: Vec<Client>,
}

impl Tables {
    async fn open(database: &Database, models: &[Model]) -> Self {
        let mut clients = Vec::new();
        for _ in LOG_TABLES {
            clients.push(database.maker().await);
        }
        for _ in models {
            clients.push(database.model_maker().await);
        }
        let statements =
            LOG_TABLES.iter().map(|&sql| sql.to_owned()).chain(models.iter().map(|model| model.copy.clone()));
        Self { statements: statements.collect(), clients }
    }

    async fn send(&mut self, texts: Vec<String>) {
        let sends =
            self.clients.iter().zip(&self.statements).zip(texts).filter(|(_, text)| !text.is_empty()).map(
                |((client, sql), text)| async move {
                    let sink = client.copy_in::<_, Cursor<Vec<u8>>>(sql.as_str()).await.unwrap();
                    let mut sink = std::pin::pin!(sink);
                    sink.send(Cursor::new(text.into_bytes())).await.unwrap();
                    if let Err(error) = sink.finish().await {
                        panic!("{sql}: {error:?}");
                    }
                },
            );
        join_all(sends).await;
    }
}

/// Names of the inline read models.
pub fn inline(registry: &Registry) -> Vec<&str> {
    registry
        .all()
        .map(Registered::model)
        .filter(|model| model.mode() == Mode::Inline)
        .map(ReadModel::name)
        .collect()
}
