//! The task's rules, given / when / then.
