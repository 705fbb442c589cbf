//! A whole installation for one test: `multica up` as a real process with a home, a data directory and a
//! port of its own.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::cluster;
use crate::support::waiting::came_true;
pub use crate::support::waiting::eventually_blocking as eventually;

/// Small bounds, so that what people wait minutes for takes a test seconds.
pub const LIMITS: &str = r#"{"heartbeat":300,"unreachable":30000,"reconnect_grace":120000,"sweep":100,"drain":3000,
"kill_grace":500,"claim_receipt":3000,"report_retry_first":50,"report_retry_max":500,"lock_retry":100,
"lock_wait":300,"claim_poll":2000,"order_poll":2000}"#;

/// Where tests as root have what belongs to the machine's installation: one place for all, for the copies of
/// the executable, which every account can reach.
pub fn system_dir() -> PathBuf {
    std::env::temp_dir().join("multica-e2e-system")
}

/// A running installation. Dropping it stops all of it and removes its folder.
pub struct Installation {
    base: PathBuf,
    /// What `data` in the base leads to.
    data: PathBuf,
    up: Option<Child>,
    environment: Vec<(String, String)>,
}

pub fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_multica"))
}

impl Installation {
    /// Makes the folders; nothing runs yet.
    pub fn new(name: &str) -> Self {
        let base = std::env::temp_dir().join(format!("multica-e2e-{}-{name}", std::process::id()));
        let data = cluster::home().join(format!("multica-e2e-data-{}-{name}", std::process::id()));
        for folder in [&base, &data] {
            let _ = fs::remove_dir_all(folder);
            fs::create_dir_all(folder).unwrap();
        }
        for folder in ["home", "code"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(&data, base.join("data")).unwrap();
        // The database's account has to be able to walk in.
        for folder in [&base, &data, &base.join("code")] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let keep = |name: &str| std::env::var(name).ok().map(|value| (name.to_owned(), value));
        let mut environment: Vec<(String, String)> =
            ["PATH", "MULTICA_PG_BIN", "TZ"].into_iter().filter_map(keep).collect();
        environment.push(("HOME".into(), base.join("home").display().to_string()));
        environment.push(("MULTICA_LIMITS".into(), LIMITS.replace('\n', "")));
        environment.push(("MULTICA_TEST_UNSAFE_DATABASE".into(), "1".into()));
        environment.push(("MULTICA_TEST_SYSTEM_DIR".into(), system_dir().display().to_string()));
        let installation = Self { base, data, up: None, environment };
        installation.allow(&installation.base.join("code"));
        installation
    }

    /// Makes and starts one.
    pub fn start(name: &str) -> Self {
        let mut installation = Self::new(name);
        installation.up();
        installation
    }

    /// Root's own directories are refused unless the daemon's local configuration names them.
    pub fn allow(&self, folder: &Path) {
        let profile = self.profile("local");
        fs::create_dir_all(&profile).unwrap();
        let config = json!({ "allowed_directories": [folder] });
        fs::write(profile.join("config.json"), config.to_string()).unwrap();
    }

    pub fn profile(&self, name: &str) -> PathBuf {
        self.base.join("home/.multica/profiles").join(name)
    }

    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Where the data directory really is.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// PostgreSQL gives its word only when it can keep it, as in production: for tests that kill it.
    pub fn durable(&mut self) {
        self.set("MULTICA_TEST_UNSAFE_DATABASE", "");
    }

    /// Sets a variable for everything started from now on; an empty value removes it.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.retain(|(have, _)| have != name);
        if !value.is_empty() {
            self.environment.push((name.into(), value.into()));
        }
    }

    /// Starts `multica up` and waits until it serves. Its first start finds a cluster made; tests of the very
    /// first start run the verb themselves.
    pub fn up(&mut self) {
        if !self.data.join("pg").exists() {
            cluster::seed(&self.data);
        }
        let log = fs::OpenOptions::new().create(true).append(true).open(self.base.join("up.log")).unwrap();
        let mut command = self.command();
        command
            .args(["up", "--data-dir"])
            .arg(self.base.join("data"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0);
        self.up = Some(command.spawn().unwrap());
        eventually(Duration::from_secs(60), "the installation", || {
            if let Some(status) = self.up.as_mut().and_then(|up| up.try_wait().unwrap()) {
                return Err(format!("`multica up` ended with {status}: {}", self.log()));
            }
            let daemons = self.daemons()?;
            let online = daemons.to_string().contains("\"online\"");
            if online { Ok(()) } else { Err(format!("{daemons}\n{}", self.log())) }
        });
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.base.join("up.log")).unwrap_or_default()
    }

    /// Kills `multica up` itself, and nothing else, with SIGKILL.
    pub fn kill_up(&mut self) {
        let mut up = self.up.take().unwrap();
        up.kill().unwrap();
        up.wait().unwrap();
    }

    /// Stops `multica up` as Ctrl-C does.
    pub fn stop(&mut self) -> std::process::ExitStatus {
        self.stop_by("INT")
    }

    /// Stops `multica up` by that signal.
    pub fn stop_by(&mut self, name: &str) -> std::process::ExitStatus {
        let mut up = self.up.take().unwrap();
        signal(i32::try_from(up.id()).unwrap(), name);
        eventually(Duration::from_secs(60), "the clean stop", || {
            up.try_wait().unwrap().ok_or_else(|| self.log())
        })
    }

    pub fn command(&self) -> Command {
        self.command_of(binary())
    }

    /// Any program, in this installation's environment.
    pub fn command_of(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment.iter().cloned()).current_dir(&self.base);
        command
    }

    pub fn cli(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a verb that has to succeed and returns what it prints as JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        self.try_json(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}", self.log()))
    }

    pub fn try_json(&self, arguments: &[&str]) -> Result<Value, String> {
        let output =
            self.command().args(arguments).args(["--output", "json"]).stdin(Stdio::null()).output().unwrap();
        if !output.status.success() {
            let (said, error) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            return Err(format!("{}: {error}{said}", output.status));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{error} in {}", String::from_utf8_lossy(&output.stdout)))
    }

    /// What a verb prints for people.
    pub fn text(&self, arguments: &[&str]) -> String {
        let output = self.cli(arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    /// A directory that agents may work in, with one file.
    pub fn directory(&self, name: &str) -> PathBuf {
        let folder = self.base.join("code").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("mine.txt"), "mine\n").unwrap();
        folder
    }

    /// A project with that directory attached in place.
    pub fn project(&self, title: &str, directory: &Path) -> String {
        let project = self.json(&["project", "create", "--title", title]);
        let id = project["id"].as_str().unwrap().to_owned();
        let path = directory.display().to_string();
        self.json(&["project", "resource", "add", &id, "--type", "local_directory", "--local-path", &path]);
        id
    }

    /// An agent on provider `command` that runs a shell script.
    pub fn agent(&self, name: &str, script: &str) -> String {
        let arguments =
            ["agent", "create", "--name", name, "--provider", "command", "--command", "sh", "--arg=-c"];
        let agent = self.json(&[&arguments[..], &[&format!("--arg={script}")]].concat());
        agent["id"].as_str().unwrap().to_owned()
    }

    /// An issue for that agent; returns its key.
    pub fn issue(&self, title: &str, project: &str, agent: &str) -> String {
        let issue =
            self.json(&["issue", "create", "--title", title, "--project", project, "--assignee", agent]);
        issue["identifier"].as_str().unwrap().to_owned()
    }

    /// One request as the profile's member: a CLI of its own for each would take most of the time.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let config =
            fs::read(self.profile("local").join("config.json")).map_err(|error| error.to_string())?;
        let config: Value = serde_json::from_slice(&config).map_err(|error| error.to_string())?;
        let url = config["server_url"].as_str().unwrap_or_default().to_owned();
        let host = url.trim_start_matches("http://").trim_end_matches('/');
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nX-Workspace-ID: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            config["token"].as_str().unwrap_or_default(),
            config["workspace_id"].as_str().unwrap_or_default(),
            body.len(),
        );
        let mut stream = TcpStream::connect(host).map_err(|error| format!("{host}: {error}"))?;
        // Whatever listens there: a wait looks again.
        stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(|error| error.to_string())?;
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| answer.clone())?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            return Err(format!("{method} {path}: {status} {body}"));
        }
        serde_json::from_str(body).map_err(|error| format!("{error} in {body}"))
    }

    /// All daemons, for a wait.
    pub fn daemons(&self) -> Result<Value, String> {
        self.call("GET", "/api/daemons", &Value::Null)
    }

    /// A task, for a wait.
    pub fn try_task(&self, name: &str) -> Result<Value, String> {
        self.call("GET", &format!("/api/tasks/{}", name.replace('#', "%23")), &Value::Null)
    }

    pub fn task(&self, name: &str) -> Value {
        self.json(&["task", "show", name])
    }

    /// Waits until the task has that status.
    pub fn until(&self, task: &str, status: &str) -> Value {
        eventually(Duration::from_secs(60), &format!("{task} {status}"), || {
            let seen = self.try_task(task)?;
            if seen["status"] == status { Ok(seen) } else { Err(format!("{seen}\n{}", self.log())) }
        })
    }

    /// The event types of a task's story, in order.
    pub fn story(&self, task: &str) -> Vec<String> {
        let history = self.json(&["task", "history", task]);
        let entries = history["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["type"].as_str().unwrap().to_owned()).collect()
    }

    /// The log is dense and chained, and every read model equals its rebuild.
    pub fn assert_verified(&self) {
        let verified = self.json(&["verify"]);
        assert_eq!(verified["findings"], json!([]), "{verified}");
    }
}

pub fn signal(pid: i32, name: &str) {
    let status =
        Command::new("kill").arg(format!("-{name}")).arg("--").arg(pid.to_string()).status().unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}

impl Drop for Installation {
    fn drop(&mut self) {
        if let Some(mut up) = self.up.take() {
            signal(i32::try_from(up.id()).unwrap(), "INT");
            let ended = || up.try_wait().ok().flatten().is_some();
            if !came_true(Duration::from_secs(20), ended) {
                let _ = up.kill();
                let _ = up.wait();
            }
        }
        stop_database(&self.data);
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        let _ = fs::remove_dir_all(&self.base);
        let _ = fs::remove_dir_all(&self.data);
    }
}

/// Stops the PostgreSQL of a data directory, when a killed `multica up` has left it running.
fn stop_database(data: &Path) {
    for entry in fs::read_dir(data).into_iter().flatten().flatten() {
        for folder in [entry.path(), entry.path().join("data"), entry.path().join("pg/data")] {
            let Ok(text) = fs::read_to_string(folder.join("postmaster.pid")) else { continue };
            let Some(pid) = text.lines().next().and_then(|line| line.trim().parse::<i32>().ok()) else {
                continue;
            };
            let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            if cwd == folder {
                let _ = Command::new("kill").args(["-QUIT", "--", &pid.to_string()]).status();
            }
        }
    }
}
