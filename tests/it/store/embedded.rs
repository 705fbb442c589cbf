//! The append as a statement.
