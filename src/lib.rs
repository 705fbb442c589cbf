//! `multica` runs coding agents in real directories, and can say at any later time what happened and why.

pub mod agent;
pub mod app;
pub mod domain;
pub mod fold;
pub mod kernel;
