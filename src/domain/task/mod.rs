pub mod event;
pub mod failure;

pub use event::*;
