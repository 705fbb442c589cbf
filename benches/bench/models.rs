//! Read models: rebuilt while the log goes on, and following it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use multica::fold;
use multica::readmodel::follower::{self, Step};
use multica::readmodel::{Registry, install, rebuild as again, verify};
use multica::store::{Store, read};

use super::append::{steadily, writer};
use super::fill::{self, fill};
use super::place::{Database, Place};
use super::row::{Bar, Row};
use super::story::Cast;
use super::{Options, median, memory};

/// Between two commands of whoever writes during a rebuild: two hundred a second.
const PACE: Duration = Duration::from_millis(5);

struct Own {
    database: Database,
    store: Store,
    registry: Arc<Registry>,
    cast: Cast,
    head: i64,
}

/// A log of that length whose inline read models are as they should be, and whose followers haven't begun.
async fn own(place: &Place, events: i64) -> Own {
    let database = place.database("models").await;
    let store = database.store().await;
    let registry = Arc::new(Registry::new(fold::registry::all()).unwrap());
    install::run(&store, &registry).await.unwrap();
    let cast = Cast::invented();
    let filled = fill(&database, &registry, &cast, events, &fill::inline(&registry)).await;
    begin_followers(&database).await;
    store.advance(read::head(&store).await.unwrap());
    Own { database, store, registry, cast, head: filled.head }
}

/// Followers stand before the first event again, with empty tables.
async fn begin_followers(database: &Database) {
    let maker = database.model_maker().await;
    for row in
        maker.query("select table_name from es.projections where mode = 'follower'", &[]).await.unwrap()
    {
        maker.batch_execute(&format!("truncate {}", row.get::<_, &str>(0))).await.unwrap();
    }
    let owner = database.maker().await;
    let sql = "update es.projections set checkpoint = 0 where mode = 'follower'";
    owner.batch_execute(sql).await.unwrap();
}

pub async fn rebuild(options: &Options) -> Vec<Row> {
    let place = Place::new(options).await;
    let own = own(&place, options.events_or(1_000_000)).await;
    let names = fill::inline(&own.registry);
    let (mut all, mut one, mut paused) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let (done, until) = tokio::sync::watch::channel(false);
        let writing = writer(&own.store, &own.registry);
        let writing = tokio::spawn(steadily(writing, own.cast.clone(), PACE, until));
        let mut total = 0.0;
        for name in &names {
            let begun = Instant::now();
            again::run(&own.store, &own.registry, name).await.unwrap();
            again::retire(&own.store, name).await.unwrap();
            let took = begun.elapsed().as_secs_f64();
            total += took;
            if *name == "task_status" {
                one.push(took);
            }
        }
        done.send(true).unwrap();
        paused.push(writing.await.unwrap().into_iter().fold(0.0, f64::max));
        all.push(total);
    }
    let mut differences = 0;
    for name in &names {
        let registered = own.registry.get(name).unwrap();
        differences += verify::one(&own.store, registered).await.unwrap().differences.len();
    }
    let config = |what: &str| format!("{what}/{}", own.head);
    drop(own.store);
    place.stop().await;
    vec![
        Row::plain("rebuild", config("inline"), median(&all), "s").bar(Bar::AtMost(6.0)),
        Row::plain("rebuild", config("task_status"), median(&one), "s"),
        Row::plain("rebuild", config("slowest-command"), median(&paused), "ms").bar(Bar::AtMost(20.0)),
        Row::plain("rebuild", config("rows-that-differ"), differences as f64, "rows").bar(Bar::AtMost(0.0)),
    ]
}

pub async fn followers(options: &Options) -> Vec<Row> {
    let place = Place::new(options).await;
    let own = own(&place, options.events_or(200_000)).await;
    let mut rates: Vec<(String, Vec<f64>)> =
        own.registry.followers().map(|one| (one.model().name().to_owned(), Vec::new())).collect();
    for _ in 0..options.rounds {
        begin_followers(&own.database).await;
        for (name, rates) in &mut rates {
            let registered = own.registry.get(name).unwrap();
            let begun = Instant::now();
            loop {
                match follower::step(&own.store, registered).await.unwrap() {
                    Step::Advanced(_) => {}
                    Step::CaughtUp => break,
                    other => panic!("{name}: {other:?}"),
                }
            }
            rates.push(own.head as f64 / begun.elapsed().as_secs_f64());
        }
    }
    let mut rows: Vec<Row> = rates
        .iter()
        .map(|(name, rates)| {
            Row::plain("followers", format!("{name}/{}", own.head), median(rates), "events/s")
                .bar(Bar::AtLeast(50_000.0))
        })
        .collect();
    begin_followers(&own.database).await;
    rows.push(memory::row(&own.database, &own.registry, own.head).await);
    drop(own.store);
    place.stop().await;
    rows
}
