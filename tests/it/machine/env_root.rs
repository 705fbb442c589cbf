//! env_root
