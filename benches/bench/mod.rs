//! The benches: each measures in rounds and gives rows.

mod append;
mod as_of;
mod audit;
mod feed;
mod fill;
mod growth;
mod http;
mod installation;
mod memory;
mod models;
mod peers;
mod place;
mod read;
mod row;
mod story;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use row::Row;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which benches; all when none is named.
    pub names: Vec<String>,
    /// Rounds; a row is their median.
    pub rounds: usize,
    /// Rows as lines of JSON.
    pub json: bool,
    /// message-db's SQL, to measure its write function too.
    pub message_db: Option<PathBuf>,
    /// Events in the logs that are filled, instead of each bench's own number.
    pub events: Option<i64>,
    /// How long one measurement of a rate takes.
    pub time: Duration,
    /// Writers and streams are divided by this: what a smoke test has the time for.
    pub divide: usize,
    /// Where databases lie.
    pub home: PathBuf,
}

/// All benches, in the order in which they run.
pub const NAMES: [&str; 8] = ["append", "read", "rebuild", "followers", "as-of", "audit", "feed", "growth"];

impl Options {
    /// `[NAME…] [--rounds N] [--output json] [--message-db FILE] [--events N] [--seconds N]`.
    pub fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            names: Vec::new(),
            rounds: 3,
            json: false,
            message_db: None,
            events: None,
            time: Duration::from_secs(3),
            divide: 1,
            home: place::home(),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            let number = |text: String| {
                text.parse()
                    .ok()
                    .filter(|n| *n > 0)
                    .ok_or_else(|| format!("{text} is no whole number from 1 on"))
            };
            match argument.as_str() {
                "--rounds" => options.rounds = usize::try_from(number(value()?)?).unwrap_or(1),
                "--events" => options.events = Some(number(value()?)?),
                "--seconds" => options.time = Duration::from_secs(number(value()?)?.unsigned_abs()),
                "--message-db" => options.message_db = Some(PathBuf::from(value()?)),
                "--output" => match value()?.as_str() {
                    "json" => options.json = true,
                    "text" => {}
                    other => return Err(format!("--output is text or json, not {other}")),
                },
                // What cargo adds.
                "--bench" => {}
                name if NAMES.contains(&name) => options.names.push(argument),
                other => {
                    return Err(format!(
                        "{other} is no bench: {}\n  usage: bin/bench [NAME…] [--rounds N] [--output json] \
                         [--message-db FILE] [--events N] [--seconds N]",
                        NAMES.join(", ")
                    ));
                }
            }
        }
        Ok(options)
    }

    fn events_or(&self, usual: i64) -> i64 {
        self.events.unwrap_or(usual)
    }

    fn divided(&self, number: usize) -> usize {
        (number / self.divide).max(1)
    }
}

/// What a run tells as soon as it is known.
pub enum Told {
    /// Something measured.
    Row(Row),
    /// On what, and how long it took.
    Note(String),
}

/// Runs what is asked for.
pub async fn run(options: &Options, mut tell: impl FnMut(Told)) {
    tell(Told::Note(place::machine(options)));
    for name in NAMES {
        if !options.names.is_empty() && !options.names.iter().any(|asked| asked == name) {
            continue;
        }
        let begun = Instant::now();
        let rows = match name {
            "append" => append::run(options).await,
            "read" => read::run(options).await,
            "rebuild" => models::rebuild(options).await,
            "followers" => models::followers(options).await,
            "as-of" => as_of::run(options).await,
            "audit" => audit::run(options).await,
            "feed" => feed::run(options).await,
            _ => growth::run(options).await,
        };
        rows.into_iter().for_each(|row| tell(Told::Row(row)));
        tell(Told::Note(format!("# {name}: {} s, load {}", begun.elapsed().as_secs(), place::load())));
    }
}

/// The value in the middle.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which that part of them lies.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() {
        return f64::NAN;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index between 0 and the last"
    )]
    let index = ((sorted.len() - 1) as f64 * part).round() as usize;
    sorted[index]
}

/// Milliseconds.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
