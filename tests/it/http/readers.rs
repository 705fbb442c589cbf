//! What the server answers is what the command line reads of it.

use multica::wire::api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::client::{DAEMON, Scene};

/// Reads an answer as its type and writes it again.
#[track_caller]
fn as_read<T: DeserializeOwned + Serialize>(answer: &Value) {
    let read: T = serde_json::from_value(answer.clone()).unwrap();
    assert_eq!(&serde_json::to_value(read).unwrap(), answer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_its_type_and_nothing_else() {
    let scene = Scene::new().await;
    let (task, generation) = scene.running("One").await;
    scene.parked("Two").await;
    let done = json!({"output": "All doors open."});
    scene.report(&task, generation, 5, "complete", done).await.is(200);
    let served = &scene.served;
    let get = async |path: &str| served.get(path).await.is(200);
    let tasks = get("/api/tasks").await["tasks"].clone();
    assert_eq!(tasks.as_array().unwrap().len(), 2);
    as_read::<Vec<api::Task>>(&tasks);
    as_read::<api::Task>(&get("/api/tasks/LOCA-1%231").await);
    as_read::<api::Explanation>(&get("/api/tasks/LOCA-2%231/explain").await);
    as_read::<Vec<api::Directory>>(&get("/api/directories").await["directories"]);
    as_read::<Vec<api::Daemon>>(&get("/api/daemons").await["daemons"]);
    as_read::<Vec<api::Issue>>(&get("/api/issues").await["issues"]);
    as_read::<Vec<api::Comment>>(&get("/api/issues/LOCA-1/comments").await);
    as_read::<Vec<api::Task>>(&get("/api/issues/LOCA-1/task-runs").await);
    as_read::<Vec<api::Project>>(&get("/api/projects").await["projects"]);
    let resources = format!("/api/projects/{}/resources", scene.project);
    as_read::<Vec<api::Resource>>(&get(&resources).await["resources"]);
    as_read::<Vec<api::Agent>>(&get("/api/agents").await);
    as_read::<api::Agent>(&get(&format!("/api/agents/{}", scene.agent)).await);
    as_read::<Vec<api::PlacedRuntime>>(&get("/api/runtimes").await);
    as_read::<Vec<api::Member>>(&get(&format!("/api/workspaces/{}/members", served.workspace)).await);
    as_read::<Vec<api::Token>>(&get("/api/tokens").await);
    as_read::<api::Token>(&served.post("/api/tokens", &json!({"name": "x"})).await.is(201));
    let said = json!({"generation": generation, "messages": [
        {"seq": 1, "type": "text", "content": "Hm."},
        {"seq": 2, "type": "tool_use", "tool": "sh", "input": {"command": "ls"}},
        {"seq": 3, "type": "tool_result", "tool": "sh", "output": "a", "stderr": true}]});
    served.post(&format!("/api/daemon/tasks/{task}/messages"), &said).await.is(200);
    let transcript = get(&format!("/api/tasks/{task}/messages")).await;
    assert_eq!(transcript.as_array().unwrap().len(), 3);
    as_read::<Vec<api::Message>>(&transcript);
    let logs = served.cli(&["task", "logs", "LOCA-1#1"]).await;
    assert_eq!(logs, "Hm.\n\u{2192} sh {\"command\":\"ls\"}\nstderr a\n");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_that_shows_something_shows_it() {
    let scene = Scene::new().await;
    let (task, generation) = scene.running("Fix the door").await;
    scene.parked("Paint it").await;
    let failed = json!({"error": "no paint left", "failure_reason": "agent_error.unknown"});
    let project = scene.project.clone();
    let expected: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (vec!["task", "list"], vec!["LOCA-1#1", "Dev", "running", "game, held by LOCA-1#1 (place 1)"]),
        (vec!["task", "show", "LOCA-2#1"], vec!["LOCA-2#1", "waiting_local_directory", "1 of 2", DAEMON]),
        (vec!["task", "explain", "LOCA-2#1"], vec!["Because:", "LOCA-1#1"]),
        (vec!["task", "history", "LOCA-1#1"], vec!["Ada  queued LOCA-1#1 for Dev"]),
        (vec!["directory", "list"], vec!["game", "/srv/game", "LOCA-1#1"]),
        (vec!["directory", "show", "game"], vec!["LOCA-1#1", "1. LOCA-2#1"]),
        (vec!["directory", "show", "/srv/../srv/./game/"], vec!["LOCA-1#1", "1. LOCA-2#1"]),
        (vec!["daemon", "list"], vec![DAEMON, "box", "online", "command", "1 of 20"]),
        (vec!["issue", "list"], vec!["LOCA-1", "Fix the door", "Dev"]),
        (vec!["issue", "get", "LOCA-1"], vec!["Fix the door", "ASSIGNEE", "Dev", "LOCA-1#1  running"]),
        (vec!["project", "list"], vec!["Game", "planned"]),
        (vec!["project", "get", "Game"], vec!["local_directory  /srv/game"]),
        (vec!["project", "resource", "list", &project], vec!["local_directory", "/srv/game"]),
        (vec!["agent", "list"], vec!["Dev", "command"]),
        (vec!["workspace", "list"], vec!["local"]),
        (vec!["token", "list"], vec!["multica up"]),
        (vec!["verify"], vec!["Verified up to position"]),
    ];
    for (words, said) in expected {
        let shown = scene.served.cli(&words).await;
        for part in said {
            assert!(shown.contains(part), "{words:?} says {part:?}:\n{shown}");
        }
        assert!(!shown.contains('\u{1b}'), "no colours without a terminal: {shown:?}");
    }
    scene.report(&task, generation, 5, "fail", failed).await.is(200);
    let shown = scene.served.cli(&["task", "show", "LOCA-1#1"]).await;
    assert!(shown.contains("agent_error.unknown: ") && shown.contains("no paint left"), "{shown}");
    let said = scene.served.cli(&["issue", "comment", "list", "LOCA-1"]).await;
    assert!(said.contains("Dev") && said.contains("no paint left"), "{said}");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_issues_says_the_newest_task_of_each() {
    let scene = Scene::new().await;
    let (task, generation) = scene.running("Has two").await;
    scene.report(&task, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    scene.served.post("/api/issues/LOCA-1/rerun", &json!({})).await.is(202);
    scene.served.post("/api/issues", &json!({"title": "Has none"})).await.is(201);
    scene.issue("Has one").await;
    let list = scene.served.cli(&["issue", "list"]).await;
    let (head, rows) = list.split_once('\n').unwrap();
    let column = head.find("LAST TASK").unwrap();
    let last = |key: &str| {
        let row = rows.lines().find(|row| row.starts_with(key)).unwrap();
        row[column..].split("  ").next().unwrap().to_owned()
    };
    assert_eq!(["LOCA-1", "LOCA-2", "LOCA-3"].map(last), ["#2 queued", "", "#1 queued"], "{list}");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_is_narrowed_by_names_and_a_name_that_is_none_is_said() {
    let scene = Scene::new().await;
    scene.running("Runs").await;
    scene.parked("Waits").await;
    let narrowed = async |flag: &str, value: &str| {
        let words = ["feed", "--all", "--output", "json", flag, value];
        scene.served.cli(&words).await.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let ids = [
        ("--project", "game", "project", scene.project.clone()),
        ("--agent", "dev", "agent", scene.agent.clone()),
        ("--directory", "game", "directory", scene.directory().to_string()),
    ];
    for (flag, name, filter, id) in ids {
        let wanted = scene.served.get(&format!("/api/feed?after=0&limit=1000&{filter}={id}")).await.is(200);
        let wanted: Vec<&Value> = wanted["entries"].as_array().unwrap().iter().collect();
        let by_name = narrowed(flag, name).await;
        let by_name: Vec<Value> = by_name.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!wanted.is_empty() && by_name.iter().collect::<Vec<_>>() == wanted, "{flag}: {by_name:#?}");
        assert_eq!(narrowed(flag, &id).await.len(), wanted.len(), "{flag}");
        let (exit, said) = scene.served.cli_refused(&["feed", flag, "nothing"]).await;
        assert!(exit == 4 && said.contains(&format!("No {filter} is called `nothing`.")), "{exit} {said}");
    }
    let of_task = narrowed("--task", "LOCA-2#1").await;
    assert!(of_task.len() > 2 && of_task.iter().all(|line| line.contains("LOCA-2")), "{of_task:#?}");
    let (exit, said) = scene.served.cli_refused(&["feed", "--task", "LOCA-9#1"]).await;
    assert!(exit == 4 && said.contains("LOCA-9#1"), "{exit} {said}");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_over_can_not_be_cancelled_and_what_is_cancelled_is_so_already() {
    let scene = Scene::new().await;
    for (title, name, end, more) in [
        ("One", "LOCA-1#1", "complete", json!({"output": "x"})),
        ("Two", "LOCA-2#1", "fail", json!({"error": "x", "failure_reason": "agent_error.process_failure"})),
    ] {
        let (task, generation) = scene.running(title).await;
        scene.report(&task, generation, 9, end, more).await.is(200);
        let status = scene.status(&task).await;
        let (exit, said) = scene.served.cli_refused(&["task", "cancel", name]).await;
        assert_eq!(exit, 1, "{said}");
        assert!(said.contains(&format!("{name} is {status}: there is nothing left to cancel.")), "{said}");
        assert!(said.contains(&format!("multica task show {name}")), "{said}");
        let (_, said) = scene.served.cli_refused(&["task", "cancel", name, "--output", "json"]).await;
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["code"], "task_over");
        assert_eq!(scene.status(&task).await, status);
    }
    scene.issue("Three").await;
    for _ in 0..2 {
        let said = scene.served.cli(&["task", "cancel", "LOCA-3#1"]).await;
        assert_eq!(said, "LOCA-3#1 is cancelled.\n");
    }
    scene.finish().await;
}
