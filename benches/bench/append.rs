//! Commands a second, each of one event, durable and deduplicated, with inline read models.

use std::sync::Arc;
use std::time::{Duration, Instant};

use multica::app::decision::{Decided, Decision, Halt, NewEvent, Submission, View};
use multica::app::writer::check::Schemas;
use multica::app::writer::{Writer, WriterParts};
use multica::domain::{Event, Family, StreamKey};
use multica::fold::{self, ReadModel, task_status};
use multica::kernel::ids::{AgentId, CommandId, CorrelationId, EventId};
use multica::readmodel::{Registry, install};
use multica::store::{Store, read};
use multica::system::RealWorld;
use serde_json::{Value, json};
use uuid::Uuid;

use super::fill::{self, fill};
use super::installation::Installation;
use super::peers::{Peer, Peers};
use super::place::{Database, Place, connect};
use super::row::{Bar, Row};
use super::story::{self, Cast, Ids, TASK};
use super::{Options, median, quantile};

/// The numbers of writers.
const WRITERS: [usize; 4] = [1, 8, 32, 256];

/// One event for one stream.
struct Tell {
    stream: StreamKey,
    event: Event,
}

impl Decision for Tell {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        view.stream(self.stream)?;
        let events = vec![NewEvent::new(self.stream, self.event.clone())];
        Ok(Decided { events, result: json!({"task": self.stream.id}), ..Decided::default() })
    }
}

/// Ids that come from the clock.
struct Fresh(Vec<Uuid>);

impl Ids for Fresh {
    fn id(&self, n: u8) -> Uuid {
        self.0[usize::from(n)]
    }
}

pub fn writer(store: &Store, registry: &Arc<Registry>) -> Writer {
    let parts = WriterParts {
        store: store.clone(),
        registry: Arc::clone(registry),
        check: Arc::new(Schemas::embedded().unwrap()),
        world: Arc::new(RealWorld),
        version: "bench".to_owned(),
    };
    Writer::start(parts).0
}

fn submission(cast: &Cast, id: Uuid, stream: StreamKey, event: &Event) -> Submission {
    Submission {
        command_id: CommandId(id),
        event_seed: EventId(Uuid::now_v7()),
        kind: "bench",
        workspace: cast.workspace,
        fingerprint: [1; 16],
        actor: cast.member(),
        correlation: CorrelationId(id),
        causation: None,
        occurred_at: jiff::Timestamp::now(),
        decision: Box::new(Tell { stream, event: event.clone() }),
    }
}

/// The same with a machine and an agent that nobody else takes slots of.
fn alone(cast: &Cast) -> Cast {
    let agent = AgentId(Uuid::now_v7());
    Cast { agent, daemon: format!("machine-{agent}"), ..cast.clone() }
}

/// What so many writers came to.
pub struct Reached {
    pub rate: f64,
    pub times: Vec<f64>,
}

/// Lets writers tell the lives of tasks, each waiting for its answer before the next command; of a hundred commands
/// so many are sent again, and must be answered the same.
pub async fn drive(writer: &Writer, cast: &Cast, writers: usize, time: Duration, repeats: usize) -> Reached {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (writer, cast) = (writer.clone(), cast.clone());
            tokio::spawn(async move {
                let (mut times, mut sent) = (Vec::new(), 0);
                while begun.elapsed() < time {
                    let ids = Fresh((0..8).map(|_| Uuid::now_v7()).collect());
                    let stream = StreamKey::new(Family::Task, ids.id(TASK));
                    for event in story::life(&alone(&cast), &ids, "LOC-1") {
                        let (id, event) = (Uuid::now_v7(), Event::from(event));
                        let at = Instant::now();
                        let done = writer.submit(submission(&cast, id, stream, &event)).await.unwrap();
                        times.push(super::ms(at.elapsed()));
                        sent += 1;
                        if sent % 100 < repeats {
                            let again = writer.submit(submission(&cast, id, stream, &event)).await.unwrap();
                            assert_eq!((again.position, &again.result), (done.position, &done.result));
                            times.push(super::ms(at.elapsed()));
                        }
                        if begun.elapsed() >= time {
                            break;
                        }
                    }
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    Reached { rate: times.len() as f64 / begun.elapsed().as_secs_f64(), times }
}

/// A log with a writer and the read models of a registry.
struct Own {
    store: Store,
    writer: Writer,
    cast: Cast,
}

impl Own {
    async fn new(
        place: &Place,
        name: &str,
        models: Vec<Box<dyn ReadModel>>,
        events: i64,
    ) -> (Self, Database) {
        let database = place.database(name).await;
        let store = database.store().await;
        let registry = Arc::new(Registry::new(models).unwrap());
        install::run(&store, &registry).await.unwrap();
        let cast = Cast::invented();
        fill(&database, &registry, &cast, events, &fill::inline(&registry)).await;
        store.advance(read::head(&store).await.unwrap());
        (Self { writer: writer(&store, &registry), store, cast }, database)
    }
}

#[derive(Default)]
struct Measured {
    one: Vec<[f64; 4]>,
    all: Vec<[f64; 4]>,
    http: Vec<[f64; 4]>,
    floor: Vec<[f64; 3]>,
    locked: Vec<f64>,
    message_db: Vec<f64>,
    fsync: Vec<f64>,
    alone: Vec<f64>,
    p99: Vec<f64>,
    plain: Vec<f64>,
    repeats: Vec<f64>,
}

pub async fn run(options: &Options) -> Vec<Row> {
    let place = Place::new(options).await;
    let events = options.events_or(200_000);
    let (one, one_database) = Own::new(&place, "one", vec![Box::new(task_status::TaskStatus)], events).await;
    let (all, _) = Own::new(&place, "every", fold::registry::all(), events).await;
    let served_database = place.database("served").await;
    let served = Installation::found(&served_database).await;
    let peers = Peers::new(&place, &one_database, options.message_db.as_deref()).await;
    let mut measured = Measured::default();
    for _ in 0..options.rounds {
        round(options, &place, &peers, (&one, &all, &served), &mut measured).await;
    }
    let watched = watched(options, &one, &one_database).await;
    served.stop().await;
    drop((one, all));
    place.stop().await;
    let mut rows = rows(options, &measured, &peers);
    rows.extend(watched);
    rows
}

async fn round(
    options: &Options,
    place: &Place,
    peers: &Peers,
    (one, all, served): (&Own, &Own, &Installation),
    measured: &mut Measured,
) {
    let time = options.time;
    measured.fsync.push(place.fsync());
    let (mut of_one, mut of_all, mut of_http, mut floor) = ([0.0; 4], [0.0; 4], [0.0; 4], [0.0; 3]);
    for (n, writers) in WRITERS.into_iter().enumerate() {
        let writers = options.divided(writers);
        if n < 3 {
            floor[n] = peers.rate(Peer::Insert, writers, time).await;
        }
        let reached = drive(&one.writer, &one.cast, writers, time, 0).await;
        of_one[n] = reached.rate;
        match n {
            0 => measured.alone.push(median(&reached.times)),
            2 => measured.p99.push(quantile(&reached.times, 0.99)),
            _ => {}
        }
        of_all[n] = drive(&all.writer, &all.cast, writers, time, 0).await.rate;
        of_http[n] = over_http(served, writers, time).await;
    }
    measured.locked.push(peers.rate(Peer::Locked, options.divided(32), time).await);
    if peers.message_db.is_some() {
        measured.message_db.push(peers.rate(Peer::MessageDb, options.divided(32), time).await);
    }
    measured.plain.push(drive(&one.writer, &one.cast, options.divided(64), time, 0).await.rate);
    measured.repeats.push(drive(&one.writer, &one.cast, options.divided(64), time, 30).await.rate);
    measured.one.push(of_one);
    measured.all.push(of_all);
    measured.http.push(of_http);
    measured.floor.push(floor);
}

/// Issues a second that are made by so many clients.
async fn over_http(served: &Installation, clients: usize, time: Duration) -> f64 {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let (address, token) = (served.address, served.token.clone());
            tokio::spawn(async move {
                let mut http = super::http::Connection::new(address, &token).await;
                let mut count = 0;
                while begun.elapsed() < time {
                    let body = json!({"title": "Let the enemies turn around at walls"});
                    http.well("POST", "/api/issues", &body).await;
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await.unwrap();
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}

/// A reader that never rests sees each event once, also while somebody elsewhere leaves a transaction open.
async fn watched(options: &Options, one: &Own, database: &Database) -> Vec<Row> {
    let mut elsewhere = database.owner.clone();
    let idle = connect(elsewhere.dbname("postgres")).await;
    idle.batch_execute("begin; select txid_current()").await.unwrap();
    let head = read::head(&one.store).await.unwrap();
    let (done, mut stopped) = tokio::sync::watch::channel(false);
    let store = one.store.clone();
    let reader = tokio::spawn(async move {
        let (mut at, mut behind) = (head, Vec::new());
        loop {
            let last_look = *stopped.borrow_and_update();
            let known = *store.head().borrow();
            // A hole is an error of the read.
            let events = read::range(&store, at, 5_000).await.unwrap();
            at += events.len() as i64;
            behind.push((known - at).max(0) as f64);
            if events.is_empty() && last_look {
                return (at, behind);
            }
            tokio::task::yield_now().await;
        }
    });
    drive(&one.writer, &one.cast, options.divided(32), options.time, 0).await;
    done.send(true).unwrap();
    let (seen, behind) = reader.await.unwrap();
    let head = read::head(&one.store).await.unwrap();
    idle.batch_execute("rollback").await.unwrap();
    vec![
        Row::plain("append", "events-missed-by-a-tight-reader", (head - seen) as f64, "events")
            .bar(Bar::AtMost(0.0)),
        Row::plain(
            "append",
            "reader-behind/idle-transaction-elsewhere/p99",
            quantile(&behind, 0.99),
            "events",
        )
        .bar(Bar::AtMost(0.0)),
    ]
}

fn rows(options: &Options, measured: &Measured, peers: &Peers) -> Vec<Row> {
    let fsync = median(&measured.fsync);
    let config = |what: &str, writers: usize| format!("{what}/{writers}/fsync={fsync:.2}ms");
    let nth = |rounds: &[[f64; 4]], n: usize| -> Vec<f64> { rounds.iter().map(|round| round[n]).collect() };
    let floor = |n: usize| -> Vec<f64> { measured.floor.iter().map(|round| round[n.min(2)]).collect() };
    let mut rows = Vec::new();
    for (n, writers) in WRITERS.into_iter().enumerate() {
        let divided = options.divided(writers);
        let theirs = format!("INSERT/{}", options.divided(WRITERS[n.min(2)]));
        let beside = |what: &str, rounds: &[[f64; 4]]| {
            Row::beside("append", config(what, divided), &nth(rounds, n), (&theirs, &floor(n)))
        };
        let (one, all) =
            (beside("in-process/task_status", &measured.one), beside("in-process/all", &measured.all));
        rows.push(match writers {
            32 => one.bar(Bar::AtLeast(0.9)),
            256 => one.bar(Bar::AtLeast(1.5)),
            _ => one,
        });
        rows.push(match writers {
            32 => all.bar(Bar::AtLeast(0.7)),
            256 => all.bar(Bar::AtLeast(1.2)),
            _ => all,
        });
        rows.push(beside("http/all", &measured.http));
    }
    let at_32 = nth(&measured.one, 2);
    let locked = ("lock-per-append/32", measured.locked.as_slice());
    rows.push(
        Row::beside("append", config("in-process/task_status", options.divided(32)), &at_32, locked)
            .bar(Bar::AtLeast(10.0)),
    );
    if peers.message_db.is_some() {
        let theirs = ("message-db/32", measured.message_db.as_slice());
        let row =
            Row::beside("append", config("in-process/task_status", options.divided(32)), &at_32, theirs);
        rows.push(row.bar(Bar::AtLeast(5.0)));
    }
    let floor_alone: Vec<f64> = floor(0).iter().map(|rate| 1e3 / rate).collect();
    rows.push(
        Row::beside("append", config("latency-ms", 1), &measured.alone, ("INSERT/1", &floor_alone))
            .bar(Bar::AtMost(1.5)),
    );
    let p99 = median(&measured.p99);
    rows.push(Row::plain("append", config("p99", options.divided(32)), p99, "ms").bar(Bar::AtMost(10.0)));
    rows.push(
        Row::beside(
            "append",
            config("30%-repeats", options.divided(64)),
            &measured.repeats,
            ("no-repeats", &measured.plain),
        )
        .bar(Bar::AtLeast(1.0)),
    );
    rows
}

/// For measuring something while a log is written to: the time that each command took, milliseconds.
pub async fn steadily(
    writer: Writer,
    cast: Cast,
    every: Duration,
    until: tokio::sync::watch::Receiver<bool>,
) -> Vec<f64> {
    let mut times = Vec::new();
    let mut tick = tokio::time::interval(every);
    while !*until.borrow() {
        let ids = Fresh((0..8).map(|_| Uuid::now_v7()).collect());
        let stream = StreamKey::new(Family::Task, ids.id(TASK));
        for event in story::life(&alone(&cast), &ids, "LOC-1") {
            tick.tick().await;
            let at = Instant::now();
            writer.submit(submission(&cast, Uuid::now_v7(), stream, &event.into())).await.unwrap();
            times.push(super::ms(at.elapsed()));
        }
    }
    times
}

/// What nobody looks at.
pub const NOTHING: Value = Value::Null;
