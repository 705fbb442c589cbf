//! Who a process is: boot, number and start time together; a number alone is reused.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use serde::{Deserialize, Serialize};

/// A process that can be recognised later, by another process too.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The boot in which the rest is true.
    pub boot_id: String,
    /// Its number.
    pub pid: u32,
    /// Its start, in clock ticks since that boot.
    pub start_time: u64,
}

/// What `/proc/<pid>/stat` says, the parts that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The state's letter: `Z` and `X` are dead.
    pub state: u8,
    /// The parent.
    pub parent: u32,
    /// The process group.
    pub group: u32,
    /// The session.
    pub session: u32,
    /// The start, in clock ticks since boot.
    pub start_time: u64,
}

impl Stat {
    /// Whether it runs no more (a zombie holds nothing but its number).
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// The id of this boot.
///
/// # Errors
/// When the kernel doesn't say.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// What the kernel says about that process; none when there is none.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(bytes: &[u8]) -> Option<Stat> {
    // A program's name may hold blanks and parentheses: fields count after the last one.
    let end = bytes.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(&bytes[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

/// The identity of that process; none when there is none.
#[must_use]
pub fn of(pid: u32) -> Option<Identity> {
    Some(Identity { boot_id: boot_id().ok()?, pid, start_time: stat(pid)?.start_time })
}

impl Identity {
    /// Whether that very process still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot_id)
            && stat(self.pid).is_some_and(|now| now.start_time == self.start_time && !now.is_dead())
    }
}

/// The program of that process, without its path.
#[must_use]
pub fn program(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// The words it was started with, the program first; none when it is gone or another account's that may not
/// be looked at.
#[must_use]
pub fn command_line(pid: u32) -> Option<Vec<String>> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    Some(words.collect())
}

/// A handle on that process: signals through it can't hit another that got its number later.
///
/// # Errors
/// When there is no such process, or the kernel has no pidfd.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    #[expect(unsafe_code, reason = "neither std nor nix has pidfd_open")]
    // SAFETY: the call takes two integers and returns a new descriptor that nobody else owns.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0_i64);
        match i32::try_from(fd) {
            Ok(fd) if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let line = b"42 (a) b (c) S 1 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        let stat = parse(line).expect("parses");
        assert_eq!(
            (stat.state, stat.parent, stat.group, stat.session, stat.start_time),
            (b'S', 1, 2, 3, 777)
        );
    }

    #[test]
    fn this_process_recognises_itself_and_not_an_earlier_one_with_its_number() {
        let me = of(std::process::id()).expect("alive");
        assert!(me.is_alive());
        assert!(!Identity { start_time: me.start_time + 1, ..me.clone() }.is_alive());
        assert!(!Identity { boot_id: "other".to_owned(), ..me }.is_alive());
    }
}
