//! The real coding agents' CLIs, run against a scripted model service on this machine.
//!
//! `tests/agents/install` installs them; `MULTICA_TEST_AGENTS_BIN` names their folder, else the cache
//! of that script is looked at.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use multica::agent::{
    Exit, Launch, LaunchRequest, Line, Message, MessageKind, Outcome, Provider, Reader, ReaderSetup, Signal,
    Stdin,
};
use multica::domain::agent::{CommandLine, PromptVia};
use multica::kernel::digest;
use multica::kernel::limits::Limits;

const DEADLINE: Duration = Duration::from_mins(3);

/// The model service: the stub, or one that refuses every call.
pub struct Model {
    /// Where it listens.
    pub url: String,
    child: Option<Child>,
}

impl Model {
    /// Plays the script that a prompt holds.
    pub fn scripted() -> Self {
        let stub = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/stub-model-api");
        let mut child = Command::new("python3")
            .args([stub, "--port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs the stub");
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Self { url: url.trim().to_owned(), child: Some(child) }
    }

    /// Answers 401 to everything, for as long as the test's process lives.
    pub fn refusing() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || refuse(connection));
            }
        });
        Self { url, child: None }
    }
}

/// Reads one request whole, then refuses it: an answer before the body has come resets the connection.
fn refuse(mut connection: std::net::TcpStream) -> Option<()> {
    let mut reader = BufReader::new(connection.try_clone().ok()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.take(length).read_to_end(&mut Vec::new()).ok()?;
    let body = r#"{"error":{"message":"Incorrect API key provided","type":"invalid_api_key"}}"#;
    let head = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close";
    write!(connection, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).ok()
}

impl Drop for Model {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sets the CLIs up for a model service, in a home of their own; `codex_more` are further lines of its provider.
pub fn configure(home: &Path, url: &str, codex_more: &str) {
    for folder in [".codex", ".config/opencode"] {
        std::fs::create_dir_all(home.join(folder)).unwrap();
    }
    let codex = format!(
        "model_provider = \"stub\"\nmodel = \"gpt-5\"\n[model_providers.stub]\nname = \"stub\"\n\
         base_url = \"{url}/v1\"\nwire_api = \"responses\"\nenv_key = \"STUBKEY\"\n{codex_more}"
    );
    std::fs::write(home.join(".codex/config.toml"), codex).unwrap();
    let opencode = serde_json::json!({
        "provider": {"stub": {
            "npm": "@ai-sdk/openai-compatible", "name": "stub",
            "options": {"baseURL": format!("{url}/v1"), "apiKey": "any"}, "models": {"m": {"name": "m"}},
        }},
        "model": "stub/m", "small_model": "stub/m", "autoupdate": false, "share": "disabled",
    });
    std::fs::write(home.join(".config/opencode/opencode.json"), opencode.to_string()).unwrap();
}

/// The variables by which the CLIs find a model service, and leave the rest of the world alone.
pub fn variables(url: &str) -> [(&'static str, String); 7] {
    [
        ("ANTHROPIC_BASE_URL", url),
        ("ANTHROPIC_API_KEY", "any"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        // By itself it tries for minutes.
        ("CLAUDE_CODE_MAX_RETRIES", "0"),
        ("STUBKEY", "any"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
}

/// A home with the CLI set up to use that model service, and a work directory.
struct Place {
    provider: Provider,
    environment: Vec<(String, String)>,
    work: PathBuf,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new(provider: Provider, model: &Model) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (home, work) = (folder.path().join("home"), folder.path().join("work"));
        let config = home.join(".config");
        std::fs::create_dir_all(&work).unwrap();
        configure(&home, &model.url, "");
        let path = std::env::var("PATH").unwrap_or_default();
        let folders = [
            ("PATH", path.as_str()),
            ("HOME", home.to_str().unwrap()),
            ("XDG_CONFIG_HOME", config.to_str().unwrap()),
            ("XDG_DATA_HOME", home.join(".local/share").to_str().unwrap()),
            ("XDG_STATE_HOME", home.join(".local/state").to_str().unwrap()),
            ("XDG_CACHE_HOME", home.join(".cache").to_str().unwrap()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let model = variables(&model.url).map(|(name, value)| (name.to_owned(), value));
        let environment = folders.into_iter().chain(model).collect();
        Self { provider, environment, work, _folder: folder }
    }

    fn run(&self, prompt: &str, resume: Option<&str>) -> Run {
        self.run_until(prompt, resume, |_| false)
    }

    fn run_until(&self, prompt: &str, resume: Option<&str>, stop: fn(&dyn Reader) -> bool) -> Run {
        let program = cli(self.provider);
        let retries: &[String] = &["request_max_retries", "stream_max_retries"]
            .map(|name| format!("--config=model_providers.stub.{name}=0"));
        let request = LaunchRequest {
            prompt,
            work_dir: self.work.to_str().unwrap(),
            program: program.to_str(),
            model: None,
            resume_session: resume,
            custom_arguments: if self.provider == Provider::Codex { retries } else { &[] },
            command: None,
            running_as_root: std::fs::metadata("/proc/self").unwrap().uid() == 0,
        };
        let launch = self.provider.launch(&request, &Limits::default()).unwrap();
        drive(self.provider, &launch, &self.environment, &self.work, stop)
    }
}

/// The program of a CLI that `tests/agents/install` installed.
pub fn cli(provider: Provider) -> PathBuf {
    let folder = std::env::var_os("MULTICA_TEST_AGENTS_BIN").map_or_else(default_folder, PathBuf::from);
    let program = folder.join(provider.detection().unwrap().binary);
    assert!(program.exists(), "{} is missing: run tests/agents/install first", program.display());
    program
}

fn default_folder() -> PathBuf {
    let package = include_bytes!("../agents/package.json");
    let digest = digest::hex(&digest::sha256_plain(package)[..8]);
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = folder("MULTICA_AGENTS_CACHE").unwrap_or_else(|| {
        let caches = folder("XDG_CACHE_HOME");
        caches.unwrap_or_else(|| folder("HOME").unwrap_or_default().join(".cache")).join("multica/agents")
    });
    cache.join(digest).join("node_modules/.bin")
}

struct Run {
    signals: Vec<Signal>,
    /// What was open when the run was stopped, or at its end.
    open: Vec<String>,
    outcome: Outcome,
}

impl Run {
    fn session(&self) -> &str {
        let sessions: Vec<&str> = self
            .signals
            .iter()
            .filter_map(|signal| match signal {
                Signal::Session(id) => Some(id.as_str()),
                Signal::Message(_) | Signal::Usage(_) => None,
            })
            .collect();
        let [session] = sessions[..] else { panic!("{sessions:?}") };
        session
    }

    /// The first message of that kind on standard output.
    fn message(&self, kind: MessageKind) -> &Message {
        self.signals
            .iter()
            .find_map(|signal| match signal {
                Signal::Message(message) if message.kind == kind && !message.stderr => Some(message),
                Signal::Message(_) | Signal::Session(_) | Signal::Usage(_) => None,
            })
            .unwrap_or_else(|| panic!("no {kind:?} in {:?}: {:?}", self.signals, self.outcome))
    }

    fn failed(&self) -> (&str, &str, bool) {
        let Outcome::Failed { reason, detail, session_rejected } = &self.outcome else {
            panic!("{:?}", self.outcome)
        };
        (reason, detail, *session_rejected)
    }
}

fn drive(
    provider: Provider,
    launch: &Launch,
    environment: &[(String, String)],
    work: &Path,
    stop: fn(&dyn Reader) -> bool,
) -> Run {
    let mut child = Command::new(&launch.program)
        .args(&launch.arguments)
        .env_clear()
        .envs(environment.iter().cloned())
        .envs(launch.environment.iter().cloned())
        .current_dir(work)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = match &launch.stdin {
        Stdin::Empty => Vec::new(),
        Stdin::Bytes(bytes) => bytes.clone(),
    };
    // A CLI that ends before it has read everything is judged by what it says.
    thread::spawn(move || stdin.write_all(&input));
    let (sender, lines) = mpsc::channel();
    send_lines(child.stdout.take().unwrap(), true, sender.clone());
    send_lines(child.stderr.take().unwrap(), false, sender);
    let mut reader = provider.reader(&ReaderSetup::default(), &Limits::default());
    let (mut signals, mut open, mut stopped) = (Vec::new(), Vec::new(), false);
    let deadline = Instant::now() + DEADLINE;
    loop {
        let (stdout, line) = match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                panic!("{provider:?} took too long: {signals:?}");
            }
        };
        let line = Line::whole(&line);
        signals.extend(if stdout { reader.stdout_line(line) } else { reader.stderr_line(line) });
        if !stopped && stop(reader.as_ref()) {
            stopped = true;
            open = reader.open_tools().values().cloned().collect();
            child.kill().unwrap();
        }
    }
    let exit = exit(child.wait().unwrap());
    if !stopped {
        open = reader.open_tools().values().cloned().collect();
    }
    Run { signals, open, outcome: reader.finish(exit) }
}

fn send_lines(output: impl Read + Send + 'static, stdout: bool, sender: mpsc::Sender<(bool, Vec<u8>)>) {
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if sender.send((stdout, line)).is_err() {
                break;
            }
        }
    });
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

const FIRST: &str =
    "Write the file.\nscript: [{\"shell\": \"echo one > one.txt && echo wrote\"}, {\"text\": \"Done: one\"}]";
const SECOND: &str = "Go on.\nscript: [{\"shell\": \"echo two > two.txt\"}, {\"text\": \"Done: two\"}]";

fn a_run_works_and_is_resumed(provider: Provider) {
    let model = Model::scripted();
    let place = Place::new(provider, &model);
    let first = place.run(FIRST, None);
    assert_eq!(first.outcome, Outcome::Completed { output: "Done: one".to_owned() }, "{:?}", first.signals);
    assert_eq!(std::fs::read_to_string(place.work.join("one.txt")).unwrap(), "one\n");
    let (used, answered) = (first.message(MessageKind::ToolUse), first.message(MessageKind::ToolResult));
    assert!(used.input.as_ref().unwrap().to_string().contains("one.txt"), "{used:?}");
    assert!(answered.output.as_ref().unwrap().contains("wrote"), "{answered:?}");
    assert_eq!(used.call, answered.call);
    assert_eq!(first.message(MessageKind::Text).content, "Done: one");
    let usage = first.signals.iter().rev().find_map(|signal| match signal {
        Signal::Usage(usage) => usage.first(),
        Signal::Message(_) | Signal::Session(_) => None,
    });
    assert_eq!(usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((20, 10)));
    assert!(first.open.is_empty(), "{:?}", first.open);

    let second = place.run(SECOND, Some(first.session()));
    assert_eq!(second.outcome, Outcome::Completed { output: "Done: two".to_owned() }, "{:?}", second.signals);
    assert_eq!(std::fs::read_to_string(place.work.join("two.txt")).unwrap(), "two\n");
    assert_eq!(second.session(), first.session());
}

fn an_unknown_session_is_rejected(provider: Provider, session: &str) {
    let model = Model::scripted();
    let run = Place::new(provider, &model).run(FIRST, Some(session));
    let (_, detail, rejected) = run.failed();
    assert!(rejected, "{detail}");
}

/// The shell's sleep outlives the killed CLI by seconds; it writes nothing.
const LONG: &str = "Wait.\nscript: [{\"shell\": \"sleep 5\"}, {\"text\": \"Done\"}]";

fn a_killed_run_fails_with_its_tool_open(provider: Provider, tool: &str) {
    let model = Model::scripted();
    let run = Place::new(provider, &model).run_until(LONG, None, |reader| !reader.open_tools().is_empty());
    let (reason, detail, _) = run.failed();
    assert_eq!(reason, "agent_error.process_failure", "{detail}");
    assert!(detail.contains("signal 9"), "{detail}");
    assert_eq!(run.open, [tool]);
}

#[test]
fn claude_works_with_its_shell_and_goes_on_with_its_session() {
    a_run_works_and_is_resumed(Provider::Claude);
}

#[test]
fn codex_works_with_its_shell_and_goes_on_with_its_session() {
    a_run_works_and_is_resumed(Provider::Codex);
}

#[test]
fn opencode_works_with_its_shell_and_goes_on_with_its_session() {
    a_run_works_and_is_resumed(Provider::Opencode);
}

#[test]
fn claude_rejects_a_session_that_is_not_there() {
    an_unknown_session_is_rejected(Provider::Claude, "11111111-2222-4333-8444-555555555555");
}

#[test]
fn codex_rejects_a_session_that_is_not_there() {
    an_unknown_session_is_rejected(Provider::Codex, "11111111-2222-4333-8444-555555555555");
}

#[test]
fn opencode_rejects_a_session_that_is_not_there() {
    an_unknown_session_is_rejected(Provider::Opencode, "ses_nowhere");
}

#[test]
fn claude_killed_in_its_shell_fails_with_that_tool_open() {
    a_killed_run_fails_with_its_tool_open(Provider::Claude, "Bash");
}

#[test]
fn codex_killed_in_its_shell_fails_with_that_tool_open() {
    a_killed_run_fails_with_its_tool_open(Provider::Codex, "shell");
}

#[test]
fn opencode_killed_in_its_step_fails_with_that_step_open() {
    a_killed_run_fails_with_its_tool_open(Provider::Opencode, "step");
}

#[test]
fn an_overloaded_model_service_fails_claude_and_codex_by_that_name() {
    let model = Model::scripted();
    for provider in [Provider::Claude, Provider::Codex] {
        let run = Place::new(provider, &model).run("Fail.\nscript: [{\"error\": 529}]", None);
        let (reason, detail, rejected) = run.failed();
        assert_eq!(reason, "agent_error.provider_capacity_or_rate_limit", "{provider:?} {detail}");
        assert!(!rejected);
        assert!(run.message(MessageKind::Error).content.contains("529") || provider == Provider::Codex);
    }
}

#[test]
fn refused_credentials_fail_every_cli_by_that_name() {
    // The stub calls every error an overload, which opencode repeats for as long as it takes.
    let model = Model::refusing();
    for provider in [Provider::Claude, Provider::Codex, Provider::Opencode] {
        let run = Place::new(provider, &model).run("hello", None);
        let (reason, detail, _) = run.failed();
        assert_eq!(reason, "agent_error.provider_auth_or_access", "{provider:?} {detail}");
    }
}

#[test]
fn a_long_prompt_reaches_every_cli_whole() {
    // Longer than the kernel takes as one argument; the script is its last line.
    let model = Model::scripted();
    let padding = "Read this.\n".repeat(20_000);
    for provider in [Provider::Claude, Provider::Codex, Provider::Opencode] {
        let run = Place::new(provider, &model).run(&format!("{padding}{FIRST}"), None);
        assert_eq!(run.outcome, Outcome::Completed { output: "Done: one".to_owned() }, "{provider:?}");
    }
}

#[test]
fn a_command_speaks_by_its_lines_and_its_exit_code() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = [("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())];
    let run = |script: &str, prompt: PromptVia| {
        let arguments = ["-c", script, "sh"].map(str::to_owned).to_vec();
        let command = CommandLine { program: "sh".to_owned(), arguments, prompt };
        let request = LaunchRequest {
            prompt: "the prompt",
            work_dir: folder.path().to_str().unwrap(),
            program: None,
            model: None,
            resume_session: None,
            custom_arguments: &[],
            command: Some(&command),
            running_as_root: false,
        };
        let launch = Provider::Command.launch(&request, &Limits::default()).unwrap();
        drive(Provider::Command, &launch, &path, folder.path(), |_| false)
    };
    let said = Outcome::Completed { output: "the prompt".to_owned() };
    assert_eq!(run("cat", PromptVia::Stdin).outcome, said);
    assert_eq!(run("cat; echo \"$1\"", PromptVia::Argument).outcome, said);
    let failed = run("echo before; echo broken >&2; exit 3", PromptVia::Stdin);
    let (reason, detail, _) = failed.failed();
    assert_eq!(reason, "agent_error.process_failure");
    assert!(detail.contains("exit code 3") && detail.contains("broken"), "{detail}");
    assert_eq!(
        failed.message(MessageKind::Text).stderr,
        failed.message(MessageKind::Text).content == "broken"
    );
}
