//! Operating system accounts: who we are, and who a name or a number is.
//!
//! Not here: becoming somebody else (that belongs to the spawn that needs it).

use std::path::PathBuf;

use nix::unistd::{Gid, Uid, User};

/// An account of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its login name.
    pub name: String,
    /// Its user id.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// Its home.
    pub home: PathBuf,
}

/// The account database could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("cannot look up account {who}")]
pub struct LookupError {
    /// Who was looked up.
    pub who: String,
    /// What the system said.
    #[source]
    pub source: std::io::Error,
}

/// The account of that name, if there is one.
///
/// # Errors
/// [`LookupError`] when the account database can't be read.
pub fn by_name(name: &str) -> Result<Option<Account>, LookupError> {
    User::from_name(name)
        .map(|user| user.map(from_user))
        .map_err(|errno| LookupError { who: name.to_owned(), source: errno.into() })
}

/// The account with that user id, if there is one.
///
/// # Errors
/// [`LookupError`] when the account database can't be read.
pub fn by_uid(uid: u32) -> Result<Option<Account>, LookupError> {
    User::from_uid(Uid::from_raw(uid))
        .map(|user| user.map(from_user))
        .map_err(|errno| LookupError { who: uid.to_string(), source: errno.into() })
}

/// The user id that this process acts with.
#[must_use]
pub fn effective_uid() -> u32 {
    Uid::effective().as_raw()
}

/// The group id that this process acts with.
#[must_use]
pub fn effective_gid() -> u32 {
    Gid::effective().as_raw()
}

fn from_user(user: User) -> Account {
    Account { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw(), home: user.dir }
}
