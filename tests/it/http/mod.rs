//! The HTTP API, asked as its clients ask it: raw requests against a served database of one's own.

mod agents;
mod as_of;
mod audit;
mod audit_export;
mod bad_input;
mod client;
mod connections;
mod damage;
mod edges;
mod every_route;
mod feed;
mod life;
mod odd_values;
mod pairs;
mod parking;
mod projections;
mod queue;
mod readers;
mod replay;
mod seals;
mod shortage;
mod silence;
mod speakers;
mod stranded;
mod tokens;
mod what_if;
