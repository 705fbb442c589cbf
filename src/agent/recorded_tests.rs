//! The readers against recordings of the real CLIs (`tests/fixtures/agents`), the launches in full.

use super::*;
use crate::domain::task::failure;

fn fixture(provider: Provider, name: &str, end: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/agents/{}/{name}.{end}", env!("CARGO_MANIFEST_DIR"), provider.id());
    match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if end == "stderr" && error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => panic!("{path}: {error}"),
    }
}

struct Run {
    signals: Vec<Signal>,
    open: Vec<String>,
    tools_used: bool,
    usage: Vec<crate::domain::task::Usage>,
    outcome: Outcome,
}

fn run_with(provider: Provider, name: &str, exit: Exit, setup: &ReaderSetup) -> Run {
    let mut reader = provider.reader(setup, &Limits::default());
    let mut signals = Vec::new();
    for line in fixture(provider, name, "jsonl").split(|b| *b == b'\n') {
        signals.extend(reader.stdout_line(Line::whole(line)));
    }
    for line in fixture(provider, name, "stderr").split(|b| *b == b'\n') {
        signals.extend(reader.stderr_line(Line::whole(line)));
    }
    let open = reader.open_tools().values().cloned().collect();
    let (tools_used, usage) = (reader.tools_used(), reader.usage());
    Run { signals, open, tools_used, usage, outcome: reader.finish(exit) }
}

fn run(provider: Provider, name: &str, exit: Exit) -> Run {
    run_with(provider, name, exit, &ReaderSetup::default())
}

fn failed(run: &Run) -> (&'static str, &str, bool) {
    match &run.outcome {
        Outcome::Failed { reason, detail, session_rejected } => {
            assert!(failure::find(reason).is_some(), "{reason}");
            (reason, detail, *session_rejected)
        }
        completed @ Outcome::Completed { .. } => panic!("{completed:?}"),
    }
}

fn messages(run: &Run) -> Vec<&Message> {
    run.signals
        .iter()
        .filter_map(|signal| match signal {
            Signal::Message(message) => Some(message),
            Signal::Session(_) | Signal::Usage(_) => None,
        })
        .collect()
}

fn sessions(run: &Run) -> usize {
    run.signals.iter().filter(|signal| matches!(signal, Signal::Session(_))).count()
}

const CLIS: [Provider; 3] = [Provider::Claude, Provider::Codex, Provider::Opencode];

#[test]
fn a_run_with_a_tool_gives_session_use_result_words_usage_and_completes() {
    for provider in CLIS {
        let run = run(provider, "tool", Exit::Code(0));
        assert_eq!(sessions(&run), 1, "{provider:?}");
        assert_eq!(
            run.outcome,
            Outcome::Completed { output: "Done: wrote out.txt".to_owned() },
            "{provider:?}"
        );
        let messages = messages(&run);
        let used = messages.iter().find(|m| m.kind == MessageKind::ToolUse).unwrap();
        let answered = messages.iter().find(|m| m.kind == MessageKind::ToolResult).unwrap();
        assert!(used.input.as_ref().unwrap().to_string().contains("out.txt"), "{provider:?}");
        assert!(answered.output.as_ref().unwrap().contains("wrote"), "{provider:?}");
        assert_eq!((&used.call, &used.tool), (&answered.call, &answered.tool), "{provider:?}");
        assert_eq!(messages.last().unwrap().content, "Done: wrote out.txt", "{provider:?}");
        assert!(run.open.is_empty() && run.tools_used, "{provider:?}");
        let [usage] = &run.usage[..] else { panic!("{:?}", run.usage) };
        assert_eq!((usage.input_tokens, usage.output_tokens), (20, 10), "{provider:?}");
        assert_eq!(usage.provider, provider.id());
        assert!(run.signals.contains(&Signal::Usage(run.usage.clone())), "{provider:?}");
    }
}

#[test]
fn a_run_of_words_only_completes_without_having_used_a_tool() {
    for provider in CLIS {
        let run = run(provider, "text", Exit::Code(0));
        assert_eq!(run.outcome, Outcome::Completed { output: "Only words.".to_owned() }, "{provider:?}");
        assert!(!run.tools_used, "{provider:?}");
    }
}

#[test]
fn claude_says_its_model_and_cost() {
    let run = run(Provider::Claude, "tool", Exit::Code(0));
    assert_eq!(run.usage[0].model, "claude-opus-4-8[1m]");
    assert_eq!(run.usage[0].cost_usd_ticks, Some(3_500_000));
}

#[test]
fn a_tool_that_fails_is_no_failed_run() {
    for provider in CLIS {
        let run = run(provider, "failed_tool", Exit::Code(0));
        assert_eq!(run.outcome, Outcome::Completed { output: "It failed.".to_owned() }, "{provider:?}");
        let answers = messages(&run).into_iter().filter_map(|m| m.output.as_deref()).collect::<String>();
        assert!(answers.contains("oops") && answers.to_lowercase().contains("exit code 3"), "{answers}");
    }
}

#[test]
fn a_word_of_success_counts_only_with_exit_code_0() {
    for provider in CLIS {
        for exit in [Exit::Code(1), Exit::Signal(15), Exit::Unknown] {
            let run = run(provider, "tool", exit);
            let (reason, detail, _) = failed(&run);
            assert_eq!(reason, "agent_error.process_failure");
            assert!(detail.contains(&exit.to_string()), "{detail}");
        }
    }
    assert_eq!(
        failed(&run(Provider::Claude, "terminated", Exit::Code(143))).0,
        "agent_error.process_failure"
    );
}

#[test]
fn a_resumed_run_keeps_its_session_and_codex_s_usage_is_counted_once() {
    for provider in CLIS {
        let first = run(provider, "text", Exit::Code(0));
        let setup = ReaderSetup { model: None, session_usage: first.usage.clone() };
        let second = run_with(provider, "resumed", Exit::Code(0), &setup);
        let session = |run: &Run| run.signals.iter().find(|s| matches!(s, Signal::Session(_))).cloned();
        assert_eq!(session(&first), session(&second), "{provider:?}");
        assert_eq!((second.usage[0].input_tokens, second.usage[0].output_tokens), (20, 10), "{provider:?}");
    }
}

#[test]
fn a_session_that_is_not_there_is_rejected_before_any_tool() {
    for provider in CLIS {
        let run = run(provider, "session_missing", Exit::Code(1));
        let (_, detail, rejected) = failed(&run);
        assert!(rejected && !run.tools_used, "{provider:?} {detail}");
        assert!(!detail.contains('\u{1b}'), "{detail}");
        assert_eq!(sessions(&run), 0, "{provider:?}");
    }
}

#[test]
fn errors_of_the_model_s_service_are_told_apart() {
    const CAPACITY: &str = "agent_error.provider_capacity_or_rate_limit";
    const AUTH: &str = "agent_error.provider_auth_or_access";
    for (provider, name, expected) in [
        (Provider::Claude, "overloaded", CAPACITY),
        (Provider::Claude, "retried_401", AUTH),
        (Provider::Claude, "model_missing", "agent_error.model_not_found_or_unavailable"),
        (Provider::Claude, "too_long", "agent_error.context_overflow"),
        (Provider::Claude, "quota", "agent_error.provider_quota_limit"),
        (Provider::Codex, "overloaded", CAPACITY),
        (Provider::Codex, "rate_limited", CAPACITY),
        (Provider::Codex, "bad_request", CAPACITY),
        (Provider::Codex, "unauthorized", AUTH),
        (Provider::Codex, "model_missing", "agent_error.model_not_found_or_unavailable"),
        (Provider::Codex, "too_long", "agent_error.context_overflow"),
        (Provider::Codex, "quota", "agent_error.provider_quota_limit"),
        (Provider::Opencode, "unauthorized", AUTH),
        (Provider::Opencode, "model_missing", "agent_error.model_not_found_or_unavailable"),
        (Provider::Opencode, "too_long", "agent_error.context_overflow"),
        (Provider::Opencode, "server_error", "agent_error.provider_server_error"),
    ] {
        let run = run(provider, name, Exit::Code(1));
        let (reason, detail, rejected) = failed(&run);
        assert_eq!(reason, expected, "{provider:?} {name}: {detail}");
        assert!(!rejected && !run.tools_used && !detail.is_empty(), "{provider:?} {name}");
        assert!(messages(&run).iter().any(|m| m.kind == MessageKind::Error), "{provider:?} {name}");
    }
}

#[test]
fn a_killed_run_says_the_signal_and_which_tool_was_open() {
    for (provider, tool) in
        [(Provider::Claude, "Bash"), (Provider::Codex, "shell"), (Provider::Opencode, "step")]
    {
        let run = run(provider, "killed", Exit::Signal(9));
        let (reason, detail, _) = failed(&run);
        assert_eq!((reason, detail.contains("signal 9")), ("agent_error.process_failure", true), "{detail}");
        assert_eq!(run.open, [tool], "{provider:?}");
    }
    assert_eq!(run(Provider::Claude, "killed", Exit::Signal(9)).usage[0].input_tokens, 10);
}

#[test]
fn a_run_killed_while_it_retried_names_what_it_retried() {
    let run = run(Provider::Codex, "killed_while_retrying", Exit::Signal(15));
    let (reason, detail, _) = failed(&run);
    assert_eq!(reason, "agent_error.process_failure");
    assert!(detail.contains("unexpected status 529"), "{detail}");
}

#[test]
fn claude_that_leaves_a_command_behind_has_not_done_its_work() {
    let left = run(Provider::Claude, "left_in_background", Exit::Code(0));
    let (reason, detail, _) = failed(&left);
    assert_eq!((reason, detail.contains("in the background")), ("agent_error.unknown", true), "{detail}");
    let waited_for = run(Provider::Claude, "slow_tool", Exit::Code(0));
    assert_eq!(waited_for.outcome, Outcome::Completed { output: "slept".to_owned() });
}

#[test]
fn opencode_that_was_refused_a_permission_has_not_done_its_work() {
    let run = run(Provider::Opencode, "permission_refused", Exit::Code(0));
    let (reason, detail, _) = failed(&run);
    assert_eq!(reason, "agent_error.empty_or_unparseable_output");
    assert!(detail.contains("auto-rejecting"), "{detail}");
}

#[test]
fn output_that_cannot_be_read_is_a_failure_that_shows_it() {
    for provider in CLIS {
        let mut reader = provider.reader(&ReaderSetup::default(), &Limits::default());
        for line in
            [&b"Welcome!"[..], b"", b"{\"type\":", b"[1,2]", b"{\"type\":7}", b"\xff\xfe\x00", b"null"]
        {
            assert!(reader.stdout_line(Line::whole(line)).is_empty(), "{line:?}");
        }
        let Outcome::Failed { reason, detail, .. } = reader.finish(Exit::Code(0)) else { panic!() };
        assert_eq!(reason, "agent_error.empty_or_unparseable_output");
        assert!(
            detail.contains("6 lines") && detail.contains("Welcome!") && !detail.contains('\0'),
            "{detail}"
        );
    }
}

#[test]
fn no_prefix_or_cut_line_of_a_recording_upsets_a_reader_or_makes_it_complete() {
    for provider in CLIS {
        let bytes = fixture(provider, "tool", "jsonl");
        let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect();
        for kept in 0..lines.len() {
            let mut reader = provider.reader(&ReaderSetup::default(), &Limits::default());
            for line in &lines[..kept] {
                reader.stdout_line(Line::whole(line));
            }
            reader.stdout_line(Line::whole(&lines[kept][..lines[kept].len() / 2]));
            reader.stdout_line(Line { bytes: &lines[kept][..lines[kept].len() / 2], truncated: true });
            assert!(reader.open_tools().is_empty());
            assert!(matches!(reader.finish(Exit::Code(0)), Outcome::Failed { .. }), "{provider:?} {kept}");
        }
    }
}

#[test]
fn fields_of_other_types_than_expected_upset_no_reader() {
    let odd = ["null", "7", "\"x\"", "[]", "{}", "[{\"type\":null}]", "{\"type\":[]}"];
    let kinds = [
        "system",
        "assistant",
        "user",
        "result",
        "item.started",
        "item.completed",
        "turn.completed",
        "turn.failed",
        "thread.started",
        "error",
        "step_start",
        "step_finish",
        "text",
        "tool_use",
        "reasoning",
    ];
    let fields =
        ["message", "item", "part", "error", "usage", "modelUsage", "subtype", "session_id", "content"];
    for provider in CLIS {
        let mut reader = provider.reader(&ReaderSetup::default(), &Limits::default());
        for kind in kinds {
            for field in fields {
                for value in odd {
                    let line = format!("{{\"type\":\"{kind}\",\"{field}\":{value}}}");
                    reader.stdout_line(Line::whole(line.as_bytes()));
                }
            }
        }
        reader.finish(Exit::Code(1));
    }
}

#[test]
fn what_is_handed_on_is_bounded_and_holds_no_secret_and_no_nul() {
    let secret = "mat_AbCdEfGhIjKlMnOpQrStUv";
    let long = "x".repeat(100_000);
    let item = serde_json::json!({
        "id": "item_1", "type": "command_execution", "command": format!("echo {secret}\u{0} {long}"),
        "aggregated_output": format!("{secret}\u{0} {long}"), "exit_code": 0, "status": "completed",
    });
    let mut reader = Provider::Codex.reader(&ReaderSetup::default(), &Limits::default());
    let line = serde_json::json!({"type": "item.completed", "item": item}).to_string();
    let signals = reader.stdout_line(Line::whole(line.as_bytes()));
    assert_eq!(signals.len(), 2);
    for signal in &signals {
        let Signal::Message(message) = signal else { panic!("{signal:?}") };
        let input = message.input.as_ref().map(ToString::to_string).unwrap_or_default();
        let output = message.output.clone().unwrap_or_default();
        assert!(input.len() < 70_000 && output.len() < 9_000);
        assert!(!format!("{input}{output}").contains("mat_"));
        assert!(!format!("{input}{output}").contains('\0') && !input.contains("\\u0000"));
        assert!(format!("{input}{output}").contains("bytes left out"));
    }
}

#[test]
fn a_session_that_could_be_taken_for_a_flag_is_not_kept() {
    for id in ["--resume", "-x", "", "a b", "../x", "a\u{0}b"] {
        let mut reader = Provider::Codex.reader(&ReaderSetup::default(), &Limits::default());
        let line = serde_json::json!({"type": "thread.started", "thread_id": id}).to_string();
        assert!(reader.stdout_line(Line::whole(line.as_bytes())).is_empty(), "{id}");
    }
}

fn request<'a>(custom: &'a [String]) -> LaunchRequest<'a> {
    LaunchRequest {
        prompt: "do it",
        work_dir: "/home/dev/project",
        program: None,
        model: Some("m"),
        resume_session: Some("s-1"),
        custom_arguments: custom,
        command: None,
        running_as_root: true,
    }
}

#[test]
fn each_cli_is_started_in_full_as_it_was_seen_to_work() {
    let custom = ["--resume=x", "--json", "--format", "text", "--model", "other", "--keep", "-c", "a=b"];
    let custom = custom.map(str::to_owned);
    let started = |provider: Provider| provider.launch(&request(&custom), &Limits::default()).unwrap();
    let claude = started(Provider::Claude);
    assert_eq!(
        claude.arguments.join(" "),
        "-p --output-format stream-json --verbose --permission-mode bypassPermissions --disallowedTools AskUserQuestion \
         --model m --resume s-1 --json --format text --keep a=b"
    );
    assert_eq!(claude.environment, [("IS_SANDBOX".to_owned(), "1".to_owned())]);
    assert_eq!(claude.removed_arguments, ["--resume=x", "--model", "other", "-c"]);
    let codex = started(Provider::Codex);
    assert_eq!(
        codex.arguments.join(" "),
        "exec --resume=x --format text --keep -c a=b --json --skip-git-repo-check --model m \
         --dangerously-bypass-approvals-and-sandbox resume s-1 -"
    );
    assert_eq!(codex.removed_arguments, ["--json", "--model", "other"]);
    let opencode = started(Provider::Opencode);
    assert_eq!(
        opencode.arguments.join(" "),
        "run --format json --dangerously-skip-permissions --dir /home/dev/project --model m --session s-1 \
         --resume=x --json --keep a=b"
    );
    assert_eq!(opencode.removed_arguments, ["--format", "text", "--model", "other", "-c"]);
    assert_eq!(opencode.environment, [("PWD".to_owned(), "/home/dev/project".to_owned())]);
    for launch in [claude, codex, opencode] {
        assert_eq!(launch.stdin, Stdin::Bytes(b"do it".to_vec()));
    }
}

#[test]
fn a_request_that_could_change_the_command_line_is_refused() {
    for provider in CLIS {
        let refused = |change: &dyn Fn(&mut LaunchRequest<'_>)| {
            let mut request = request(&[]);
            change(&mut request);
            let refusal = provider.launch(&request, &Limits::default()).unwrap_err();
            assert!(failure::find(refusal.reason()).is_some());
            refusal
        };
        assert_eq!(refused(&|r| r.prompt = " \n"), LaunchRefusal::EmptyPrompt);
        assert!(matches!(refused(&|r| r.model = Some("--yolo")), LaunchRefusal::LooksLikeFlag { .. }));
        assert!(matches!(refused(&|r| r.resume_session = Some("-")), LaunchRefusal::LooksLikeFlag { .. }));
        assert!(matches!(refused(&|r| r.model = Some("a\0b")), LaunchRefusal::Nul { .. }));
        assert!(matches!(
            refused(&|r| r.program = Some("./claude")),
            LaunchRefusal::ProgramNeitherAbsoluteNorName { .. }
        ));
        let custom = ["--keep".to_owned(), "x\0".to_owned()];
        let request = LaunchRequest { custom_arguments: &custom, ..request(&[]) };
        assert!(matches!(provider.launch(&request, &Limits::default()), Err(LaunchRefusal::Nul { .. })));
    }
}
