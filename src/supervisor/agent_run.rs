//! The agent: started, read, watched, stopped, and everything it started with it.
//!
//! Invariants: whatever way it ends, the process tree is empty before this returns; what it printed until
//! then is in the transcript; silence is judged by what it says, an open tool's by the tool.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::pin::pin;

use jiff::Timestamp;
use tokio::io::BufReader;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::journal::Entry;
use super::prepare;
use super::run::{Run, RunError, wait_cancel};
use crate::agent::{self, Launch, LaunchRequest, Outcome, Reader, ReaderSetup, Signal, Stdin};
use crate::execenv::environment;
use crate::kernel::text::head;
use crate::process::child::{Cwd, Exit, Input, Running, Spawn, find_program};
use crate::process::lines::{Line, Lines};
use crate::process::owner::current_uid;
use crate::process::{failpoint, identity};
use crate::wire::daemon::{Message, ReportBody};

/// Why the agent runs no more.
enum Stop {
    Exited,
    Silent,
    Cancelled(String),
}

/// How one start of it ended.
enum Once {
    Over(ReportBody),
    /// The session that it was to go on with is what stood in the way, and nothing was done yet.
    Forgotten(String),
}

/// Runs it and gives the verdict; once more with a fresh session where the one to go on with stood in the way.
pub(super) async fn run(run: &mut Run, prompt: &str) -> Result<ReportBody, RunError> {
    let why = match once(run, prompt).await? {
        Once::Over(verdict) => return Ok(verdict),
        Once::Forgotten(why) => why,
    };
    (run.afresh, run.session) = (true, None);
    let note = format!("the session can't be gone on with, a fresh one is begun: {why}");
    run.spool.messages(vec![wire(agent::Message::error(&note), run.charge.limits.message_bytes)])?;
    let prompt = prepare::prompt_of(run);
    Ok(match once(run, &prompt).await? {
        Once::Over(verdict) => verdict,
        Once::Forgotten(why) => fail(run, "agent_error.unknown", why),
    })
}

/// Starts it and follows it to its end.
async fn once(run: &mut Run, prompt: &str) -> Result<Once, RunError> {
    let resumed = run.session_to_resume().is_some();
    let provider = run.provider()?;
    let mut environment = run.environment();
    let launch = match launch(run, prompt) {
        Ok(launch) => launch,
        Err(refusal) => {
            let said = crate::kernel::error_chain::Chain(&refusal).to_string();
            return Ok(Once::Over(fail(run, refusal.reason(), said)));
        }
    };
    for (name, value) in &launch.environment {
        environment::set(&mut environment, name, value);
    }
    let program = launch.program.clone();
    let mut running = match start(run, launch, environment)? {
        Ok(running) => running,
        Err(error) => {
            let Outcome::Failed { reason, detail, .. } = agent::not_startable(&program, &error) else {
                let said = error.to_string();
                return Ok(Once::Over(fail(run, "agent_error.runtime_missing_executable", said)));
            };
            return Ok(Once::Over(fail(run, reason, detail)));
        }
    };
    let model = run.charge.assignment.agent.model.clone();
    let reader = provider.reader(&ReaderSetup { model, session_usage: Vec::new() }, &run.charge.limits);
    let mut talk = Talk {
        streams: Streams::new(&mut running, run.charge.limits.agent_line_bytes),
        reader,
        batch: Vec::new(),
    };
    let (stop, exit) = watch(run, &mut running, &mut talk).await?;
    let exit = empty_tree(run, &mut running, &mut talk, exit).await?;
    talk.flush(run)?;
    let usage = talk.reader.usage();
    if !usage.is_empty() {
        run.report(ReportBody::Usage { usage })?;
    }
    verdict(run, talk, stop, exit, resumed)
}

fn launch(run: &Run, prompt: &str) -> Result<Launch, agent::LaunchRefusal> {
    let assignment = &run.charge.assignment;
    let work_dir = run.work_dir();
    let request = LaunchRequest {
        prompt,
        work_dir: &work_dir,
        program: run.charge.provider_program.as_deref(),
        model: assignment.agent.model.as_deref(),
        resume_session: run.session_to_resume(),
        custom_arguments: &assignment.agent.custom_args,
        command: assignment.agent.command.as_ref(),
        running_as_root: current_uid() == 0,
    };
    match agent::Provider::find(&assignment.agent.provider) {
        Some(provider) => provider.launch(&request, &run.charge.limits),
        None => Err(agent::LaunchRefusal::NoCommand),
    }
}

fn start(
    run: &mut Run,
    launch: Launch,
    environment: Vec<(String, String)>,
) -> Result<std::io::Result<Running>, RunError> {
    let path = environment::get(&environment, "PATH").to_owned();
    let program = match find_program(&launch.program, &path) {
        Ok(program) => program,
        Err(error) => return Ok(Err(error)),
    };
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(place) = &run.place else { return Err(RunError::NoPlace) };
    let handle =
        place.handle.as_fd().try_clone_to_owned().map_err(RunError::system("keep the work directory"))?;
    let mut spawn = Spawn::new(program, Cwd::Handle(handle));
    if let Some(lock) = &place.lock {
        let copy = lock.handle().as_fd().try_clone_to_owned();
        spawn.inherited.push(copy.map_err(RunError::system("keep the directory's lock"))?);
    }
    spawn.arguments = launch.arguments.into_iter().map(OsString::from).collect();
    spawn.environment = environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    spawn.stdin = match launch.stdin {
        Stdin::Empty => Input::Null,
        Stdin::Bytes(bytes) => Input::Bytes(bytes),
    };
    spawn.cgroup = run.group.as_ref().and_then(|group| group.try_clone().ok());
    run.write(Entry::Spawning {}, true)?;
    failpoint::hit("spawning");
    let running = match spawn.start() {
        Ok(running) => running,
        Err(error) => return Ok(Err(error)),
    };
    failpoint::hit("spawned");
    if let Some(agent) = identity::of(running.pid) {
        run.agent = Some((agent.pid, agent.start_time));
        run.write(Entry::Started { agent }, false)?;
    }
    run.report(ReportBody::ProcessStarted { pid: running.pid, program: name })?;
    failpoint::hit("process-started");
    Ok(Ok(running))
}

/// Reads until it has ended, is silent for too long, or is to be stopped.
async fn watch(
    run: &mut Run,
    running: &mut Running,
    talk: &mut Talk,
) -> Result<(Stop, Option<Exit>), RunError> {
    let limits = run.charge.limits.clone();
    let mut cancel = run.control.cancel.subscribe();
    let mut flush = interval(limits.transcript_flush.duration());
    flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    loop {
        let patience =
            if talk.reader.open_tools().is_empty() { limits.idle_watchdog } else { limits.tool_watchdog };
        tokio::select! {
            reason = wait_cancel(&mut cancel) => {
                run.write(Entry::CancelAsked { reason: reason.clone() }, true)?;
                failpoint::hit("cancel-asked");
                if reason != "interrupted" {
                    run.report(ReportBody::CancelReceived {})?;
                }
                return Ok((Stop::Cancelled(reason), None));
            }
            exit = running.wait() => {
                return Ok((Stop::Exited, Some(exit.map_err(RunError::system("wait for the agent"))?)));
            }
            Some((stderr, line)) = talk.streams.next(), if talk.streams.open() => {
                heard = Instant::now();
                talk.hear(run, stderr, &line, limits.frame_batch)?;
            }
            _ = flush.tick() => talk.flush(run)?,
            () = sleep_until(heard + patience.duration()) => return Ok((Stop::Silent, None)),
        }
    }
}

/// Ends whatever is left, reading on meanwhile: a full pipe must not keep a process from ending.
async fn empty_tree(
    run: &mut Run,
    running: &mut Running,
    talk: &mut Talk,
    mut exit: Option<Exit>,
) -> Result<Exit, RunError> {
    let limits = run.charge.limits.clone();
    let tree = run.tree();
    let emptied = {
        let mut emptying = pin!(tree.empty(limits.kill_grace.duration(), limits.tree_pause.duration()));
        loop {
            tokio::select! {
                emptied = &mut emptying => break emptied,
                ended = running.wait(), if exit.is_none() => {
                    exit = Some(ended.map_err(RunError::system("wait for the agent"))?);
                }
                Some((stderr, line)) = talk.streams.next(), if talk.streams.open() => {
                    talk.hear(run, stderr, &line, limits.frame_batch)?;
                }
            }
        }
    };
    failpoint::hit("tree-emptied");
    run.restore()?;
    let exit = match exit {
        Some(exit) => exit,
        None => running.wait().await.map_err(RunError::system("wait for the agent"))?,
    };
    let rest = async {
        while talk.streams.open() {
            if let Some((stderr, line)) = talk.streams.next().await {
                talk.hear(run, stderr, &line, limits.frame_batch)?;
            }
        }
        Ok::<(), RunError>(())
    };
    // Somebody outside the tree may have been handed the pipe's other end: that must not hold the run.
    timeout(limits.kill_grace.duration(), rest).await.unwrap_or(Ok(()))?;
    let (code, signal, killed) = (exit.code, exit.signal, emptied.killed);
    run.report(ReportBody::ProcessExited { code, signal, killed })?;
    run.write(Entry::Exited { code, signal, killed }, true)?;
    failpoint::hit("exited");
    Ok(exit)
}

fn verdict(run: &Run, talk: Talk, stop: Stop, exit: Exit, resumed: bool) -> Result<Once, RunError> {
    Ok(Once::Over(match stop {
        Stop::Cancelled(reason) => super::recover::cancelled_report(&reason, &run.ending()),
        Stop::Silent => fail(run, "idle_watchdog", "the agent said nothing for too long".to_owned()),
        Stop::Exited => {
            let exit = match (exit.code, exit.signal) {
                (Some(code), _) => agent::Exit::Code(code),
                (None, Some(signal)) => agent::Exit::Signal(signal),
                (None, None) => agent::Exit::Unknown,
            };
            let tools_used = talk.reader.tools_used();
            let outcome = talk.reader.finish(exit);
            let afresh = outcome.wants_fresh_session(resumed, tools_used);
            match outcome {
                Outcome::Failed { detail, .. } if afresh => return Ok(Once::Forgotten(detail)),
                Outcome::Completed { output } => ReportBody::Complete { output, ending: run.ending() },
                Outcome::Failed { reason, detail, .. } => fail(run, reason, detail),
            }
        }
    }))
}

fn fail(run: &Run, reason: &str, error: String) -> ReportBody {
    ReportBody::Fail { error, failure_reason: reason.to_owned(), ending: run.ending() }
}

/// The agent's two outputs.
struct Streams {
    out: Option<Lines<BufReader<ChildStdout>>>,
    err: Option<Lines<BufReader<ChildStderr>>>,
}

impl Streams {
    fn new(running: &mut Running, max: usize) -> Self {
        Self {
            out: running.stdout.take().map(|pipe| Lines::new(BufReader::new(pipe), max)),
            err: running.stderr.take().map(|pipe| Lines::new(BufReader::new(pipe), max)),
        }
    }

    const fn open(&self) -> bool {
        self.out.is_some() || self.err.is_some()
    }

    /// The next line of either; none when one of them has just ended. Cancel safe.
    async fn next(&mut self) -> Option<(bool, Line)> {
        async fn of<R: tokio::io::AsyncBufRead + Unpin>(lines: &mut Option<Lines<R>>) -> Option<Line> {
            match lines {
                Some(open) => open.next().await.unwrap_or(None),
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            line = of(&mut self.out) => match line {
                Some(line) => Some((false, line)),
                None => { self.out = None; None }
            },
            line = of(&mut self.err) => match line {
                Some(line) => Some((true, line)),
                None => { self.err = None; None }
            },
        }
    }
}

/// What is heard, until it is in the spool.
struct Talk {
    streams: Streams,
    reader: Box<dyn Reader>,
    batch: Vec<Message>,
}

impl Talk {
    fn hear(&mut self, run: &mut Run, stderr: bool, line: &Line, batch: usize) -> Result<(), RunError> {
        let heard = agent::Line { bytes: &line.bytes, truncated: line.truncated };
        let signals = if stderr { self.reader.stderr_line(heard) } else { self.reader.stdout_line(heard) };
        for signal in signals {
            match signal {
                Signal::Message(message) => {
                    self.batch.push(wire(message, run.charge.limits.message_bytes));
                }
                Signal::Session(session_id) => {
                    run.session = Some(session_id.clone());
                    run.report(ReportBody::Session { session_id })?;
                }
                // The reader keeps the best that is known; it is asked at the end.
                Signal::Usage(_) => {}
            }
        }
        if self.batch.len() >= batch { self.flush(run) } else { Ok(()) }
    }

    fn flush(&mut self, run: &Run) -> Result<(), RunError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        Ok(run.spool.messages(std::mem::take(&mut self.batch))?)
    }
}

/// A message for the spool, its texts cut so that it fits a request.
fn wire(message: agent::Message, max: usize) -> Message {
    use crate::agent::MessageKind as Kind;
    let kind = match message.kind {
        Kind::Text => "text",
        Kind::Thinking => "thinking",
        Kind::ToolUse => "tool_use",
        Kind::ToolResult => "tool_result",
        Kind::Error => "error",
    };
    Message {
        // The spool numbers it.
        seq: 0,
        kind: kind.to_owned(),
        tool: message.tool,
        content: Some(head(&message.content, max).to_owned()).filter(|text| !text.is_empty()),
        input: message.input.filter(|input| input.to_string().len() <= max),
        output: message.output.map(|output| head(&output, max).to_owned()),
        stderr: message.stderr,
        at: Some(Timestamp::now()),
    }
}
