//! The log, its writer, its read models and its server.

mod append;
mod as_of;
mod embedded;
mod model;
mod proof;
mod readmodels;
mod rebuilds;
mod schemas;
mod side;
mod tamper;
mod writer;
