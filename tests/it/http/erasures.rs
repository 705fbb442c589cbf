//! Texts are taken away for good: of a person, of a run; and everything else still tells its story.

use std::time::Duration;

use multica::domain::workspace::Role;
use multica::kernel::ids::TaskId;
use multica::kernel::limits::Limits;
use multica::readmodel::{self, Registry};
use multica::store::{transcript, upkeep, verify};
use multica::webhook::address::Allowed;
use serde_json::{Value, json};

use super::client::{Answer, Scene, Served, limits};
use super::every_route::colleague;
use crate::support::eventually;

const WAIT: Duration = Duration::from_secs(20);

/// What Bob wrote: no door may tell it once it is erased.
const WORDS: [&str; 4] = ["Walrus", "pinniped", "tusk", "Bob"];

async fn as_bob(scene: &Scene, token: &str, method: &str, path: &str, body: Value) -> Answer {
    scene.served.send(token, method, path, Some(&body), &[]).await
}

/// A scene in which Bob has written an issue with a description, changed its title, and commented; and Ada
/// another. Gives Bob's token and id.
async fn written() -> (Scene, String, String) {
    let scene = Scene::new().await;
    let token = colleague(&scene.served, "Bob", Role::Member).await;
    let issue = json!({"title": "Walrus pen", "description": "for one pinniped"});
    as_bob(&scene, &token, "POST", "/api/issues", issue).await.is(201);
    as_bob(&scene, &token, "PUT", "/api/issues/LOCA-1", json!({"title": "Walrus house"})).await.is(200);
    let comment = json!({"content": "mind the tusk"});
    as_bob(&scene, &token, "POST", "/api/issues/LOCA-1/comments", comment).await.is(201);
    scene.served.post("/api/issues/LOCA-1/comments", &json!({"content": "Ada agrees"})).await.is(201);
    let me = scene.served.send(&token, "GET", "/api/me", None, &[]).await.is(200);
    let bob = me["id"].as_str().unwrap().to_owned();
    (scene, token, bob)
}

fn keyed(key: &str) -> [(&str, &str); 1] {
    [("Idempotency-Key", key)]
}

async fn erase(served: &Served, key: &str, body: Value) -> Answer {
    served.send(&served.token, "POST", "/api/erasures", Some(&body), &keyed(key)).await
}

async fn head(served: &Served) -> i64 {
    multica::store::read::head(&served.app.store).await.unwrap()
}

/// The tables in which one of the words stands, whatever their columns.
async fn tables_that_tell(served: &Served, words: &[&str]) -> Vec<String> {
    let owner = served.db.superuser().await;
    let pattern = words.join("|");
    let sql = "select c.oid::regclass::text from pg_class c
               where c.relnamespace in ('es'::regnamespace, 'rm'::regnamespace) and c.relkind = 'r'";
    let mut found = Vec::new();
    for row in owner.query(sql, &[]).await.unwrap() {
        let table: String = row.get(0);
        let text = match table.as_str() {
            "es.contents" => "convert_from(t.bytes, 'UTF8')",
            _ => "t::text",
        };
        let sql = format!("select exists (select from {table} t where {text} ~ $1)");
        if owner.query_one(&sql, &[&pattern]).await.unwrap().get(0) {
            found.push(table);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persons_texts_go_from_every_door_and_all_else_stays() {
    let (scene, token, bob) = written().await;
    let served = &scene.served;
    let before = head(served).await;
    let doors = [
        "/api/issues".to_owned(),
        "/api/issues/LOCA-1".to_owned(),
        "/api/issues/LOCA-1/comments".to_owned(),
        "/api/feed?limit=1000".to_owned(),
        "/api/audit?limit=1000".to_owned(),
        format!("/api/audit?limit=1000&actor={bob}"),
        format!("/api/workspaces/{}/members", served.workspace),
        format!("/api/issues/LOCA-1?as_of={before}"),
        format!("/api/issues/LOCA-1/comments?as_of={before}"),
        format!("/api/workspaces/{}/members?as_of={before}", served.workspace),
        "/audit".to_owned(),
    ];
    let mut told = String::new();
    for door in &doors {
        told.push_str(&served.get(door).await.is(200).to_string());
    }
    for word in WORDS {
        assert!(told.contains(word), "{word} is nowhere to begin with");
    }
    assert_eq!(tables_that_tell(served, &WORDS).await, ["es.contents"]);

    // Whoever follows the feed shares entries that were told before.
    let followed = async || {
        let part = served.app.tail.after(&served.app, served.workspace, 0).await.unwrap();
        let texts: Vec<String> = part.entries.iter().map(|entry| entry.text.clone()).collect();
        texts.join("\n")
    };
    assert!(followed().await.contains("Walrus pen"));

    let planned = served.get("/api/erasures?person=bob").await.is(200);
    let kinds = json!({"name": 1, "issue title": 2, "issue description": 1, "comment": 1});
    assert_eq!((&planned["kinds"], &planned["texts"]), (&kinds, &json!(5)), "{planned:#}");
    assert_eq!((&planned["label"], &planned["id"]), (&json!("Bob"), &json!(bob)));
    assert_eq!(head(served).await, before, "looking changes nothing");

    let done = erase(served, "e1", json!({"person": bob})).await;
    let position: i64 = done.header("x-multica-position").unwrap().parse().unwrap();
    let done = done.is(200);
    assert_eq!((&done["kinds"], &done["texts"]), (&kinds, &json!(5)), "{done:#}");
    assert!(!done.to_string().contains("Bob"), "{done}");
    assert_eq!(tables_that_tell(served, &WORDS).await, [""; 0]);
    let feed = followed().await;
    assert!(feed.contains("an erased text") && !WORDS.iter().any(|word| feed.contains(word)), "{feed}");
    let mut said = String::new();
    for door in &doors {
        let answer = served.get(door).await.is(200).to_string();
        for word in WORDS {
            assert!(!answer.contains(word), "{door} tells {word}: {answer}");
        }
        said.push_str(&answer);
    }
    assert!(said.contains("Ada agrees") && said.contains("[erased]") && said.contains("an erased text"));
    let shown = served.get("/api/issues/LOCA-1").await.is(200);
    assert_eq!((&shown["title"], &shown["description"]), (&json!("[erased]"), &json!("[erased]")));
    let trail = served.get(&format!("/api/audit?at_least={position}&type=operation.erased")).await.is(200);
    let entry = &trail["entries"][0];
    assert!(entry["text"].as_str().unwrap().contains("Ada erased 5 texts of [erased]"), "{entry:#}");
    for word in WORDS {
        let exported = served.cli(&["audit", "export", "--format", "jsonl"]).await;
        assert!(!exported.contains(word), "the export tells {word}");
    }

    // Said again, under the same key and under another.
    let after = head(served).await;
    let again = erase(served, "e1", json!({"person": bob})).await.is(200);
    assert_eq!(again, done);
    let other = erase(served, "e2", json!({"person": bob})).await.is(200);
    assert_eq!((&other["texts"], &other["position"]), (&json!(0), &Value::Null));
    assert_eq!(head(served).await, after, "nothing was left to erase");
    assert_eq!(erase(served, "e1", json!({"task": "x"})).await.status, 404);

    let report = verify::run(&served.app.store).await.unwrap();
    assert_eq!((report.erased, report.findings), (5, Vec::new()));
    // Bob is a member still and may go on; a repeat takes nothing that was written since.
    as_bob(&scene, &token, "POST", "/api/issues", json!({"title": "Later"})).await.is(201);
    assert_eq!(erase(served, "e1", json!({"person": bob})).await.is(200), done);
    assert_eq!(served.get("/api/issues/LOCA-2").await.is(200)["title"], "Later");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_models_rebuilt_after_an_erasure_equal_the_live_ones() {
    let (scene, _, bob) = written().await;
    let registry = Registry::new(multica::fold::registry::all()).unwrap();
    erase(&scene.served, "e", json!({"person": bob})).await.is(200);
    let store = &scene.served.app.store;
    readmodel::follower::step_all(store, &registry).await;
    assert_eq!(readmodel::verify::all(store, &registry).await.unwrap(), []);
    let rows = scene.served.db.superuser().await;
    let found: i64 = rows
        .query_one("select count(*) from es.events where data::text ~ 'Walrus|pinniped|tusk|Bob'", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(found, 0, "no event holds a text");
    scene.finish().await;
}

/// A task that is over, with a transcript of `messages` messages, an output and its comment.
async fn over(scene: &Scene, title: &str, messages: u32) -> String {
    let (task, generation) = scene.running(title).await;
    let said: Vec<Value> =
        (1..=messages).map(|n| json!({"seq": n, "type": "text", "content": "a narwhal"})).collect();
    let body = json!({"generation": generation, "messages": said});
    scene.served.post(&format!("/api/daemon/tasks/{task}/messages"), &body).await.is(200);
    let output = json!({"output": "the narwhal is fed"});
    scene.report(&task, generation, 5, "complete", output).await.is(200);
    task
}

async fn rows_of(served: &Served, task: &str) -> i64 {
    let task: uuid::Uuid = task.parse().unwrap();
    let sql = "select count(*) from es.transcripts where task_id = $1";
    served.db.superuser().await.query_one(sql, &[&task]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_said_goes_with_its_transcript_and_nothing_comes_after() {
    let few = Limits { purge_messages: 3, ..limits() };
    let scene = Scene::on(Served::with(few).await).await;
    let task = over(&scene, "Feed it", 10).await;
    let other = over(&scene, "Feed it again", 2).await;
    let served = &scene.served;
    let doors = [
        format!("/api/tasks/{task}"),
        format!("/api/tasks/{task}/messages"),
        format!("/api/tasks/{task}/explain"),
        format!("/api/tasks/{task}/history"),
        format!("/api/tasks/{task}/bundle"),
        "/api/issues/LOCA-1/comments".to_owned(),
        format!("/tasks/{task}"),
    ];
    let planned = served.get("/api/erasures?task=LOCA-1%231").await.is(200);
    assert_eq!(planned["kinds"], json!({"output": 1, "comment": 1}), "{planned:#}");
    assert_eq!((&planned["transcripts"], &planned["messages"]), (&json!(1), &json!(10)));
    let done = erase(served, "t", json!({"task": "LOCA-1#1"})).await.is(200);
    assert_eq!(
        (&done["texts"], &done["messages"], &done["label"]),
        (&json!(2), &json!(10), &json!("LOCA-1#1"))
    );
    assert_eq!(rows_of(served, &task).await, 0, "gone when the answer comes");
    for door in &doors {
        let answer = served.get(door).await.is(200).to_string();
        assert!(!answer.contains("narwhal"), "{door}: {answer}");
    }
    let shown = served.get(&format!("/api/tasks/{task}")).await.is(200);
    assert_eq!(shown["result"]["output"], "[erased]");
    assert_eq!(shown["transcript_gone"]["sentence"], "The transcript was erased.");
    assert_eq!(shown["transcript_gone"]["days"], Value::Null);
    let page = served.get(&format!("/tasks/{task}")).await.is(200).to_string();
    assert!(page.contains("The transcript was erased."), "{page}");
    let replayed = served.cli(&["task", "replay", &task, "--output", "json"]).await;
    let replayed: Value = serde_json::from_str(&replayed).unwrap();
    assert!(replayed["counts"]["same"].as_u64().unwrap() > 0 && replayed["counts"]["otherwise"] == 0);

    // What its daemon sends late is not kept.
    let late = json!({"generation": 1, "messages": [{"seq": 11, "type": "text", "content": "narwhal"}]});
    let answer = served.post(&format!("/api/daemon/tasks/{task}/messages"), &late).await.is(200);
    assert_eq!((answer["stored"].as_u64(), rows_of(served, &task).await), (Some(0), 0));
    let late = json!({"error": "the narwhal bit", "failure_reason": "agent_error.unknown"});
    scene.report(&task, 1, 6, "fail", late).await.is(200);
    let history = served.get(&format!("/api/tasks/{task}/history")).await.is(200).to_string();
    assert!(history.contains("task.late_report_recorded") && !history.contains("narwhal"), "{history}");
    assert_eq!(rows_of(served, &other).await, 2, "another task's transcript is none of it");
    assert_eq!(erase(served, "t", json!({"task": "LOCA-1#1"})).await.is(200), done);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_silent_run_sends_after_it_was_erased_is_not_kept() {
    let scene = Scene::new().await;
    let (task, generation) = scene.running("Lost").await;
    let served = &scene.served;
    served.post(&format!("/api/tasks/{task}/cancel"), &json!({})).await.is(200);
    let done = erase(served, "t", json!({"task": task})).await.is(200);
    assert_eq!((&done["transcripts"], &done["messages"]), (&json!(0), &json!(0)));
    assert!(done["position"].is_i64(), "{done}");
    let late =
        json!({"generation": generation, "messages": [{"seq": 1, "type": "text", "content": "narwhal"}]});
    let answer = served.post(&format!("/api/daemon/tasks/{task}/messages"), &late).await.is(200);
    assert_eq!(answer["stored"], 0);
    let late = json!({"error": "a narwhal bit", "failure_reason": "agent_error.unknown"});
    scene.report(&task, generation, 5, "fail", late).await.is(200);
    assert_eq!(tables_that_tell(served, &["narwhal"]).await, [""; 0]);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_that_erase_the_same_at_once_take_each_text_once() {
    let small = Limits { erased_texts: 2, ..limits() };
    let scene = Scene::on(Served::with(small.clone()).await).await;
    let token = colleague(&scene.served, "Bob", Role::Member).await;
    for n in 0..5 {
        as_bob(&scene, &token, "POST", "/api/issues", json!({"title": format!("Walrus {n}")})).await.is(201);
    }
    let served = &scene.served;
    let bob = served.send(&token, "GET", "/api/me", None, &[]).await.is(200)["id"].clone();
    let other = served.beside(Allowed::default(), small).await;
    let body = json!({"person": bob});
    let at = async |server: &Served, key: &str| {
        server.send(&served.token, "POST", "/api/erasures", Some(&body), &keyed(key)).await
    };
    let (one, two) = tokio::join!(at(served, "a"), at(&other, "b"));
    let texts = [one.is(200), two.is(200)].iter().map(|done| done["texts"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(texts, 6, "five titles and a name");
    let report = verify::run(&served.app.store).await.unwrap();
    assert_eq!((report.erased, report.findings), (6, Vec::new()));
    scene.served.shutdown.cancel();
    scene.served.serving.await.unwrap().unwrap();
    other.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_isnt_over_is_left_alone() {
    let scene = Scene::new().await;
    let (task, _) = scene.running("Go on").await;
    let before = head(&scene.served).await;
    assert_eq!(erase(&scene.served, "t", json!({"task": task})).await.problem(409), "task_not_over");
    assert_eq!(head(&scene.served).await, before);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_erasure_is_several_events_and_one_that_broke_off_is_gone_on_with() {
    let small = Limits { erased_texts: 2, ..limits() };
    let (scene, bob) = {
        let scene = Scene::on(Served::with(small).await).await;
        let token = colleague(&scene.served, "Bob", Role::Member).await;
        for n in 0..5 {
            let issue = json!({"title": format!("Walrus {n}")});
            as_bob(&scene, &token, "POST", "/api/issues", issue).await.is(201);
        }
        let me = scene.served.send(&token, "GET", "/api/me", None, &[]).await.is(200);
        (scene, me["id"].as_str().unwrap().to_owned())
    };
    let served = &scene.served;
    // The second event is refused by the database: the request breaks off in the middle.
    let owner = served.db.superuser().await;
    owner
        .batch_execute(
            "create function es.break_off() returns trigger language plpgsql as $$
             begin
                 if (select count(*) from es.events where event_type = 'operation.erased') > 1 then
                     raise exception 'broken off';
                 end if;
                 return null;
             end $$;
             create trigger zz_break_off after insert on es.events
             for each row when (new.event_type = 'operation.erased') execute function es.break_off()",
        )
        .await
        .unwrap();
    assert_eq!(erase(served, "e", json!({"person": bob})).await.status, 500);
    let report = verify::run(&served.app.store).await.unwrap();
    assert_eq!((report.erased, report.findings), (2, Vec::new()), "what was done is whole");
    owner.batch_execute("drop trigger zz_break_off on es.events").await.unwrap();
    let done = erase(served, "e", json!({"person": bob})).await.is(200);
    assert_eq!((&done["texts"], &done["kinds"]), (&json!(6), &json!({"name": 1, "issue title": 5})));
    let events = served.get("/api/audit?type=operation.erased").await.is(200);
    assert_eq!(events["entries"].as_array().unwrap().len(), 3);
    let report = verify::run(&served.app.store).await.unwrap();
    assert_eq!((report.erased, report.findings), (6, Vec::new()));
    assert_eq!(erase(served, "e", json!({"person": bob})).await.is(200), done);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_an_erasure_left_lying_are_read_by_nobody_and_go_by_themselves() {
    let scene = Scene::new().await;
    let task = over(&scene, "Feed it", 4).await;
    let served = &scene.served;
    let owner = served.db.superuser().await;
    // As if the server had been killed between the event and the messages.
    owner
        .execute(
            "insert into es.gone_transcripts values (1, $1, 1, 1, null, now(), true)",
            &[&task.parse::<uuid::Uuid>().unwrap()],
        )
        .await
        .unwrap();
    let messages = served.get(&format!("/api/tasks/{task}/messages")).await.is(200);
    assert_eq!(messages, json!([]));
    eventually(WAIT, async || rows_of(served, &task).await == 0).await;
    assert!(!upkeep::purge_transcripts(&served.app.store, None).await.unwrap());
    let gone = transcript::gone(&served.app.store, TaskId(task.parse().unwrap()), 1).await.unwrap();
    assert!(gone.is_some_and(|gone| gone.days.is_none()));
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_admins_erase_and_owners_are_erased_by_owners() {
    let (scene, bobs, bob) = written().await;
    let served = &scene.served;
    let admins = colleague(served, "Cleo", Role::Admin).await;
    let ada = served.get("/api/me").await.is(200)["id"].clone();
    let before = head(served).await;
    let ask = async |token: &str, body: Value| {
        let answer = served.send(token, "POST", "/api/erasures", Some(&body), &[]).await;
        answer.problem(403).to_owned()
    };
    assert_eq!(ask(&bobs, json!({"person": bob})).await, "role_too_low");
    assert_eq!(ask(&admins, json!({"person": ada})).await, "role_too_low");
    let planned = served.send(&bobs, "GET", "/api/erasures?person=Bob", None, &[]).await;
    assert_eq!(planned.problem(403), "role_too_low");
    for (body, status) in [
        (json!({}), 400),
        (json!({"person": bob, "task": "x"}), 400),
        (json!({"person": "Bob"}), 400),
        (json!({"person": uuid::Uuid::now_v7()}), 404),
        (json!({"task": uuid::Uuid::now_v7()}), 404),
    ] {
        assert_eq!(served.post("/api/erasures", &body).await.status, status, "{body}");
    }
    assert_eq!(head(served).await, before);
    let done = served.send(&admins, "POST", "/api/erasures", Some(&json!({"person": bob})), &[]).await;
    assert_eq!(done.is(200)["texts"], 5);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_shows_first_and_erases_only_when_told_to() {
    let (scene, _, _) = written().await;
    let served = &scene.served;
    let before = head(served).await;
    let shown = served.cli(&["erase", "person", "Bob", "--dry-run"]).await;
    assert!(shown.starts_with("Would erase of Bob: 1 × comment, 1 × issue description"), "{shown}");
    let (code, said) = served.cli_refused(&["erase", "person", "Bob"]).await;
    assert!(code == 1 && said.contains("Would erase of Bob") && said.contains("--yes"), "{said}");
    let (_, said) = served.cli_refused(&["erase", "person", "Bob", "--output", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["code"], "not_confirmed");
    assert_eq!(head(served).await, before, "nothing is lost without being asked");
    let done = served.cli(&["erase", "person", "Bob", "--yes"]).await;
    assert!(done.starts_with("Erased of Bob:") && head(served).await > before, "{done}");
    let (code, _) = served.cli_refused(&["erase", "person", "Bob", "--yes"]).await;
    assert_eq!(code, 4, "nobody is called so any more");
    let (code, said) = served.cli_refused(&["erase", "task", "LOCA-1#9", "--yes"]).await;
    assert!(code == 4 && said.contains("LOCA-1#9"), "{said}");
    scene.finish().await;
}
