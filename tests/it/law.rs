//! The layout and import law: reads the sources as text and compares them with the table below.
//!
//! A re-export across layers would let a path lie, so `pub use crate::<layer>` is banned too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Who may import whom. A layer may always import itself; `main.rs` and `system` may import everything.
const LAYERS: &[(&str, &[&str])] = &[
    ("kernel", &[]),
    ("domain", &["kernel"]),
    ("fold", &["domain", "kernel"]),
    ("wire", &["domain", "kernel"]),
    ("process", &["kernel"]),
    ("git", &["process", "domain", "kernel"]),
    ("seal", &["git", "process", "wire", "domain", "kernel"]),
    // Of client only the one constructor of HTTP clients, which stands on the floor.
    ("webhook", &["client", "domain", "kernel"]),
    ("store", &["process", "fold", "domain", "kernel"]),
    ("readmodel", &["store", "fold", "wire", "domain", "kernel"]),
    ("app", &["store", "readmodel", "seal", "webhook", "git", "fold", "wire", "domain", "kernel"]),
    ("web", &["wire", "domain", "kernel"]),
    ("http", &["app", "readmodel", "store", "seal", "webhook", "web", "fold", "wire", "domain", "kernel"]),
    ("agent", &["domain", "kernel"]),
    ("execenv", &["agent", "git", "process", "wire", "domain", "kernel"]),
    ("supervisor", &["execenv", "agent", "git", "process", "wire", "domain", "kernel"]),
    ("client", &["process", "wire", "domain", "kernel"]),
    ("daemon", &["supervisor", "execenv", "agent", "client", "git", "process", "wire", "domain", "kernel"]),
    ("cli", &["daemon", "client", "seal", "process", "wire", "domain", "kernel"]),
];

/// Which layer may name which vendor crate (`system` and `main` aside).
const FENCES: &[(&str, &[&str])] = &[
    ("axum", &["http"]),
    ("axum_extra", &["http"]),
    ("hyper", &["http"]),
    ("hyper_util", &["http"]),
    ("tower_http", &["http"]),
    ("maud", &["web", "http"]),
    ("tokio_postgres", &["store", "readmodel"]),
    ("deadpool_postgres", &["store", "readmodel"]),
    ("refinery", &["store"]),
    ("git2", &["git"]),
    ("nix", &["process"]),
    ("libc", &["process"]),
    ("reqwest", &["client", "webhook"]),
    ("chacha20poly1305", &["app"]),
    ("clap", &["cli"]),
    ("indicatif", &["cli"]),
    ("comfy_table", &["cli"]),
];

/// Layers without a clock, I/O or tasks.
const PURE: &[&str] = &["kernel", "domain", "fold", "wire", "agent"];

/// What a pure layer never says.
const IMPURE: &[&str] = &[
    "tokio::",
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Uuid::now_v7",
    "Uuid::new_v4",
];

const LONGEST_FILE: usize = 600;

/// What a read model's folder may leave out.
const UPSERT: &str = include_str!("../../src/readmodel/sql/upsert.sql");

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

struct Source {
    path: String,
    layer: String,
    text: String,
}

/// Every source file without its comments, with the layer it belongs to.
fn sources() -> Vec<Source> {
    let src = root().join("src");
    files(&src, ".rs")
        .into_iter()
        .map(|path| {
            let relative = path.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
            let layer = relative.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
            let text = fs::read_to_string(&path)
                .unwrap()
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect::<Vec<_>>()
                .join("\n");
            Source { path: relative, layer, text }
        })
        .collect()
}

fn is_root(layer: &str) -> bool {
    matches!(layer, "main" | "lib" | "system")
}

/// The layers that a text names after `crate::`, singly or in braces.
fn imported(text: &str) -> BTreeSet<String> {
    let mut layers = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        layers.insert(std::mem::take(&mut word));
                    }
                    c if depth == 0 => word.push(c),
                    _ => {}
                }
            }
            layers.insert(word);
        } else {
            layers.insert(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    layers
        .into_iter()
        .map(|word| word.trim().split("::").next().unwrap_or_default().trim().to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

/// The files that are part of test builds only: what `#[cfg(test)] mod name;` mounts.
fn test_files(sources: &[Source]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for source in sources {
        let folder = source.path.trim_end_matches(".rs").trim_end_matches("/mod").to_owned();
        for rest in source.text.split("#[cfg(test)]\n").skip(1) {
            let line = rest.lines().next().unwrap_or_default().trim_end_matches(';');
            let Some((_, name)) = line.split_once("mod ") else { continue };
            found.insert(format!("{folder}/{name}.rs"));
        }
    }
    found
}

fn names_crate(text: &str, vendor: &str) -> bool {
    text.match_indices(&format!("{vendor}::"))
        .any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'))
}

fn assert_none(findings: &[String], law: &str) {
    assert!(findings.is_empty(), "{law}:\n  {}", findings.join("\n  "));
}

#[test]
fn imports_only_go_down() {
    let law: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    let mut broken = Vec::new();
    for source in sources() {
        if is_root(&source.layer) {
            continue;
        }
        let Some(allowed) = law.get(source.layer.as_str()) else {
            broken.push(format!("{}: `{}` is no layer of the law", source.path, source.layer));
            continue;
        };
        for layer in imported(&source.text) {
            let known = law.contains_key(layer.as_str()) || is_root(&layer);
            if known && layer != source.layer && !allowed.contains(&layer.as_str()) {
                broken.push(format!("{} imports {layer}", source.path));
            }
        }
    }
    assert_none(&broken, "a layer imports what it may not");
}

#[test]
fn the_server_half_uses_nothing_of_the_client_but_its_constructor_of_http_clients() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.layer == "webhook") {
        let uses = source.text.matches("crate::client").count();
        if uses != source.text.matches("crate::client::http::").count() {
            broken.push(source.path.clone());
        }
    }
    assert_none(&broken, "more of the client than `client::http`");
}

#[test]
fn the_law_itself_has_no_cycles() {
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut left: BTreeMap<&str, &[&str]> = LAYERS.iter().copied().collect();
    while !left.is_empty() {
        let free: Vec<&str> = left
            .iter()
            .filter(|(_, needs)| needs.iter().all(|need| done.contains(need)))
            .map(|(layer, _)| *layer)
            .collect();
        assert!(!free.is_empty(), "these layers need each other: {:?}", left.keys());
        for layer in free {
            left.remove(layer);
            done.insert(layer);
        }
    }
}

#[test]
fn no_layer_shows_another_under_its_own_name() {
    let mut broken = Vec::new();
    for source in sources() {
        for line in source.text.lines() {
            let Some(rest) = line.trim_start().strip_prefix("pub use crate::") else { continue };
            if !is_root(&source.layer) && !rest.starts_with(&source.layer) {
                broken.push(format!("{}: {}", source.path, line.trim()));
            }
        }
    }
    assert_none(&broken, "a re-export across layers");
}

#[test]
fn vendor_crates_stay_in_their_layer() {
    let mut broken = Vec::new();
    for source in sources() {
        if is_root(&source.layer) {
            continue;
        }
        for (vendor, layers) in FENCES {
            if !layers.contains(&source.layer.as_str()) && names_crate(&source.text, vendor) {
                broken.push(format!("{} names {vendor}", source.path));
            }
        }
        let unsafe_code = source.text.contains("unsafe {") || source.text.contains("unsafe fn");
        if unsafe_code && source.layer != "process" {
            broken.push(format!("{} has unsafe code", source.path));
        }
    }
    assert_none(&broken, "a vendor crate outside its layer");
}

#[test]
fn pure_layers_read_no_clock_and_touch_nothing() {
    let mut broken = Vec::new();
    let all = sources();
    let only_in_tests = test_files(&all);
    for source in &all {
        if !PURE.contains(&source.layer.as_str()) || only_in_tests.contains(&source.path) {
            continue;
        }
        let code = source.text.split("#[cfg(test)]").next().unwrap_or_default();
        for word in IMPURE {
            if code.contains(word) {
                broken.push(format!("{} says {word}", source.path));
            }
        }
    }
    assert_none(&broken, "a pure layer isn't");
}

#[test]
fn each_sql_file_is_used_once() {
    let src = root().join("src");
    let mut uses: BTreeMap<PathBuf, usize> = files(&src, ".sql").into_iter().map(|path| (path, 0)).collect();
    let mut broken = Vec::new();
    for source in sources() {
        for rest in source.text.split("include_str!(\"").skip(1) {
            let name = rest.split('"').next().unwrap();
            if !name.ends_with(".sql") {
                continue;
            }
            let path = src.join(&source.path).parent().unwrap().join(name);
            match path.canonicalize().ok().and_then(|path| uses.get_mut(&path)) {
                Some(count) => *count += 1,
                None => broken.push(format!("{} includes {name}, which isn't there", source.path)),
            }
        }
    }
    broken.extend(
        uses.into_iter()
            .filter(|(_, count)| *count != 1)
            .map(|(path, count)| format!("{} is used {count} times", path.display())),
    );
    assert_none(&broken, "a .sql file that isn't used exactly once");
}

#[test]
fn each_event_has_a_schema_and_a_sample() {
    let schemas = root().join("event-schemas");
    let mut broken = Vec::new();
    let mut count = 0;
    for path in files(&schemas, ".json") {
        let relative = path.strip_prefix(&schemas).unwrap().to_string_lossy().into_owned();
        if relative == "manifest.json" || relative.contains("samples/") {
            continue;
        }
        count += 1;
        let (family, file) = relative.split_once('/').unwrap();
        if !schemas.join(family).join("samples").join(file).exists() {
            broken.push(format!("{relative} has no sample"));
        }
    }
    assert!(count > 40, "only {count} schemas were found");
    assert_none(&broken, "an event without a sample");
}

#[test]
fn each_read_model_has_its_folder() {
    let mut broken = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(root().join("projections")).unwrap() {
        let folder = entry.unwrap().path();
        count += 1;
        for file in ["version", "schema.sql", "README.md"] {
            if !folder.join(file).exists() {
                broken.push(format!("{} has no {file}", folder.display()));
            }
        }
        {
            let (own, shared) = ("upsert.sql", UPSERT);
            let says = |sql: &str| sql.lines().filter(|l| !l.starts_with("--")).collect::<String>();
            let text = fs::read_to_string(folder.join(own)).unwrap_or_default();
            if says(&text) == says(shared) {
                broken.push(format!("{} has a copy of the shared {own}", folder.display()));
            }
        }
    }
    assert!(count > 5, "only {count} read models were found");
    assert_none(&broken, "a read model without its files");
}

#[test]
fn tests_wait_on_facts_in_one_place() {
    let folder = root().join("tests/it");
    let sleeps = ["time::", "thread::"].map(|path| [path, "sleep"].concat());
    let words = [sleeps[0].as_str(), sleeps[1].as_str(), "park_timeout("];
    let mut broken = Vec::new();
    for path in files(&folder, ".rs") {
        let text = fs::read_to_string(&path).unwrap();
        if path.ends_with("support/waiting.rs") || path.ends_with("law.rs") {
            continue;
        }
        for word in words.iter().filter(|word| text.contains(**word)) {
            broken.push(format!("{} says {word}", path.display()));
        }
    }
    for source in sources() {
        let inner = source.text.split("#[cfg(test)]").nth(1).unwrap_or_default();
        let only_tests = source.path.ends_with("tests.rs") || source.path.contains("/tests/");
        let text = if only_tests { source.text.as_str() } else { inner };
        for word in words.iter().filter(|word| text.contains(**word)) {
            broken.push(format!("src/{} says {word}", source.path));
        }
    }
    assert_none(&broken, "a test that waits for time instead of a fact");
}

#[test]
fn each_test_file_is_mounted() {
    let folder = root().join("tests/it");
    let mut broken = Vec::new();
    for path in files(&folder, ".rs") {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if matches!(stem.as_str(), "main" | "mod") {
            continue;
        }
        let parent = path.parent().unwrap();
        let mounts = if parent == folder { folder.join("main.rs") } else { parent.join("mod.rs") };
        let text = fs::read_to_string(&mounts).unwrap_or_default();
        if !text.contains(&format!("mod {stem};")) {
            broken.push(format!("{} isn't mounted in {}", path.display(), mounts.display()));
        }
    }
    assert_none(&broken, "a forgotten test file");
}

/// The printing macros panic when nobody reads: a closed terminal would end what has to end in order.
#[test]
fn nothing_prints_by_a_macro_that_panics() {
    let mut findings = Vec::new();
    for path in files(&root().join("src"), "rs") {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if ["println!", "print!"].iter().any(|name| code.contains(name)) {
                findings.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert_none(&findings, "use writeln! and say what becomes of an error");
}

#[test]
fn files_stay_small() {
    let mut sizes: Vec<(usize, String)> = files(&root().join("src"), ".rs")
        .into_iter()
        .chain(files(&root().join("tests"), ".rs"))
        .map(|path| (fs::read_to_string(&path).unwrap().lines().count(), path.display().to_string()))
        .collect();
    sizes.sort_by(|a, b| b.cmp(a));
    for (lines, path) in sizes.iter().take(10) {
        println!("{lines:5} {path}");
    }
    let long: Vec<String> = sizes
        .into_iter()
        .filter(|(lines, _)| *lines > LONGEST_FILE)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert_none(&long, "a file that nobody can hold in the head");
}

#[test]
fn nothing_names_a_path_of_the_machine_it_was_written_on() {
    let mut broken = Vec::new();
    for folder in ["src", "tests", "bin", "projections", "migrations", "event-schemas"] {
        for path in files(&root().join(folder), "") {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            for word in
                [["/work", "/main"].concat(), ["/work", "/wt-"].concat(), ["/work", "/shared"].concat()]
            {
                if text.contains(&word) {
                    broken.push(format!("{} names {word}", path.display()));
                }
            }
        }
    }
    assert_none(&broken, "a path of one machine");
}
