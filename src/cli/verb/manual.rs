//! Completions, man pages, help on topics.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;

use crate::cli::args::Cli;
use crate::cli::error::{CliError, UsageError};
use crate::cli::output::line;

const LOCAL_DIRECTORIES: &str = include_str!("local_directories.txt");

pub fn completions(shell: clap_complete::Shell) -> Result<(), CliError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "multica", &mut text);
    std::io::stdout().write_all(&text).map_err(CliError::Output)
}

pub fn man(dir: &Path) -> Result<(), CliError> {
    let file = |source| CliError::File { path: dir.to_owned(), source };
    std::fs::create_dir_all(dir).map_err(file)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(file)?;
    line(&format!("Wrote the man pages to {}.", dir.display()))
}

/// Help on a topic, or on the verb that the words name.
pub fn help(words: &[String]) -> Result<(), CliError> {
    if words == ["local-directories"] {
        return line(LOCAL_DIRECTORIES.trim_end());
    }
    let mut command = Cli::command();
    command.build();
    let mut found = &mut command;
    for word in words {
        found = match found.find_subcommand_mut(word) {
            Some(next) => next,
            None => return Err(CliError::Usage(UsageError::Topic(words.join(" ")))),
        };
    }
    line(found.render_long_help().to_string().trim_end())
}
