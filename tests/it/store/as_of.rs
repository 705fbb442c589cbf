//! Row history: what read models showed at any position.

use multica::kernel::limits::Limits;
use multica::readmodel::follower::{self, Step};
use multica::readmodel::{ReadModelError, Registry, Sql, history, install, query, rebuild};
use multica::store::read;
use uuid::Uuid;

use crate::support::past::{assert_kept, moment};
use crate::support::toy::{self, Create, Delete, SetStatus, WORKSPACE, command, create};
use crate::support::{Rig, limits};

/// Writes a story in which rows come, change several times, and go; one of them comes back.
async fn story(rig: &Rig, rounds: u32) {
    for round in 0..rounds {
        let (stays, goes) = (Uuid::now_v7(), Uuid::now_v7());
        for project in [stays, goes] {
            rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
        }
        for n in 0..=round % 4 {
            rig.writer.submit(command(SetStatus { project: stays, status: n.to_string() })).await.unwrap();
        }
        rig.writer.submit(command(Delete { project: goes })).await.unwrap();
        rig.writer.submit(command(SetStatus { project: stays, status: "last".to_owned() })).await.unwrap();
    }
}

#[tokio::test]
async fn as_of_any_position_the_rows_are_the_fold_of_the_log_up_to_it_however_it_was_split() {
    for page in [1, 2, 7, 1_000] {
        let rig = Rig::with(toy::registry_with_history(), &Limits { follower_page: page, ..limits() }).await;
        story(&rig, 4).await;
        follower::step_all(&rig.store, &rig.registry).await;
        assert_kept(&rig.store, &rig.registry, WORKSPACE).await;
        rig.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_follow_at_once_write_each_version_once() {
    let rig = Rig::with(toy::registry_with_history(), &Limits { follower_page: 3, ..limits() }).await;
    story(&rig, 6).await;
    let other = rig.db.store().await;
    tokio::join!(follower::step_all(&rig.store, &rig.registry), follower::step_all(&other, &rig.registry));
    follower::step_all(&rig.store, &rig.registry).await;
    assert_kept(&rig.store, &rig.registry, WORKSPACE).await;
    rig.finish().await;
}

#[tokio::test]
async fn a_history_that_is_built_or_rebuilt_later_is_the_one_that_followed() {
    let rig = Rig::new().await;
    story(&rig, 5).await;
    let registry = std::sync::Arc::new(toy::registry_with_history());
    assert_eq!(install::run(&rig.store, &registry).await.unwrap(), ["toy_projects_history"]);
    assert_kept(&rig.store, &registry, WORKSPACE).await;
    rig.db.finish(&registry).await;
    let damage = "update rm.toy_projects_history__v1 set to_position = to_position + 1 where to_position = 3; \
                  delete from rm.toy_projects_history__v1 where position = 9";
    rig.db.superuser().await.batch_execute(damage).await.unwrap();
    let different = multica::readmodel::verify::all(&rig.store, &registry).await.unwrap();
    assert!(different.iter().all(|one| one.read_model == "toy_projects_history" && one.key.contains('@')));
    let (ended, missing): (Vec<_>, Vec<_>) = different.iter().partition(|one| one.live.is_some());
    assert!(!ended.is_empty() && !missing.is_empty(), "{different:?}");
    assert!(
        ended.iter().all(|one| one.live == one.rebuilt),
        "they only ended at another position: {ended:?}"
    );
    assert!(missing.iter().all(|one| one.key.ends_with("@9")), "{missing:?}");
    rebuild::run(&rig.store, &registry, "toy_projects_history").await.unwrap();
    assert_kept(&rig.store, &registry, WORKSPACE).await;
    rig.db.finish(&registry).await;
    // It goes on from there.
    rig.writer.submit(create()).await.unwrap();
    follower::step_all(&rig.store, &registry).await;
    assert_kept(&rig.store, &registry, WORKSPACE).await;
    rig.db.finish(&registry).await;
}

#[tokio::test]
async fn what_a_history_does_not_reach_or_nobody_keeps_is_not_answered() {
    let rig = Rig::with(toy::registry_with_history(), &limits()).await;
    rig.writer.submit(create()).await.unwrap();
    let past = rig.store.at(moment(&rig.store, 1).await);
    let projects = rig.registry.get("toy_projects").unwrap();
    let error = query::of_workspace(&past, projects, WORKSPACE).await.unwrap_err();
    assert!(matches!(error, ReadModelError::Behind { checkpoint: 0, wanted: 1, .. }), "{error:?}");
    let feed = rig.registry.get("toy_feed").unwrap();
    let error = query::of_workspace(&past, feed, WORKSPACE).await.unwrap_err();
    assert!(matches!(error, ReadModelError::NoHistory { .. }), "{error:?}");
    let history = rig.registry.get("toy_projects_history").unwrap();
    assert_eq!(follower::step(&rig.store, history).await.unwrap(), Step::Advanced(1));
    assert_eq!(query::of_workspace(&past, projects, WORKSPACE).await.unwrap().len(), 2);
    assert_eq!(history::reached(&rig.store).await.unwrap(), 1);
}

#[tokio::test]
async fn streams_and_ranges_end_at_the_moment() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    for status in ["a", "b", "c"] {
        rig.writer.submit(command(SetStatus { project, status: status.to_owned() })).await.unwrap();
    }
    let stream = read::range(&rig.store, 0, 1).await.unwrap()[0].stream;
    for (seen, position) in (0..=4_i64).enumerate() {
        let past = rig.store.at(moment(&rig.store, position).await);
        assert_eq!(read::stream(&past, stream).await.unwrap().len(), seen);
        assert_eq!(read::range(&past, 0, 10).await.unwrap().len(), seen);
        assert_eq!(read::range(&past, 0, 2).await.unwrap().len(), seen.min(2));
        assert_eq!(read::range(&past, 4, 10).await.unwrap(), []);
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_time_means_the_last_position_recorded_at_or_before_it() {
    let rig = Rig::new().await;
    for _ in 0..3 {
        rig.writer.submit(create()).await.unwrap();
    }
    let log = read::range(&rig.store, 0, 10).await.unwrap();
    let times: Vec<_> = log.iter().map(|event| event.recorded_at.unwrap()).collect();
    let one = jiff::SignedDuration::from_micros(1);
    assert_eq!(read::position_at(&rig.store, times[0] - one).await.unwrap(), 0);
    for (position, time) in (1_i64..).zip(&times) {
        assert_eq!(read::moment(&rig.store, position).await.unwrap(), Some(*time));
        let at = read::position_at(&rig.store, *time).await.unwrap();
        let last = usize::try_from(at).unwrap() - 1;
        assert_eq!(times[last], *time, "all that was recorded at that time counts");
        assert!(at >= position);
    }
    assert_eq!(read::position_at(&rig.store, times[2] + one).await.unwrap(), 3);
    assert_eq!(read::moment(&rig.store, 4).await.unwrap(), None);
    rig.finish().await;
}

#[test]
fn only_a_history_is_called_one() {
    struct Named(toy::Feed);
    impl multica::fold::ReadModel for Named {
        fn name(&self) -> &'static str {
            "toy_history"
        }
        fn version(&self) -> u32 {
            self.0.version()
        }
        fn mode(&self) -> multica::fold::Mode {
            self.0.mode()
        }
        fn touches(&self, event: &multica::domain::Envelope) -> Vec<String> {
            self.0.touches(event)
        }
        fn apply(
            &self,
            rows: &mut multica::fold::Rows,
            event: &multica::domain::Envelope,
        ) -> Result<(), multica::fold::FoldError> {
            self.0.apply(rows, event)
        }
    }
    let refused = Registry::with_sql(vec![(Box::new(Named(toy::Feed)), Sql::plain())]);
    assert!(matches!(refused, Err(ReadModelError::Name { .. })));
}
