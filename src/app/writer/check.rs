//! Checks each event against its JSON Schema before it is written.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::Value;

use crate::domain::codec::Encoded;
use crate::domain::schema_files;
use crate::kernel::digest;
use crate::store::event_types::EventType;

/// Why an event may not stand in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventRefusal {
    /// Its payload isn't what its schema says.
    #[error("{event_type} does not fit its schema at {at}: {reason}")]
    Schema {
        /// The event's type.
        event_type: String,
        /// Where in the payload.
        at: String,
        /// What is wrong there.
        reason: String,
    },
    /// There is no schema for it.
    #[error("{event_type} version {version} has no schema")]
    NoSchema {
        /// The event's type.
        event_type: String,
        /// The schema version.
        version: i16,
    },
    /// Its payload is too large.
    #[error("{event_type} has {bytes} bytes, {limit} are allowed")]
    TooLarge {
        /// The event's type.
        event_type: String,
        /// Its payload's size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// It can't be written as JSON.
    #[error("{event_type} cannot be encoded")]
    Encoding {
        /// The event's type or family.
        event_type: String,
    },
    /// It belongs to another family than its stream.
    #[error("{event_type} does not belong in a stream of family {family}")]
    Family {
        /// The event's type.
        event_type: String,
        /// The stream's family.
        family: &'static str,
    },
}

/// Says whether an event may be written.
pub trait EventCheck: Send + Sync {
    /// Checks the payload.
    ///
    /// # Errors
    /// [`EventRefusal`].
    fn check(&self, event: &Encoded) -> Result<(), EventRefusal>;
}

/// A schema file can't be used.
#[derive(Debug, thiserror::Error)]
#[error("event-schemas/{file} is no JSON Schema: {reason}")]
pub struct BadSchema {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The schemas of this build: `event-schemas/<family>/<event>.v<N>.json`.
pub struct Schemas {
    validators: BTreeMap<(String, i16), Validator>,
}

impl Schemas {
    /// Compiles the schemas that are built in.
    ///
    /// # Errors
    /// [`BadSchema`].
    pub fn embedded() -> Result<Self, BadSchema> {
        let mut validators = BTreeMap::new();
        for file in schema_files::all() {
            let bad = |reason: String| BadSchema { file: file.path.clone(), reason };
            let schema: Value = serde_json::from_str(&file.text).map_err(|error| bad(error.to_string()))?;
            let validator = jsonschema::validator_for(&schema).map_err(|error| bad(error.to_string()))?;
            validators.insert((file.event_type, file.version), validator);
        }
        Ok(Self { validators })
    }

    /// Every event type that is built in, with its schema's digest.
    #[must_use]
    pub fn catalogue() -> Vec<EventType> {
        let of = |file: schema_files::SchemaFile| EventType {
            sha256: digest::sha256_plain(file.text.as_bytes()),
            event_type: file.event_type,
            schema_version: file.version,
        };
        schema_files::all().into_iter().map(of).collect()
    }

    /// Every schema that is built in, by event type and version.
    #[must_use]
    pub fn texts() -> BTreeMap<(String, i16), Value> {
        schema_files::all()
            .into_iter()
            .filter_map(|file| {
                let schema = serde_json::from_str(&file.text).ok()?;
                Some(((file.event_type, file.version), schema))
            })
            .collect()
    }

    /// Compiles schemas given as (event type, version, schema).
    ///
    /// # Errors
    /// [`BadSchema`].
    pub fn of(schemas: Vec<(String, i16, Value)>) -> Result<Self, BadSchema> {
        let mut validators = BTreeMap::new();
        for (event_type, version, schema) in schemas {
            let validator = jsonschema::validator_for(&schema)
                .map_err(|error| BadSchema { file: event_type.clone(), reason: error.to_string() })?;
            validators.insert((event_type, version), validator);
        }
        Ok(Self { validators })
    }
}

impl EventCheck for Schemas {
    fn check(&self, event: &Encoded) -> Result<(), EventRefusal> {
        let key = (event.event_type.clone(), event.schema_version);
        let Some(validator) = self.validators.get(&key) else {
            // A build without any schema files is one of a checkout that has none yet.
            if self.validators.is_empty() {
                return Ok(());
            }
            return Err(EventRefusal::NoSchema { event_type: key.0, version: key.1 });
        };
        let data: Value = serde_json::from_str(&event.data)
            .map_err(|_| EventRefusal::Encoding { event_type: event.event_type.clone() })?;
        validator.validate(&data).map_err(|error| EventRefusal::Schema {
            event_type: event.event_type.clone(),
            at: error.instance_path().to_string(),
            reason: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(data: &str) -> Encoded {
        Encoded { event_type: "project.deleted".to_owned(), schema_version: 1, data: data.to_owned() }
    }

    #[test]
    fn schema_files_are_known_by_family_event_and_version() {
        assert_eq!(schema_files::event_of("task/queued.v2.json"), Some(("task.queued".to_owned(), 2)));
        assert_eq!(schema_files::event_of("manifest.json"), None);
        assert_eq!(schema_files::event_of("samples/task/queued.v1.json"), None);
    }

    #[test]
    fn the_catalogue_is_what_the_manifest_says() {
        let manifest = schema_files::text("manifest.json").expect("a manifest");
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        let events = manifest["events"].as_array().expect("events").iter();
        let said: Vec<_> = events
            .map(|e| (e["type"].clone(), e["version"].clone(), e["schema"]["sha256"].clone()))
            .collect();
        let known: Vec<_> = Schemas::catalogue()
            .iter()
            .map(|e| (e.event_type.clone().into(), e.schema_version.into(), digest::hex(&e.sha256).into()))
            .collect();
        assert_eq!(known, said);
    }

    #[test]
    fn a_payload_that_does_not_fit_is_refused_and_an_event_without_schema_too() {
        let schema = serde_json::json!({"type": "object", "additionalProperties": false});
        let schemas = Schemas::of(vec![("project.deleted".to_owned(), 1, schema)]).unwrap();
        assert_eq!(schemas.check(&event("{}")), Ok(()));
        assert!(matches!(schemas.check(&event(r#"{"x":1}"#)), Err(EventRefusal::Schema { .. })));
        let other = Encoded { event_type: "project.created".to_owned(), ..event("{}") };
        assert!(matches!(schemas.check(&other), Err(EventRefusal::NoSchema { .. })));
    }

    #[test]
    fn every_event_is_checked_against_its_newest_schema_and_a_mismatch_is_named() {
        let schemas = Schemas::embedded().unwrap();
        let samples = crate::domain::schemas::samples();
        for sample in &samples {
            let encoded = crate::domain::codec::encode(sample).unwrap();
            assert_eq!(schemas.check(&encoded), Ok(()), "{}", encoded.event_type);
            let mut data: Value = serde_json::from_str(&encoded.data).unwrap();
            data["surprise"] = 1.into();
            let refused = schemas.check(&Encoded { data: data.to_string(), ..encoded.clone() }).unwrap_err();
            assert!(matches!(refused, EventRefusal::Schema { .. }), "{refused:?}");
            assert!(refused.to_string().starts_with(&encoded.event_type), "{refused}");
        }
        assert!(samples.len() > 40, "only {} samples", samples.len());
    }
}
