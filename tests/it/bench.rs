//! Benches run and print their rows, on logs of a few hundred events. How fast it is isn't looked at: a test
//! shares its machine with others.

#[path = "../../benches/bench/mod.rs"]
mod benches;

use std::time::Duration;

use self::benches::{NAMES, Options, Row, Told};
use crate::support::cluster;

fn small(name: &str) -> Options {
    let arguments = ["--rounds", "1", "--events", "600", name].map(str::to_owned);
    let options = Options::from_arguments(arguments.into_iter()).unwrap();
    let home = cluster::own_folder(&format!("bench-{name}"));
    Options { time: Duration::from_millis(150), divide: 100, home, ..options }
}

/// `NAME CONFIG value unit` or `NAME CONFIG ours THEIRS-NAME theirs RATIOx`, and the bar behind it.
fn assert_shape(row: &Row) {
    let text = row.to_string();
    let (facts, bar) =
        text.split_once("  # ").map_or((text.as_str(), None), |(facts, bar)| (facts, Some(bar)));
    let words: Vec<&str> = facts.split(' ').collect();
    let number = |word: &str| word.parse::<f64>().unwrap_or_else(|_| panic!("{word} in {text}"));
    number(words[2]);
    match words.len() {
        4 => assert!(!words[3].is_empty(), "{text}"),
        6 => {
            number(words[4]);
            number(words[5].strip_suffix('x').unwrap());
        }
        _ => panic!("{text}"),
    }
    if let Some(bar) = bar {
        assert!(bar.ends_with(": met") || bar.ends_with(": MISSED"), "{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&row.json()).unwrap();
    assert_eq!((json["name"].as_str(), json["config"].as_str()), (Some(words[0]), Some(words[1])));
    assert_eq!(json["met"].is_boolean(), bar.is_some(), "{text}");
}

async fn assert_runs(name: &str) {
    let mut rows = Vec::new();
    let tell = |told| match told {
        Told::Row(row) => rows.push(row),
        Told::Note(note) => assert!(note.starts_with("# "), "{note}"),
    };
    benches::run(&small(name), tell).await;
    assert!(rows.len() > 1, "{rows:?}");
    rows.iter().for_each(assert_shape);
}

/// One always, all of them with `MULTICA_TEST_LONG=1` (`bin/test --long`): each has a cluster of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bench_runs_and_says_what_it_measured() {
    let long = std::env::var("MULTICA_TEST_LONG").is_ok_and(|long| long == "1");
    for name in NAMES.into_iter().filter(|name| long || *name == "read") {
        assert_runs(name).await;
    }
}

#[test]
fn a_bench_that_is_none_is_named_with_those_there_are() {
    let refused =
        |words: &[&str]| Options::from_arguments(words.iter().map(|word| (*word).to_owned())).unwrap_err();
    assert!(refused(&["apend"]).starts_with("apend is no bench: append, read"));
    assert_eq!(refused(&["--rounds"]), "--rounds needs a value");
    assert_eq!(refused(&["--rounds", "0"]), "0 is no whole number from 1 on");
    assert_eq!(NAMES.len(), 8);
}
