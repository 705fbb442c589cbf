//! How long tasks usually wait, and which wait longer.
//!
//! The rule: a wait is unusual when it is longer than twice what nineteen of twenty earlier waits of its kind
//! took, and longer than the least for that kind; with fewer than [`ENOUGH`] earlier ones the least decides
//! alone.

use std::time::Duration;

use super::Status;

/// Earlier waits of a kind that tell what is usual.
pub const ENOUGH: usize = 20;

/// Times of one task, microseconds since 1970; none where it didn't come to that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// It waited for a claim from here.
    pub queued: Option<i64>,
    /// Claimed.
    pub dispatched: Option<i64>,
    /// It waited for a directory from here.
    pub parked: Option<i64>,
    /// It got the directory.
    pub promoted: Option<i64>,
    /// It ran.
    pub started: Option<i64>,
    /// Over.
    pub completed: Option<i64>,
}

impl Times {
    /// Since when a task of that status waits for what ends the status.
    #[must_use]
    pub const fn since(&self, status: Status) -> Option<i64> {
        match status {
            Status::Queued => self.queued,
            Status::Dispatched if self.promoted.is_some() => self.promoted,
            Status::Dispatched => self.dispatched,
            Status::WaitingLocalDirectory => self.parked,
            Status::Running => self.started,
            Status::Deferred | Status::Completed | Status::Failed | Status::Cancelled => None,
        }
    }

    /// How long the task waited in that status, once that was over.
    #[must_use]
    pub fn waited(&self, status: Status) -> Option<Duration> {
        let end = match status {
            Status::Queued => self.dispatched,
            Status::Dispatched => self.parked.filter(|_| self.promoted.is_none()).or(self.started),
            Status::WaitingLocalDirectory => self.promoted,
            Status::Running => self.completed,
            Status::Deferred | Status::Completed | Status::Failed | Status::Cancelled => None,
        };
        let micros = end?.checked_sub(self.since(status)?)?;
        u64::try_from(micros).ok().map(Duration::from_micros)
    }
}

/// What is usual for waits of one kind, given earlier ones.
#[must_use]
pub fn usual(mut earlier: Vec<Duration>, least: Duration) -> Duration {
    if earlier.len() < ENOUGH {
        return least;
    }
    earlier.sort_unstable();
    let most = earlier.len() - 1 - earlier.len() / ENOUGH;
    earlier.get(most).map_or(least, |wait| wait.saturating_mul(2)).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_secs(60);

    #[test]
    fn without_enough_earlier_waits_the_least_decides() {
        assert_eq!(usual(vec![Duration::from_secs(900); ENOUGH - 1], LEAST), LEAST);
    }

    #[test]
    fn it_is_twice_what_nineteen_of_twenty_took_and_one_that_hung_changes_nothing() {
        let mut earlier = vec![Duration::from_secs(100); 39];
        earlier.push(Duration::from_secs(90_000));
        assert_eq!(usual(earlier, LEAST), Duration::from_secs(200));
        assert_eq!(usual(vec![Duration::from_secs(1); 100], LEAST), LEAST);
    }

    #[test]
    fn each_status_has_its_wait() {
        let times = Times {
            queued: Some(0),
            dispatched: Some(1_000_000),
            parked: Some(3_000_000),
            promoted: Some(10_000_000),
            started: Some(11_000_000),
            completed: Some(20_000_000),
        };
        let seconds = |status| times.waited(status).map(|wait| wait.as_secs());
        assert_eq!(seconds(Status::Queued), Some(1));
        assert_eq!(seconds(Status::WaitingLocalDirectory), Some(7));
        assert_eq!(seconds(Status::Dispatched), Some(1), "from its promotion");
        assert_eq!(seconds(Status::Running), Some(9));
        assert_eq!(seconds(Status::Failed), None);
        assert_eq!(Times { dispatched: None, ..times }.waited(Status::Queued), None);
        assert_eq!(Times { completed: Some(0), ..times }.waited(Status::Running), None, "a clock went back");
    }
}
