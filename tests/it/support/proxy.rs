//! A socket between the program and PostgreSQL that cuts when told to.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// Copies both ways; the answers to a client can be withheld.
pub struct Proxy {
    folder: tempfile::TempDir,
    /// Answers of at least so many bytes' requests are withheld so many times: the link is cut instead.
    cuts: Arc<AtomicU64>,
    /// New links are taken and left without an answer.
    silent: Arc<AtomicBool>,
}

/// Requests at least this long are appends: everything else is shorter.
const APPEND_BYTES: usize = 600;

impl Proxy {
    pub fn before(target_folder: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let cuts = Arc::new(AtomicU64::new(0));
        let target = target_folder.join(".s.PGSQL.5432");
        let silent = Arc::new(AtomicBool::new(false));
        tokio::spawn(accept(listener, target, Arc::clone(&cuts), Arc::clone(&silent)));
        Self { folder, cuts, silent }
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Cuts the link after each of the next `n` appends has reached the server, before its answer.
    pub fn lose_answers(&self, n: u64) {
        self.cuts.store(n, Ordering::SeqCst);
    }

    /// From now on it takes links as a server that is stopped does: nobody hears from it.
    pub fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    pub fn cuts_left(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }
}

async fn accept(listener: UnixListener, target: PathBuf, cuts: Arc<AtomicU64>, silent: Arc<AtomicBool>) {
    let mut held = Vec::new();
    while let Ok((client, _)) = listener.accept().await {
        if silent.load(Ordering::SeqCst) {
            held.push(client);
            continue;
        }
        let target = target.clone();
        let cuts = Arc::clone(&cuts);
        tokio::spawn(async move {
            if let Ok(server) = UnixStream::connect(target).await {
                copy(client, server, cuts).await;
            }
        });
    }
}

async fn copy(mut client: UnixStream, mut server: UnixStream, cuts: Arc<AtomicU64>) {
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut doomed = false;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(n @ 1..) = read else { return };
                // Bind of the append holds an event's payload; Parse and short statements don't.
                let bytes = &from_client[..n];
                let append = bytes.first() == Some(&b'B') && n >= APPEND_BYTES;
                if append && cuts.load(Ordering::SeqCst) > 0 {
                    cuts.fetch_sub(1, Ordering::SeqCst);
                    doomed = true;
                }
                if server.write_all(bytes).await.is_err() { return }
            }
            read = server.read(&mut from_server) => {
                let Ok(n @ 1..) = read else { return };
                // The server has done it: the answer is lost on the way.
                if doomed { return }
                if client.write_all(&from_server[..n]).await.is_err() { return }
            }
        }
    }
}
