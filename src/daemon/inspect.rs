//! Looking at a directory as its owner, in a short process of its own.

use std::io;
use std::path::PathBuf;

use tokio::io::AsyncReadExt;

use super::host::system_dir;
use super::run::Daemon;
use crate::execenv::directory::{Inspect, Inspected};
use crate::process::child::{Cwd, Input, Output, Spawn};

/// Looks; the wait for a hanging file system is bounded by the limit for getting ready.
pub async fn inspect(daemon: &Daemon, path: &str) -> io::Result<Inspected> {
    let system = system_dir();
    let own = [&daemon.config.work_root, &daemon.config.state_dir, &system];
    let own = own.into_iter().chain(&daemon.config.data_dir);
    let request = Inspect {
        path: path.to_owned(),
        home: daemon.config.environment.get("HOME").unwrap_or("/").to_owned(),
        own_folders: own.map(|folder| folder.display().to_string()).collect(),
        allowed_directories: daemon
            .config
            .allowed_directories
            .iter()
            .map(|p| p.display().to_string())
            .collect(),
        limits: daemon.config.limits.clone(),
    };
    let mut spawn = Spawn::new(daemon.executable.clone(), Cwd::Path(PathBuf::from("/")));
    spawn.arguments.push("__inspect-directory".into());
    spawn.stdin = Input::Bytes(serde_json::to_vec(&request)?);
    spawn.stderr = Output::Null;
    // One that hangs is left to the system: the task goes on by its limit or a cancel.
    spawn.bound = true;
    let environment = &daemon.config.environment.0;
    spawn.environment = ["PATH", "LANG", "TZ"]
        .iter()
        .filter_map(|name| Some(((*name).into(), environment.get(*name)?.into())))
        .collect();
    let mut child = spawn.start()?;
    let Some(mut stdout) = child.stdout.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let answered = async {
        let mut bytes = Vec::new();
        (&mut stdout).take(daemon.config.limits.body_bytes as u64).read_to_end(&mut bytes).await?;
        child.wait().await?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    tokio::time::timeout(daemon.config.limits.prepare.duration(), answered).await?
}
