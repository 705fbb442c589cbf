//! Takes out of an event's data what only few may see: the fields that its schema marks `x-private`.
//!
//! Invariants: the schema alone decides, whatever the event; a field that may be private is; data without a
//! schema is private as a whole.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::writer::check::Schemas;

/// What stands in the place of a private value.
pub const REDACTED: &str = "[redacted]";

type Known = BTreeMap<(String, i16), Value>;

/// An event's data without its private values.
#[must_use]
pub fn redacted(event_type: &str, schema_version: i16, data: Value) -> Value {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    by_schemas(KNOWN.get_or_init(Schemas::texts), event_type, schema_version, data)
}

fn by_schemas(known: &Known, event_type: &str, schema_version: i16, mut data: Value) -> Value {
    match known.get(&(event_type.to_owned(), schema_version)) {
        Some(schema) => hide(schema, schema, &mut data),
        None => data = REDACTED.into(),
    }
    data
}

fn hide(root: &Value, schema: &Value, data: &mut Value) {
    if schema["x-private"] == Value::Bool(true) {
        if !data.is_null() {
            *data = REDACTED.into();
        }
        return;
    }
    if let Some(definition) = schema["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
        // Data is finite, so a schema that refers to itself ends with it.
        if let Some(inner) = root.pointer(definition) {
            hide(root, inner, data);
        }
    }
    for several in ["allOf", "anyOf", "oneOf"] {
        for inner in schema[several].as_array().into_iter().flatten() {
            hide(root, inner, data);
        }
    }
    match data {
        Value::Object(members) => {
            for (name, value) in members {
                match schema["properties"].get(name) {
                    Some(inner) => hide(root, inner, value),
                    None => hide(root, &schema["additionalProperties"], value),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                match schema["prefixItems"].get(index) {
                    Some(inner) => hide(root, inner, item),
                    None => hide(root, &schema["items"], item),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::codec;
    use crate::domain::schemas::samples;

    #[test]
    fn what_a_schema_marks_is_hidden_wherever_it_lies_and_nothing_else() {
        let schema = json!({
            "properties": {
                "path": {"type": "string", "x-private": true},
                "none": {"type": ["string", "null"], "x-private": true},
                "place": {"$ref": "#/$defs/Place"},
                "result": {"oneOf": [
                    {"properties": {"real_path": {"x-private": true}}}, {"properties": {"code": {}}}
                ]},
                "list": {"items": {"$ref": "#/$defs/Place"}},
                "map": {"additionalProperties": {"$ref": "#/$defs/Place"}},
            },
            "$defs": {"Place": {"properties": {"inner": {"x-private": true}, "label": {}}}},
        });
        let known = BTreeMap::from([(("a.b".to_owned(), 1), schema)]);
        let place = json!({"inner": "/srv", "label": "game"});
        let hidden = json!({"inner": REDACTED, "label": "game"});
        let data = json!({"path": "/home", "none": null, "place": place, "list": [place], "map": {"k": place},
            "result": {"real_path": "/x", "code": 3}, "further": "stays"});
        let expected = json!({"path": REDACTED, "none": null, "place": hidden, "list": [hidden],
            "map": {"k": hidden}, "result": {"real_path": REDACTED, "code": 3}, "further": "stays"});
        assert_eq!(by_schemas(&known, "a.b", 1, data.clone()), expected);
        assert_eq!(by_schemas(&known, "a.b", 2, data), json!(REDACTED));
    }

    #[test]
    fn no_sample_of_any_event_shows_a_private_path() {
        let mut hidden = 0;
        for sample in samples() {
            let encoded = codec::encode(&sample).expect("encodes");
            let data: Value = serde_json::from_str(&encoded.data).expect("JSON");
            let text = redacted(&encoded.event_type, encoded.schema_version, data.clone()).to_string();
            assert!(!text.contains(&format!("\"{REDACTED}\":")), "{text}");
            hidden += text.matches(REDACTED).count();
            for key in ["env_root", "real_path"] {
                let shown = format!("\"{key}\":\"/");
                assert!(!text.contains(&shown), "{} shows {key}: {text}", encoded.event_type);
            }
        }
        assert!(hidden >= 6, "only {hidden} values were hidden");
    }
}
