//! What is sent of an event.
//!
//! Invariants: an event's body is the same each time it is sent; values that its schema marks `x-private` and texts
//! (which aren't in events, only their ids are) don't leave: nothing that is erased here stays outside.

use serde_json::{Value, json};

use crate::app::private;
use crate::store::raw::RawEvent;

/// The body of an event's delivery; none when its data can't be read.
#[must_use]
pub fn of_event(event: &RawEvent) -> Option<Vec<u8>> {
    let data: Value = serde_json::from_str(&event.data).ok()?;
    let data = private::redacted(&event.event_type, event.schema_version, data);
    let time = |at: jiff::Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let body = json!({
        "type": event.event_type,
        "timestamp": time(event.recorded_at),
        "data": {
            "position": event.seq,
            "workspace": event.workspace,
            "stream": {"kind": event.family, "id": event.stream, "version": event.version},
            "event_id": event.event_id,
            "schema_version": event.schema_version,
            "actor": {"kind": event.actor_type, "id": event.actor_id, "via": event.actor_via},
            "correlation": event.correlation,
            "causation": event.causation,
            "occurred_at": time(event.occurred_at),
            "recorded_at": time(event.recorded_at),
            "data": data,
        },
    });
    serde_json::to_vec(&body).ok()
}

/// The body of a test.
#[must_use]
pub fn of_test(webhook: &str, at: jiff::Timestamp) -> Vec<u8> {
    let at = at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    json!({"type": "webhook.test", "timestamp": at, "data": {"webhook": webhook}}).to_string().into_bytes()
}
