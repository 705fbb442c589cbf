//! Tests of whole parts, against a real PostgreSQL.

mod http;
mod store;
mod support;
