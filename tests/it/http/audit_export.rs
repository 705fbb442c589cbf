//! Exports of the audit trail: whole, in pieces, broken off, without what is private.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::audit::written;
use super::client::{Scene, Served};

/// What an export says, line by line.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn to_file(served: &Served, file: &Path, more: &[&str]) {
    let mut words = vec!["audit", "export", "--file", file.to_str().unwrap()];
    words.extend(more);
    served.cli(&words).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_in_pieces_is_byte_for_byte_the_one_in_one_piece() {
    let scene = Scene::new().await;
    let served = &scene.served;
    scene.running("=Says \u{202e}\"odd\", things").await;
    written(served, 2_000).await;
    let up_to = multica::store::read::head(&served.app.store).await.unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    for format in ["jsonl", "csv"] {
        let flags = ["--format", format, "--up-to", &up_to];
        let whole = folder.path().join(format!("whole.{format}"));
        to_file(served, &whole, &flags).await;
        let bytes = fs::read(&whole).unwrap();
        let count = bytes.iter().filter(|byte| **byte == b'\n').count();
        assert!(count > 2_000 && bytes.ends_with(b"\n"), "{count} lines");
        // Cut in the first line, behind a line, in the middle of one, before the very end; and not at all.
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in [0, 9, end, end + 1, bytes.len() / 2, bytes.len() - 1, bytes.len()] {
            let piece = folder.path().join(format!("piece-{cut}.{format}"));
            fs::write(&piece, &bytes[..cut]).unwrap();
            to_file(served, &piece, &flags).await;
            assert!(fs::read(&piece).unwrap() == bytes, "{format} cut at {cut} differs");
        }
        let printed = served.cli(&[&["audit", "export"][..], &flags[..]].concat()).await;
        assert!(printed.as_bytes() == bytes, "{format} on standard output differs");
    }
    let (code, said) = {
        let notes = folder.path().join("notes.txt");
        fs::write(&notes, "my own\n").unwrap();
        let refused = served.cli_refused(&["audit", "export", "--file", notes.to_str().unwrap()]).await;
        assert_eq!(fs::read_to_string(&notes).unwrap(), "my own\n");
        refused
    };
    assert!(code == 1 && said.contains("no export"), "{code} {said}");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_has_every_entry_of_its_filters_oldest_first_and_nothing_private() {
    let scene = Scene::new().await;
    let served = &scene.served;
    scene.running("One").await;
    served.post(&format!("/api/tasks/{}/cancel", uuid::Uuid::now_v7()), &json!({})).await.problem(404);
    let listed = served.get("/api/audit?limit=1000").await.is(200);
    let mut cursors: Vec<&Value> =
        listed["entries"].as_array().unwrap().iter().map(|entry| &entry["cursor"]).collect();
    cursors.reverse();
    let text = served.cli(&["audit", "export"]).await;
    let exported = lines(&text);
    assert_eq!(exported.iter().map(|line| &line["cursor"]).collect::<Vec<_>>(), cursors);
    // The owner asks, and gets no path of a machine all the same: a file goes anywhere.
    assert!(text.contains("[redacted]") && !text.contains("\"/e\""), "{text}");
    assert!(!text.contains("real_path\":\"/"), "{text}");
    let of_task = lines(&served.cli(&["audit", "export", "--target", "LOCA-1#1", "--type", "task.*"]).await);
    assert!(of_task.iter().all(|line| line["type"].as_str().unwrap().starts_with("task.")));
    let after = of_task[2]["cursor"].as_str().unwrap();
    let rest =
        served.cli(&["audit", "export", "--target", "LOCA-1#1", "--type", "task", "--after", after]).await;
    assert_eq!(lines(&rest), of_task[3..]);
    let csv = served.cli(&["audit", "export", "--format", "csv", "--type", "task.queued"]).await;
    assert!(csv.starts_with("cursor,position,recorded_at,") && csv.lines().count() == 2, "{csv}");
    for wrong in ["format=xlsx", "type=ghost", "after=x"] {
        let answer = served.post(&format!("/api/audit/export?{wrong}"), &json!({})).await;
        assert_eq!(answer.problem(400), "invalid_field", "{wrong}");
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_is_an_event_without_the_words_that_were_looked_for() {
    let served = Served::new().await;
    served
        .cli(&["audit", "export", "--type", "workspace", "--search", "secretword", "--format", "csv"])
        .await;
    let trail = served.get("/api/audit?type=operation.export_made").await.is(200);
    let made = &trail["entries"][0];
    assert_eq!(made["actor"]["name"], "Ada");
    let text = made["text"].as_str().unwrap();
    assert!(text.starts_with("Ada exported the audit trail") && text.contains("type and words"), "{text}");
    let whole = served.get(&format!("/api/audit/{}", made["position"])).await.is(200);
    assert_eq!(whole["data"]["filters"], json!({"type": "workspace.*"}), "{whole:#}");
    assert_eq!((&whole["data"]["searched"], &whole["data"]["format"]), (&json!(true), &json!("csv")));
    assert!(!whole.to_string().contains("secretword"), "{whole:#}");
    // The next one holds it; it never holds itself.
    let exported = lines(&served.cli(&["audit", "export", "--type", "operation.export_made"]).await);
    assert_eq!(exported.len(), 1, "{exported:?}");
    served.finish().await;
}
