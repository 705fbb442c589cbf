//! Facts beside the log: transcripts, heartbeats, sign-in, secrets, upkeep.

use std::time::Duration;

use multica::app::AppError;
use multica::kernel::ids::{Incarnation, StreamId, TaskId, UserId};
use multica::store::secrets::Sealed;
use multica::store::sign_in::{self, SignedIn};
use multica::store::transcript::{self, Message};
use multica::store::{heartbeat, secrets, upkeep};
use uuid::Uuid;

use crate::support::toy::{WORKSPACE, create};
use crate::support::{Rig, TestDb};

fn message(seq: i32, body: &str) -> Message {
    Message { seq, body: body.to_owned(), recorded_at: None }
}

#[tokio::test]
async fn a_transcript_message_sent_again_stays_as_it_was() {
    let db = TestDb::new().await;
    let store = db.store().await;
    let task = TaskId(Uuid::now_v7());
    let first = [message(1, r#"{"b":1,  "a":2}"#), message(2, "{}")];
    assert_eq!(transcript::append(&store, WORKSPACE, task, 1, &first).await.unwrap(), 2);
    let again = [message(2, r#"{"other":1}"#), message(3, "[]")];
    assert_eq!(transcript::append(&store, WORKSPACE, task, 1, &again).await.unwrap(), 1);
    // Another claim of the same task has a transcript of its own.
    transcript::append(&store, WORKSPACE, task, 2, &first).await.unwrap();
    let read = transcript::since(&store, task, 1, 0, 10).await.unwrap();
    let bodies: Vec<&str> = read.iter().map(|message| message.body.as_str()).collect();
    assert_eq!(bodies, [r#"{"b":1,  "a":2}"#, "{}", "[]"]);
    assert_eq!(transcript::since(&store, task, 1, 2, 10).await.unwrap().len(), 1);
    let size = transcript::size(&store, task, 1).await.unwrap();
    assert_eq!((size.messages, size.bytes, size.last_seq), (3, 19, 3));
    let (count, digest) = transcript::digest(&store, task, 1, b"salt").await.unwrap();
    assert_eq!(count, 3);
    assert_ne!(digest, transcript::digest(&store, task, 1, b"other").await.unwrap().1);
}

#[tokio::test]
async fn silence_is_measured_by_the_databases_clock() {
    let db = TestDb::new().await;
    let store = db.store().await;
    let (stream, start) = (StreamId::of_daemon(WORKSPACE, "d"), Incarnation(Uuid::now_v7()));
    heartbeat::beat(&store, stream, WORKSPACE, "d", start).await.unwrap();
    db.superuser()
        .await
        .batch_execute("update es.clock_offset set by_interval = interval '2 minutes'")
        .await
        .unwrap();
    let heard = heartbeat::of(&store, &[stream]).await.unwrap();
    assert!(heard[0].silent >= Duration::from_secs(120), "{heard:?}");
    heartbeat::beat(&store, stream, WORKSPACE, "d", start).await.unwrap();
    assert!(heartbeat::all(&store).await.unwrap()[0].silent < Duration::from_secs(60));
}

#[tokio::test]
async fn a_sign_in_code_opens_once_and_a_session_ends_with_its_time() {
    let db = TestDb::new().await;
    let store = db.store().await;
    let whose = SignedIn { user: UserId(Uuid::now_v7()), workspace: WORKSPACE };
    let minute = Duration::from_secs(60);
    sign_in::put_code(&store, &[1; 32], whose, minute).await.unwrap();
    assert_eq!(sign_in::take_code(&store, &[1; 32]).await.unwrap(), Some(whose));
    assert_eq!(sign_in::take_code(&store, &[1; 32]).await.unwrap(), None);
    sign_in::put_code(&store, &[2; 32], whose, minute).await.unwrap();
    sign_in::put_session(&store, &[3; 32], whose, minute).await.unwrap();
    assert_eq!(sign_in::session(&store, &[3; 32]).await.unwrap(), Some(whose));
    db.superuser()
        .await
        .batch_execute("update es.clock_offset set by_interval = interval '2 minutes'")
        .await
        .unwrap();
    assert_eq!(sign_in::take_code(&store, &[2; 32]).await.unwrap(), None);
    assert_eq!(sign_in::session(&store, &[3; 32]).await.unwrap(), None);
}

#[tokio::test]
async fn a_secret_is_replaced_and_cleared() {
    let db = TestDb::new().await;
    let store = db.store().await;
    let sealed = |bytes: &[u8]| Sealed { key_id: "k".to_owned(), bytes: bytes.to_vec() };
    secrets::set(&store, WORKSPACE, "git", &sealed(b"1")).await.unwrap();
    secrets::set(&store, WORKSPACE, "git", &sealed(b"2")).await.unwrap();
    assert_eq!(secrets::get(&store, WORKSPACE, "git").await.unwrap(), Some(sealed(b"2")));
    assert!(secrets::clear(&store, WORKSPACE, "git").await.unwrap());
    assert_eq!(secrets::get(&store, WORKSPACE, "git").await.unwrap(), None);
}

#[tokio::test]
async fn old_results_are_pruned_and_partitions_are_ahead_already() {
    let rig = Rig::new().await;
    assert_eq!(upkeep::ensure_partitions(&rig.store).await.unwrap(), 0);
    rig.writer.submit(create()).await.unwrap();
    let month = Duration::from_secs(30 * 24 * 3_600);
    assert_eq!(upkeep::prune_commands(&rig.store, month).await.unwrap(), 0);
    assert_eq!(upkeep::prune_commands(&rig.store, Duration::ZERO).await.unwrap(), 1);
    rig.finish().await;
}

#[tokio::test]
async fn a_payload_over_the_limit_is_refused_and_nothing_is_written() {
    let limits = multica::kernel::limits::Limits { event_bytes: 50, ..crate::support::limits() };
    let rig = Rig::with(crate::support::toy::registry(), &limits).await;
    let answer = rig.writer.submit(create()).await;
    assert!(matches!(answer, Err(AppError::Event(_))), "{answer:?}");
    rig.finish().await;
}
