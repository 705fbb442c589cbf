//! `multica` runs coding agents in real directories, and can say at any later time what happened and why.

pub mod app;
pub mod domain;
pub mod fold;
pub mod http;
pub mod kernel;
pub mod process;
pub mod readmodel;
pub mod store;
pub mod supervisor;
pub mod system;
pub mod wire;
