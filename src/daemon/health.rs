//! The local port: is it alive, what does it do, stop it. For this machine's command line only.
//!
//! Invariants: a request with another Host than this very address is refused (a web page can't reach it
//! through a name of its own); all but "ok" needs the token from `daemon.json`, which only its owner can read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::config::Shutdown;
use super::run::Daemon;
use super::start::Seat;

struct Request {
    method: String,
    path: String,
    host: String,
    token: String,
    body: Vec<u8>,
}

/// Serves the local port until the process ends.
pub async fn serve(daemon: Arc<Daemon>, seat: Seat) {
    loop {
        let Ok((stream, _)) = seat.listener.accept().await else {
            // Out of descriptors, most likely: the next moment may be better.
            tokio::time::sleep(daemon.config.limits.look.duration()).await;
            continue;
        };
        let (daemon, token, port) = (Arc::clone(&daemon), seat.token.clone(), seat.port);
        tokio::spawn(async move {
            // A caller that hangs up or never asks costs nobody anything.
            let patience = daemon.config.limits.local_request.duration();
            drop(tokio::time::timeout(patience, answer(&daemon, stream, &token, port)).await);
        });
    }
}

async fn answer(daemon: &Daemon, stream: TcpStream, token: &SecretString, port: u16) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let Some(request) = read(&mut stream, daemon.config.limits.local_request_bytes).await? else {
        return Ok(());
    };
    let (status, body) = respond(daemon, &request, token, port);
    let text = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.flush().await
}

async fn read(stream: &mut BufReader<TcpStream>, most: u64) -> std::io::Result<Option<Request>> {
    let mut limited = stream.take(most);
    let mut line = String::new();
    limited.read_line(&mut line).await?;
    let mut words = line.split_ascii_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let mut request = Request { method, path, host: String::new(), token: String::new(), body: vec![] };
    let mut length = 0;
    loop {
        let mut line = String::new();
        if limited.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" => value.clone_into(&mut request.host),
            "authorization" => value.trim_start_matches("Bearer ").clone_into(&mut request.token),
            "content-length" => length = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    request.body.resize(std::cmp::min(length, usize::try_from(most).unwrap_or(usize::MAX)), 0);
    limited.read_exact(&mut request.body).await?;
    Ok(Some(request))
}

fn respond(daemon: &Daemon, request: &Request, token: &SecretString, port: u16) -> (&'static str, Value) {
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    if !hosts.contains(&request.host) {
        return ("403 Forbidden", json!({"error": "unknown host", "code": "unknown_host"}));
    }
    let known = same(request.token.as_bytes(), token.expose_secret().as_bytes());
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/health") if known => ("200 OK", health(daemon)),
        ("GET", "/health") => ("200 OK", json!({"status": "ok"})),
        ("POST", "/shutdown") if known => {
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let now = body["now"].as_bool().unwrap_or(false);
            daemon.ask(if now { Shutdown::Now } else { Shutdown::Drain });
            let limits = &daemon.config.limits;
            let most =
                daemon.config.drain + limits.kill_grace.duration() * 3 + limits.http_timeout.duration() * 2;
            (
                "200 OK",
                json!({"status": "stopping", "at_most_ms": u64::try_from(most.as_millis()).unwrap_or(u64::MAX)}),
            )
        }
        ("POST", "/shutdown") => {
            ("401 Unauthorized", json!({"error": "a token is needed", "code": "unauthorized"}))
        }
        _ => ("404 Not Found", json!({"error": "no such path", "code": "not_found"})),
    }
}

fn same(one: &[u8], other: &[u8]) -> bool {
    use subtle::ConstantTimeEq;
    one.ct_eq(other).into()
}

fn health(daemon: &Daemon) -> Value {
    let lives = daemon.lives.list();
    let tasks: Vec<Value> = lives
        .iter()
        .map(|(run, name, phase)| json!({"id": run.task, "generation": run.generation, "name": name, "state": phase.text()}))
        .collect();
    let agents: Vec<Value> = daemon
        .providers
        .borrow()
        .iter()
        .flatten()
        .map(|found| json!({"provider": found.provider.id(), "version": found.version}))
        .collect();
    let registered = daemon.registered.borrow().clone();
    let waiting = lives.iter().filter(|(_, _, phase)| *phase == super::lives::Phase::Waiting).count();
    json!({
        "status": if daemon.is_stopping() { "stopping" } else { "running" },
        "pid": std::process::id(),
        "uptime": format!("{}s", daemon.started.elapsed().as_secs()),
        "profile": daemon.config.profile,
        "daemon_id": daemon.config.daemon_id,
        "device_name": daemon.config.device_name,
        "server_url": daemon.api.server_url(),
        "connected": daemon.connected.load(Ordering::Relaxed),
        "cli_version": env!("CARGO_PKG_VERSION"),
        "active_task_count": lives.len(),
        "running_task_count": daemon.lives.running(),
        "resource_wait_task_count": waiting,
        "agents": agents,
        "workspaces": registered.map(|r| vec![r.workspace]).unwrap_or_default(),
        "tasks": tasks,
    })
}
