//! Pages, rendered on the server: functions from facts to HTML, and the embedded scripts and styles.
//!
//! Invariants: everything that comes from people, agents or repositories is escaped by `maud`; a page
//! works without script (links and forms), with script its live parts follow the feed; every status has
//! text, not colour alone; no inline script and no third-party script.
//!
//! Not here: where facts come from and who may see them (`http`).

pub mod assets;
pub mod audit;
pub mod directories;
pub mod feed;
pub mod layout;
pub mod projects;
pub mod sign_in;
pub mod task;
pub mod tasks;
pub mod view;
pub mod webhooks;
