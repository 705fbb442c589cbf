//! The agent's rules, given / when / then.
