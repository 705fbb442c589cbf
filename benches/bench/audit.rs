//! How long a page of the audit trail takes, for every filter there is.

use multica::fold;
use multica::readmodel::Registry;

use super::append::NOTHING;
use super::fill::fill;
use super::installation::Installation;
use super::place::Place;
use super::row::{Bar, Row};
use super::{Options, quantile};

/// Places in the trail at which each filter is asked, in a round.
const PLACES: i64 = 20;

pub async fn run(options: &Options) -> Vec<Row> {
    let place = Place::new(options).await;
    let database = place.database("audit").await;
    let known = Installation::found(&database).await.stop().await;
    let registry = Registry::new(fold::registry::all()).unwrap();
    let events = options.events_or(10_000_000);
    let filled = fill(&database, &registry, &known.1, events, &["audit_trail"]).await;
    let served = Installation::again(&database, known).await;
    let cast = &served.cast;
    let project = cast.project.unwrap();
    let filters = [
        ("none", String::new()),
        ("actor", format!("actor=member/{}", cast.user)),
        ("actor-kind", "actor=daemon".to_owned()),
        ("actor-nobody", "actor=agent".to_owned()),
        ("target-task", format!("target=task/{}", filled.task(0.4))),
        ("target-issue", format!("target=issue/{}", filled.issue(0.6))),
        ("target-project", format!("target=project/{project}")),
        ("target-agent", format!("target=agent/{}", cast.agent)),
        ("target-daemon", format!("target=daemon/{}", cast.daemon)),
        ("type", "type=task.completed".to_owned()),
        ("type-family", "type=issue".to_owned()),
        ("type-prefix", "type=task.p*".to_owned()),
        ("type-never", "type=task.parked".to_owned()),
        ("time", "since=2023-12-01&until=2024-01-01".to_owned()),
        ("correlation", format!("correlation={}", filled.correlation(0.5))),
        ("done", "outcome=done".to_owned()),
        ("ignored", "outcome=ignored".to_owned()),
        ("refused", "outcome=refused".to_owned()),
        ("actor+type", format!("actor=member/{}&type=task.queued", cast.user)),
        ("agent+type", format!("target=agent/{}&type=task.completed", cast.agent)),
        ("project+actor-kind", format!("target=project/{project}&actor=member")),
        ("words", "q=enemies".to_owned()),
        ("words-never", "q=dragons".to_owned()),
    ];
    let mut http = served.http().await;
    let mut rows = Vec::new();
    for (name, filter) in filters {
        // Nobody's first page is typical: connections are opened for it.
        http.well("GET", &format!("/api/audit?{filter}"), &NOTHING).await;
        let mut times = Vec::new();
        for _ in 0..options.rounds {
            for n in 0..PLACES {
                let before = filled.head - filled.head * n / PLACES;
                let path = format!("/api/audit?{filter}&before={before}");
                times.push(http.timed("GET", &path, &NOTHING).await);
            }
        }
        let config = format!("{name}/p99/{}", filled.head);
        rows.push(Row::plain("audit", config, quantile(&times, 0.99), "ms").bar(Bar::AtMost(100.0)));
    }
    drop(http);
    served.stop().await;
    place.stop().await;
    rows
}
