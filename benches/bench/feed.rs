//! From commit to frame with many open streams, and what a reader gets that was away.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use multica::fold;
use multica::readmodel::Registry;
use serde_json::json;

use super::fill::fill;
use super::installation::Installation;
use super::place::Place;
use super::row::{Bar, Row};
use super::{Options, median, ms, quantile};

const STREAMS: usize = 1_000;
/// Twenty events a second.
const PACE: Duration = Duration::from_millis(50);
const MISSED: i64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(20);

pub async fn run(options: &Options) -> Vec<Row> {
    let place = Place::new(options).await;
    let database = place.database("feed").await;
    let known = Installation::found(&database).await.stop().await;
    let registry = Registry::new(fold::registry::all()).unwrap();
    let filled = fill(&database, &registry, &known.1, options.events_or(20_000), &["*"]).await;
    let served = Installation::again(&database, known).await;
    let missed = MISSED.min(filled.head - 100);
    let mut times = Vec::new();
    let mut reconnects = Vec::new();
    for _ in 0..options.rounds {
        times.extend(round(options, &served).await);
        let head = *served.app.store.head().borrow();
        let begun = Instant::now();
        let mut frames = served.http().await.follow(head - missed).await;
        while frames.next(PATIENCE).await.is_some_and(|position| position < head) {}
        reconnects.push(begun.elapsed().as_secs_f64());
    }
    served.stop().await;
    place.stop().await;
    let streams = options.divided(STREAMS);
    vec![
        Row::plain("feed", format!("commit-to-frame/{streams}-streams/p50"), median(&times), "ms"),
        Row::plain("feed", format!("commit-to-frame/{streams}-streams/p99"), quantile(&times, 0.99), "ms")
            .bar(Bar::AtMost(50.0)),
        Row::plain("feed", format!("reconnect/{missed}-missed"), median(&reconnects), "s")
            .bar(Bar::AtMost(1.0)),
    ]
}

/// From the answer of each command to its frame in every stream, milliseconds.
async fn round(options: &Options, served: &Installation) -> Vec<f64> {
    let events = usize::try_from(options.time.as_millis() / PACE.as_millis()).unwrap().max(2) * 3;
    let head = *served.app.store.head().borrow();
    let mut open = Vec::new();
    for _ in 0..options.divided(STREAMS) {
        open.push(served.http().await.follow(head).await);
    }
    let last = head + events as i64;
    let readers: Vec<_> = open
        .into_iter()
        .map(|mut frames| {
            tokio::spawn(async move {
                let mut seen = Vec::with_capacity(events);
                while let Some(position) = frames.next(PATIENCE).await {
                    seen.push((position, Instant::now()));
                    if position >= last {
                        break;
                    }
                }
                seen
            })
        })
        .collect();
    let mut http = served.http().await;
    let mut tick = tokio::time::interval(PACE);
    let mut committed = BTreeMap::new();
    for position in head + 1..=last {
        tick.tick().await;
        http.well("POST", "/api/issues", &json!({"title": "Something new"})).await;
        committed.insert(position, Instant::now());
    }
    let mut times = Vec::new();
    for reader in readers {
        let seen = reader.await.unwrap();
        assert_eq!(seen.len(), events, "each stream has each event once");
        times.extend(seen.iter().map(|(position, at)| ms(at.saturating_duration_since(committed[position]))));
    }
    times
}
