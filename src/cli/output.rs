//! How results look: tables for people, JSON for programs.

use std::io::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::args::Format;
use super::error::CliError;
use crate::client::api::Past;
use crate::client::error::ClientError;
use crate::kernel::text::is_steering;

/// How a bar looks.
const BAR: &str = "{msg} {wide_bar} {pos} of {len}";
/// Between two turns of the spinner.
const TURN: Duration = Duration::from_millis(100);

/// Characters of a table's cell: a path and most titles fit.
const CELL: usize = 120;
/// To that a terminal narrower than its rows makes them: keys, names of tasks and statuses stay whole.
const LEAST_CELL: usize = 16;
/// Spaces between two columns.
const BETWEEN: u16 = 2;

const HEADER: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const NEXT: Style = AnsiColor::Cyan.on_default();
/// Stands around a status in a table while it is laid out: it takes no room, and no cell of ours has it.
const AROUND: char = '\u{2060}';

/// Where results go.
#[derive(Debug, Clone)]
pub struct Out {
    format: Format,
    now: Timestamp,
    past: Past,
}

impl Out {
    /// Results in this format, times told from `now`, or from the moment as of which was answered.
    pub const fn new(format: Format, now: Timestamp, past: Past) -> Self {
        Self { format, now, past }
    }

    /// Whether a program reads.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// A list: the JSON as the server gave it, or a table.
    pub fn list(
        &self,
        json: &Value,
        headers: &[&str],
        rows: Vec<Vec<String>>,
        empty: &str,
    ) -> Result<(), CliError> {
        if self.is_json() {
            return self.json(json);
        }
        if rows.is_empty() {
            return line(&format!("{DIM}{empty}{DIM:#}"));
        }
        line(&coloured(headers, rows, terminal_width()))
    }

    /// One thing: the JSON, or a field a line.
    pub fn fields(&self, json: &Value, fields: &[(&str, String)]) -> Result<(), CliError> {
        if self.is_json() {
            return self.json(json);
        }
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            let indented = plain(value).replace('\n', &format!("\n{:width$}  ", ""));
            let style = if *name == "STATUS" { of_status(value) } else { Style::new() };
            line(&format!("{HEADER}{name:width$}{HEADER:#}  {style}{indented}{style:#}"))?;
        }
        Ok(())
    }

    /// Something was done: the JSON, or a sentence.
    pub fn done(&self, json: &Value, sentence: &str) -> Result<(), CliError> {
        if self.is_json() { self.json(json) } else { line(&plain(sentence)) }
    }

    /// JSON with two spaces.
    pub fn json(&self, json: &Value) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(json).map_err(|e| CliError::Output(e.into()))?;
        line(&escaped(&text))
    }

    /// A time as people say it; empty where there is none.
    pub fn since(&self, at: Option<Timestamp>) -> String {
        let then = self.past.answered().and_then(|answered| answered.time.parse().ok());
        at.map(|at| relative(then.unwrap_or(self.now), at)).unwrap_or_default()
    }
}

/// Prints a line to standard output.
pub fn line(text: &str) -> Result<(), CliError> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Says something beside the result, to standard error.
pub fn note(text: &str) {
    // Nothing is lost when nobody can read the remark.
    drop(writeln!(anstream::stderr().lock(), "{DIM}{text}{DIM:#}"));
}

/// Prints why a verb failed.
pub fn failure(error: &CliError, json: bool) {
    told(&error.sentence(), &error.code(), &error.next_step(), json);
}

/// A chain of causes as a sentence.
pub fn as_sentence(text: &str) -> String {
    let mut characters = text.chars();
    let head: String = characters.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    format!("{head}{}.", characters.as_str())
}

/// Says what went wrong and what to do now, as the reader wants it.
pub fn told(sentence: &str, code: &str, step: &str, json: bool) {
    let mut err = anstream::stderr().lock();
    let written = if json {
        let value = serde_json::json!({"error": sentence, "code": code, "next_step": step});
        writeln!(err, "{}", escaped(&value.to_string()))
    } else {
        writeln!(err, "{ERROR}error:{ERROR:#} {}", plain(sentence))
            .and_then(|()| writeln!(err, "{NEXT}Next:{NEXT:#} {}", plain(step)))
    };
    // Standard error itself is gone: the exit code still says it.
    drop(written);
}

/// Says what to do now, after what somebody else has said.
pub fn next(step: &str) {
    drop(writeln!(anstream::stderr().lock(), "{NEXT}Next:{NEXT:#} {}", plain(step)));
}

/// Waits for something; a spinner appears once it takes longer than a person waits without a sign.
pub async fn patiently<T>(patience: Duration, what: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(patience, &mut work).await {
        return done;
    }
    let spinner = indicatif::ProgressBar::new_spinner().with_message(what.to_owned());
    spinner.enable_steady_tick(TURN);
    let done = work.await;
    spinner.finish_and_clear();
    done
}

/// How far something is, on standard error: shown once it takes longer than a person waits without a sign,
/// and only where a terminal reads.
pub struct Bar {
    shown: indicatif::ProgressBar,
    patience: Duration,
    began: std::time::Instant,
}

impl Bar {
    /// One that shows nothing before `patience`.
    pub fn new(patience: Duration) -> Self {
        let shown = indicatif::ProgressBar::no_length();
        // A template that can't be read is a fault of ours that a test sees; the plain bar does as well.
        if let Ok(style) = indicatif::ProgressStyle::with_template(BAR) {
            shown.set_style(style);
        }
        Self { shown, patience, began: std::time::Instant::now() }
    }

    /// Says with what it is how far.
    pub fn tell(&self, what: &str, done: i64, of: i64) {
        if self.began.elapsed() < self.patience {
            return;
        }
        let count = |n: i64| u64::try_from(n).unwrap_or_default();
        self.shown.set_length(count(of));
        self.shown.set_message(plain_line(what));
        self.shown.set_position(count(done));
    }

    /// Takes it away.
    pub fn end(&self) {
        self.shown.finish_and_clear();
    }
}

/// How a status looks: what runs and what went well, what waits, what went wrong, what is over or away.
fn of_status(word: &str) -> Style {
    let colour = match word {
        "running" | "completed" | "online" | "done" | "in_progress" | "working" => AnsiColor::Green,
        "deferred"
        | "queued"
        | "dispatched"
        | "waiting_local_directory"
        | "in_review"
        | "draining"
        | "unreachable" => AnsiColor::Yellow,
        "failed" | "dead" | "blocked" | "stopped" | "degraded" => AnsiColor::Red,
        "cancelled" | "offline" | "archived" => return DIM,
        _ => return Style::new(),
    };
    colour.on_default()
}

/// A table whose head and whose statuses stand out. Where no terminal reads, or NO_COLOR is set, what it
/// is printed with takes the colours out.
fn coloured(headers: &[&str], mut rows: Vec<Vec<String>>, width: Option<usize>) -> String {
    let status = headers.iter().position(|header| *header == "status");
    let most = width.map_or(CELL, |width| fitting_cells(headers, &rows, width));
    for row in &mut rows {
        for (index, cell) in row.iter_mut().enumerate() {
            *cell = fitting(&plain_line(cell), most);
            cell.retain(|c| c != AROUND);
            if Some(index) == status {
                *cell = format!("{AROUND}{cell}{AROUND}");
            }
        }
    }
    let text = table(headers, rows);
    let (head, body) = text.split_once('\n').unwrap_or((&text, ""));
    let mut shown = format!("{HEADER}{head}{HEADER:#}\n");
    for (index, part) in body.split(AROUND).enumerate() {
        let style = if index % 2 == 1 { of_status(part) } else { Style::new() };
        shown.push_str(&format!("{style}{part}{style:#}"));
    }
    shown
}

/// A cell that leaves room for the others: one long name must not make every row wide. JSON has all of it.
fn fitting(cell: &str, most: usize) -> String {
    if cell.chars().count() <= most {
        return cell.to_owned();
    }
    cell.chars().take(most - 1).chain(['…']).collect()
}

/// How wide a cell may be for rows to fit a terminal's lines; below the least, lines are broken by the terminal.
fn fitting_cells(headers: &[&str], rows: &[Vec<String>], width: usize) -> usize {
    let mut columns: Vec<usize> = headers.iter().map(|header| header.chars().count()).collect();
    for row in rows {
        for (column, cell) in columns.iter_mut().zip(row) {
            *column = (*column).max(plain_line(cell).chars().count());
        }
    }
    let between = usize::from(BETWEEN) * columns.len().saturating_sub(1);
    let whole = |most: usize| columns.iter().map(|column| (*column).min(most)).sum::<usize>() + between;
    (LEAST_CELL..=CELL).rev().find(|most| whole(*most) <= width).unwrap_or(LEAST_CELL)
}

/// The terminal's width, where one reads.
fn terminal_width() -> Option<usize> {
    let terminal = console::Term::stdout();
    if !terminal.is_term() {
        return None;
    }
    terminal.size_checked().map(|(_, columns)| usize::from(columns))
}

/// A table without borders.
pub fn table(headers: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(headers.iter().map(|header| header.to_uppercase()));
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(|cell| fitting(&plain_line(&cell), CELL))));
    let last = headers.len().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { BETWEEN }));
    }
    table.trim_fmt()
}

/// A span as people say it.
pub fn relative(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.as_second() - at.as_second();
    let (amount, before) = (seconds.unsigned_abs(), seconds >= 0);
    let text = match amount {
        0..=4 => return "just now".to_owned(),
        5..=59 => format!("{amount}s"),
        60..=3_599 => format!("{}m", amount / 60),
        3_600..=86_399 => format!("{}h", amount / 3_600),
        _ => format!("{}d", amount / 86_400),
    };
    if before { format!("{text} ago") } else { format!("in {text}") }
}

/// An answer, or a part of one, as the type that the server made it from.
pub fn read<T: DeserializeOwned>(answer: &Value) -> Result<T, CliError> {
    T::deserialize(answer).map_err(|source| {
        CliError::Client(ClientError::Unreadable { call: "this request".to_owned(), source })
    })
}

/// A member of a JSON object as text, by its path (`a.b`); empty where there is none.
pub fn text(value: &Value, path: &str) -> String {
    let mut at = value;
    for key in path.split('.') {
        match at.get(key) {
            Some(next) => at = next,
            None => return String::new(),
        }
    }
    match at {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => escaped(&other.to_string()),
    }
}

/// A text as a terminal may show it: what agents and files say can't move the cursor, rename the window,
/// hide what stands before it or turn around what follows. JSON output keeps such characters, escaped.
pub fn plain(text: &str) -> String {
    let shown =
        |c: char| if is_steering(c) && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// The same where a line means something: nobody's text can make a second one that looks like ours.
pub fn plain_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

/// JSON in which every character that steers a terminal is escaped: the same values, whoever reads it.
pub fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Between the values there are only plain characters and line breaks.
        if is_steering(c) && c != '\n' {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// The list inside an answer: bare, or under a key.
pub fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.as_array().or_else(|| value.get(key).and_then(Value::as_array)).map_or(&[], Vec::as_slice)
}

/// The last eight characters of an id, for tables.
pub fn short(id: &str) -> String {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_has_the_look_that_is_meant() {
        assert!(indicatif::ProgressStyle::with_template(BAR).is_ok());
        let bar = Bar::new(Duration::ZERO);
        bar.tell("the log", 3, 7);
        assert_eq!((bar.shown.position(), bar.shown.length()), (3, Some(7)));
        let patient = Bar::new(Duration::from_secs(60));
        patient.tell("the log", 3, 7);
        assert_eq!(patient.shown.length(), None);
    }

    #[test]
    fn a_table_is_made_to_fit_the_terminal_that_shows_it() {
        let headers = ["key", "title", "status", "assignee"];
        let long = "Mend the door of the tower that the dragon broke when it came home last night";
        let row =
            |key: &str, title: &str| [key, title, "in_progress", "desktop/developer"].map(str::to_owned);
        let rows = || vec![row("GAME-1", long).to_vec(), row("GAME-2", "Paint").to_vec()];
        let shown = |width| anstream::adapter::strip_str(&coloured(&headers, rows(), width)).to_string();
        let widest = |text: &str| {
            let lines = text.lines().map(|line| line.chars().filter(|c| *c != AROUND).count());
            lines.max().unwrap_or(0)
        };
        let whole = shown(None);
        assert!(whole.contains(long), "who reads it in a file gets all of it");
        let narrow = shown(Some(80));
        assert!(widest(&narrow) <= 80, "{narrow}");
        assert!(
            narrow.contains("Mend the door") && narrow.contains('…') && narrow.contains("desktop/developer")
        );
        // Below what makes sense, lines are broken by the terminal.
        assert!(shown(Some(10)).contains("in_progress"));
        assert_eq!(shown(Some(300)), whole);
    }

    #[test]
    fn times_are_told_as_people_say_them() {
        let now: Timestamp = "2026-05-01T12:00:00Z".parse().expect("a time");
        let told = |at: &str| relative(now, at.parse().expect("a time"));
        assert_eq!(told("2026-05-01T11:59:58Z"), "just now");
        assert_eq!(told("2026-05-01T11:57:00Z"), "3m ago");
        assert_eq!(told("2026-05-01T09:00:00Z"), "3h ago");
        assert_eq!(told("2026-04-28T12:00:00Z"), "3d ago");
        assert_eq!(told("2026-05-01T12:10:00Z"), "in 10m");
    }

    #[test]
    fn what_agents_say_cannot_command_a_terminal() {
        let said = serde_json::json!({"said": "a\u{1b}]0;owned\u{7}b\u{9b}2J\r\n\tc"});
        assert_eq!(text(&said, "said"), "a\u{fffd}]0;owned\u{fffd}b\u{fffd}2J\u{fffd}\n\tc");
    }

    #[test]
    fn what_agents_say_turns_nothing_around_and_makes_no_line_of_its_own() {
        let said = "safe\u{202e}gnp.exe\u{2066}\nGAME-9  done";
        assert_eq!(plain(said), "safe\u{fffd}gnp.exe\u{fffd}\nGAME-9  done");
        assert_eq!(table(&["title"], vec![vec![said.to_owned()]]).lines().count(), 2);
        let json = serde_json::json!({"said": format!("{said}\u{9b}2J\u{7f}")});
        let written = escaped(&serde_json::to_string_pretty(&json).expect("json"));
        assert!(!written.chars().any(|c| is_steering(c) && c != '\n'), "{written}");
        assert_eq!(serde_json::from_str::<Value>(&written).expect("json"), json);
    }

    #[test]
    fn one_long_cell_does_not_make_a_table_wide() {
        let shown = table(&["name", "kind"], vec![vec!["x".repeat(60_000), "member".to_owned()]]);
        assert!(shown.contains("…  member"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() < 140), "{shown}");
    }

    #[test]
    fn a_table_has_upper_case_headers_and_no_borders() {
        let text =
            table(&["id", "name"], vec![vec!["1".into(), "one".into()], vec!["22".into(), "two".into()]]);
        assert_eq!(text, "ID  NAME\n1   one\n22  two");
    }

    #[test]
    fn statuses_stand_out_and_nothing_moves() {
        let rows = vec![
            vec!["a".to_owned(), "failed".to_owned(), "failed".to_owned()],
            vec!["b\u{2060}".to_owned(), "running".to_owned(), "x".to_owned()],
            vec!["c".to_owned(), "anything".to_owned(), "y".to_owned()],
        ];
        let headers = ["id", "status", "title"];
        let shown = coloured(&headers, rows.clone(), None);
        assert!(shown.contains("\u{1b}[31mfailed\u{1b}[0m    failed"), "{shown:?}");
        assert!(shown.contains("\u{1b}[32mrunning\u{1b}[0m"), "{shown:?}");
        let bare = anstream::adapter::strip_str(&shown).to_string();
        assert_eq!(bare, "ID  STATUS    TITLE\na   failed    failed\nb   running   x\nc   anything  y");
    }
}
