//! Completions, man pages, help on topics.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;

use crate::cli::args::Cli;
use crate::cli::error::{CliError, UsageError};
use crate::cli::output::line;

const LOCAL_DIRECTORIES: &str = include_str!("local_directories.txt");
const WEBHOOKS: &str = include_str!("webhooks.txt");

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
    if words == ["webhooks"] {
        return line(WEBHOOKS.trim_end());
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                files(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "txt") {
                found.push(path);
            }
        }
    }

    /// What is wrong with a command line as sentences spell it: `multica task explain {id}`.
    fn wrong(spelled: &str) -> Option<String> {
        let mut command = Cli::command();
        command.build();
        let mut found = &command;
        for word in spelled.split_whitespace().skip(1) {
            // A placeholder for a verb: what follows can't be judged.
            if found.has_subcommands() && word.starts_with(['{', '…']) {
                return None;
            }
            if let Some(flag) = word.strip_prefix("--") {
                let name = flag.split(['=', '[', ']', '`']).next().unwrap_or(flag);
                let known = |argument: &clap::Arg| argument.get_long() == Some(name);
                if !found.get_arguments().any(known) {
                    return Some(format!("--{name}"));
                }
            } else if found.has_subcommands() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
                match found.find_subcommand(word) {
                    Some(next) => found = next,
                    None => return Some(word.to_owned()),
                }
            }
        }
        None
    }

    #[test]
    fn every_command_that_a_sentence_names_is_there() {
        let mut paths = Vec::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut paths);
        let mut findings = Vec::new();
        for path in paths {
            let text = fs::read_to_string(&path).expect("a file");
            // The rules name commands that help as values of their own.
            let rules = path.components().any(|part| part.as_os_str() == "domain");
            let quoted = text.split("\"multica ").skip(1).filter_map(|rest| rest.split('"').next());
            let quoted: Vec<String> =
                quoted.filter(|_| rules).map(|rest| format!("multica {rest}")).collect();
            let in_sentences = text.split('`').skip(1).step_by(2).filter(|part| part.starts_with("multica "));
            for spelled in in_sentences.chain(quoted.iter().map(String::as_str)) {
                findings.extend(wrong(spelled).map(|what| format!("{}: {spelled}: {what}", path.display())));
            }
        }
        assert!(findings.is_empty(), "{findings:#?}");
        assert_eq!(wrong("multica stop"), Some("stop".to_owned()));
        assert_eq!(wrong("multica up --nothing"), Some("--nothing".to_owned()));
    }
}
