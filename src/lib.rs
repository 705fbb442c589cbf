//! `multica` runs coding agents in real directories, and can say at any later time what happened and why.
//!
//! # The map
//!
//! ```text
//! floor, importable by anyone, downwards
//!   kernel → domain → fold        vocabulary · rules, pure · read models' folds, pure
//!   wire                          what crosses HTTP
//!   process, git                  children, signals, locks, files · the git CLI and git2
//!   seal                          the log's hashes in files and repositories outside the database
//!   webhook                       what goes out to webhooks: addresses, signatures, requests
//! server half                     machine half
//!   store      bytes              agent       how each provider is started and read
//!   readmodel  tables, queries    execenv     env roots, context files, places to work
//!   app        writer, use cases  supervisor  one per task: prepare → run → finalize
//!   web        pages              daemon      claims, orders, supervisors, reports
//!   http       routes, feed       client, cli
//! ```
//!
//! The halves meet only on the floor; `main.rs` and `system` are the only places that see both. The table
//! with every allowed import is `tests/it/law.rs`, and it is a test.
//!
//! # A fact on the server
//!
//! A request reaches [`http`], which finds out who asks and turns the `Idempotency-Key` into a command
//! id. The use case in [`app`] becomes an [`app::decision::Decision`]; the writer loads the streams that it
//! asks for, lets the family's `decide` (say [`domain::task::decide`]) answer with events or a
//! [`domain::Refusal`], folds the inline read models ([`fold`]) and appends all of it as one block of the
//! log ([`store`]). The answer carries the log's position. Followers ([`readmodel`]) fold what is not
//! needed for decisions; the feed sends the event on, with that position as its id.
//!
//! # A task on a machine
//!
//! The [`daemon`] claims a task, sends its receipt, and does nothing before that is accepted. It has the
//! directory inspected, asks to enter it, and forgets the task if it has to queue: the order `promoted`
//! brings it back. With the grant it writes a record and starts a [`supervisor`] in a session of its
//! own, which takes the directory owner's account, locks env root and directory, writes its plan and then
//! the context files ([`execenv`]), runs the agent ([`agent`], [`process`]), empties the process tree,
//! removes what it wrote, lets go of the directory and spools its last report. The daemon relays the spool
//! until every report is accepted. Whatever dies on the way is found by the next start and finished.
//!
//! # Words
//!
//! One word per concept in code, API, CLI, pages and documents.
//!
//! | word | meaning |
//! |---|---|
//! | task | one run of one agent; people see it as `GAME-12#3` |
//! | conversation | what successive tasks share: an issue with an agent |
//! | claim, generation | a daemon's hold on a task; the how-many-eth claim it is |
//! | receipt | the daemon's word that the claim has arrived; nothing is done before |
//! | parked | waits for a directory: no slot, no process |
//! | directory | a real path on one machine: the thing that has a queue |
//! | holder, promote | the task that has the directory; giving it to the next in line |
//! | order, report | server → daemon; daemon → server |
//! | env root | a run's own folder on the machine: journal, spool, logs |
//! | sidecars | context files that a run writes into its work directory and removes again |
//! | position | an event's place in the log, dense from 1 |
//! | seal | the hash of the log's last block, kept outside the database |
//! | webhook, receiver | an address that events are sent to; who is behind it |
//! | delivery, attempt | one event for one webhook, under one id; one try to send it |
//! | dead-lettered | of a delivery: given up after its last attempt |
//! | reservation | a key with one holder: a rule over more than the streams written |
//! | read model, fold | tables computed from events; the pure function that computes them |
//! | moment, as of | a position, or the last one recorded at or before a time; what was there then |
//! | row history | every version of a read model's rows, with the positions between which it counted |

pub mod agent;
pub mod app;
pub mod cli;
pub mod client;
pub mod daemon;
pub mod domain;
pub mod execenv;
pub mod fold;
pub mod git;
pub mod http;
pub mod kernel;
pub mod process;
pub mod readmodel;
pub mod seal;
pub mod store;
pub mod supervisor;
pub mod system;
pub mod web;
pub mod webhook;
pub mod wire;
