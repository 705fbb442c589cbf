//! Events a second that are streamed, parsed and folded; checked against their schema; verified.

use std::collections::HashMap;
use std::time::Instant;

use multica::app::writer::check::{EventCheck, Schemas};
use multica::domain::{Envelope, Event, codec};
use multica::fold::of_stream::OfStream;
use multica::fold::task_status::{TaskRow, TaskStatus};
use multica::fold::{At, Rows};
use multica::readmodel::{Registry, install};
use multica::store::raw::RawEvent;
use multica::store::{Store, StoreError, read, verify};
use uuid::Uuid;

use super::fill::fill;
use super::place::Place;
use super::row::{Bar, Row};
use super::story::Cast;
use super::{Options, median};

/// Events asked for at once.
const PAGE: i64 = 5_000;

pub async fn run(options: &Options) -> Vec<Row> {
    let place = Place::new(options).await;
    let database = place.database("read").await;
    let store = database.store().await;
    let registry = Registry::new(Vec::new()).unwrap();
    install::run(&store, &registry).await.unwrap();
    let events = options.events_or(1_000_000);
    let filled = fill(&database, &registry, &Cast::invented(), events, &[]).await;
    let (mut parsed, mut folded, mut verified, mut checked) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        parsed.push(filled.head as f64 / stream(&store, |_| {}).await);
        let mut rows: HashMap<Uuid, TaskRow> = HashMap::new();
        let fold = |event: &Envelope| {
            let Event::Task(happened) = &event.event else { return };
            let at = At::now(&Rows::new(event.recorded_at.unwrap().as_microsecond().into()));
            let before = rows.remove(&event.stream.id);
            let after = TaskStatus::after(before, happened, event, at).unwrap();
            rows.insert(event.stream.id, after);
        };
        folded.push(filled.head as f64 / stream(&store, fold).await);
        assert_eq!(rows.len() as i64, filled.stories);
        let begun = Instant::now();
        let report = verify::run(&store).await.unwrap();
        verified.push(report.up_to as f64 / begun.elapsed().as_secs_f64());
        assert_eq!(report.findings, []);
        checked.push(check(&read::range(&store, 0, PAGE).await.unwrap()));
    }
    place.stop().await;
    let config = |what: &str| format!("{what}/{}", filled.head);
    vec![
        Row::plain("read", config("streamed+parsed"), median(&parsed), "events/s"),
        Row::plain("read", config("streamed+parsed+folded"), median(&folded), "events/s")
            .bar(Bar::AtLeast(400_000.0)),
        Row::plain("read", config("verified"), median(&verified), "events/s").bar(Bar::AtLeast(300_000.0)),
        Row::plain("read", "schema-check", median(&checked), "events/s").bar(Bar::AtLeast(1_000_000.0)),
    ]
}

/// How long it takes to give every event to `each`, seconds.
async fn stream(store: &Store, mut each: impl FnMut(&Envelope)) -> f64 {
    let (client, _driver) = store.connect_alone().await.unwrap();
    let begun = Instant::now();
    let parse = |events: &[RawEvent]| -> Result<(), StoreError> {
        events.iter().try_for_each(|event| event.decode().map(|event| each(&event)))
    };
    read::each_page_in(&client, 0, PAGE, parse).await.unwrap();
    begun.elapsed().as_secs_f64()
}

fn check(events: &[Envelope]) -> f64 {
    let schemas = Schemas::embedded().unwrap();
    let encoded: Vec<_> = events.iter().map(|event| codec::encode(&event.event).unwrap()).collect();
    let begun = Instant::now();
    for event in &encoded {
        schemas.check(event).unwrap();
    }
    encoded.len() as f64 / begun.elapsed().as_secs_f64()
}
