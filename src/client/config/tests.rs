use std::os::unix::fs::PermissionsExt;

use secrecy::ExposeSecret;
use serde_json::Value;

use super::*;

struct Machine {
    home: tempfile::TempDir,
    variables: BTreeMap<String, String>,
}

impl Machine {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a home");
        let variables = BTreeMap::from([("HOME".to_owned(), home.path().display().to_string())]);
        Self { home, variables }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    fn config(self, profile: &str, json: &str) -> Self {
        let home = Home(self.home.path().join(".multica"));
        let path = home.profile(profile).expect("a profile").config_path();
        write_private(&path, json.as_bytes()).expect("written");
        self
    }

    fn resolve(&self, flags: &Flags) -> Result<Settings, ConfigError> {
        Settings::resolve(flags, &Environment(self.variables.clone()), self.home.path())
    }
}

fn token(settings: &Settings) -> Option<&str> {
    settings.token.as_ref().map(ExposeSecret::expose_secret)
}

#[test]
fn a_flag_counts_before_the_environment_and_that_before_the_file() {
    let file = r#"{"server_url":"http://file","workspace_id":"file","token":"mul_file"}"#;
    let machine = Machine::new().config("", file).with("MULTICA_WORKSPACE_ID", "environment");
    let flags = Flags { server_url: Some("http://flag".to_owned()), ..Flags::default() };
    let settings = machine.resolve(&flags).expect("settled");
    assert_eq!(settings.server_url.as_deref(), Some("http://flag"));
    assert_eq!(settings.workspace.as_deref(), Some("environment"));
    assert_eq!(token(&settings), Some("mul_file"));
}

#[test]
fn the_local_profile_counts_only_when_nothing_else_is_configured() {
    let local = r#"{"server_url":"http://local","token":"mul_local"}"#;
    let bare = Machine::new().config("local", local);
    assert_eq!(bare.resolve(&Flags::default()).expect("settled").server_url.as_deref(), Some("http://local"));

    let both = Machine::new().config("local", local).config("", r#"{"server_url":"http://mine"}"#);
    assert_eq!(both.resolve(&Flags::default()).expect("settled").server_url.as_deref(), Some("http://mine"));

    let named = Machine::new().config("local", local).with("MULTICA_SERVER_URL", "http://other");
    assert_eq!(token(&named.resolve(&Flags::default()).expect("settled")), None);
}

#[test]
fn inside_a_task_no_file_is_read_and_only_a_tasks_token_counts() {
    let file = r#"{"server_url":"http://file","token":"mul_file"}"#;
    let machine =
        Machine::new().config("", file).with("MULTICA_TASK_ID", "t").with("MULTICA_TOKEN", "mul_human");
    let settings = machine.resolve(&Flags::default()).expect("settled");
    assert_eq!((token(&settings), settings.server_url.as_deref()), (None, None));
    let flags = Flags { profile: Some("local".to_owned()), ..Flags::default() };
    assert!(matches!(machine.resolve(&flags), Err(ConfigError::ProfileInTask(_))));

    let run = machine.with("MULTICA_TOKEN", "mat_task").with("MULTICA_SERVER_URL", "http://server");
    assert_eq!(token(&run.resolve(&Flags::default()).expect("settled")), Some("mat_task"));
}

#[test]
fn a_file_is_private_and_keeps_what_it_does_not_know() {
    let machine = Machine::new().config("work", r#"{"future_key":{"a":[1]},"token":"mul_secret"}"#);
    let path = Home(machine.home.path().join(".multica")).profile("work").expect("a profile").config_path();
    let mut file = ConfigFile::read(&path).expect("read");
    file.set("server_url", Value::from("http://s"));
    file.write(&path).expect("written");
    let again = ConfigFile::read(&path).expect("read");
    assert_eq!(again.shown()["future_key"], serde_json::json!({"a":[1]}));
    assert_eq!(again.shown()["token"], "[redacted]");
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_profile_name_can_not_leave_the_profiles_folder() {
    let home = Home(PathBuf::from("/h/.multica"));
    for name in ["../x", "a/b", ".hidden", "a b"] {
        assert!(matches!(home.profile(name), Err(ConfigError::ProfileName(_))), "{name}");
    }
}

#[test]
fn the_daemons_id_is_made_once() {
    let machine = Machine::new();
    let home = Home(machine.home.path().join(".multica"));
    let environment = Environment(machine.variables.clone());
    let first = home.daemon_id(&environment).expect("made");
    assert_eq!(home.daemon_id(&environment).expect("read"), first);
}

/// JSON of every kind.
const KINDS: [&str; 8] = ["\"text\"", "7", "0", "-1.5", "true", "[1]", "[\"relative\"]", "{\"a\":1}"];

#[test]
fn a_key_of_ours_that_holds_something_else_is_an_error_by_file_key_and_next_step() {
    for (key, shape) in keys::KEYS {
        for value in KINDS {
            let fits = match shape {
                keys::Shape::Text => value.starts_with('"'),
                keys::Shape::Count => value == "7",
                keys::Shape::Paths => false,
            };
            let written = format!("{{\"{key}\":{value},\"token\":\"mul_t\"}}");
            let written = if key == "token" { format!("{{\"token\":{value}}}") } else { written };
            let machine = Machine::new().config("", &written);
            let path = Home(machine.home.path().join(".multica")).profile("").expect("there").config_path();
            let read = machine.resolve(&Flags::default());
            assert_eq!(read.is_ok(), fits, "{written}");
            let Err(error) = read else { continue };
            let (said, step) = (error.to_string(), error.next_step());
            let path = path.display().to_string();
            assert!(said.contains(key) && said.contains(&path) && said.contains(shape.name()), "{said}");
            assert!(step.contains(key) && step.contains(shape.example()), "{step}");
            assert_eq!(std::fs::read_to_string(path).expect("there"), written, "nothing is overwritten");
        }
    }
}

#[test]
fn whoever_asks_at_once_gets_the_same_daemon_id() {
    for _ in 0..20 {
        let machine = Machine::new();
        let home = Home(machine.home.path().join(".multica"));
        let environment = Environment(machine.variables.clone());
        let ids: Vec<String> = std::thread::scope(|scope| {
            let ask = || scope.spawn(|| home.daemon_id(&environment).expect("an id"));
            let asked: Vec<_> = (0..8).map(|_| ask()).collect();
            asked.into_iter().map(|one| one.join().expect("joined")).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        let left: Vec<_> = std::fs::read_dir(&home.0).expect("list").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

#[test]
fn what_fits_is_read_and_null_is_nothing() {
    let json = r#"{"max_concurrent_tasks":3,"allowed_directories":["/srv/a","/srv/b"],"device_name":null}"#;
    let machine = Machine::new().config("", json);
    let path = Home(machine.home.path().join(".multica")).profile("").expect("there").config_path();
    let file = ConfigFile::read(&path).expect("read");
    assert_eq!(file.count("max_concurrent_tasks"), Some(3));
    assert_eq!(file.paths("allowed_directories"), [PathBuf::from("/srv/a"), PathBuf::from("/srv/b")]);
    assert_eq!(
        (file.text("device_name"), file.count("other"), file.paths("other")),
        (None, None, Vec::new())
    );
    let variable = |text: &str| Environment(BTreeMap::from([("N".to_owned(), text.to_owned())])).count("N");
    assert_eq!(variable("4").expect("a count"), Some(4));
    assert_eq!(variable("").expect("absent"), None);
    for wrong in ["0", "four", "-1", "4294967296"] {
        assert!(variable(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn no_key_is_written_that_could_not_be_read_again() {
    let machine = Machine::new().config("", r#"{"server_url":"http://s"}"#);
    let path = Home(machine.home.path().join(".multica")).profile("").expect("there").config_path();
    let mut file = ConfigFile::read(&path).expect("read");
    file.set("allowed_directories", keys::Shape::typed("allowed_directories", "/srv/game"));
    assert!(matches!(file.write(&path), Err(ConfigError::Key { .. })));
    assert!(!std::fs::read_to_string(&path).expect("there").contains("allowed"));
    file.set("allowed_directories", keys::Shape::typed("allowed_directories", "[\"/srv/game\"]"));
    file.set("device_name", keys::Shape::typed("device_name", "42"));
    file.write(&path).expect("written");
    assert_eq!(ConfigFile::read(&path).expect("read").text("device_name"), Some("42"));
}

#[test]
fn a_blank_daemon_id_is_replaced_and_a_directory_in_its_place_is_an_error() {
    let machine = Machine::new();
    let home = Home(machine.home.path().join(".multica"));
    let environment = Environment(machine.variables.clone());
    write_private(&home.0.join("daemon.id"), b" \n").expect("written");
    let id = home.daemon_id(&environment).expect("an id");
    assert_eq!(home.daemon_id(&environment).expect("an id"), id);
    std::fs::remove_file(home.0.join("daemon.id")).expect("removed");
    std::fs::create_dir(home.0.join("daemon.id")).expect("made");
    assert!(matches!(home.daemon_id(&environment), Err(ConfigError::Read { .. })));
}
