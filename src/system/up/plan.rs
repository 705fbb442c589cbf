//! Where one `multica up` has its things: profile, data directory, the demo's folders, the runs' place.

use std::path::{Path, PathBuf};

use super::UpError;
use crate::cli::{self, Common, DaemonStart, UpArgs};
use crate::client::config::{Environment, Home, LOCAL_PROFILE, Profile};
use crate::daemon::{self, DaemonConfig};
use crate::kernel::limits::Limits;
use crate::system::demo_place::DemoPlace;
use crate::system::file_error::failed;

/// The demo's profile.
const DEMO_PROFILE: &str = "demo";

/// Where things are.
pub(super) struct Plan {
    pub(super) profile: Profile,
    pub(super) data: PathBuf,
    common: Common,
    pub(super) environment: Environment,
    /// The demo's folders, where it is to be shown.
    pub(super) demo: Option<DemoPlace>,
    /// Set where runs don't go to the usual place.
    work_root: Option<PathBuf>,
}

impl Plan {
    pub(super) fn new(common: &Common, args: &UpArgs, environment: Environment) -> Result<Self, UpError> {
        let home = Home::find(&environment)?;
        let usual = if args.demo { DEMO_PROFILE } else { LOCAL_PROFILE };
        let name = common.profile.as_deref().or_else(|| environment.get("MULTICA_PROFILE")).unwrap_or(usual);
        let name = name.to_owned();
        let profile = home.profile(&name)?;
        let data = match &args.data_dir {
            Some(data) => std::path::absolute(data).map_err(failed("resolve", data))?,
            None => default_data_dir(&home, &environment, &name),
        };
        let apart = args.demo || args.data_dir.is_some();
        let work_root = apart.then(|| data.join("work"));
        let demo = args.demo.then(|| DemoPlace::of(&data, &daemon::host::system_dir()));
        Ok(Self {
            profile,
            data,
            common: Common { profile: Some(name), ..common.clone() },
            environment,
            demo,
            work_root,
        })
    }

    /// How another terminal calls this installation: the profiles `default` and `local` are found without their
    /// name, unless a variable names another.
    pub(super) fn cli(&self) -> String {
        let folders = self.environment.get("PATH").unwrap_or_default().split(':');
        let is_on_path =
            folders.map(|folder| Path::new(folder).join("multica")).any(|program| program.is_file());
        let own = std::env::current_exe().map(|program| program.display().to_string());
        let program = own.ok().filter(|_| !is_on_path).unwrap_or_else(|| "multica".to_owned());
        match self.profile.title() {
            "default" | LOCAL_PROFILE => program,
            name => format!("{program} --profile {name}"),
        }
    }

    pub(super) fn daemon(&self, args: &UpArgs, limits: Limits) -> Result<DaemonConfig, UpError> {
        let start = DaemonStart {
            foreground: true,
            workspaces_root: self.work_root.clone(),
            drain: args.drain,
            ..DaemonStart::default()
        };
        let config = cli::daemon_config(&self.common, &start, limits)?;
        Ok(DaemonConfig { data_dir: Some(self.data.clone()), ..config })
    }
}

/// Root's is a place that other accounts can walk through; a user's is where user data belongs.
fn default_data_dir(home: &Home, environment: &Environment, profile: &str) -> PathBuf {
    if crate::process::owner::current_uid() == 0 {
        return daemon::host::system_dir().join("profiles").join(profile);
    }
    let user = home.0.parent().unwrap_or(&home.0);
    let base = environment.get("XDG_DATA_HOME").map_or_else(|| user.join(".local/share"), PathBuf::from);
    base.join("multica").join(profile)
}
