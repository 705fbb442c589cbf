//! The most memory that a server has while all its followers come after a whole log, and while it verifies it.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use multica::readmodel::{Registry, query};
use tokio_postgres::Config;

use super::place::Database;
use super::row::{Bar, Row};

pub async fn row(database: &Database, registry: &Registry, head: i64) -> Row {
    let folder = tempfile::tempdir().unwrap();
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 32]).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_multica"))
        .args(["server", "--port", "0"])
        .env("DATABASE_URL", address(&database.app))
        .env("MULTICA_MIGRATE_URL", address(&database.owner))
        .env("MULTICA_INSTANCE_KEY_FILE", key)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let store = database.store().await;
    let mut most: f64 = 0.0;
    loop {
        most = most.max(peak(&mut server, folder.path()));
        let standing = query::standings(&store).await.unwrap();
        let behind = standing.iter().filter(|one| one.state == "active" && one.mode == "follower");
        let behind = behind.filter(|one| one.checkpoint < head && registry.get(&one.name).is_ok()).count();
        if behind == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    most = most.max(peak(&mut server, folder.path()));
    server.kill().unwrap();
    server.wait().unwrap();
    Row::plain("memory", format!("server-following/{head}"), most, "MB").bar(Bar::AtMost(200.0))
}

/// The highest resident size so far, megabytes.
fn peak(server: &mut Child, folder: &std::path::Path) -> f64 {
    if let Some(status) = server.try_wait().unwrap() {
        panic!("the server ended, {status}: {}", std::fs::read_to_string(folder.join("log")).unwrap());
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap_or_default();
    let kib: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or_default();
    kib / 1024.0
}

fn address(config: &Config) -> String {
    let host = match &config.get_hosts()[0] {
        tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
        tokio_postgres::config::Host::Tcp(name) => name.clone(),
    };
    let (user, name) = (config.get_user().unwrap(), config.get_dbname().unwrap());
    format!("host={host} user={user} dbname={name}")
}
