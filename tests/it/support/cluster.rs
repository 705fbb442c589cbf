//! One PostgreSQL per test run, taken away by a detached reaper when the runner has ended.
//!
//! Databases lie in memory where the machine has a file system for that: a test makes and removes some
//! thousand small files for each, which on a disk costs more than all else it does.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use multica::store::embedded::{Embedded, Options};
use multica::store::migrate;
use tokio_postgres::Config;

use super::connect;

/// Room in memory for a run's databases, with as much again for everything else.
const ROOM: u64 = 6 << 30;

/// The run's cluster.
pub struct Cluster {
    socket: PathBuf,
}

impl Cluster {
    pub fn config(&self, user: &str, database: &str) -> Config {
        let mut config = Config::new();
        config.host_path(&self.socket).user(user).dbname(database);
        config
    }
}

/// The run's cluster, started by whoever comes first.
pub fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(start)
}

/// Options of a cluster that need not survive a power loss.
pub fn options(folder: &Path) -> Options {
    Options { durable: false, ..Options::from_environment(folder.to_owned()) }
}

/// A folder that the server's account may enter, removed with whatever runs in it once `pid` has ended.
pub fn reaped_folder(folder: &Path, pid: u32) {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    #[expect(clippy::zombie_processes, reason = "it outlives this process")]
    Command::new(env!("CARGO_BIN_EXE_multica"))
        .args(["__reap", &pid.to_string()])
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A group of its own, so that Ctrl-C on the runner leaves it to do its work.
        .process_group(0)
        .spawn()
        .unwrap();
}

/// A folder for a cluster of a test's own.
pub fn own_folder(name: &str) -> PathBuf {
    let folder = home().join(format!("multica-own-{}-{name}", std::process::id()));
    reaped_folder(&folder, std::process::id());
    folder
}

/// Where databases of tests lie: in memory where there is room, else with everything else.
pub fn home() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let roomy = nix::sys::statvfs::statvfs(memory)
        .is_ok_and(|found| found.blocks_available() * found.fragment_size() >= ROOM);
    let ours = roomy && nix::unistd::access(memory, nix::unistd::AccessFlags::W_OK).is_ok();
    if ours { memory.to_owned() } else { std::env::temp_dir() }
}

/// Copies an empty cluster that was made once for the whole run into the data directory of an installation,
/// as if `initdb` had just been there: that takes seconds of a processor each time.
///
/// The tests of the first start leave it out.
pub fn seed(data_dir: &Path) {
    let from = once("seed", |folder| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let embedded = Embedded::start(options(folder)).await.unwrap();
            embedded.stop().await.unwrap();
        });
        fs::remove_file(folder.join("pg/server.log")).unwrap();
        folder.join("pg").into_os_string()
    });
    // Owners and modes are the server's account's.
    let copied = Command::new("cp").arg("-a").arg(from).arg(data_dir.join("pg")).status().unwrap();
    assert!(copied.success(), "the copy of a cluster into {}: {copied}", data_dir.display());
}

fn start() -> Cluster {
    let socket = once("cluster", |folder| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(make(folder)).into_os_string()
    });
    Cluster { socket }
}

/// What is made by the first test of the run that needs it, in a folder that goes with the run: returns the
/// path that `make` returned then.
fn once(name: &str, make: impl FnOnce(&Path) -> OsString + Send) -> PathBuf {
    let runner = std::os::unix::process::parent_id();
    let folder = home().join(format!("multica-test-{runner}-{}-{name}", started_at(runner)));
    let lock_path = folder.with_extension("lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).unwrap();
    lock.lock().unwrap();
    let ready = folder.join("ready");
    if !ready.exists() {
        reaped_folder(&folder, runner);
        // A thread of its own: who asks may be in a runtime, which must not drive this one.
        let made = std::thread::scope(|scope| scope.spawn(|| make(&folder)).join().unwrap());
        fs::write(&ready, made.as_encoded_bytes()).unwrap();
    }
    let _ = fs::remove_file(&lock_path);
    drop::<File>(lock);
    PathBuf::from(fs::read_to_string(&ready).unwrap())
}

async fn make(folder: &Path) -> PathBuf {
    let embedded = Embedded::start(options(folder)).await.unwrap();
    let admin = connect(&embedded.owner_config("postgres")).await;
    admin.batch_execute("create database multica_template template template0").await.unwrap();
    migrate::run(
        &embedded.owner_config("multica_template"),
        multica::kernel::limits::Limits::default().database_wait,
    )
    .await
    .unwrap();
    let template = connect(&embedded.owner_config("multica_template")).await;
    template
        .batch_execute("insert into es.clock_offset (by_interval) values (interval '0'); analyze")
        .await
        .unwrap();
    drop(template);
    admin
        .batch_execute("alter database multica_template is_template true allow_connections false")
        .await
        .unwrap();
    embedded.socket_folder().to_owned()
}

/// When a process started: a recycled number is another run.
fn started_at(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').nth(19).unwrap().to_owned()
}
