//! Taking the state directory: one daemon a profile, and its local port.

use std::fs::File;
use std::io::{self, Read};

use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;

use super::config::{DaemonConfig, DaemonError};
use super::state::{LocalState, StateDir, read_json, write_json};
use crate::kernel::digest::hex;

/// The first port tried unless another is asked for.
const FIRST_PORT: u16 = 19_514;
/// Ports tried after it.
const PORTS: u16 = 200;

/// What belongs to this process alone as long as it lives.
#[derive(Debug)]
pub struct Seat {
    /// The state directory.
    pub state: StateDir,
    /// The local port.
    pub listener: TcpListener,
    /// Its number.
    pub port: u16,
    /// What the local control asks for.
    pub token: SecretString,
    _lock: File,
}

/// Takes the state directory, binds the port, says so in `daemon.json`.
pub async fn take(config: &DaemonConfig) -> Result<Seat, DaemonError> {
    let state = StateDir(config.state_dir.clone());
    let failed = |path: std::path::PathBuf| move |source| DaemonError::State { path, source };
    std::fs::create_dir_all(state.tasks()).map_err(failed(state.tasks()))?;
    private(&state.0).map_err(failed(state.0.clone()))?;
    let path = state.lock_file();
    let lock =
        File::options().create(true).truncate(false).write(true).open(&path).map_err(failed(path.clone()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let pid = read_json::<LocalState>(&state.local()).map(|local| local.pid);
            return Err(DaemonError::AlreadyRunning { pid });
        }
        Err(std::fs::TryLockError::Error(source)) => return Err(DaemonError::State { path, source }),
    }
    let first = config.health_port.unwrap_or(FIRST_PORT);
    let (listener, port) = bind(first).await.map_err(|source| DaemonError::Port { first, source })?;
    let token = fresh_token().map_err(failed("/dev/urandom".into()))?;
    let local = LocalState {
        pid: std::process::id(),
        port,
        token: token.expose_secret().to_owned(),
        part_of_up: config.data_dir.is_some(),
    };
    write_json(&state.local(), &local).map_err(failed(state.local()))?;
    Ok(Seat { state, listener, port, token, _lock: lock })
}

async fn bind(first: u16) -> io::Result<(TcpListener, u16)> {
    let mut refused = io::Error::from(io::ErrorKind::AddrInUse);
    for port in first..=first.saturating_add(PORTS) {
        match TcpListener::bind(("127.0.0.1", port)).await {
            Ok(listener) => {
                let port = listener.local_addr()?.port();
                return Ok((listener, port));
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn private(folder: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
}

fn fresh_token() -> io::Result<SecretString> {
    let mut bytes = [0_u8; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(SecretString::from(hex(&bytes)))
}
