//! The workspace's rules, given / when / then.
