//! `multica events`: what stands in the log, for whoever reads it.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::cli::error::{CliError, UsageError};
use crate::cli::output::line;
use crate::cli::session::Session;
use crate::domain::codec;
use crate::domain::schema_files::{self, SchemaFile};

/// `multica events …`.
#[derive(Debug, Subcommand)]
pub enum EventsVerb {
    /// The JSON Schema of an event's payload; without a type, all types. Asks no server.
    Schema {
        /// The event's type, also of an older version: task.queued, task.queued@1.
        #[arg(value_name = "TYPE[@VERSION]")]
        name: Option<String>,
    },
}

pub fn run(session: &Session, verb: EventsVerb) -> Result<(), CliError> {
    let EventsVerb::Schema { name } = verb;
    let all = schema_files::all();
    match name {
        None => list(session, &all),
        Some(name) => one(&all, &name),
    }
}

fn parsed(file: &SchemaFile) -> Value {
    serde_json::from_str(&file.text).unwrap_or_default()
}

fn list(session: &Session, all: &[SchemaFile]) -> Result<(), CliError> {
    let said = |file: &SchemaFile| parsed(file)["description"].as_str().unwrap_or_default().to_owned();
    let rows = all.iter().map(|file| vec![file.event_type.clone(), file.version.to_string(), said(file)]);
    let json = all.iter().map(|file| {
        json!({"type": file.event_type, "version": file.version, "description": said(file),
            "newest": file.version == codec::schema_version(&file.event_type)})
    });
    session.out.list(
        &Value::Array(json.collect()),
        &["type", "version", "what happened"],
        rows.collect(),
        "This build has no event schemas.",
    )
}

/// A schema is JSON whatever was asked for.
fn one(all: &[SchemaFile], name: &str) -> Result<(), CliError> {
    let (event_type, version) = match name.split_once('@') {
        None => (name, codec::schema_version(name).to_string()),
        Some((event_type, version)) => (event_type, version.trim_start_matches('v').to_owned()),
    };
    let of_type = |file: &&SchemaFile| file.event_type == event_type;
    match all.iter().filter(of_type).find(|file| file.version.to_string() == version) {
        Some(file) => line(file.text.trim_end()),
        None => Err(CliError::Usage(UsageError::EventType {
            name: name.to_owned(),
            versions: all.iter().filter(of_type).map(|file| file.version.to_string()).collect(),
        })),
    }
}
