//! How long it takes to show a task and a board as they were.

use multica::fold;
use multica::readmodel::Registry;

use super::append::NOTHING;
use super::fill::fill;
use super::installation::Installation;
use super::place::Place;
use super::row::{Bar, Row};
use super::{Options, quantile};

pub async fn run(options: &Options) -> Vec<Row> {
    let place = Place::new(options).await;
    let database = place.database("past").await;
    let known = Installation::found(&database).await.stop().await;
    let registry = Registry::new(fold::registry::all()).unwrap();
    let events = options.events_or(1_000_000);
    let filled = fill(&database, &registry, &known.1, events, &["*"]).await;
    let served = Installation::again(&database, known).await;
    let mut http = served.http().await;
    let (mut task, mut board) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        for n in 1..=10 {
            let position = filled.head * n / 11;
            let id = filled.task(n as f64 / 22.0);
            task.push(http.timed("GET", &format!("/api/tasks/{id}?as_of={position}"), &NOTHING).await);
            board.push(http.timed("GET", &format!("/api/issues?as_of={position}"), &NOTHING).await);
        }
    }
    drop(http);
    served.stop().await;
    place.stop().await;
    let config = |what: &str| format!("{what}/{}", filled.head);
    vec![
        Row::plain("as-of", config("task/p99"), quantile(&task, 0.99), "ms").bar(Bar::AtMost(50.0)),
        Row::plain("as-of", config("board/p99"), quantile(&board, 0.99), "ms").bar(Bar::AtMost(100.0)),
    ]
}
