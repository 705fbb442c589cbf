//! `bin/bench`: how fast the event log is, beside what else could be done with the same database.
//!
//! What the rows mean and what was measured stands in `benches/README.md`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench that can't measure says so by panicking; its rows go to the terminal"
)]

mod bench;

use bench::Told;

fn main() {
    let options = bench::Options::from_arguments(std::env::args().skip(1)).unwrap_or_else(|problem| {
        eprintln!("{problem}");
        std::process::exit(2);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(bench::run(&options, |told| match told {
        Told::Row(row) if options.json => println!("{}", row.json()),
        Told::Row(row) => println!("{row}"),
        // Only rows go where rows are read by programs.
        Told::Note(note) if options.json => eprintln!("{note}"),
        Told::Note(note) => println!("{note}"),
    }));
}
