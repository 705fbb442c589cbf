//! The composition root of the server: builds it from its parts, runs it, stops it.
//!
//! Invariants: nothing is served before the schema is current, the read models are installed and the
//! instance key is the one that the log was begun with; a stop answers open requests first.
//!
//! Not here: the machine half; the command line.

pub mod demo_place;
mod error;
pub mod file_error;
pub mod log;
mod record;
pub mod up;

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::record::{record_passed_over, record_start, submit};
use crate::app::policy::Policies;
use crate::app::seals::Seals;
use crate::app::secrets::Locksmith;
use crate::app::set_aside::SetAside;
use crate::app::webhooks::Webhooks;
use crate::app::workspace_write::WorkspaceWrite;
use crate::app::writer::check::Schemas;
use crate::app::writer::{Writer, WriterParts};
use crate::domain::NewContent;
use crate::domain::workspace::{MemberAdded, Role, TokenHolder, WorkspaceCommand};
use crate::fold;
use crate::http::hosts::Hosts;
use crate::http::token::{self, InstanceKey};
use crate::http::{self, App, Parts};
use crate::kernel::ids::{ContentId, TokenId, UserId, WorkspaceId};
use crate::kernel::limits::Limits;
use crate::kernel::world::World;
use crate::process::safe_file;
use crate::process::stop::Signals;
use crate::readmodel::{Registry, access, follower, install};
use crate::seal::{Means, Place};
use crate::store::embedded::{Claim, DATABASE, Embedded, Options};
use crate::store::{self, Address, Durability, Store, event_types, listen, migrate};
use crate::webhook::address::Allowed;
use crate::webhook::send::Sender;

pub use self::error::SystemError;

/// The program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// More than any key's file has, bytes.
const KEY_FILE_BYTES: u64 = 1_024;

/// The variable by which tests waive durability.
const UNSAFE_DATABASE: &str = "MULTICA_TEST_UNSAFE_DATABASE";

/// The variable that names where the log is sealed to.
const SEAL_TO: &str = "MULTICA_SEAL_TO";

/// Names whom webhooks are delivered to, with commas between them.
const WEBHOOK_TO: &str = "MULTICA_WEBHOOK_TO";

/// The workspace that `up` makes.
pub const LOCAL: &str = "local";

/// Clock and randomness of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealWorld;

impl World for RealWorld {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    fn uuid_v7(&self) -> Uuid {
        Uuid::now_v7()
    }

    fn uuid_v4(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn random(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        // The source fails only until the machine has gathered its first entropy.
        while getrandom::fill(&mut bytes).is_err() {
            std::thread::yield_now();
        }
        bytes
    }
}

/// What a server is made from.
pub struct Setup {
    /// The application's way to the database.
    pub database: Address,
    /// The owner's, for migrations.
    pub owner: Address,
    /// What is asked of the cluster.
    pub durability: Durability,
    /// The bounds in force.
    pub limits: Limits,
    /// The installation's key.
    pub key: [u8; 32],
    /// Where it listens.
    pub listener: TcpListener,
    /// Further names it answers under.
    pub hosts: Vec<String>,
    /// Where it seals the log to by itself.
    pub seals: Vec<Place>,
    /// Whom it delivers webhooks to.
    pub webhooks_to: Allowed,
    /// Fires when it has to stop.
    pub shutdown: CancellationToken,
    /// Clock and randomness.
    pub world: Arc<dyn World>,
}

/// A server that is ready to serve.
pub struct Server {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
    background: JoinSet<()>,
}

impl Server {
    /// Brings the database up to date and everything in place.
    ///
    /// # Errors
    /// [`SystemError`].
    pub async fn start(setup: Setup) -> Result<Self, SystemError> {
        migrate::run(&setup.owner, setup.limits.database_wait).await?;
        event_types::fill(&setup.owner, setup.limits.database_wait, &Schemas::catalogue()).await?;
        let store = Store::open(setup.database, &setup.limits, setup.durability).await?;
        let registry = Arc::new(Registry::new(fold::registry::all())?);
        for built in install::run(&store, &registry).await? {
            tracing::info!(read_model = %built, "read model built");
        }
        let (writer, _) = Writer::start(WriterParts {
            store: store.clone(),
            registry: registry.clone(),
            check: Arc::new(Schemas::embedded()?),
            world: setup.world.clone(),
            version: VERSION.to_owned(),
        });
        let key = InstanceKey::new(&setup.key);
        let seals = Arc::new(Seals {
            places: setup.seals,
            means: Means::of_process(setup.limits.seals_bytes, setup.limits.git_timeout.duration()),
            installation: key.id().to_owned(),
            writer: writer.clone(),
            store: store.clone(),
            world: setup.world.clone(),
            limits: setup.limits.clone(),
        });
        let webhooks = Arc::new(Webhooks {
            writer: writer.clone(),
            store: store.clone(),
            registry: registry.clone(),
            world: setup.world.clone(),
            limits: setup.limits.clone(),
            sender: Sender::new(&setup.limits, setup.webhooks_to)?,
            locksmith: Locksmith::new(&setup.key, key.id()),
            set_aside: SetAside::new(&setup.limits),
        });
        let listener = setup.listener;
        let address = listener.local_addr().map_err(SystemError::Serve)?;
        let parts = Parts {
            damaged_tasks: SetAside::new(&setup.limits),
            writer,
            registry,
            world: setup.world,
            limits: setup.limits,
            key,
            hosts: Hosts::new(address, &setup.hosts),
            tail: http::tail::Tail::default(),
            seals,
            webhooks,
            shutdown: setup.shutdown,
        };
        let app = App::new(store, parts);
        record_start(&app).await?;
        record_passed_over(&app).await?;
        let background = loops(&app);
        tracing::info!(%address, "the server is ready");
        Ok(Self { app, listener, address, background })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its parts.
    #[must_use]
    pub const fn app(&self) -> &App {
        &self.app
    }

    /// Serves until the setup's token fires.
    ///
    /// # Errors
    /// Those of the listener.
    pub async fn run(mut self) -> Result<(), SystemError> {
        let served = http::serve(self.app, self.listener).await;
        self.background.shutdown().await;
        served.map_err(SystemError::Serve)
    }
}

fn loops(app: &App) -> JoinSet<()> {
    let mut loops = JoinSet::new();
    loops.spawn(listen::run(app.store.clone()));
    loops.spawn(follower::run(app.store.clone(), app.registry.clone(), app.world.uuid_v7()));
    let policies = Policies {
        set_aside: SetAside::new(&app.limits),
        writer: app.writer.clone(),
        store: app.store.clone(),
        registry: app.registry.clone(),
        world: app.world.clone(),
        limits: app.limits.clone(),
    };
    loops.spawn(policies.run(app.world.uuid_v7(), app.shutdown.clone()));
    loops.spawn(app.seals.clone().run(app.world.uuid_v7(), app.shutdown.clone()));
    loops.spawn(app.webhooks.clone().run(app.world.uuid_v7(), app.shutdown.clone()));
    loops
}

/// The installation's first workspace, and a token that works there.
pub struct Bootstrap {
    /// The workspace `local`.
    pub workspace: WorkspaceId,
    /// Its owner.
    pub user: UserId,
    /// A member's token of the owner.
    pub token: String,
}

/// Makes the workspace `local` if it isn't there, and a new token when the one in hand doesn't work.
///
/// # Errors
/// [`SystemError`].
pub async fn bootstrap(app: &App, person: &str, in_hand: Option<&str>) -> Result<Bootstrap, SystemError> {
    let (workspace, user) = match access::workspace_by_slug(&app.store, &app.registry, LOCAL).await? {
        Some(workspace) => {
            let members = access::members(&app.store, &app.registry, workspace).await?;
            let owner = members.iter().find(|found| found.row.role == Role::Owner);
            let owner = owner.ok_or(SystemError::Missing { name: "the owner of workspace local" })?;
            (workspace, owner.row.user)
        }
        None => create_local(app, person).await?,
    };
    if let Some(token) = in_hand {
        let known = access::token(&app.store, &app.registry, &token::sha256(token)).await?;
        let works = known.is_some_and(|row| {
            !row.revoked
                && row.workspace == workspace
                && row.expires_at.is_none_or(|end| end > app.world.now())
        });
        if works {
            return Ok(Bootstrap { workspace, user, token: token.to_owned() });
        }
    }
    let (token, sha256) = token::fresh(token::MEMBER, app.world.random());
    let command = WorkspaceCommand::IssueToken {
        by: None,
        token: TokenId(app.world.uuid_v7()),
        holder: TokenHolder::Member { user },
        name: "multica up".to_owned(),
        sha256,
        expires_at: None,
    };
    let decision =
        WorkspaceWrite { workspace, commands: vec![command], contents: Vec::new(), result: Value::Null };
    submit(app, "token.issue", workspace, decision).await?;
    Ok(Bootstrap { workspace, user, token })
}

async fn create_local(app: &App, person: &str) -> Result<(WorkspaceId, UserId), SystemError> {
    let workspace = WorkspaceId(app.world.uuid_v7());
    let user = UserId(app.world.uuid_v7());
    let content =
        |text: &str| NewContent::new(ContentId(app.world.uuid_v7()), app.world.random(), text.to_owned());
    let (name, person) = (content("Local"), content(person));
    let owner = MemberAdded { user, name: person.reference.clone(), email: None, role: Role::Owner };
    let command = WorkspaceCommand::Create {
        slug: LOCAL.to_owned(),
        name: name.reference.clone(),
        issue_prefix: None,
        owner,
    };
    let decision = WorkspaceWrite {
        workspace,
        commands: vec![command],
        contents: vec![name, person],
        result: json!({"workspace": workspace, "user": user}),
    };
    submit(app, "workspace.create", workspace, decision).await?;
    Ok((workspace, user))
}

/// The bounds, with what `MULTICA_LIMITS` changes.
///
/// # Errors
/// [`SystemError::Limits`].
pub fn limits(changes: Option<&str>) -> Result<Limits, SystemError> {
    changes
        .map_or_else(|| Ok(Limits::default()), |json| serde_json::from_str(json).map_err(SystemError::Limits))
}

/// Reads the instance key; makes the file when `make` says so and it isn't there.
///
/// # Errors
/// [`SystemError::KeyFile`], [`SystemError::KeyForm`].
pub fn instance_key(path: &Path, make: bool, world: &dyn World) -> Result<[u8; 32], SystemError> {
    let failed = |source| SystemError::KeyFile { path: path.to_owned(), source };
    if make && !path.exists() {
        if let Some(folder) = path.parent() {
            // The database's account passes through it; the key itself is 0600.
            DirBuilder::new().recursive(true).mode(0o711).create(folder).map_err(failed)?;
        }
        // Written whole beside it first: a crash leaves no half key.
        let draft = path.with_extension("new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)
            .map_err(failed)?;
        file.write_all(&world.random()).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&draft, path).map_err(failed)?;
    }
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    let bytes = safe_file::read_own(path, KEY_FILE_BYTES).map_err(failed)?;
    match <[u8; 32]>::try_from(bytes.as_slice()) {
        Ok(key) if mode & 0o077 == 0 => Ok(key),
        _ => Err(SystemError::KeyForm { path: path.to_owned(), bytes: bytes.len(), mode }),
    }
}

/// `multica server`: an outside database, named by the environment.
///
/// # Errors
/// [`SystemError`].
pub async fn server(
    variable: impl Fn(&str) -> Option<String>,
    listen: SocketAddr,
    hosts: Vec<String>,
    seal_to: &[String],
    webhook_to: &[String],
) -> Result<(), SystemError> {
    let world: Arc<dyn World> = Arc::new(RealWorld);
    let needed = |name: &'static str| variable(name).ok_or(SystemError::Missing { name });
    let database = store::address(&needed("DATABASE_URL")?)?;
    let owner = match variable("MULTICA_MIGRATE_URL") {
        Some(url) => store::address(&url)?,
        None => database.clone(),
    };
    let key_file = PathBuf::from(needed("MULTICA_INSTANCE_KEY_FILE")?);
    let shutdown = CancellationToken::new();
    let setup = Setup {
        database,
        owner,
        durability: Durability::Required,
        limits: limits(variable("MULTICA_LIMITS").as_deref())?,
        key: instance_key(&key_file, false, world.as_ref())?,
        listener: bind(listen).await?,
        hosts,
        seals: seal_places(seal_to, variable(SEAL_TO))?,
        webhooks_to: webhooks_to(webhook_to, variable(WEBHOOK_TO))?,
        shutdown: shutdown.clone(),
        world,
    };
    let server = Server::start(setup).await?;
    stop_when_asked(shutdown);
    server.run().await
}

/// Where the log is sealed to: as the flags say, else the variable.
fn seal_places(flags: &[String], variable: Option<String>) -> Result<Vec<Place>, SystemError> {
    let variable: Vec<String> = variable.filter(|text| !text.is_empty()).into_iter().collect();
    let named = if flags.is_empty() { &variable } else { flags };
    named.iter().map(|text| Ok(Place::parse(text)?)).collect()
}

/// Whom webhooks are delivered to: as the flags say, else the variable.
fn webhooks_to(flags: &[String], variable: Option<String>) -> Result<Allowed, SystemError> {
    let variable: Vec<String> = variable.into_iter().collect();
    let named = if flags.is_empty() { &variable } else { flags };
    Ok(Allowed::parse(named.iter().map(String::as_str))?)
}

/// Listens on an address.
///
/// # Errors
/// [`SystemError::Listen`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener, SystemError> {
    TcpListener::bind(address).await.map_err(|source| SystemError::Listen { address, source })
}

/// Fires the token at the first SIGINT or SIGTERM.
pub fn stop_when_asked(shutdown: CancellationToken) {
    tokio::spawn(async move {
        let asked = async {
            Signals::listen()?.next().await;
            io::Result::Ok(())
        };
        if let Err(error) = asked.await {
            tracing::error!(%error, "signals can't be listened to");
            return;
        }
        shutdown.cancel();
    });
}

/// The server part of `multica up`: private database, server, first workspace.
pub struct Up {
    /// The private database; stopped after the server.
    pub embedded: Arc<Embedded>,
    /// The server.
    pub server: Server,
    /// Workspace and token.
    pub bootstrap: Bootstrap,
}

/// What the server part of `multica up` is started from.
pub struct Start {
    /// The data directory.
    pub claim: Claim,
    /// Where it listens.
    pub listener: TcpListener,
    /// The name of the workspace's first member.
    pub person: String,
    /// The profile's token, if there is one.
    pub token: Option<String>,
    /// The bounds in force.
    pub limits: Limits,
    /// Where it seals the log to; nowhere named: a file beside the data directory.
    pub seal_to: Vec<String>,
    /// Whom it delivers webhooks to; nobody named: every public address.
    pub webhook_to: Vec<String>,
}

/// Starts the private database in the claimed data directory and a server on it. What can't be started leaves
/// nothing running.
///
/// # Errors
/// [`SystemError`].
pub async fn up(start: Start, shutdown: CancellationToken) -> Result<Up, SystemError> {
    let Start { claim, listener, person, token, limits, seal_to, webhook_to } = start;
    let webhooks_to = webhooks_to(&webhook_to, std::env::var(WEBHOOK_TO).ok())?;
    let mut seals = seal_places(&seal_to, std::env::var(SEAL_TO).ok())?;
    if seals.is_empty() {
        // Beside the data directory: who restores that from a backup still has the newer seals.
        let mut name = claim.data_dir().as_os_str().to_owned();
        name.push(".seals");
        seals.push(Place::File(name.into()));
    }
    let data_dir = claim.data_dir().to_owned();
    let world: Arc<dyn World> = Arc::new(RealWorld);
    let key = instance_key(&data_dir.join("instance.key"), true, world.as_ref())?;
    // Only tests say so: nothing acknowledged would survive a power loss.
    let durability =
        if std::env::var_os(UNSAFE_DATABASE).is_some() { Durability::Waived } else { Durability::Required };
    let durable = durability == Durability::Required;
    let options = Options { durable, ..Options::from_environment(data_dir) };
    let embedded = Arc::new(Embedded::start_in(claim, options).await?);
    let setup = Setup {
        database: embedded.app_config(DATABASE),
        owner: embedded.owner_config(DATABASE),
        durability,
        limits,
        key,
        listener,
        hosts: Vec::new(),
        seals,
        webhooks_to,
        shutdown,
        world,
    };
    let started = async {
        let mut server = Server::start(setup).await?;
        let watched = embedded.clone();
        server.background.spawn(async move { watched.watch().await });
        let bootstrap = bootstrap(&server.app, &person, token.as_deref()).await?;
        Ok((server, bootstrap))
    };
    match started.await {
        Ok((server, bootstrap)) => Ok(Up { embedded, server, bootstrap }),
        Err(error) => {
            // Why there is no server is the answer, whatever the database's stop says.
            drop(embedded.stop().await);
            Err(error)
        }
    }
}
