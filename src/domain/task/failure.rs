//! Every way in which a task can end badly: one catalogue for API, CLI and UI.

use super::Status;

/// A failure reason: a stable code, a sentence and a next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureReason {
    /// Stable code, as it stands in events and on the wire.
    pub code: &'static str,
    /// What happened, for people.
    pub sentence: &'static str,
    /// Whether another try by itself is worth it.
    pub retryable: bool,
    steps: Steps,
    /// The steps while its daemon isn't there, where that matters.
    away: Option<Steps>,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Steps {
    /// While another run by itself isn't over.
    comes: &'static str,
    /// When none comes.
    none: &'static str,
}

/// Whether another run comes in a failed one's stead by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// One is queued or under way.
    Comes,
    /// There was one, and it is over.
    Over,
    /// None: the attempts are used up, or it isn't worth one.
    None,
}

impl Again {
    /// Whether one was queued, and where it stands.
    #[must_use]
    pub const fn of(queued: bool, retry: Option<Status>) -> Self {
        match (queued, retry) {
            (false, _) => Self::None,
            (true, Some(status)) if status.is_terminal() => Self::Over,
            (true, _) => Self::Comes,
        }
    }
}

impl FailureReason {
    /// What to do now; `there` says whether the failed run's daemon is.
    #[must_use]
    pub const fn next_step(&self, again: Again, there: bool) -> &'static str {
        let steps = match self.away {
            Some(away) if !there => away,
            Some(_) | None => self.steps,
        };
        match again {
            Again::Comes => steps.comes,
            Again::Over => "Look at the run that took its place.",
            Again::None => steps.none,
        }
    }
}

const fn reason(code: &'static str, sentence: &'static str, next_step: &'static str) -> FailureReason {
    let steps = Steps { comes: next_step, none: next_step };
    FailureReason { code, sentence, retryable: false, steps, away: None }
}

/// A reason after which another run comes by itself while attempts are left.
const fn retried(code: &'static str, sentence: &'static str, steps: Steps) -> FailureReason {
    FailureReason { code, sentence, retryable: true, steps, away: None }
}

/// All reasons that this build gives. The list is open on the wire: others are kept as they come.
pub const CATALOGUE: &[FailureReason] = &[
    reason(
        "queued_expired",
        "no machine took the task in time",
        "Start the agent's daemon (`multica daemon start`), then rerun the issue.",
    ),
    FailureReason {
        away: Some(Steps {
            comes: "Start its daemon again; the task is tried again by itself.",
            none: "Start its daemon again, then rerun the issue.",
        }),
        ..retried(
            "runtime_offline",
            "the machine that ran the task is gone",
            Steps {
                comes: "Nothing: it is tried again by itself.",
                none: "Rerun the issue if it is still wanted.",
            },
        )
    },
    retried(
        "runtime_recovery",
        "the run was interrupted on its machine",
        Steps {
            comes: "Nothing: it is tried again by itself.",
            none: "Rerun the issue if it is still wanted.",
        },
    ),
    retried(
        "timeout",
        "getting ready took too long",
        Steps {
            comes: "Look at `multica task history` for the slow step; it is tried again by itself.",
            none: "Look at `multica task history` for the slow step, then rerun the issue.",
        },
    ),
    reason(
        "invalid_task_identity",
        "the assignment didn't name its agent rightly",
        "Update the daemon to the server's version.",
    ),
    reason(
        "local_directory_error",
        "the attached directory can't be used",
        "Read the detail, mend the directory or the resource, then rerun the issue.",
    ),
    reason(
        "owner_not_allowed",
        "the directory belongs to an account that agents may not run as",
        "Allow the directory on that machine (`multica config set allowed_directories '[\"PATH\"]'`) and start its daemon anew, or attach one that belongs to an ordinary account.",
    ),
    reason(
        "env_root_taken",
        "another execution owns the task's env root",
        "Wait until it has ended; see `multica task explain`.",
    ),
    reason(
        "context_file_taken",
        "a file of another tool stands where a context file belongs",
        "Move that file away, then rerun the issue.",
    ),
    reason(
        "spool_full",
        "the run wrote more reports than the machine may keep",
        "Bring the server back or free the disk, then rerun the issue.",
    ),
    reason(
        "machine_error",
        "the machine couldn't do what the run needs",
        "Read the detail; free disk space or mend permissions on that machine, then rerun the issue.",
    ),
    reason(
        "idle_watchdog",
        "the agent said nothing for too long and was stopped",
        "Look at the transcript's end, then rerun the issue.",
    ),
    reason("cancelled", "the run was cancelled", "Rerun the issue if it is still wanted."),
    reason(
        "agent_blocked",
        "the agent says that it is blocked",
        "Read its last words, answer in a comment, then rerun.",
    ),
    reason(
        "iteration_limit",
        "the agent reached its limit of turns",
        "Split the issue, or raise the agent's limit.",
    ),
    reason(
        "api_invalid_request",
        "the model's service refused the request",
        "Look at the transcript; the conversation may be too long or broken.",
    ),
    reason(
        "agent_error.process_failure",
        "the agent's process ended with an error",
        "Read the detail for the exit code and its last words.",
    ),
    reason(
        "agent_error.runtime_missing_executable",
        "the agent's program can't be started",
        "Install it or correct its path, then rerun the issue.",
    ),
    reason(
        "agent_error.runtime_not_executable",
        "the agent's program is there and may not be executed",
        "Make it executable for the account that agents run as there (`chmod +x PROGRAM`), then rerun the issue.",
    ),
    reason(
        "agent_error.empty_or_unparseable_output",
        "the agent said nothing that can be read",
        "Start the agent's CLI by hand and look at what it prints.",
    ),
    reason(
        "agent_error.provider_auth_or_access",
        "the model's service refused the credentials",
        "Sign the agent's CLI in on that machine.",
    ),
    reason(
        "agent_error.provider_quota_limit",
        "the account's quota is used up",
        "Wait or raise the quota, then rerun the issue.",
    ),
    reason(
        "agent_error.provider_capacity_or_rate_limit",
        "the model's service is overloaded",
        "Rerun the issue later.",
    ),
    reason("agent_error.provider_server_error", "the model's service had an error", "Rerun the issue later."),
    retried(
        "agent_error.provider_network",
        "the model's service can't be reached",
        Steps {
            comes: "Check the machine's network; it is tried again by itself.",
            none: "Check the machine's network, then rerun the issue.",
        },
    ),
    reason(
        "agent_error.context_overflow",
        "the conversation is too long for the model",
        "Rerun the issue; it begins a fresh session.",
    ),
    reason(
        "agent_error.model_not_found_or_unavailable",
        "the model asked for isn't there",
        "Change the agent's model.",
    ),
    reason(
        "agent_error.runtime_version_unsupported",
        "the agent's CLI has a version that isn't supported",
        "Install a supported version.",
    ),
    reason(
        "agent_error.missing_config",
        "the agent's CLI isn't set up",
        "Start it by hand once on that machine.",
    ),
    reason(
        "agent_error.agent_timeout",
        "the agent took too long",
        "Split the issue, or raise the agent's time limit.",
    ),
    reason(
        "agent_error.unknown",
        "the agent failed for a reason that isn't known",
        "Read the detail and the transcript.",
    ),
];

/// The catalogue's entry of that code.
#[must_use]
pub fn find(code: &str) -> Option<&'static FailureReason> {
    CATALOGUE.iter().find(|reason| reason.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_said_to_come_by_itself_only_while_one_does() {
        for reason in CATALOGUE {
            for there in [true, false] {
                let by_itself = |again| reason.next_step(again, there).contains("by itself");
                assert_eq!(by_itself(Again::Comes), reason.retryable, "{}", reason.code);
                assert!(!by_itself(Again::None) && !by_itself(Again::Over), "{}", reason.code);
                let rerun = reason.next_step(Again::None, there).to_lowercase().contains("rerun the issue");
                assert!(rerun || !reason.retryable, "{}", reason.code);
            }
        }
    }

    #[test]
    fn a_daemon_is_started_again_only_where_it_is_away() {
        let lost = find("runtime_offline").expect("known");
        for again in [Again::Comes, Again::None] {
            assert!(lost.next_step(again, false).starts_with("Start its daemon again"));
            assert!(!lost.next_step(again, true).contains("daemon"));
        }
        let (queued, over) = (Some(Status::Queued), Some(Status::Completed));
        let all = [(false, None), (true, None), (true, queued), (true, over)];
        let told = all.map(|(by, status)| Again::of(by, status));
        assert_eq!(told, [Again::None, Again::Comes, Again::Comes, Again::Over]);
        assert!(!lost.next_step(Again::Over, false).contains("daemon"));
    }
}
