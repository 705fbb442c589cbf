//! What has been released stays as it is.
//!
//! A schema may change until the first release that `CHANGELOG.md` has a heading for. From then on the
//! manifest says of each schema and sample in which release it landed, and the release's section of the
//! changelog holds one digest over all that had landed by then: neither can be forgotten, for a heading
//! without its digest fails here, and neither file can be changed without the other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::upcast::{self, UPCASTERS, Upcaster};
use super::{codec, schema_files, schemas};
use crate::kernel::digest::{hex, sha256_plain};

pub(super) const CHANGELOG: &str = include_str!("../../CHANGELOG.md");
const SEAL: &str = "Event schemas: ";

/// A release's version and the digest in its section.
#[derive(Debug, PartialEq)]
struct Release {
    version: String,
    seal: Option<String>,
}

/// The changelog's releases, the newest first.
fn releases(changelog: &str) -> Vec<Release> {
    let mut found: Vec<Release> = Vec::new();
    let mut within = false;
    for line in changelog.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let word = heading.split_whitespace().next().unwrap_or_default();
            let version = word.trim_matches(|c: char| "[]v".contains(c)).to_owned();
            within = version.starts_with(|c: char| c.is_ascii_digit());
            if within {
                found.push(Release { version, seal: None });
            }
        } else if let (true, Some((_, seal)), Some(release)) =
            (within, line.split_once(SEAL), found.last_mut())
        {
            release.seal = Some(seal.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned());
        }
    }
    found
}

fn entries(manifest: &Value) -> impl Iterator<Item = &Value> {
    manifest["events"].as_array().into_iter().flatten()
}

/// The release in which a version landed.
pub(super) fn landed(manifest: &Value, event_type: &str, version: i16) -> Option<String> {
    let entry = entries(manifest).find(|e| e["type"] == event_type && e["version"] == version)?;
    entry["released"].as_str().map(ToOwned::to_owned)
}

/// Says of everything that hasn't landed yet that it does with the release that is being made.
pub(super) fn stamp(manifest: &mut Value, changelog: &str) {
    let Some(Release { version, seal: None }) = releases(changelog).into_iter().next() else { return };
    for entry in manifest["events"].as_array_mut().into_iter().flatten() {
        if entry["released"].is_null() {
            entry["released"] = json!(version);
        }
    }
}

/// The files that may not change any more.
pub(super) fn frozen(manifest: &Value) -> BTreeSet<&str> {
    entries(manifest)
        .filter(|entry| !entry["released"].is_null())
        .flat_map(|entry| [entry["schema"]["path"].as_str(), entry["sample"]["path"].as_str()])
        .flatten()
        .collect()
}

/// The digest of all that had landed with these releases.
fn seal(manifest: &Value, releases: &[Release]) -> String {
    let lines: BTreeSet<String> = entries(manifest)
        .filter(|entry| releases.iter().any(|release| entry["released"] == release.version.as_str()))
        .map(|entry| {
            format!("{} {} {} {}\n", entry["type"], entry["version"], entry["schema"], entry["sample"])
        })
        .collect();
    hex(&sha256_plain(lines.into_iter().collect::<String>().as_bytes()))
}

/// Everything that breaks the freeze.
fn broken(changelog: &str, manifest: &Value, text: impl Fn(&str) -> String) -> Vec<String> {
    let releases = releases(changelog);
    let mut broken = Vec::new();
    for (index, release) in releases.iter().enumerate() {
        let (version, wanted) = (&release.version, seal(manifest, &releases[index..]));
        if release.seal.as_deref() != Some(wanted.as_str()) {
            broken.push(format!(
                "CHANGELOG.md, {version}: what landed by then isn't `{SEAL}{wanted}`. If this release is being \
                 made, run with UPDATE_SCHEMAS=1 and put the line that is named then under its heading"
            ));
        }
    }
    for entry in entries(manifest).filter(|entry| !entry["released"].is_null()) {
        if !releases.iter().any(|release| entry["released"] == release.version.as_str()) {
            broken.push(format!("{} landed in {}, which is no release", entry["type"], entry["released"]));
        }
        for file in [&entry["schema"], &entry["sample"]] {
            let path = file["path"].as_str().unwrap_or_default();
            if file["sha256"] != hex(&sha256_plain(text(path).as_bytes())) {
                broken.push(format!("event-schemas/{path} has changed since its release"));
            }
        }
    }
    broken
}

/// What a version may not do to the one before: readers of both would take one thing for another.
fn forbidden(before: &Value, after: &Value, upcast: bool) -> Vec<String> {
    let properties = |schema: &Value| -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        let mut part = |prefix: &str, of: &Value| {
            for (name, property) in of["properties"].as_object().into_iter().flatten() {
                all.insert(format!("{prefix}{name}"), property.clone());
            }
        };
        part("", schema);
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            part(&format!("{name}."), definition);
        }
        all
    };
    let required = |schema: &Value| -> BTreeSet<String> {
        schema["required"].as_array().into_iter().flatten().map(|name| format!("{name}")).collect()
    };
    let (old, new) = (properties(before), properties(after));
    let mut found = Vec::new();
    for (name, was) in &old {
        match new.get(name) {
            None if upcast => {}
            None => found.push(format!("`{name}` is gone")),
            Some(is) if is["type"] != was["type"] || is["$ref"] != was["$ref"] => {
                found.push(format!("`{name}` is something else under the same name"));
            }
            Some(is) if was["x-private"] == true && is["x-private"] != true => {
                found.push(format!("`{name}` is private no more"));
            }
            Some(_) => {}
        }
    }
    if !upcast {
        let newly: Vec<String> = required(after).difference(&required(before)).cloned().collect();
        found.extend(newly.into_iter().map(|name| format!("{name} is required now")));
    }
    found
}

#[test]
fn what_was_released_stays_as_it_is() {
    let manifest: Value = serde_json::from_str(&schemas::read("manifest.json")).expect("JSON");
    assert_eq!(broken(CHANGELOG, &manifest, schemas::read), Vec::<String>::new());
}

#[test]
fn after_a_release_no_landed_file_changes_and_none_is_forgotten() {
    let sha = |text: &str| hex(&sha256_plain(text.as_bytes()));
    let file = |path: &str| if path == "a" { "schema".to_owned() } else { "sample".to_owned() };
    let entry = json!({"type": "task.queued", "version": 1, "schema": {"path": "a", "sha256": sha("schema")},
        "sample": {"path": "b", "sha256": sha("sample")}});
    let mut manifest = json!({"events": [entry]});
    let before = "# Changelog\n\n## Unreleased\n\n- news\n";
    stamp(&mut manifest, before);
    assert!(frozen(&manifest).is_empty(), "until a release all may change");
    assert!(broken(before, &manifest, |_| "anything".to_owned()).is_empty());
    // A release is being made: its heading alone is not enough.
    let made = format!("{before}\n## 0.1.0 (2026-12-24)\n\n- news\n");
    assert!(broken(&made, &manifest, file)[0].contains("0.1.0"));
    stamp(&mut manifest, &made);
    assert_eq!(frozen(&manifest), BTreeSet::from(["a", "b"]));
    let sealed = format!("{made}\n{SEAL}{}\n", seal(&manifest, &releases(&made)));
    assert!(broken(&sealed, &manifest, file).is_empty(), "{:?}", broken(&sealed, &manifest, file));
    // A file, or a file with its digest, or the mark, or an entry taken out: each is found.
    assert!(broken(&sealed, &manifest, |_| "other".to_owned())[0].contains("event-schemas/a has changed"));
    let mut other = manifest.clone();
    other["events"][0]["schema"]["sha256"] = json!(sha("other"));
    assert!(
        !broken(&sealed, &other, |path| if path == "a" { "other".to_owned() } else { file(path) }).is_empty()
    );
    let mut unmarked = manifest.clone();
    unmarked["events"][0]["released"] = Value::Null;
    assert!(!broken(&sealed, &unmarked, file).is_empty());
    assert!(!broken(&sealed, &json!({"events": []}), file).is_empty());
    // What comes after it is free until the next release, and changes nothing of this one.
    let mut more = manifest.clone();
    let new = json!({"type": "task.queued", "version": 2, "schema": {"path": "c", "sha256": "x"},
        "sample": {"path": "d", "sha256": "x"}});
    more["events"].as_array_mut().unwrap().push(new);
    stamp(&mut more, &sealed);
    assert!(broken(&sealed, &more, file).is_empty());
    assert_eq!(frozen(&more), BTreeSet::from(["a", "b"]));
}

#[test]
fn a_version_that_readers_would_misread_is_found() {
    let before = json!({"properties": {"path": {"type": "string", "x-private": true}, "n": {"type": "integer"}},
        "required": ["n"]});
    let mut after = before.clone();
    assert!(forbidden(&before, &after, false).is_empty());
    after["properties"]["more"] = json!({"type": "string"});
    assert!(forbidden(&before, &after, false).is_empty(), "an optional one more is no harm");
    after["required"] = json!(["n", "more"]);
    assert_eq!(forbidden(&before, &after, false).len(), 1);
    assert!(forbidden(&before, &after, true).is_empty(), "an upcaster fills it in");
    after["properties"]["n"] = json!({"type": "string"});
    after["properties"]["path"] = json!({"type": "string"});
    assert_eq!(forbidden(&before, &after, true).len(), 2);
    after["properties"].as_object_mut().unwrap().remove("n");
    assert!(forbidden(&before, &after, false).iter().any(|found| found.contains("`n` is gone")));
}

#[test]
fn no_version_does_to_the_one_before_what_is_forbidden() {
    let all: BTreeMap<(String, i16), Value> = schema_files::all()
        .into_iter()
        .map(|file| ((file.event_type, file.version), serde_json::from_str(&file.text).expect("JSON")))
        .collect();
    for ((event_type, version), after) in &all {
        if let Some(before) = all.get(&(event_type.clone(), version - 1)) {
            let found = forbidden(before, after, true);
            assert!(found.is_empty(), "{event_type} version {version}: {found:?}");
        }
    }
}

#[test]
fn every_sample_of_every_version_decodes_for_ever() {
    let manifest: Value = serde_json::from_str(&schemas::read("manifest.json")).expect("JSON");
    let schema = |event_type: &str, version: i16| -> Value {
        let file =
            schema_files::all().into_iter().find(|f| f.event_type == event_type && f.version == version);
        serde_json::from_str(&file.expect("a schema").text).expect("JSON")
    };
    let mut seen = 0;
    for entry in entries(&manifest) {
        let event_type = entry["type"].as_str().expect("a type");
        let version = i16::try_from(entry["version"].as_i64().expect("a version")).expect("small");
        let text = schemas::read(entry["sample"]["path"].as_str().expect("a path"));
        let data: Value = serde_json::from_str(&text).expect("JSON");
        let own = jsonschema::validator_for(&schema(event_type, version)).unwrap();
        assert!(own.is_valid(&data), "{event_type} version {version} isn't of its own schema");
        let event = codec::decode(event_type, version, &text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let today = codec::encode(&event).unwrap();
        assert_eq!(today.schema_version, codec::schema_version(event_type));
        let newest = jsonschema::validator_for(&schema(event_type, today.schema_version)).unwrap();
        assert!(
            newest.is_valid(&serde_json::from_str(&today.data).unwrap()),
            "{event_type} {version}, upcast"
        );
        seen += 1;
    }
    assert!(seen > 40, "only {seen} samples were found");
}

#[test]
fn upcasters_form_a_chain_without_a_gap_for_events_that_there_are() {
    let known: BTreeSet<String> = schema_files::all().into_iter().map(|file| file.event_type).collect();
    let mut next: BTreeMap<&str, i16> = BTreeMap::new();
    for Upcaster { event_type, from, .. } in UPCASTERS {
        let expected = next.entry(event_type).or_insert(1);
        assert_eq!(from, expected, "{event_type}");
        *expected += 1;
        assert!(known.contains(*event_type), "{event_type} is no event");
    }
}

/// `project.updated` as if it had had two versions before today's: `state`, then `stage`, now `status`.
const OLDER: &[Upcaster] = &[
    Upcaster { event_type: "project.updated", from: 1, up: |data| renamed(data, "state", "stage") },
    Upcaster { event_type: "project.updated", from: 2, up: |data| renamed(data, "stage", "status") },
];

fn renamed(mut data: Value, from: &str, to: &str) -> Value {
    if let Some(value) = data.as_object_mut().and_then(|fields| fields.remove(from)) {
        data[to] = value;
    }
    data
}

#[test]
fn older_versions_go_up_the_chain_and_newer_ones_are_unknown() {
    assert_eq!(upcast::newest(OLDER, "project.updated"), 3);
    assert_eq!(upcast::newest(OLDER, "project.created"), 1);
    let decoded: Vec<_> = [(1, "state"), (2, "stage"), (3, "status")]
        .map(|(version, key)| {
            let data = format!(r#"{{"{key}":"paused"}}"#);
            codec::decode_by(OLDER, "project.updated", version, &data).unwrap()
        })
        .into();
    let today: Value = serde_json::from_str(&codec::encode(&decoded[0]).unwrap().data).unwrap();
    assert_eq!(today["status"], "paused");
    assert!(decoded.iter().all(|event| *event == decoded[0]));
    let error = codec::decode_by(OLDER, "project.updated", 4, "{}").unwrap_err();
    assert!(matches!(error, codec::CodecError::Unknown { schema_version: 4, .. }), "{error}");
}
