//! The directory rules, given / when / then.
