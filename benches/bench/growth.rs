//! What the usual things cost while the log grows.

use multica::fold;
use multica::readmodel::{Registered, Registry};
use serde_json::json;

use super::append::NOTHING;
use super::fill::fill;
use super::installation::Installation;
use super::place::Place;
use super::row::{Bar, Row};
use super::{Options, median};

/// Lengths of the log.
const LENGTHS: [i64; 3] = [10_000, 1_000_000, 10_000_000];
/// Tasks claimed at each length: fewer than a daemon's slots.
const CLAIMS: usize = 12;
/// What is asked oftener.
const ASKED: usize = 40;

#[derive(Default)]
struct Cost {
    append: Vec<f64>,
    claim: Vec<f64>,
    feed: Vec<f64>,
    explain: Vec<f64>,
}

pub async fn run(options: &Options) -> Vec<Row> {
    let lengths = options.events.map_or_else(|| LENGTHS.to_vec(), |events| vec![events / 10, events]);
    let mut rows: Vec<Row> = Vec::new();
    let mut first: Option<(i64, [f64; 4])> = None;
    for length in lengths {
        let cost = at(options, length).await;
        let costs = [&cost.append, &cost.claim, &cost.feed, &cost.explain].map(|times| median(times));
        let (shortest, least) = *first.get_or_insert((length, costs));
        // As fast as the logarithm of the length may it grow.
        let allowed = (length as f64).ln() / (shortest as f64).ln();
        for ((what, cost), least) in ["append", "claim", "feed", "explain"].into_iter().zip(costs).zip(least)
        {
            let config = format!("{what}-ms/{length}");
            rows.push(if length == shortest {
                Row::plain("growth", config, cost, "ms")
            } else {
                Row::beside("growth", config, &[cost], (&format!("{shortest}"), &[least]))
                    .bar(Bar::AtMost(allowed))
            });
        }
    }
    rows
}

async fn at(options: &Options, length: i64) -> Cost {
    let place = Place::new(options).await;
    let database = place.database("growth").await;
    let known = Installation::found(&database).await.stop().await;
    let registry = Registry::new(fold::registry::all()).unwrap();
    // The audit trail and the row histories are measured by themselves, and would double the disk it takes.
    let asked = |one: &&Registered| !one.is_history() && one.model().name() != "audit_trail";
    let models: Vec<&str> = registry.all().filter(asked).map(|one| one.model().name()).collect();
    let filled = fill(&database, &registry, &known.1, length, &models).await;
    let served = Installation::again(&database, known).await;
    let mut http = served.http().await;
    let mut cost = Cost::default();
    let plain = json!({"title": "Let the enemies turn around"});
    let assigned = json!({"title": "Let the enemies turn around", "assignee_type": "agent",
        "assignee_id": served.cast.agent, "project_id": served.cast.project});
    let claim = json!({"daemon_id": served.cast.daemon, "runtime_ids": [served.cast.runtime], "max_tasks": 1,
        "incarnation": served.cast.incarnation, "wait_ms": 0});
    for _ in 0..5 {
        http.well("POST", "/api/issues", &plain).await;
    }
    for n in 0..ASKED {
        cost.append.push(http.timed("POST", "/api/issues", &plain).await);
        cost.feed.push(http.timed("GET", "/api/feed?last=50", &NOTHING).await);
        let task = filled.task(n as f64 / ASKED as f64);
        cost.explain.push(http.timed("GET", &format!("/api/tasks/{task}/explain"), &NOTHING).await);
    }
    for _ in 0..CLAIMS {
        let made = http.well("POST", "/api/issues", &assigned).await;
        let begun = std::time::Instant::now();
        let answer = http.well("POST", "/api/daemon/tasks/claim", &claim).await;
        cost.claim.push(super::ms(begun.elapsed()));
        assert_eq!(answer["tasks"][0]["id"], made["task_id"], "{answer}");
    }
    drop(http);
    served.stop().await;
    place.stop().await;
    cost
}
