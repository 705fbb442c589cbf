//! A webhook: an address of somebody else's to which a workspace's events are delivered.
//!
//! ```text
//!           create     update       enable   disable   rotate   record dead  retry, replay  record test  remove
//! none      created    ✗ not found  ✗        ✗         ✗        –            ✗              ✗            ✗
//! on        – / ✗      updated / –  –        disabled  rotated  dead / –     asked / ✗      tested       removed
//! off       ✗ exists   updated / –  enabled  –         rotated  dead / –     asked / ✗      tested       removed
//! removed   ✗ exists   ✗ not found  ✗        –         ✗        –            ✗              –            –
//! ```
//! (– nothing happened; ✗ refused; dead: dead-lettered, and disabled besides when that are too many.)
//!
//! Invariants: whether an event is delivered follows from what the webhook was when the event happened, so from
//! the log alone ([`terms`]); events of webhooks themselves are never delivered, or two that fail would tell each
//! other of it for ever; a secret is nowhere but in the table of secrets, events hold its id.
//!
//! Not here: unique names (`fold/reservations`), deliveries and their attempts (`app/webhooks`), addresses and
//! signatures (`webhook`).

pub mod command;
pub mod decide;
pub mod delivery;
pub mod event;
pub mod evolve;
pub mod state;
pub mod terms;

#[cfg(test)]
pub(crate) mod tests;

pub use command::WebhookCommand;
pub use delivery::{Outcome, Problem};
pub use event::*;
pub use state::Webhook;
pub use terms::Terms;
