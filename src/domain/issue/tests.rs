//! The rules, given / when / then.
