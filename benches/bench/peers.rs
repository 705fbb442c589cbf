//! What else could be done with the same database: pgbench with one-row INSERTs, a design that locks for each
//! append, and message-db's write function where its SQL is given.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::place::{Database, Place};

/// 248 bytes, as an event's payload is.
const PAYLOAD: &str = r#"{"generation":1,"usage":[{"provider":"command","model":"a-model","input_tokens":18220,"output_tokens":4101,"cache_read_tokens":90112,"cache_write_tokens":2048,"cost_usd_ticks":1200000}],"note":"padding to the length of an event of the usual size"}"#;

const TABLES: &str = "
create schema bench;
create table bench.floor (seq bigserial primary key, stream uuid not null, data json not null);
create table bench.events (seq bigserial primary key, stream uuid not null, version integer not null, data json not null);
create table bench.commands (id uuid primary key, seq bigint not null);
create table bench.status (stream uuid primary key, version integer not null, seq bigint not null);
-- One event with its deduplication and one row of state, under a lock that is kept until the commit.
create function bench.append_locked(p_command uuid, p_stream uuid, p_data json) returns bigint language plpgsql as $$
declare
    position bigint;
    v integer;
begin
    perform pg_advisory_xact_lock(1);
    select c.seq into position from bench.commands c where c.id = p_command;
    if found then
        return position;
    end if;
    select coalesce(max(s.version), 0) + 1 into v from bench.status s where s.stream = p_stream;
    insert into bench.events (stream, version, data) values (p_stream, v, p_data) returning seq into position;
    insert into bench.commands values (p_command, position);
    insert into bench.status values (p_stream, v, position)
    on conflict (stream) do update set version = excluded.version, seq = excluded.seq;
    return position;
end
$$;
";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Insert,
    Locked,
    MessageDb,
}

pub struct Peers {
    pgbench: PathBuf,
    socket: PathBuf,
    database: String,
    scripts: tempfile::TempDir,
    /// The database that message-db is in.
    pub message_db: Option<String>,
}

impl Peers {
    pub async fn new(place: &Place, database: &Database, message_db: Option<&Path>) -> Self {
        database.maker().await.batch_execute(TABLES).await.unwrap();
        let scripts = tempfile::tempdir().unwrap();
        let stream = "\\set n random(1, 10000)\n";
        let uuid = "('00000000-0000-7000-8000-' || lpad(:n::text, 12, '0'))::uuid";
        let write = |name: &str, text: String| std::fs::write(scripts.path().join(name), text).unwrap();
        write(
            "insert",
            format!("{stream}insert into bench.floor (stream, data) values ({uuid}, '{PAYLOAD}');\n"),
        );
        write(
            "locked",
            format!("{stream}select bench.append_locked(gen_random_uuid(), {uuid}, '{PAYLOAD}');\n"),
        );
        write(
            "message-db",
            format!(
                "{stream}select message_store.write_message(gen_random_uuid()::text, 'bench-' || :n::text, \
                 'Happened', '{PAYLOAD}'::jsonb);\n"
            ),
        );
        let socket = place.socket().to_owned();
        let message_db = message_db.map(|file| {
            let name = "bench_message_db";
            let admin =
                [("postgres", vec!["-c".to_owned(), format!("create database {name} template template0")])];
            let files = [(name, vec!["-f".to_owned(), file.display().to_string()])];
            for (database, arguments) in admin.into_iter().chain(files) {
                let output = Command::new(program("psql"))
                    .args(["-q", "-v", "ON_ERROR_STOP=1", "-U", "multica", "-d", database, "-h"])
                    .arg(&socket)
                    .args(arguments)
                    .output()
                    .unwrap();
                assert!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
            }
            name.to_owned()
        });
        Self { pgbench: program("pgbench"), socket, database: database.name.clone(), scripts, message_db }
    }

    /// Transactions a second.
    pub async fn rate(&self, peer: Peer, clients: usize, time: Duration) -> f64 {
        let (script, database) = match peer {
            Peer::Insert => ("insert", self.database.as_str()),
            Peer::Locked => ("locked", self.database.as_str()),
            Peer::MessageDb => ("message-db", self.message_db.as_deref().unwrap()),
        };
        let threads = clients.min(2).to_string();
        let seconds = time.as_secs().max(1).to_string();
        let mut command = Command::new(&self.pgbench);
        command
            .args(["-n", "-M", "prepared", "-U", "multica", "-c", &clients.to_string(), "-j", &threads, "-T"])
            .arg(seconds)
            .arg("-h")
            .arg(&self.socket)
            .arg("-f")
            .arg(self.scripts.path().join(script))
            .arg(database);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let tps = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        tps.unwrap_or_else(|| panic!("pgbench: {said}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// A program of PostgreSQL: where the server's are, or on the PATH.
fn program(name: &str) -> PathBuf {
    let own = std::env::var_os("MULTICA_PG_BIN").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = own.into_iter().chain(std::env::split_paths(&path)).collect();
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut installed: Vec<PathBuf> = installed.map(|entry| entry.path().join("bin")).collect();
    installed.sort_by(|a, b| b.as_os_str().as_bytes().cmp(a.as_os_str().as_bytes()));
    folders.extend(installed);
    folders
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("{name} isn't installed; it comes with PostgreSQL's server programs"))
}
