//! Every duration, count and size that bounds something, each with its reason, in one value.
//!
//! Processes started by tests get small ones through `MULTICA_LIMITS` (JSON of the fields to change);
//! nothing else sets them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A duration that is milliseconds in its serialised form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// The same span as a [`Duration`].
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

const fn seconds(n: u64) -> Millis {
    Millis(n * 1_000)
}

const fn minutes(n: u64) -> Millis {
    Millis(n * 60_000)
}

/// The bounds in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// A claim whose receipt has not come by then (database clock) goes back in the queue.
    pub claim_receipt: Millis,
    /// How long a claim request waits for work before it answers "none".
    pub claim_poll: Millis,
    /// How long a request for orders waits before it answers "none".
    pub order_poll: Millis,
    /// Between two heartbeats of a daemon.
    pub heartbeat: Millis,
    /// A daemon without heartbeat for this long is shown as unreachable.
    pub unreachable: Millis,
    /// A daemon without heartbeat for this long has lost its running tasks.
    pub reconnect_grace: Millis,
    /// A task that nobody claimed for this long fails `queued_expired`.
    pub queued_ttl: Millis,
    /// Between two rounds of the server's timed duties.
    pub sweep: Millis,
    /// A clean stop waits this long for running tasks.
    pub drain: Millis,
    /// After TERM a process tree has this long before KILL.
    pub kill_grace: Millis,
    /// The server has this long to hear that a daemon leaves; its next start says the rest.
    pub farewell: Millis,
    /// A daemon registers with the providers found by then; what is found later is added.
    pub first_word: Millis,
    /// A provider's program that doesn't say its version by then is taken without one.
    pub version_wait: Millis,
    /// More of a provider's answer isn't read, bytes.
    pub version_bytes: u64,
    /// A start in the background waits this long to hear that the server has taken the daemon in.
    pub introduction: Millis,
    /// A copy of the executable that nobody uses is removed once it is this old: a younger one may belong to
    /// a daemon that is just starting, or that this process can't see.
    pub old_executable: Millis,
    /// A daemon that lives has written down how it is reached by then.
    pub settle_in: Millis,
    /// Between two looks at a file or a lock that another process changes.
    pub look: Millis,
    /// Between two tries to reach a supervisor that has just been started.
    pub knock: Millis,
    /// Recoveries that end without having got anywhere, before a run that never began is given up.
    pub recoveries: u32,
    /// A local caller of the daemon's port that takes longer to ask is no command line of ours.
    pub local_request: Millis,
    /// `up` waits this long for another process to let go of profile and data directory: one that was killed
    /// holds them for some 100 ms more.
    pub own_lock: Millis,
    /// The demo comes to its end within this time, or says that it didn't.
    pub demo: Millis,
    /// A person who waits for longer than this is shown that something goes on.
    pub patience: Millis,
    /// Largest request to the daemon's port, bytes: more than any of ours.
    pub local_request_bytes: u64,
    /// A granted task that meets a foreign lock waits this long before it is parked.
    pub lock_wait: Millis,
    /// Between two tries of a waiter for a foreign lock.
    pub lock_retry: Millis,
    /// Everything between the receipt and the agent's start, waits for directories aside.
    pub prepare: Millis,
    /// Getting ready for longer than this is unusual, and said so: a directory may be on a file system that
    /// doesn't answer.
    pub stalled: Millis,
    /// A queued task that waits less is never called stranded.
    pub stranded_queued: Millis,
    /// The same of a task that is being made ready.
    pub stranded_dispatched: Millis,
    /// The same of a task that waits for a directory.
    pub stranded_parked: Millis,
    /// The same of a task that runs.
    pub stranded_running: Millis,
    /// Ended tasks that tell what is usual: the last so many of a workspace.
    pub stranded_sample: u32,
    /// An agent that says nothing for this long is stopped (`idle_watchdog`).
    pub idle_watchdog: Millis,
    /// One tool call may stay open this long.
    pub tool_watchdog: Millis,
    /// Between two flushes of transcript messages.
    pub transcript_flush: Millis,
    /// The word of a run's end waits this long for its transcript to be told before it; what is left of the
    /// transcript follows after it. Well under the second within which the next task gets the directory.
    pub transcript_drain: Millis,
    /// First and longest wait between two tries of a report.
    pub report_retry_first: Millis,
    /// See `report_retry_first`.
    pub report_retry_max: Millis,
    /// Any single HTTP call of the client, and any answer of the server but those named next.
    pub http_timeout: Millis,
    /// An answer for which the whole log is read: a long one takes minutes.
    pub slow_request: Millis,
    /// The server closes a connection that hasn't brought a request's whole head by then: one that trickles, or
    /// asks nothing, would hold a file descriptor for ever.
    pub header_read: Millis,
    /// A request's whole body comes within this time, or it is answered with 408.
    pub body_read: Millis,
    /// The client keeps a connection that it doesn't use for this long: less than the server does, so that no
    /// request meets one that is being closed.
    pub connection_idle: Millis,
    /// First and longest wait between two looks at what can't be done because the log is damaged there.
    pub damaged_retry_first: Millis,
    /// See `damaged_retry_first`.
    pub damaged_retry_max: Millis,
    /// A server that can accept no connection tries again after this.
    pub accept_pause: Millis,
    /// Between two searches for transcripts that are older than the installation keeps them.
    pub retention_every: Millis,
    /// Any single database statement.
    pub statement_timeout: Millis,
    /// How long a command waits for a database that doesn't answer before it is told to come back (503).
    pub database_wait: Millis,
    /// Connections of one server's pool.
    pub database_connections: usize,
    /// A connection of the pool is used no longer: one that began while the database was read-only, or led to
    /// another machine, stays so.
    pub connection_age: Millis,
    /// The head of the log is read this often where no notification comes.
    pub head_poll: Millis,
    /// Between two notifications to other servers: each commit of one waits for all others.
    pub notify_pause: Millis,
    /// Between two looks of the row histories: what happens in between is folded at once, and only who asks for
    /// the past waits for it.
    pub history_pause: Millis,
    /// The longest text that says a moment (`?as_of=`): a time zone's name fits in it.
    pub moment_bytes: usize,
    /// A loop's holder that doesn't renew its lease for this long has lost it.
    pub lease: Millis,
    /// Events that a follower folds in one transaction.
    pub follower_page: i64,
    /// Events that a rebuild folds in one transaction: larger pages need fewer round trips, and memory for their rows.
    pub rebuild_page: i64,
    /// A rebuild takes the place of its read model once so few events are missing: they are folded while appends
    /// wait.
    pub rebuild_lag: i64,
    /// Between two looks at how far a rebuild is.
    pub progress_look: Millis,
    /// Streams that the writer keeps in memory.
    pub cached_streams: usize,
    /// Results of commands that the writer keeps in memory.
    pub cached_results: usize,
    /// Open requests and streams have this long after a stop was asked for.
    pub server_stop: Millis,
    /// How long an attach waits for its daemon's look at the directory.
    pub probe_wait: Millis,
    /// A session of the web UI ends after this long.
    pub session: Millis,
    /// An idle feed connection gets a position frame this often.
    pub feed_keep_alive: Millis,
    /// A sign-in link opens a session once, within this time.
    pub sign_in_link: Millis,
    /// Stored results of commands are pruned after this long.
    pub command_results: Millis,
    /// A reader that asks for a position waits this long for it.
    pub at_least_wait: Millis,
    /// A reader that names no position waits this long for what was written before it asked.
    pub settle: Millis,
    /// Tasks that one daemon runs at once.
    pub daemon_slots: u32,
    /// Tasks that one agent runs at once, unless it says otherwise.
    pub agent_slots: u32,
    /// Commands decided and written together.
    pub batch_commands: usize,
    /// Commands that may wait for the writer before callers are told to come back (503).
    pub writer_queue: usize,
    /// Times a command is decided again after losing a race.
    pub conflict_retries: u32,
    /// Largest event payload, bytes.
    pub event_bytes: usize,
    /// After this long with something new the log is sealed: what a forger may rewrite unseen.
    pub seal_every: Millis,
    /// The same in positions, for a busy log.
    pub seal_events: i64,
    /// A seal that could not be put at its place is tried again after this long.
    pub seal_retry: Millis,
    /// Largest file of seals, bytes: a seal an hour takes two megabytes a year.
    pub seals_bytes: u64,
    /// Seals that one verification holds blocks against: the newest, which the chain ties to the older ones.
    pub verified_seals: usize,
    /// Sentences that the event of a verification keeps; the answer has all, the event their number.
    pub verified_findings: usize,
    /// A webhook's receiver has answered by then, name, connection and TLS included: within what its convention
    /// recommends.
    pub webhook_timeout: Millis,
    /// After each failed delivery the next attempt waits so long, at least; after the last it is given up. As the
    /// convention's example has it: three days.
    pub webhook_retries: Vec<Millis>,
    /// So many percent of a wait are added by chance, so that those that failed together don't come together again.
    pub webhook_jitter_percent: u32,
    /// A receiver that asks to be left alone is for as long, at most.
    pub webhook_retry_after: Millis,
    /// Deliveries to one webhook at once: one that hangs holds back no other.
    pub webhook_at_once: usize,
    /// Events looked at at once for one webhook.
    pub webhook_page: i64,
    /// Deliveries of one webhook that wait, before no more are made: the log keeps what comes after.
    pub webhook_waiting: i64,
    /// So many deliveries that were given up switch a webhook off: it has no receiver any more.
    pub webhook_dead: usize,
    /// What was delivered is remembered for so long.
    pub webhook_kept: Millis,
    /// Between two looks for deliveries: what happens in between goes together.
    pub webhook_pause: Millis,
    /// After a rotation deliveries are signed with the old secret too for so long, unless said otherwise.
    pub webhook_overlap: Millis,
    /// The same at most: an old secret that signs for ever was not rotated.
    pub webhook_overlap_most: Millis,
    /// Longest address of a webhook, bytes.
    pub webhook_url_bytes: usize,
    /// Types that a webhook names at most.
    pub webhook_types: usize,
    /// Webhooks of one workspace: each reads the whole log.
    pub webhooks: usize,
    /// Deliveries of each webhook on the webhooks' page.
    pub page_deliveries: u32,
    /// Rows of one read model that a comparison with the log names; of more it says that there are.
    pub compared_rows: usize,
    /// Largest request body, bytes.
    pub body_bytes: usize,
    /// Deepest nesting of a request's JSON: what keeps it or passes it on wraps it a few times more, and every
    /// reader's parser gives up at 128.
    pub json_depth: usize,
    /// Largest piece of free text (a description, a comment), bytes.
    pub content_bytes: usize,
    /// Longest line read from an agent, bytes; the rest of a longer one is dropped and said so.
    pub agent_line_bytes: usize,
    /// Longest tool output kept in a transcript message, bytes.
    pub tool_output_bytes: usize,
    /// Longest text or tool input kept in a transcript message, bytes: a page can still show it whole.
    pub transcript_message_bytes: usize,
    /// Tool calls of one run watched at once; a confused agent's further ones aren't, so memory is bounded.
    pub open_tool_calls: usize,
    /// Largest transcript of one task, bytes.
    pub transcript_bytes: u64,
    /// Output kept of a `command` agent, bytes (its tail).
    pub output_tail_bytes: usize,
    /// Error output kept of a `command` agent, bytes (its tail).
    pub stderr_tail_bytes: usize,
    /// Largest spool of one run, bytes.
    pub spool_bytes: u64,
    /// Between two looks at a process tree that is being emptied.
    pub tree_pause: Millis,
    /// A single call of git; a status of a huge work tree is given up then, which costs only the facts.
    pub git_timeout: Millis,
    /// Changed paths counted; more are only said to be more.
    pub git_changed_paths: u32,
    /// Largest brief file of a person that gets a managed block, bytes.
    pub brief_file_bytes: u64,
    /// Largest single text quoted in a prompt or brief (a description, a comment), bytes.
    pub quoted_bytes: usize,
    /// Largest frame between daemon and supervisor, bytes.
    pub frame_bytes: usize,
    /// Reports in one frame; messages between two writes to the disk.
    pub frame_batch: usize,
    /// Transcript messages in one frame and one request: few requests keep up with an agent that prints
    /// thousands of lines a second.
    pub transcript_batch: usize,
    /// Largest text of one transcript message, bytes: escaped, it must still fit a request.
    pub message_bytes: usize,
    /// Longest title, characters: it stands in lists and sentences.
    pub title_characters: usize,
    /// Entries of a list, where the caller names no number.
    pub list_usual: u32,
    /// Entries of a list at most.
    pub list_most: u32,
    /// Entries on one page of the audit trail, where the caller names no number.
    pub audit_usual: u32,
    /// Entries of the audit trail that are read at once by a text search or an export: memory stays flat.
    pub audit_window: i64,
    /// So many of those one text search looks through before it says how far back it got.
    pub audit_windows: u32,
    /// Longest text that the audit trail is searched for, bytes.
    pub audit_words_bytes: usize,
    /// Transcript messages in one answer.
    pub transcript_page: i64,
    /// Transcripts that one step of a search for old ones takes: their names still fit an event.
    pub retention_batch: i64,
    /// Messages of a transcript that is gone that one statement deletes, and statements in one round of timed
    /// duties.
    pub purge_messages: i32,
    /// See `purge_messages`.
    pub purge_steps: u32,
    /// Texts that one append erases, and their bytes: it holds the log's head while it does.
    pub erased_texts: usize,
    /// See `erased_texts`.
    pub erased_bytes: u64,
    /// Entries on one page of the feed.
    pub page_entries: i64,
    /// Transcript messages on a task's page: the newest ones.
    pub page_messages: usize,
    /// Lines of a run's last words that are shown where only their gist is wanted.
    pub excerpt_lines: usize,
    /// Longest of those lines, bytes.
    pub excerpt_line_bytes: usize,
    /// Longest prompt passed as an argument, bytes (the kernel's limit for one argument).
    pub prompt_argument_bytes: usize,
    /// A log file that has grown so far, bytes, is put aside for a fresh one.
    pub log_file_bytes: u64,
    /// Files of one log, the one being written included; the oldest go.
    pub log_files: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            claim_receipt: seconds(10),
            claim_poll: seconds(25),
            order_poll: seconds(25),
            heartbeat: seconds(15),
            unreachable: seconds(60),
            reconnect_grace: minutes(15),
            queued_ttl: minutes(120),
            sweep: seconds(1),
            drain: seconds(30),
            kill_grace: seconds(5),
            farewell: seconds(5),
            first_word: Millis(1_500),
            version_wait: seconds(10),
            version_bytes: 64 * 1_024,
            introduction: seconds(5),
            old_executable: minutes(60),
            settle_in: seconds(2),
            look: Millis(50),
            knock: Millis(20),
            recoveries: 3,
            local_request: seconds(5),
            own_lock: seconds(2),
            demo: minutes(2),
            patience: seconds(1),
            local_request_bytes: 16 * 1_024,
            lock_wait: seconds(2),
            lock_retry: seconds(1),
            prepare: minutes(5),
            stalled: seconds(60),
            stranded_queued: minutes(5),
            stranded_dispatched: minutes(2),
            stranded_parked: minutes(30),
            stranded_running: minutes(120),
            stranded_sample: 500,
            idle_watchdog: minutes(30),
            tool_watchdog: minutes(120),
            transcript_flush: Millis(500),
            transcript_drain: Millis(400),
            report_retry_first: Millis(250),
            report_retry_max: seconds(30),
            http_timeout: seconds(30),
            slow_request: minutes(30),
            header_read: seconds(30),
            body_read: seconds(20),
            connection_idle: seconds(20),
            damaged_retry_first: seconds(10),
            damaged_retry_max: minutes(60),
            accept_pause: seconds(1),
            retention_every: minutes(60),
            statement_timeout: seconds(20),
            database_wait: seconds(5),
            database_connections: 16,
            connection_age: minutes(10),
            head_poll: seconds(1),
            notify_pause: Millis(25),
            history_pause: Millis(200),
            moment_bytes: 80,
            lease: seconds(10),
            follower_page: 1_000,
            rebuild_page: 2_000,
            rebuild_lag: 200,
            progress_look: Millis(250),
            cached_streams: 4_096,
            cached_results: 16_384,
            server_stop: seconds(5),
            probe_wait: seconds(5),
            session: minutes(30 * 24 * 60),
            feed_keep_alive: seconds(15),
            sign_in_link: minutes(10),
            command_results: minutes(30 * 24 * 60),
            at_least_wait: seconds(2),
            settle: Millis(500),
            daemon_slots: 20,
            agent_slots: 6,
            batch_commands: 256,
            writer_queue: 4_096,
            conflict_retries: 8,
            event_bytes: 64 * 1_024,
            seal_every: minutes(60),
            seal_events: 10_000,
            seal_retry: minutes(1),
            seals_bytes: 64 * 1_024 * 1_024,
            verified_seals: 10_000,
            verified_findings: 50,
            webhook_timeout: seconds(15),
            webhook_retries: vec![
                seconds(5),
                minutes(5),
                minutes(30),
                minutes(120),
                minutes(300),
                minutes(600),
                minutes(840),
                minutes(1_200),
                minutes(1_440),
            ],
            webhook_jitter_percent: 20,
            webhook_retry_after: minutes(60),
            webhook_at_once: 8,
            webhook_page: 1_000,
            webhook_waiting: 10_000,
            webhook_dead: 1_000,
            webhook_kept: minutes(30 * 24 * 60),
            webhook_pause: Millis(200),
            webhook_overlap: minutes(24 * 60),
            webhook_overlap_most: minutes(7 * 24 * 60),
            webhook_url_bytes: 2_048,
            webhook_types: 100,
            webhooks: 50,
            page_deliveries: 10,
            compared_rows: 1_000,
            body_bytes: 2 * 1_024 * 1_024,
            json_depth: 64,
            content_bytes: 1_024 * 1_024,
            agent_line_bytes: 8 * 1_024 * 1_024,
            tool_output_bytes: 8_192,
            transcript_message_bytes: 64 * 1_024,
            open_tool_calls: 256,
            transcript_bytes: 64 * 1_024 * 1_024,
            output_tail_bytes: 64 * 1_024,
            stderr_tail_bytes: 4 * 1_024,
            spool_bytes: 256 * 1_024 * 1_024,
            tree_pause: Millis(20),
            git_timeout: seconds(20),
            git_changed_paths: 1_000,
            brief_file_bytes: 4 * 1_024 * 1_024,
            quoted_bytes: 64 * 1_024,
            frame_bytes: 32 * 1_024 * 1_024,
            frame_batch: 64,
            transcript_batch: 1_000,
            message_bytes: 256 * 1_024,
            title_characters: 500,
            list_usual: 200,
            list_most: 1_000,
            audit_usual: 50,
            audit_window: 500,
            audit_windows: 10,
            audit_words_bytes: 1_024,
            transcript_page: 10_000,
            retention_batch: 200,
            purge_messages: 5_000,
            purge_steps: 5,
            erased_texts: 500,
            erased_bytes: 4 * 1_024 * 1_024,
            page_entries: 100,
            page_messages: 500,
            excerpt_lines: 5,
            excerpt_line_bytes: 400,
            prompt_argument_bytes: 128 * 1_024,
            log_file_bytes: 20 * 1_024 * 1_024,
            log_files: 5,
        }
    }
}
