//! The public contract of the log: `event-schemas/` is generated from the event types and compared with
//! what is there; `UPDATE_SCHEMAS=1` rewrites it. Every sample decodes, encodes to itself and validates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{Event, codec, schema_freeze};
use crate::kernel::digest::{hex, sha256_plain};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("event-schemas")
}

/// One sample of every event there is.
pub fn samples() -> Vec<Event> {
    let mut all: Vec<Event> = Vec::new();
    all.extend(super::operation::tests::samples().into_iter().map(Event::from));
    all.extend(super::workspace::tests::samples().into_iter().map(Event::from));
    all.extend(super::project::tests::samples().into_iter().map(Event::from));
    all.extend(super::issue::tests::samples().into_iter().map(Event::from));
    all.extend(super::agent::tests::samples().into_iter().map(Event::from));
    all.extend(super::daemon::tests::samples().into_iter().map(Event::from));
    all.extend(super::task::tests::samples().into_iter().map(Event::from));
    all.extend(super::directory::tests::samples().into_iter().map(Event::from));
    all.extend(super::webhook::tests::samples().into_iter().map(Event::from));
    all
}

/// Event type → its schema.
fn schemas() -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    family::<super::operation::OperationEvent>("operation", &mut all);
    family::<super::workspace::WorkspaceEvent>("workspace", &mut all);
    family::<super::project::ProjectEvent>("project", &mut all);
    family::<super::issue::IssueEvent>("issue", &mut all);
    family::<super::agent::AgentEvent>("agent", &mut all);
    family::<super::daemon::DaemonEvent>("daemon", &mut all);
    family::<super::task::TaskEvent>("task", &mut all);
    family::<super::directory::DirectoryEvent>("directory", &mut all);
    family::<super::webhook::WebhookEvent>("webhook", &mut all);
    all
}

fn family<T: JsonSchema>(name: &str, all: &mut BTreeMap<String, Value>) {
    let root = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    let defs = root["$defs"].as_object().cloned().unwrap_or_default();
    for variant in root["oneOf"].as_array().expect("an enum of events") {
        let event = variant["properties"]["type"]["const"].as_str().expect("a tag");
        let reference = variant["properties"]["data"]["$ref"].as_str().expect("a payload of its own type");
        let payload = defs[reference.trim_start_matches("#/$defs/")].as_object().expect("a struct");
        let event_type = format!("{name}.{event}");
        let mut schema = Map::new();
        schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema.insert(
            "$id".to_owned(),
            json!(format!("urn:multica:event:{event_type}:v{}", codec::schema_version(&event_type))),
        );
        schema.insert("title".to_owned(), json!(event_type));
        schema.insert("description".to_owned(), variant["description"].clone());
        schema.extend(payload.clone().into_iter().filter(|(key, _)| key != "title" && key != "description"));
        let mut needed = BTreeSet::new();
        reachable(&Value::Object(schema.clone()), &defs, &mut needed);
        if !needed.is_empty() {
            let kept: Map<String, Value> =
                needed.iter().map(|key| (key.clone(), defs[key].clone())).collect();
            schema.insert("$defs".to_owned(), Value::Object(kept));
        }
        let mut schema = Value::Object(schema);
        closed(&mut schema);
        all.insert(event_type, schema);
    }
}

fn reachable(value: &Value, defs: &Map<String, Value>, needed: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(key) =
                map.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/"))
                && needed.insert(key.to_owned())
            {
                reachable(&defs[key], defs, needed);
            }
            map.values().for_each(|inner| reachable(inner, defs, needed));
        }
        Value::Array(items) => items.iter().for_each(|inner| reachable(inner, defs, needed)),
        _ => {}
    }
}

/// Every object says what it may hold: unknown keys are refused, but in maps.
fn closed(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("type").is_some_and(|kind| kind == "object")
                && !map.contains_key("additionalProperties")
            {
                map.insert("additionalProperties".to_owned(), json!(false));
            }
            map.values_mut().for_each(closed);
        }
        Value::Array(items) => items.iter_mut().for_each(closed),
        _ => {}
    }
}

fn pretty(value: &Value) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).expect("JSON"))
}

pub(super) fn read(path: &str) -> String {
    std::fs::read_to_string(folder().join(path)).unwrap_or_default()
}

/// Every file of the folder: path → text. Versions before the newest are what stands there.
fn files() -> BTreeMap<String, String> {
    let schemas = schemas();
    let before: Value = serde_json::from_str(&read("manifest.json")).unwrap_or_default();
    let mut files = BTreeMap::new();
    let mut manifest = Vec::new();
    for sample in samples() {
        let encoded = codec::encode(&sample).expect("a sample encodes");
        let (family, event) = encoded.event_type.split_once('.').expect("family and name");
        for version in 1..=encoded.schema_version {
            let schema_path = format!("{family}/{event}.v{version}.json");
            let sample_path = format!("{family}/samples/{event}.v{version}.json");
            let newest = version == encoded.schema_version;
            let schema = if newest { pretty(&schemas[&encoded.event_type]) } else { read(&schema_path) };
            let text = if newest {
                pretty(&serde_json::from_str(&encoded.data).expect("JSON"))
            } else {
                read(&sample_path)
            };
            let mut entry = json!({
                "type": encoded.event_type,
                "version": version,
                "schema": {"path": schema_path, "sha256": hex(&sha256_plain(schema.as_bytes()))},
                "sample": {"path": sample_path, "sha256": hex(&sha256_plain(text.as_bytes()))},
            });
            if let Some(release) = schema_freeze::landed(&before, &encoded.event_type, version) {
                entry["released"] = json!(release);
            }
            manifest.push(entry);
            files.insert(schema_path, schema);
            assert!(files.insert(sample_path, text).is_none(), "two samples of {}", encoded.event_type);
        }
    }
    manifest.sort_by_key(|entry| (entry["type"].as_str().map(ToOwned::to_owned), entry["version"].as_i64()));
    let mut manifest = json!({"events": manifest});
    schema_freeze::stamp(&mut manifest, schema_freeze::CHANGELOG);
    files.insert("manifest.json".to_owned(), pretty(&manifest));
    files
}

fn on_disk(folder: &Path, below: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            on_disk(&path, below, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.insert(path.strip_prefix(below).expect("below").to_string_lossy().into_owned());
        }
    }
}

#[test]
fn the_schemas_on_disk_are_those_of_the_types() {
    let files = files();
    let manifest: Value = serde_json::from_str(&files["manifest.json"]).expect("JSON");
    let frozen = schema_freeze::frozen(&manifest);
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        for (path, text) in files.iter().filter(|(path, _)| !frozen.contains(path.as_str())) {
            let path = folder().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
    }
    for (path, text) in &files {
        let what_to_do = if frozen.contains(path.as_str()) {
            "is released and stays: give the event a new version with an upcaster (src/domain/upcast.rs)"
        } else {
            "isn't up to date: run with UPDATE_SCHEMAS=1"
        };
        assert_eq!(&read(path), text, "event-schemas/{path} {what_to_do}");
    }
    let mut found = BTreeSet::new();
    on_disk(&folder(), &folder(), &mut found);
    let wanted: BTreeSet<String> = files.into_keys().collect();
    assert_eq!(found, wanted, "files that no event has, or the reverse");
}

#[test]
fn every_event_has_a_sample() {
    let sampled: BTreeSet<String> =
        samples().iter().map(|event| codec::event_type(event).expect("encodes")).collect();
    let known: BTreeSet<String> = schemas().into_keys().collect();
    assert_eq!(sampled, known);
}

#[test]
fn every_sample_decodes_encodes_to_itself_and_validates() {
    let schemas = schemas();
    for sample in samples() {
        let encoded = codec::encode(&sample).unwrap();
        let decoded = codec::decode(&encoded.event_type, encoded.schema_version, &encoded.data).unwrap();
        assert_eq!(decoded, sample);
        assert_eq!(codec::encode(&decoded).unwrap(), encoded);
        let validator = jsonschema::validator_for(&schemas[&encoded.event_type]).unwrap();
        let data: Value = serde_json::from_str(&encoded.data).unwrap();
        let errors: Vec<String> = validator.iter_errors(&data).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", encoded.event_type);
        let mut more = data.as_object().unwrap().clone();
        more.insert("surprise".to_owned(), json!(1));
        assert!(!validator.is_valid(&Value::Object(more)), "{} takes unknown keys", encoded.event_type);
    }
}

#[test]
fn an_unknown_type_or_version_is_named() {
    for (event_type, version) in
        [("task.danced", 1), ("ghost.seen", 1), ("plain", 1), ("task.queued", 99), ("task.queued", 0)]
    {
        let error = codec::decode(event_type, version, "{}").unwrap_err().to_string();
        assert!(error.contains(event_type), "{error}");
    }
}

#[test]
fn machine_paths_are_marked_private() {
    let schemas = schemas();
    let marked = |event: &str, pointer: &str| {
        assert_eq!(schemas[event].pointer(pointer), Some(&json!(true)), "{event} {pointer}");
    };
    marked("task.prepared", "/properties/work_dir/x-private");
    marked("task.prepared", "/properties/env_root/x-private");
    marked("task.completed", "/$defs/Ending/properties/work_dir/x-private");
    marked("directory.acquired", "/$defs/Place/properties/real_path/x-private");
    marked("daemon.directory_probe_requested", "/properties/path/x-private");
    marked("webhook.created", "/properties/url/x-private");
    marked("webhook.updated", "/properties/url/x-private");
}
