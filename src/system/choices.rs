//! What the operator chooses for a server, by flag or variable.

use super::SystemError;

/// Names for how many days transcripts are kept.
pub(super) const KEEP_TRANSCRIPTS: &str = "MULTICA_KEEP_TRANSCRIPTS";

/// What the operator chooses for a server.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    /// Where it seals the log to.
    pub seal_to: Vec<String>,
    /// Whom it delivers webhooks to.
    pub webhook_to: Vec<String>,
    /// For how many days it keeps transcripts.
    pub keep_transcripts: Option<u32>,
}

/// For how many days transcripts are kept: as the flag says, else the variable; none: for ever.
pub(super) fn kept_days(flag: Option<u32>, variable: Option<String>) -> Result<Option<u32>, SystemError> {
    let Some(text) = variable.filter(|text| flag.is_none() && !text.is_empty()) else { return Ok(flag) };
    let days = text.parse().ok().filter(|days| *days > 0);
    days.map(Some).ok_or(SystemError::Days { name: KEEP_TRANSCRIPTS, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_the_flags_then_the_variables_and_a_number() {
        let variable = |text: &str| Some(text.to_owned());
        assert_eq!(kept_days(None, None).unwrap(), None);
        assert_eq!(kept_days(None, variable("")).unwrap(), None);
        assert_eq!(kept_days(None, variable("90")).unwrap(), Some(90));
        assert_eq!(kept_days(Some(7), variable("90")).unwrap(), Some(7));
        for wrong in ["0", "-1", "90d", "ever"] {
            let error = kept_days(None, variable(wrong)).unwrap_err();
            assert!(error.to_string().contains(KEEP_TRANSCRIPTS), "{error}");
        }
    }
}
