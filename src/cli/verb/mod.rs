//! The verbs, a file for each group.

pub mod account;
pub mod agent;
pub mod audit;
mod audit_file;
pub mod daemon;
pub mod directory;
pub mod doctor;
pub mod erase;
pub mod events;
pub mod issue;
pub mod manual;
pub mod project;
pub mod projections;
pub mod replay;
pub mod resource;
pub mod retention;
pub mod task;
pub mod verify;
pub mod webhook;
pub mod what_if;
