//! `multica` runs coding agents in real directories, and can say at any later time what happened and why.

pub mod agent;
pub mod app;
pub mod cli;
pub mod client;
pub mod daemon;
pub mod domain;
pub mod execenv;
pub mod fold;
pub mod git;
pub mod kernel;
pub mod process;
pub mod supervisor;
pub mod wire;
