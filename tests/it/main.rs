//! Tests of whole parts, against a real PostgreSQL.

mod store;
mod support;
