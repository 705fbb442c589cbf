//! The installation's rules, given / when / then.
