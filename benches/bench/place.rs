//! A cluster of the bench's own, on the real disk, removed with everything in it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use multica::kernel::limits::Limits;
use multica::store::embedded::{Embedded, Options as Cluster};
use multica::store::{Durability, Store, migrate};
use tokio_postgres::{Client, Config, NoTls};

use super::{Options, median, ms};

/// The folder of temporary files, or the build's where that one lies in memory.
pub fn home() -> PathBuf {
    let temporary = std::env::temp_dir();
    let in_memory = nix::sys::statfs::statfs(&temporary)
        .is_ok_and(|found| found.filesystem_type() == nix::sys::statfs::TMPFS_MAGIC);
    std::env::var_os("MULTICA_BENCH_DIR").map_or_else(
        || if in_memory { Path::new(env!("CARGO_MANIFEST_DIR")).join("target") } else { temporary },
        PathBuf::from,
    )
}

/// What it ran on.
pub fn machine(options: &Options) -> String {
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: f64 = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or_default();
    format!(
        "# {cpus} processors, {:.0} GiB, {} {}, {} rounds of {:?}, database in {}, load {}",
        kib / (1024.0 * 1024.0),
        std::env::consts::OS,
        std::env::consts::ARCH,
        options.rounds,
        options.time,
        options.home.display(),
        load()
    )
}

/// How busy the machine is.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

pub struct Place {
    embedded: Embedded,
    folder: PathBuf,
}

impl Place {
    pub async fn new(options: &Options) -> Self {
        let folder = options.home.join(format!("multica-bench-{}", std::process::id()));
        let folder = (0..).map(|n| folder.join(n.to_string())).find(|folder| !folder.exists()).unwrap();
        fs::DirBuilder::new().recursive(true).mode(0o755).create(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        reap_with_us(&folder);
        let embedded = Embedded::start(Cluster::from_environment(folder.clone())).await.unwrap();
        Self { embedded, folder }
    }

    /// A migrated database of that name.
    pub async fn database(&self, name: &str) -> Database {
        let admin = connect(&self.embedded.owner_config("postgres")).await;
        admin.batch_execute(&format!("create database {name} template template0")).await.unwrap();
        let owner = self.embedded.owner_config(name);
        migrate::run(&owner, Limits::default().database_wait).await.unwrap();
        Database { app: self.embedded.app_config(name), owner, name: name.to_owned() }
    }

    /// What pgbench and psql are started with.
    pub fn socket(&self) -> &Path {
        self.embedded.socket_folder()
    }

    /// How long the disk takes to say that something is on it, milliseconds.
    pub fn fsync(&self) -> f64 {
        let path = self.folder.join("fsync");
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path).unwrap();
        let block = [7_u8; 8192];
        let times: Vec<f64> = (0..40_u64)
            .map(|n| {
                file.write_all_at(&block, (n % 8) * 8192).unwrap();
                let begun = Instant::now();
                file.sync_data().unwrap();
                ms(begun.elapsed())
            })
            .collect();
        median(&times)
    }

    pub async fn stop(self) {
        self.embedded.stop().await.unwrap();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[derive(Clone)]
pub struct Database {
    pub app: Config,
    pub owner: Config,
    pub name: String,
}

impl Database {
    pub async fn store(&self) -> Store {
        Store::open(self.app.clone(), &Limits::default(), Durability::Required).await.unwrap()
    }

    /// May do everything, and waits for no disk: what makes logs.
    pub async fn maker(&self) -> Client {
        let client = connect(&self.owner).await;
        client
            .batch_execute("set synchronous_commit = off; set maintenance_work_mem = '512MB'")
            .await
            .unwrap();
        client
    }

    /// The same with the application's role, which the read models belong to.
    pub async fn model_maker(&self) -> Client {
        let client = connect(&self.app).await;
        client
            .batch_execute("set synchronous_commit = off; set maintenance_work_mem = '512MB'")
            .await
            .unwrap();
        client
    }
}

pub async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Whatever happens to this process, its cluster goes with it.
#[expect(clippy::zombie_processes, reason = "it outlives this process")]
fn reap_with_us(folder: &Path) {
    Command::new(env!("CARGO_BIN_EXE_multica"))
        .args(["__reap", &std::process::id().to_string()])
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
}
