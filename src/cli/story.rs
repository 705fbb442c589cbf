//! How a task's story reads: a stranger should follow it without a glossary.

use anstyle::Style;
use jiff::Timestamp;
use serde_json::Value;

use super::output::{Out, escaped, items, plain, plain_line};
use crate::wire::api::{Explanation, Message};
use crate::wire::feed::Entry;

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// A clock on a machine that differs less than this from the database's says nothing new.
const SAME_MOMENT_MS: i128 = 1_000;

/// A silence longer than this gets a line of its own.
const PAUSE_S: i64 = 60;

/// The entries of an answer.
pub fn entries(answer: &Value) -> Vec<Entry> {
    items(answer, "entries").iter().filter_map(|e| serde_json::from_value(e.clone()).ok()).collect()
}

/// The whole story: a heading a day, a line an event, and what the machine's clock said where that differs.
pub fn told(entries: &[Entry]) -> String {
    let who = entries.iter().map(|e| actor(e).chars().count()).max().unwrap_or(0);
    let mut out = Vec::new();
    let mut before: Option<Timestamp> = None;
    let mut day = String::new();
    for entry in entries {
        let recorded = entry.recorded_at.parse::<Timestamp>().ok();
        let heading = another_day(&mut day, entry);
        if let Some(at) = recorded {
            if let Some(heading) = heading {
                out.push(heading);
            } else if let Some(pause) =
                before.map(|b| at.as_second() - b.as_second()).filter(|s| *s > PAUSE_S)
            {
                out.push(format!("{DIM}{:12}  … {} later{DIM:#}", "", span(pause)));
            }
            before = Some(at);
        }
        out.push(story_line(entry, recorded, who));
    }
    if out.is_empty() {
        return "Nothing has been recorded.".to_owned();
    }
    out.join("\n")
}

/// A line of a story; `who` is how much room actors' names have.
pub fn story_line(entry: &Entry, recorded: Option<Timestamp>, who: usize) -> String {
    let clock = recorded.map_or_else(|| entry.recorded_at.clone(), clock);
    let name = actor(entry);
    let mut line =
        format!("{clock:12}  {DIM}{name:who$}{DIM:#}  {}", without(&name, &plain_line(&entry.text)));
    // A promotion is told by whoever released the directory: that clock says nothing of this task.
    if entry.event_type.ends_with(".promoted") {
        return line;
    }
    if let (Some(recorded), Ok(occurred)) = (recorded, entry.occurred_at.parse::<Timestamp>()) {
        let apart = (recorded.as_nanosecond() - occurred.as_nanosecond()) / 1_000_000;
        if apart.abs() > SAME_MOMENT_MS || entry.actor.kind == "daemon" {
            line.push_str(&format!("  {DIM}[on the machine {}]{DIM:#}", clock_of(occurred, recorded)));
        }
    }
    line
}

/// The heading of an entry's day, when that isn't the day of the one before.
pub fn another_day(day: &mut String, entry: &Entry) -> Option<String> {
    let at = entry.recorded_at.parse::<Timestamp>().ok()?;
    let today = at.strftime("%A, %-d %B %Y (UTC)").to_string();
    if today == *day {
        return None;
    }
    let gap = if day.is_empty() { "" } else { "\n" };
    *day = today;
    Some(format!("{gap}{BOLD}{day}{BOLD:#}"))
}

/// A line of the feed; `who` is how much room actors' names have.
pub fn feed_line(entry: &Entry, who: usize) -> String {
    let clock = entry.recorded_at.parse::<Timestamp>().map_or_else(|_| entry.recorded_at.clone(), clock);
    format!(
        "{DIM}{:>7}{DIM:#}  {clock}  {DIM}{:who$}{DIM:#}  {}",
        entry.position,
        actor(entry),
        without(&actor(entry), &plain_line(&entry.text))
    )
}

/// A sentence without the actor that stands before it already.
fn without(actor: &str, sentence: &str) -> String {
    let rest = sentence.strip_prefix(actor).and_then(|rest| rest.strip_prefix(' '));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(sentence).to_owned()
}

/// What people call whoever did it.
pub fn actor(entry: &Entry) -> String {
    plain_line(if entry.actor.name.is_empty() { &entry.actor.kind } else { &entry.actor.name })
}

fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S%.3f").to_string()
}

/// A clock's time; with its date where that is another day than the one above.
fn clock_of(at: Timestamp, beside: Timestamp) -> String {
    let same_day = at.strftime("%F").to_string() == beside.strftime("%F").to_string();
    if same_day { clock(at) } else { at.strftime("%F %H:%M:%S%.3f").to_string() }
}

/// A time that passed, as people say it.
pub fn span(seconds: i64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

/// Why a task is where it is.
pub fn explained(out: &Out, answer: &Explanation) -> String {
    let mut lines = vec![format!("{BOLD}{}{BOLD:#}", plain_line(&answer.sentence))];
    if let Some(since) = answer.since {
        let ago = out.since(Some(since));
        lines.push(format!(
            "{DIM}{}, since {} ({ago}){DIM:#}",
            answer.status,
            since.strftime("%F %H:%M:%S UTC")
        ));
    }
    if let Some(detail) = &answer.detail {
        lines.push("\nThe last it said:".to_owned());
        lines.extend(detail.lines().map(|line| format!("  {DIM}|{DIM:#} {}", plain_line(line))));
    }
    if !answer.causes.is_empty() {
        lines.push("\nBecause:".to_owned());
    }
    for cause in &answer.causes {
        let ago = cause.since.map(|since| format!("  {DIM}({}){DIM:#}", out.since(Some(since))));
        lines.push(format!("  - {}{}", plain_line(&cause.sentence), ago.unwrap_or_default()));
    }
    if let Some(ends) = &answer.ends_when {
        let until =
            answer.until.map(|until| format!("  {DIM}(by {}){DIM:#}", until.strftime("%F %H:%M:%S UTC")));
        lines.push(format!("\nEnds when: {}{}", plain_line(ends), until.unwrap_or_default()));
    }
    if !answer.commands.is_empty() || !answer.advice.is_empty() {
        lines.push("\nWhat you can do:".to_owned());
        lines.extend(answer.advice.iter().map(|advice| format!("  {}", plain_line(advice))));
        lines.extend(answer.commands.iter().map(|command| format!("  {}", plain_line(command))));
    }
    lines.join("\n")
}

/// A line of a transcript.
pub fn message(message: &Message) -> String {
    let said = &message.said;
    let body = match said.kind.as_str() {
        "tool_use" => {
            let input = said.input.as_ref().map(|input| match input {
                Value::String(text) => text.clone(),
                other => escaped(&other.to_string()),
            });
            format!("{} {}", said.tool.as_deref().unwrap_or_default(), input.unwrap_or_default())
        }
        "tool_result" => said.output.clone().unwrap_or_default(),
        _ => said.content.clone().unwrap_or_default(),
    };
    let mark = match said.kind.as_str() {
        _ if said.stderr => "stderr ",
        "thinking" => "(thinking) ",
        "tool_use" => "→ ",
        "tool_result" => "← ",
        "error" => "error: ",
        _ => "",
    };
    format!("{DIM}{mark}{DIM:#}{}", plain(body.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::feed::{ActorName, StreamName};

    fn entry(position: i64, who: (&str, &str), occurred: &str, recorded: &str, text: &str) -> Entry {
        Entry {
            position,
            event_type: "task.started".to_owned(),
            workspace: String::new(),
            stream: StreamName { kind: "task".to_owned(), id: String::new() },
            actor: ActorName {
                kind: who.0.to_owned(),
                id: String::new(),
                name: who.1.to_owned(),
                via: String::new(),
            },
            occurred_at: occurred.to_owned(),
            recorded_at: recorded.to_owned(),
            text: text.to_owned(),
            links: vec![],
        }
    }

    #[test]
    fn a_story_is_aligned_and_tells_both_clocks_where_they_differ() {
        let story = told(&[
            entry(1, ("member", "Ada"), "2026-05-01T12:00:00.1Z", "2026-05-01T12:00:00.2Z", "Ada queued it."),
            entry(2, ("daemon", "forge"), "2026-05-01T12:00:01Z", "2026-05-01T12:00:04Z", "It started."),
            entry(3, ("system", ""), "2026-05-02T12:10:00Z", "2026-05-02T12:10:00Z", "It ended."),
        ]);
        let plain = anstream::adapter::strip_str(&story).to_string();
        let expected = "Friday, 1 May 2026 (UTC)\n\
            12:00:00.200  Ada     queued it.\n\
            12:00:04.000  forge   It started.  [on the machine 12:00:01.000]\n\
            \n\
            Saturday, 2 May 2026 (UTC)\n\
            12:10:00.000  system  It ended.";
        assert_eq!(plain, expected);
    }

    #[test]
    fn the_feed_names_each_day_once_and_an_actor_once() {
        let at = |day: u32| format!("2026-05-{day:02}T12:00:00Z");
        let mut day = String::new();
        let entries = [1, 1, 2].map(|d| entry(1, ("daemon", "vm"), &at(d), &at(d), "vm claimed LOCA-1#1"));
        let headings: Vec<Option<String>> = entries.iter().map(|e| another_day(&mut day, e)).collect();
        let plain = |text: &str| anstream::adapter::strip_str(text).to_string();
        let headings: Vec<Option<String>> = headings.iter().map(|h| h.as_deref().map(plain)).collect();
        let expected = [Some("Friday, 1 May 2026 (UTC)"), None, Some("\nSaturday, 2 May 2026 (UTC)")];
        assert_eq!(headings, expected.map(|text| text.map(str::to_owned)));
        assert!(plain(&feed_line(&entries[0], 0)).ends_with("vm  claimed LOCA-1#1"));
        assert!(plain(&feed_line(&entries[0], 6)).ends_with("vm      claimed LOCA-1#1"));
        assert_eq!(without("vm", "vmware claimed it"), "vmware claimed it");
    }

    #[test]
    fn an_explanation_shows_what_was_said_and_keeps_advice_apart_from_causes() {
        let answer: Explanation = serde_json::from_value(serde_json::json!({
            "task_id": "0190aaaa-0000-7000-8000-000000000001", "name": "LOCA-1#1", "status": "failed",
            "sentence": "LOCA-1#1 failed", "since": "2026-05-01T12:00:00.123456Z", "detail": "one\ntwo",
            "causes": [{"sentence": "LOCA-1#2 stands in its place", "since": null, "link": null}],
            "ends_when": null, "advice": ["Mend it."], "commands": ["multica task logs LOCA-1#1"]
        }))
        .expect("an explanation");
        let now = "2026-05-01T12:01:00Z".parse().expect("a time");
        let out = Out::new(crate::cli::args::Format::Table, now, crate::client::api::Past::default());
        let told = anstream::adapter::strip_str(&explained(&out, &answer)).to_string();
        let (causes, help) = told.split_once("What you can do:").expect("help");
        assert!(told.contains("since 2026-05-01 12:00:00 UTC ("), "{told}");
        assert!(causes.contains("  | one\n  | two\n"), "{told}");
        assert!(!causes.contains("Mend it.") && help.contains("Mend it."), "{told}");
    }

    #[test]
    fn a_long_silence_is_told() {
        let at = |minute: u32| format!("2026-05-01T12:{minute:02}:00Z");
        let story = told(&[
            entry(1, ("member", "Ada"), &at(0), &at(0), "One."),
            entry(2, ("member", "Ada"), &at(30), &at(30), "Two."),
        ]);
        assert!(story.contains("… 30 min later"), "{story}");
    }
}
