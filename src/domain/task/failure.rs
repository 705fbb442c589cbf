//! Every way in which a task can end badly: one catalogue for API, CLI and UI.

/// A failure reason: a stable code, a sentence and a next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureReason {
    /// Stable code, as it stands in events and on the wire.
    pub code: &'static str,
    /// What happened, for people.
    pub sentence: &'static str,
    /// What to do now.
    pub next_step: &'static str,
    /// Whether another try by itself is worth it.
    pub retryable: bool,
}

const fn reason(
    code: &'static str,
    sentence: &'static str,
    next_step: &'static str,
    retryable: bool,
) -> FailureReason {
    FailureReason { code, sentence, next_step, retryable }
}

/// All reasons that this build gives. The list is open on the wire: others are kept as they come.
pub const CATALOGUE: &[FailureReason] = &[
    reason(
        "queued_expired",
        "no machine took the task in time",
        "Start the agent's daemon (`multica daemon start`), then rerun the issue.",
        false,
    ),
    reason(
        "runtime_offline",
        "the machine that ran the task is gone",
        "Start its daemon again; the task is tried again by itself.",
        true,
    ),
    reason(
        "runtime_recovery",
        "the run was interrupted on its machine",
        "Nothing: it is tried again by itself.",
        true,
    ),
    reason(
        "timeout",
        "getting ready took too long",
        "Look at `multica task history` for the slow step; it is tried again by itself.",
        true,
    ),
    reason(
        "invalid_task_identity",
        "the assignment didn't name its agent rightly",
        "Update the daemon to the server's version.",
        false,
    ),
    reason(
        "local_directory_error",
        "the attached directory can't be used",
        "Read the detail, mend the directory or the resource, then rerun the issue.",
        false,
    ),
    reason(
        "owner_not_allowed",
        "the directory belongs to an account that agents may not run as",
        "Allow the directory on that machine (`multica config set allowed_directories '[\"PATH\"]'`) and start its daemon anew, or attach one that belongs to an ordinary account.",
        false,
    ),
    reason(
        "env_root_taken",
        "another execution owns the task's env root",
        "Wait until it has ended; see `multica task explain`.",
        false,
    ),
    reason(
        "context_file_taken",
        "a file of another tool stands where a context file belongs",
        "Move that file away, then rerun the issue.",
        false,
    ),
    reason(
        "spool_full",
        "the run wrote more reports than the machine may keep",
        "Bring the server back or free the disk, then rerun the issue.",
        false,
    ),
    reason(
        "machine_error",
        "the machine couldn't do what the run needs",
        "Read the detail; free disk space or mend permissions on that machine, then rerun the issue.",
        false,
    ),
    reason(
        "idle_watchdog",
        "the agent said nothing for too long and was stopped",
        "Look at the transcript's end, then rerun the issue.",
        false,
    ),
    reason("cancelled", "the run was cancelled", "Rerun the issue if it is still wanted.", false),
    reason(
        "agent_blocked",
        "the agent says that it is blocked",
        "Read its last words, answer in a comment, then rerun.",
        false,
    ),
    reason(
        "iteration_limit",
        "the agent reached its limit of turns",
        "Split the issue, or raise the agent's limit.",
        false,
    ),
    reason(
        "api_invalid_request",
        "the model's service refused the request",
        "Look at the transcript; the conversation may be too long or broken.",
        false,
    ),
    reason(
        "agent_error.process_failure",
        "the agent's process ended with an error",
        "Read the detail for the exit code and its last words.",
        false,
    ),
    reason(
        "agent_error.runtime_missing_executable",
        "the agent's program can't be started",
        "Install it or correct its path, then rerun the issue.",
        false,
    ),
    reason(
        "agent_error.runtime_not_executable",
        "the agent's program is there and may not be executed",
        "Make it executable for the account that agents run as there (`chmod +x PROGRAM`), then rerun the issue.",
        false,
    ),
    reason(
        "agent_error.empty_or_unparseable_output",
        "the agent said nothing that can be read",
        "Start the agent's CLI by hand and look at what it prints.",
        false,
    ),
    reason(
        "agent_error.provider_auth_or_access",
        "the model's service refused the credentials",
        "Sign the agent's CLI in on that machine.",
        false,
    ),
    reason(
        "agent_error.provider_quota_limit",
        "the account's quota is used up",
        "Wait or raise the quota, then rerun the issue.",
        false,
    ),
    reason(
        "agent_error.provider_capacity_or_rate_limit",
        "the model's service is overloaded",
        "Rerun the issue later.",
        false,
    ),
    reason(
        "agent_error.provider_server_error",
        "the model's service had an error",
        "Rerun the issue later.",
        false,
    ),
    reason(
        "agent_error.provider_network",
        "the model's service can't be reached",
        "Check the machine's network; it is tried again by itself.",
        true,
    ),
    reason(
        "agent_error.context_overflow",
        "the conversation is too long for the model",
        "Rerun the issue; it begins a fresh session.",
        false,
    ),
    reason(
        "agent_error.model_not_found_or_unavailable",
        "the model asked for isn't there",
        "Change the agent's model.",
        false,
    ),
    reason(
        "agent_error.runtime_version_unsupported",
        "the agent's CLI has a version that isn't supported",
        "Install a supported version.",
        false,
    ),
    reason(
        "agent_error.missing_config",
        "the agent's CLI isn't set up",
        "Start it by hand once on that machine.",
        false,
    ),
    reason(
        "agent_error.agent_timeout",
        "the agent took too long",
        "Split the issue, or raise the agent's time limit.",
        false,
    ),
    reason(
        "agent_error.unknown",
        "the agent failed for a reason that isn't known",
        "Read the detail and the transcript.",
        false,
    ),
];

/// The catalogue's entry of that code.
#[must_use]
pub fn find(code: &str) -> Option<&'static FailureReason> {
    CATALOGUE.iter().find(|reason| reason.code == code)
}
