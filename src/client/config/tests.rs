use std::os::unix::fs::PermissionsExt;

use secrecy::ExposeSecret;

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
    assert_eq!(again.value("future_key"), Some(&serde_json::json!({"a":[1]})));
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
