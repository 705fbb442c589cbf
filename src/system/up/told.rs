//! What `multica up` says to the person at the terminal.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::UpError;
use crate::cli::UpArgs;
use crate::cli::demo;
use crate::client::api::Api;
use crate::kernel::error_chain::Chain;
use crate::wire::api::Daemon;

/// Prints a line for people: standard output is for what programs read.
pub(super) fn say(line: &str) {
    // A terminal that was closed takes no lines: what is under way ends in order all the same.
    drop(writeln!(anstream::stderr(), "{line}"));
}

/// Address, sign-in link, and what to do first.
pub(super) async fn greet(api: &Api, args: &UpArgs, cli: &str) -> Result<(), UpError> {
    let link = api.post::<Value>("/api/sign-in-links", &json!({})).await?;
    let link = link["url"].as_str().unwrap_or_default();
    say("");
    say(&format!("multica is up at {}", api.server_url()));
    say(&format!("  sign in (works once, for ten minutes): {link}"));
    if args.demo {
        say(&format!("  meanwhile, in another terminal: {cli} task list"));
    } else {
        say("");
        say("Attach a directory of your own, in another terminal:");
        say(&format!("  {cli} project create --title Game"));
        say(&format!("  {cli} project resource add Game --type local_directory --local-path ~/code/game"));
        say(&format!("  {cli} agent create --name dev --provider claude       # or codex, opencode"));
        say(&format!("  {cli} agent create --name build --provider command --command make --prompt none"));
        say(&format!("  {cli} issue create --title \"Build it\" --project Game --assignee build"));
        say("");
        say("Ctrl-C stops all of it.");
    }
    say("");
    Ok(())
}

/// How the demo went.
pub(super) fn show(outcome: &demo::Outcome) -> ExitCode {
    for finding in &outcome.findings {
        say(&format!("  found: {finding}"));
    }
    drop(writeln!(anstream::stdout(), "{}", outcome.line()));
    if outcome.is_as_it_should_be() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a stop has left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Left {
    /// Runs that were interrupted.
    pub(super) interrupted: usize,
    /// Runs whose last reports the server doesn't have yet.
    pub(super) undelivered: usize,
}

/// The last line: how long it was up, and what became of the runs.
pub(super) fn farewell(left: Left, up_for: Duration) -> String {
    let minutes = up_for.as_secs() / 60;
    let span = match (minutes / 60, minutes) {
        (0, 0) => format!("{} s", up_for.as_secs()),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {} min", minutes % 60),
    };
    let runs = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
    let mut line = format!("Stopped after {span}, database and all.");
    if left.interrupted > 0 {
        line.push_str(&format!(
            " Interrupted: {}; `multica task list` tells after the next start what became of it.",
            runs(left.interrupted)
        ));
    }
    if left.undelivered > 0 {
        line.push_str(&format!(
            " The last reports of {} are delivered at the next start.",
            runs(left.undelivered)
        ));
    }
    line
}

/// How many runs the daemon has; none where the server can't say.
pub(super) async fn running(api: &Api, daemon_id: &str) -> usize {
    let answer = api.get::<Value>("/api/daemons").await.unwrap_or_default();
    let daemons: Vec<Daemon> = serde_json::from_value(answer["daemons"].clone()).unwrap_or_default();
    daemons.iter().filter(|daemon| daemon.daemon_id == daemon_id).map(|daemon| daemon.running).sum()
}

/// What is said when a stop begins.
pub(super) fn stopping(running: usize, drain: Duration) -> String {
    let seconds = drain.as_secs();
    match running {
        0 => "Stopping; nothing runs.".to_owned(),
        1 => format!("Stopping. 1 run goes on for up to {seconds} s; Ctrl-C again interrupts it now."),
        runs => {
            format!("Stopping. {runs} runs go on for up to {seconds} s; Ctrl-C again interrupts them now.")
        }
    }
}

/// Says why it can't go on.
pub fn report(error: &UpError) -> ExitCode {
    say(&format!("error: {}", Chain(error)));
    say(&format!("Next: {}", error.next_step()));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_says_what_it_waits_for_and_what_became_of_the_runs() {
        let drain = Duration::from_secs(30);
        assert_eq!(stopping(0, drain), "Stopping; nothing runs.");
        assert!(stopping(2, drain).starts_with("Stopping. 2 runs go on for up to 30 s; Ctrl-C again"));
        let farewell = |interrupted, undelivered, seconds| {
            farewell(Left { interrupted, undelivered }, Duration::from_secs(seconds))
        };
        assert_eq!(farewell(0, 0, 42), "Stopped after 42 s, database and all.");
        assert!(
            farewell(1, 0, 240).starts_with("Stopped after 4 min, database and all. Interrupted: 1 run; ")
        );
        let line = farewell(0, 2, 7_380);
        assert!(line.starts_with("Stopped after 2 h 3 min"), "{line}");
        assert!(line.ends_with("reports of 2 runs are delivered at the next start."), "{line}");
    }
}
