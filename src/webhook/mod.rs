//! What goes out to receivers of webhooks: to which addresses, signed how, over which connection.
//!
//! The convention is Standard Webhooks 1.0: headers `webhook-id`, `webhook-timestamp`, `webhook-signature`; a
//! signature is `v1,` and the base64 of HMAC-SHA-256 over `{id}.{timestamp}.{body}`; a secret is shown as `whsec_`
//! and its base64. Receivers check it with any of the convention's libraries.
//!
//! Invariants: a connection leads only to an address that the operator allows, looked at after the name was resolved
//! and never resolved again; redirects aren't followed; no proxy of the environment takes part; TLS is verified; of
//! an answer only its status and `Retry-After` are read: what a stranger's host says is shown to nobody.
//!
//! Not here: what is delivered, and when (`app/webhooks`).

pub mod address;
pub mod send;
pub mod sign;
