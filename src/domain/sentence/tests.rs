//! Sentences a stranger understands.
