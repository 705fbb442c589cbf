//! What has to be known of a JSON value before it is kept.

use serde_json::Value;

/// Whether arrays and objects lie in each other more than `most` deep; a plain value has depth 0.
#[must_use]
pub fn is_deeper_than(value: &Value, most: usize) -> bool {
    let within = |inner: &Value| match most.checked_sub(1) {
        Some(left) => is_deeper_than(inner, left),
        None => true,
    };
    match value {
        Value::Array(items) => most == 0 || items.iter().any(within),
        Value::Object(members) => most == 0 || members.values().any(within),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn depth_counts_arrays_and_objects_alike() {
        for (value, depth) in
            [(json!(1), 0), (json!([]), 1), (json!({"a": 1}), 1), (json!([1, {"a": [2]}, []]), 3)]
        {
            assert!(!is_deeper_than(&value, depth), "{value}");
            assert!(depth == 0 || is_deeper_than(&value, depth - 1), "{value}");
        }
    }
}
