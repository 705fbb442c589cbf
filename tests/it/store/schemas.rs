//! Events of other versions than today's, as they lie in the log.

use multica::app::decision::{Decided, Decision, Halt, NewEvent, View};
use multica::domain::project::event::ProjectEvent;
use multica::domain::upcast::Upcaster;
use multica::domain::{Event, Family, StreamKey, UnknownEvent};
use multica::readmodel::follower::{self, Step};
use multica::readmodel::{query, rebuild};
use multica::store::{StoreError, raw, read};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::Rig;
use crate::support::toy::{self, Create, SetStatus, command, create};

/// `project.updated` as if its first version had called the status `state`.
const OLDER: &[Upcaster] = &[Upcaster { event_type: "project.updated", from: 1, up: state_is_status }];

fn state_is_status(data: Value) -> Value {
    json!({ "status": data["state"] })
}

#[tokio::test]
async fn an_event_of_an_older_version_is_read_as_today_s_and_its_row_stays_as_it_was() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    for status in ["old", "new"] {
        rig.writer.submit(command(SetStatus { project, status: status.to_owned() })).await.unwrap();
    }
    // Position 2 as version 1 had it, position 3 as version 2 has it.
    let sql = "update es.events set data = '{\"state\":\"old\"}' where seq = 2; \
               update es.events set schema_version = 2 where seq = 3";
    rig.db.superuser().await.batch_execute(sql).await.unwrap();
    let client = rig.store.client().await.unwrap();
    let rows = read::range_in(&**client, 1, 10).await.unwrap();
    let statuses: Vec<Option<String>> = rows
        .iter()
        .map(|row| match row.decode_by(OLDER).unwrap().event {
            Event::Project(ProjectEvent::Updated(updated)) => updated.status,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(statuses, [Some("old".to_owned()), Some("new".to_owned())]);
    assert_eq!(rows[0].data, r#"{"state":"old"}"#, "what is stored is never rewritten");
    // It is the upcaster that knows what it meant.
    match rows[0].decode().unwrap().event {
        Event::Project(ProjectEvent::Updated(updated)) => assert_eq!(updated.status, None),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_a_newer_build_wrote_is_kept_counted_and_in_no_fold_s_way() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    rig.writer.submit(command(SetStatus { project, status: "x".to_owned() })).await.unwrap();
    for _ in 0..3 {
        rig.writer.submit(create()).await.unwrap();
    }
    let sql = "update es.events set event_type = 'project.renamed' where seq = 2; \
               update es.events set schema_version = 2 where seq = 3; \
               update es.events set event_type = 'branch.forked', family = 'branch' where seq = 4";
    rig.db.superuser().await.batch_execute(sql).await.unwrap();
    let before = raw::unknown_events();
    let events = read::range(&rig.store, 0, 10).await.unwrap();
    assert_eq!(raw::unknown_events() - before, 3);
    let unknown = |at: usize| match &events[at].event {
        Event::Unknown(event) => event.clone(),
        other => panic!("{other:?}"),
    };
    let of = |family, event_type: &str, schema_version| UnknownEvent {
        family,
        event_type: event_type.to_owned(),
        schema_version,
    };
    assert_eq!(unknown(1), of(Family::Project, "project.renamed", 1));
    assert_eq!(unknown(2), of(Family::Project, "project.created", 2));
    assert_eq!(unknown(3), of(Family::Unknown, "branch.forked", 1));
    // Followers and rebuilds go on, whoever decides on the stream does not.
    let feed = rig.registry.get("toy_feed").unwrap();
    assert_eq!(follower::step(&rig.store, feed).await.unwrap(), Step::Advanced(5));
    let rebuilt = rebuild::run(&rig.store, &rig.registry, "toy_projects").await.unwrap();
    assert_eq!((rebuilt.up_to, rebuilt.passed_over), (5, 0));
    let stream = StreamKey::new(Family::Project, project);
    assert!(matches!(
        read::stream(&rig.store, stream).await,
        Err(StoreError::Undecodable { position: 2, .. })
    ));
    assert!(query::standings(&rig.store).await.unwrap().iter().all(|s| s.fault().is_none()));
}

/// Writes an event that this build can only have read.
struct PassOn;

impl Decision for PassOn {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let stream = StreamKey::new(Family::Project, Uuid::from_u128(5));
        view.stream(stream)?;
        let event_type = "project.renamed".to_owned();
        let event = Event::Unknown(UnknownEvent { family: Family::Project, event_type, schema_version: 3 });
        Ok(Decided { events: vec![NewEvent::new(stream, event)], ..Decided::default() })
    }
}

#[tokio::test]
async fn an_unknown_event_is_refused_by_the_append_and_named() {
    let rig = Rig::new().await;
    let error = rig.writer.submit(toy::command(PassOn)).await.unwrap_err();
    let said = format!("{}", multica::kernel::error_chain::Chain(&error));
    assert!(said.contains("project.renamed version 3 has no schema"), "{said}");
    assert_eq!(read::head(&rig.store).await.unwrap(), 0);
    rig.finish().await;
}
