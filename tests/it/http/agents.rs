//! Agents are changed; what they have claimed isn't.

use multica::domain::workspace::Role;
use serde_json::{Value, json};

use super::client::{Answer, Scene};
use super::every_route::colleague;

async fn change(scene: &Scene, token: &str, body: &Value) -> Answer {
    scene.served.send(token, "PUT", &format!("/api/agents/{}", scene.agent), Some(body), &[]).await
}

async fn changed(scene: &Scene, body: Value) -> Value {
    change(scene, &scene.served.token, &body).await.is(200)
}

async fn shown(scene: &Scene) -> Value {
    scene.served.get(&format!("/api/agents/{}", scene.agent)).await.is(200)
}

/// Sentences of changes to agents, oldest first.
async fn told(scene: &Scene) -> Vec<String> {
    let page = scene.served.get("/api/feed?after=0&limit=1000&type=agent.updated").await.is(200);
    let entries = page["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["text"].as_str().unwrap().to_owned()).collect()
}

async fn assigned(scene: &Scene, task: &str) -> Value {
    let path = format!("/api/daemon/tasks/{task}/assignment?generation=1");
    scene.served.get(&path).await.is(200)["agent"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_named_changes_and_the_same_again_is_nothing() {
    let scene = Scene::new().await;
    let before = shown(&scene).await;
    let command = json!({"program": "/bin/cat", "arguments": ["-u"], "prompt": "stdin"});
    let all = json!({"name": "Builder", "instructions": "Be brief.", "max_concurrent_tasks": 3,
        "command": command});
    let after = changed(&scene, all.clone()).await;
    for (key, value) in all.as_object().unwrap() {
        assert_eq!(&after[key], value, "{key}");
    }
    for key in ["id", "runtime_id", "provider", "owner_id", "created_at", "archived_at"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    assert_eq!(shown(&scene).await, after);
    assert_eq!(changed(&scene, all).await, after);
    assert_eq!(changed(&scene, json!({})).await, after);
    let sentence = told(&scene).await.concat();
    assert!(
        sentence.ends_with(
            "changed the name to Builder, instructions, command and tasks at once to 3 of the agent Builder"
        ),
        "{sentence}"
    );
    let none = changed(&scene, json!({"model": null, "instructions": ""})).await;
    assert_eq!((&none["model"], &none["instructions"]), (&Value::Null, &json!("")));
    assert_eq!(none["name"], "Builder");
    assert_eq!(changed(&scene, json!({"model": "", "instructions": ""})).await, none);
    assert_eq!(told(&scene).await.len(), 2);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_is_one_change() {
    let scene = Scene::new().await;
    let path = format!("/api/agents/{}", scene.agent);
    let put = async |body: Value| {
        let key = [("Idempotency-Key", "one")];
        scene.served.send(&scene.served.token, "PUT", &path, Some(&body), &key).await
    };
    let first = put(json!({"max_concurrent_tasks": 3})).await;
    changed(&scene, json!({"max_concurrent_tasks": 4})).await;
    let again = put(json!({"max_concurrent_tasks": 3})).await;
    assert_eq!(again.header("x-multica-position"), first.header("x-multica-position"));
    assert_eq!(again.is(200)["max_concurrent_tasks"], 4, "it isn't done a second time");
    assert_eq!(put(json!({"max_concurrent_tasks": 5})).await.problem(422), "idempotency_key_reused");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_free_again_once_it_is_given_up_and_never_taken_from_another() {
    let scene = Scene::new().await;
    let command = json!({"program": "/bin/cat"});
    let other = json!({"name": "Tester", "runtime_id": scene.runtime, "command": command});
    scene.served.post("/api/agents", &other).await.is(201);
    let taken = json!({"name": "tester"});
    assert_eq!(change(&scene, &scene.served.token, &taken).await.problem(409), "name_taken");
    // Its own name in another case is its own still.
    assert_eq!(changed(&scene, json!({"name": "dev"})).await["name"], "dev");
    assert_eq!(changed(&scene, json!({"name": "Builder"})).await["name"], "Builder");
    let next = json!({"name": "DEV", "runtime_id": scene.runtime, "command": command});
    scene.served.post("/api/agents", &next).await.is(201);
    let back = json!({"name": "Dev"});
    assert_eq!(change(&scene, &scene.served.token, &back).await.problem(409), "name_taken");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_owner_and_admins_change_an_agent_and_an_archived_one_stays_as_it_is() {
    let scene = Scene::new().await;
    let other = colleague(&scene.served, "Eve", Role::Member).await;
    let admin = colleague(&scene.served, "Root", Role::Admin).await;
    let more = json!({"max_concurrent_tasks": 7});
    assert_eq!(change(&scene, &other, &more).await.problem(403), "role_too_low");
    assert_eq!(change(&scene, &admin, &more).await.is(200)["max_concurrent_tasks"], 7);
    for odd in [json!({"model": "large"}), json!({"custom_args": ["-x"]})] {
        assert_eq!(change(&scene, &admin, &odd).await.problem(400), "not_for_command");
    }
    let relative = json!({"command": {"program": "./run.sh"}});
    assert_eq!(change(&scene, &admin, &relative).await.problem(400), "bad_program");
    let odd = json!({"max_concurrent_tasks": 51});
    assert_eq!(change(&scene, &admin, &odd).await.problem(400), "bad_max_concurrent_tasks");
    let nowhere = json!({"runtime_id": scene.project});
    assert_eq!(change(&scene, &admin, &nowhere).await.problem(404), "not_found");
    scene.served.post(&format!("/api/agents/{}/archive", scene.agent), &json!({})).await.is(200);
    let late = json!({"max_concurrent_tasks": 8});
    assert_eq!(change(&scene, &admin, &late).await.problem(409), "agent_archived");
    let nobody = format!("/api/agents/{}", scene.project);
    let unknown = scene.served.send(&admin, "PUT", &nobody, Some(&late), &[]);
    assert_eq!(unknown.await.problem(404), "not_found");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_claimed_runs_as_it_was_claimed() {
    let scene = Scene::new().await;
    let (running, generation) = scene.running("Runs").await;
    let (parked, _) = scene.parked("Waits").await;
    let before = assigned(&scene, &running).await;
    let queued = scene.issue("Is claimed later").await;
    changed(
        &scene,
        json!({"name": "Builder", "instructions": "Be brief.", "command": {"program": "/bin/cat"}}),
    )
    .await;
    assert_eq!(assigned(&scene, &running).await, before);
    // What waited for its directory was claimed before, too.
    scene.report(&running, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.status(&parked).await, "dispatched");
    assert_eq!(assigned(&scene, &parked).await, before);
    let claimed = scene.claim(5).await;
    assert_eq!((&claimed[0]["id"], claimed.len()), (&json!(queued), 1));
    let now = &claimed[0]["agent"];
    assert_eq!((&now["name"], &now["instructions"]), (&json!("Builder"), &json!("Be brief.")));
    assert_eq!(now["command"]["program"], "/bin/cat");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lowered_number_of_tasks_at_once_counts_those_that_run() {
    let scene = Scene::new().await;
    let elsewhere = async |title: &str| {
        let body = json!({"title": title, "assignee_type": "agent", "assignee_id": scene.agent});
        scene.served.post("/api/issues", &body).await.is(201);
    };
    for title in ["One", "Two", "Three"] {
        elsewhere(title).await;
    }
    let claimed = scene.claim(5).await;
    assert_eq!(claimed.len(), 2);
    changed(&scene, json!({"max_concurrent_tasks": 1})).await;
    // The first slot is free again, but the second is still somebody's.
    let id = |n: usize| claimed[n]["id"].as_str().unwrap().to_owned();
    scene.served.post(&format!("/api/tasks/{}/cancel", id(0)), &json!({})).await.is(200);
    assert_eq!(scene.claim(5).await, Vec::<Value>::new());
    scene.served.post(&format!("/api/tasks/{}/cancel", id(1)), &json!({})).await.is(200);
    assert_eq!(scene.claim(5).await.len(), 1);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verb_changes_what_it_is_told_and_keeps_the_rest() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let said =
        served.cli(&["agent", "update", "dev", "--prompt", "none", "--max-concurrent-tasks", "3"]).await;
    assert_eq!(said, "Changed Dev. Tasks claimed from now on see it.\n");
    let wanted = json!({"program": "/bin/sh", "arguments": ["-c", "cat"], "prompt": "none"});
    let agent = shown(&scene).await;
    assert_eq!((&agent["command"], &agent["max_concurrent_tasks"]), (&wanted, &json!(3)));
    let said = served.cli(&["agent", "update", "Dev", "--command", "/bin/sh"]).await;
    assert_eq!(said, "Dev is so already.\n");
    served.cli(&["agent", "update", "Dev", "--no-args", "--name", "Maker"]).await;
    let got = served.cli(&["agent", "get", "Maker"]).await;
    assert!(got.contains("/bin/sh") && !got.contains(r#""-c""#), "{got}");
    served.cli(&["agent", "update", "Maker", "--arg", "-e", "--arg", "x", "--no-custom-args"]).await;
    let agent = shown(&scene).await;
    assert_eq!((&agent["command"]["arguments"], &agent["custom_args"]), (&json!(["-e", "x"]), &json!([])));
    for (words, code, part) in [
        (vec!["agent", "update", "Maker"], 1, "required"),
        (vec!["agent", "update", "Nobody", "--model", "x"], 4, "no agent is called"),
        (vec!["agent", "update", "Maker", "--daemon-id", "elsewhere"], 4, "there are: machine-1."),
        (vec!["agent", "update", "Maker", "--custom-arg", "--fast"], 5, "no use for further arguments"),
        (vec!["agent", "update", "Maker", "--max-concurrent-tasks", "99"], 5, "1 to 50"),
    ] {
        let (exit, text) = served.cli_refused(&words).await;
        assert!(exit == code && text.to_lowercase().contains(part), "{words:?}: {exit} {text}");
    }
    scene.finish().await;
}
