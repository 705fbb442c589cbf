//! Becoming the account that owns what a run works in.
//!
//! Invariants: the change is for good and for the whole process; afterwards nothing of the former
//! account is left (groups, group, user are set in that order and checked).

use std::ffi::CString;
use std::io;

use serde::{Deserialize, Serialize};

use nix::unistd::{Gid, Uid, User, getgrouplist, setgid, setgroups, setuid};

/// The account that owns what a run works in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Account name.
    pub name: String,
    /// Home directory.
    pub home: String,
}

/// Why this process couldn't become another account.
#[derive(Debug, thiserror::Error)]
#[error("cannot become uid {uid} ({step})")]
pub struct BecomeError {
    /// The account.
    pub uid: u32,
    /// Which call refused.
    pub step: &'static str,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Looks an account up; an id without an entry gets its number as name and `/` as home.
#[must_use]
pub fn find(uid: u32, gid: u32) -> Owner {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => Owner {
            uid,
            gid: user.gid.as_raw(),
            name: user.name,
            home: user.dir.to_string_lossy().into_owned(),
        },
        Ok(None) | Err(_) => Owner { uid, gid, name: uid.to_string(), home: "/".to_owned() },
    }
}

/// The user id this process has now.
#[must_use]
pub fn current_uid() -> u32 {
    Uid::effective().as_raw()
}

/// The group id this process has now.
#[must_use]
pub fn current_gid() -> u32 {
    Gid::effective().as_raw()
}

/// Becomes that account, for good. Nothing happens when this process is it already.
///
/// # Errors
/// [`BecomeError`] when the system refuses a step; the process must not go on then.
pub fn become_account(uid: u32, gid: u32, name: &str) -> Result<(), BecomeError> {
    let me = Uid::effective().as_raw();
    if me == uid {
        return Ok(());
    }
    let refused = |step| move |errno: nix::Error| BecomeError { uid, step, source: errno.into() };
    let group = Gid::from_raw(gid);
    let groups = CString::new(name)
        .ok()
        .and_then(|name| getgrouplist(&name, group).ok())
        .unwrap_or_else(|| vec![group]);
    setgroups(&groups).map_err(refused("setgroups"))?;
    setgid(group).map_err(refused("setgid"))?;
    setuid(Uid::from_raw(uid)).map_err(refused("setuid"))?;
    if Uid::effective().as_raw() != uid || (uid != 0 && setuid(Uid::from_raw(0)).is_ok()) {
        let source = io::Error::other("the former account is still in reach");
        return Err(BecomeError { uid, step: "check", source });
    }
    // A process that changed its ids is not dumpable: /proc/self would belong to root, and with it
    // the paths through which sockets are bound.
    nix::sys::prctl::set_dumpable(true).map_err(refused("set_dumpable"))
}
