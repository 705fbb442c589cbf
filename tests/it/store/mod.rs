//! The log, its writer, its read models and its server.

mod append;
mod embedded;
mod readmodels;
mod rebuilds;
mod schemas;
mod side;
mod tamper;
mod writer;
