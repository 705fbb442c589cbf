pub mod event;

pub use event::*;
