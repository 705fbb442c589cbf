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
