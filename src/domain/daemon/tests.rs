//! The daemon's rules, given / when / then.
