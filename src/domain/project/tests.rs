//! The project's rules, given / when / then.
