//! `?as_of=`: every route that reads, asked for an earlier moment.

use serde_json::{Value, json};

use super::client::{DAEMON, Scene};
use super::every_route::{Things, routes};
use crate::support::past::assert_kept;

/// What is answered as of a moment, whatever else may come to be: what begins so, and these pages.
const KEPT: [&str; 11] = [
    "/api/projects",
    "/api/issues",
    "/api/agents",
    "/api/tasks",
    "/api/directories",
    "/api/runtimes",
    "/api/daemons",
    "/api/workspaces",
    "/api/tokens",
    "/api/me",
    "/api/what-if",
];
const PAGES: [&str; 6] = ["/", "/tasks", "/tasks/{id}", "/directories", "/projects", "/webhooks"];

async fn head(scene: &Scene) -> i64 {
    multica::store::read::head(&scene.served.app.store).await.unwrap()
}

/// Runs one task to its end beside one that waits, is promoted and is cancelled.
async fn story(scene: &Scene) -> (String, String) {
    let (first, generation) = scene.running("first").await;
    let (second, _) = scene.parked("second").await;
    scene.report(&first, generation, 5, "complete", json!({"output": "done"})).await.is(200);
    scene.report(&first, generation, 6, "released", json!({})).await;
    scene.served.post(&format!("/api/tasks/{second}/cancel"), &json!({})).await.is(200);
    (first, second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_read_answers_as_of_a_moment_or_refuses_by_name_and_no_write_takes_one() {
    let things = Things::new().await;
    let served = &things.scene.served;
    let position = head(&things.scene).await - 1;
    let before = things.log().await;
    for route in routes() {
        let name = route.name();
        // What it needs to be asked at all.
        let more = match route.pattern.as_str() {
            "/api/what-if" => "&set=queued_ttl%3D1h",
            "/api/erasures" => "&person=Ada",
            _ => "",
        };
        let answer = things.ask(Some(&served.token), &route, &format!("{more}&as_of={position}")).await;
        if route.method != "GET" {
            assert_eq!(answer.problem(400), "as_of_of_a_write", "{name}");
            continue;
        }
        let pattern = route.pattern.as_str();
        let below = |head: &&str| {
            pattern.strip_prefix(*head).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let kept = PAGES.contains(&pattern) || KEPT.iter().any(below);
        if !kept && answer.status != 200 {
            assert_eq!(answer.problem(400), "as_of_not_kept", "{name}");
            continue;
        }
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
        assert_eq!(answer.header("x-multica-as-of"), Some(&*position.to_string()), "{name}");
        assert!(answer.header("x-multica-as-of-time").is_some(), "{name}");
        // Nobody learns of the log by asking for its past.
        let nobody = things.ask(Some("mul_x"), &route, "&as_of=99999999").await;
        assert_eq!(nobody.status, 401, "{name}: {}", nobody.body);
    }
    assert_eq!(things.log().await, before);
    things.scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_shows_at_every_position_what_its_row_and_its_queue_showed_then() {
    let scene = Scene::new().await;
    let before = head(&scene).await;
    let (first, second) = story(&scene).await;
    let served = &scene.served;
    let mut seen: Vec<(String, String)> = Vec::new();
    for position in before..=head(&scene).await {
        let get = |path: &str| {
            let path = format!("{path}as_of={position}");
            async move { served.get(&path).await }
        };
        let listed = get("/api/tasks?").await.is(200)["tasks"].as_array().unwrap().clone();
        let rows = served.app.store.at(crate::support::past::moment(&served.app.store, position).await);
        for id in [&first, &second] {
            let shown = get(&format!("/api/tasks/{id}?")).await;
            let Some(of_list) = listed.iter().find(|task| task["id"] == id.as_str()) else {
                assert_eq!(shown.problem(404), "not_found", "as of {position}");
                continue;
            };
            let shown = shown.is(200);
            assert_eq!(&shown, of_list, "as of {position}");
            // Folding its stream and its kept row say the same.
            let row = multica::readmodel::task_status::of(&rows, &served.app.registry, id.parse().unwrap());
            let row = row.await.unwrap().unwrap().row;
            assert_eq!(shown["status"], row.status.name(), "as of {position}");
            assert_eq!(shown["generation"], row.generation, "as of {position}");
            let explained = get(&format!("/api/tasks/{id}/explain?")).await.is(200);
            assert_eq!(explained["status"], shown["status"], "as of {position}");
            let history = get(&format!("/api/tasks/{id}/history?")).await.is(200);
            let last = history["entries"].as_array().unwrap().last().unwrap()["position"].as_i64().unwrap();
            assert!(last <= position);
            let status = (id.clone(), shown["status"].as_str().unwrap().to_owned());
            if !seen.contains(&status) {
                seen.push(status);
            }
        }
        let directories = get("/api/directories?").await.is(200)["directories"].clone();
        let holder = directories[0]["holder"]["task_id"].as_str();
        let runs = |id: &str| listed.iter().any(|task| task["id"] == id && task["status"] == "running");
        if runs(&first) {
            assert_eq!(holder, Some(first.as_str()), "as of {position}");
        }
    }
    let of = |id: &str| -> Vec<&str> {
        seen.iter().filter(|(task, _)| task == id).map(|(_, status)| status.as_str()).collect()
    };
    assert_eq!(of(&first), ["queued", "dispatched", "running", "completed"]);
    let second = of(&second);
    assert!(second.starts_with(&["queued", "dispatched", "waiting_local_directory"]), "{second:?}");
    assert_eq!(second.last(), Some(&"cancelled"));
    assert_kept(&served.app.store, &served.app.registry, served.workspace).await;
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_is_explained_as_it_was_while_it_lasted() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("first").await;
    let (second, _) = scene.parked("second").await;
    let waiting = head(&scene).await;
    let path = format!("/api/tasks/{second}/explain");
    let then = scene.served.get(&path).await.is(200);
    scene.report(&first, generation, 5, "complete", json!({"output": "done"})).await.is(200);
    scene.served.post(&format!("/api/tasks/{second}/cancel"), &json!({})).await.is(200);
    let again = scene.served.get(&format!("{path}?as_of={waiting}")).await.is(200);
    // What a machine said last isn't kept; all else is.
    for member in ["status", "sentence", "since", "ends_when", "name", "detail"] {
        assert_eq!(again[member], then[member], "{member}");
    }
    let causes = |of: &Value| of["causes"].as_array().unwrap()[0]["sentence"].clone();
    assert_eq!(causes(&again), causes(&then));
    let now = scene.served.get(&path).await.is(200);
    assert_ne!(now["sentence"], then["sentence"]);
    // What can be done about it now isn't what could be done then.
    let commands = again["commands"].to_string();
    let looks = format!("multica task explain LOCA-1#1 --as-of {waiting}");
    assert!(commands.contains(&looks) && !commands.contains("cancel"), "{commands}");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moment_is_a_position_or_a_time_and_what_is_none_is_refused_by_name() {
    let scene = Scene::new().await;
    let served = &scene.served;
    scene.issue("one").await;
    let get = |moment: &str| {
        let path = format!("/api/tasks?as_of={moment}");
        async move { served.get(&path).await }
    };
    let count = |answer: super::client::Answer| answer.is(200)["total"].as_i64().unwrap();
    // Before the log: nothing was there.
    for moment in ["0", "2001-01-01", "2001-01-01T00:00:00Z", "100y", "100+years+ago"] {
        let answer = get(moment).await;
        assert_eq!(answer.header("x-multica-as-of"), Some("0"), "{moment}");
        assert_eq!(count(answer), 0, "{moment}");
    }
    let head = head(&scene).await;
    let answer = get("0s").await;
    assert_eq!(answer.header("x-multica-as-of"), Some(&*head.to_string()));
    let time = answer.header("x-multica-as-of-time").unwrap().to_owned();
    assert_eq!(count(answer), 1);
    assert_eq!(count(get(&time).await), 1, "what was answered can be asked for again");
    // A form that is left empty asks for now.
    let now = get("").await;
    assert_eq!(now.header("x-multica-as-of"), None);
    assert_eq!(count(now), 1);
    for (moment, code) in [
        ((head + 1).to_string().as_str(), "as_of_in_the_future"),
        ("2999-01-01", "as_of_in_the_future"),
        ("yesterday", "invalid_as_of"),
        ("-5", "invalid_as_of"),
        ("99999999999999999999", "invalid_as_of"),
        (&"9".repeat(500), "invalid_as_of"),
        ("%FF", "invalid_as_of"),
    ] {
        let answer = get(moment).await;
        assert_eq!(answer.problem(400), code, "{moment}");
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_past_is_waited_for_and_a_history_that_does_not_come_is_behind() {
    use multica::kernel::limits::{Limits, Millis};
    let limits = Limits { at_least_wait: Millis(60), ..super::client::limits() };
    let scene = Scene::on(super::client::Served::with(limits).await).await;
    let superuser = scene.served.db.superuser().await;
    // Somebody else has the lease and does nothing with it.
    let taken = "insert into es.leases values ('followers', gen_random_uuid(), now() + interval '1 hour') \
                 on conflict (name) do update set holder = excluded.holder, until = excluded.until";
    superuser.batch_execute(taken).await.unwrap();
    scene.issue("one").await;
    let position = head(&scene).await;
    let answer = scene.served.get(&format!("/api/tasks?as_of={position}")).await;
    assert_eq!(answer.problem(503), "behind");
    assert!(answer.header("retry-after").is_some());
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_shows_the_past_says_so_and_writes_nothing_there() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let before = head(&scene).await.to_string();
    let task = scene.issue("one").await;
    let queued = head(&scene).await.to_string();
    served.post(&format!("/api/tasks/{task}/cancel"), &json!({})).await.is(200);
    let list = |moment: &str| {
        let words = ["task", "list", "--all", "--as-of", moment].map(str::to_owned);
        async move { served.cli(&words.each_ref().map(String::as_str)).await }
    };
    assert!(list(&before).await.contains("No task"));
    let then = list(&queued).await;
    assert!(then.contains("queued") && !then.contains("cancelled"), "{then}");
    assert!(list("0s").await.contains("cancelled"));
    assert!(list("-2h").await.contains("No task"));
    let shown = served.cli(&["task", "show", &task, "--as-of", &queued, "--output", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["status"], "queued");
    served.post("/api/issues/LOCA-1/comments", &json!({"content": "later"})).await.is(201);
    let comments = served.cli(&["issue", "comment", "list", "LOCA-1", "--as-of", &queued]).await;
    assert!(comments.contains("No comment yet"), "{comments}");
    let log = head(&scene).await;
    for words in [&["task", "cancel", task.as_str()][..], &["feed"], &["verify"], &["daemon", "status"]] {
        let words: Vec<&str> = words.iter().copied().chain(["--as-of", "1"]).collect();
        let (code, said) = served.cli_refused(&words).await;
        assert_eq!(code, 5, "{words:?}: {said}");
        assert!(said.contains("--as-of is for verbs that list and show"), "{said}");
    }
    let (code, said) = served.cli_refused(&["task", "list", "--as-of", "someday"]).await;
    assert!(code == 1 && said.contains("a moment is a position"), "{said}");
    let (code, said) = served.cli_refused(&["task", "list", "--as-of", "999999"]).await;
    assert!(code == 5 && said.contains("999999") && said.contains("Name a position up to"), "{said}");
    assert_eq!(head(&scene).await, log);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_the_past_says_which_and_leads_to_the_others_of_then() {
    let scene = Scene::new().await;
    let before = head(&scene).await;
    scene.issue("later").await;
    // A page needs a member: a token is as good as a session.
    let then = scene.served.get(&format!("/tasks?as_of={before}")).await.is(200).to_string();
    assert!(!then.contains("later") && then.contains(&format!("As of position {before}")), "{then}");
    assert!(then.contains(&format!("/directories?as_of={before}")) && !then.contains("<script"), "{then}");
    let now = scene.served.get("/tasks").await.is(200).to_string();
    assert!(now.contains("later") && !now.contains("As of position") && now.contains("<script"), "{now}");
    let machine = scene.served.get(&format!("/api/daemons?as_of={before}")).await.is(200);
    assert_eq!(machine["daemons"][0]["daemon_id"], DAEMON);
    scene.finish().await;
}
