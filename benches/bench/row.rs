//! One measured fact.

use std::fmt;

use serde_json::json;

/// What a row has to reach: its ratio where it has one, else its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

/// `NAME CONFIG ours THEIRS-NAME theirs RATIOx`, or `NAME CONFIG value unit`.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub name: &'static str,
    pub config: String,
    pub value: f64,
    pub unit: &'static str,
    /// Whom it is compared with, and what they reached.
    pub theirs: Option<(String, f64)>,
    /// The median of the rounds' own ratios.
    pub ratio: Option<f64>,
    pub bar: Option<Bar>,
}

impl Row {
    pub fn plain(name: &'static str, config: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name, config: config.into(), value, unit, theirs: None, ratio: None, bar: None }
    }

    /// The medians of rounds that were measured side by side.
    pub fn beside(
        name: &'static str,
        config: impl Into<String>,
        ours: &[f64],
        theirs: (&str, &[f64]),
    ) -> Self {
        let ratios: Vec<f64> = ours.iter().zip(theirs.1).map(|(ours, theirs)| ours / theirs).collect();
        Self {
            theirs: Some((theirs.0.to_owned(), super::median(theirs.1))),
            ratio: Some(super::median(&ratios)),
            ..Self::plain(name, config, super::median(ours), "")
        }
    }

    pub fn bar(self, bar: Bar) -> Self {
        Self { bar: Some(bar), ..self }
    }

    /// Whether it is met; none without a bar.
    pub fn met(&self) -> Option<bool> {
        let reached = self.ratio.unwrap_or(self.value);
        self.bar.map(|bar| match bar {
            Bar::AtLeast(least) => reached >= least,
            Bar::AtMost(most) => reached <= most,
        })
    }

    pub fn json(&self) -> String {
        let bar = self.bar.map(|bar| match bar {
            Bar::AtLeast(least) => json!({"at_least": least}),
            Bar::AtMost(most) => json!({"at_most": most}),
        });
        json!({"name": self.name, "config": self.config, "value": self.value, "unit": self.unit,
            "theirs_name": self.theirs.as_ref().map(|theirs| &theirs.0),
            "theirs": self.theirs.as_ref().map(|theirs| theirs.1), "ratio": self.ratio,
            "bar": bar, "met": self.met()})
        .to_string()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.config, short(self.value))?;
        match (&self.theirs, self.ratio) {
            (Some((name, value)), Some(ratio)) => write!(f, " {name} {} {ratio:.2}x", short(*value))?,
            _ => write!(f, " {}", self.unit)?,
        }
        if let (Some(bar), Some(met)) = (self.bar, self.met()) {
            let said = if met { "met" } else { "MISSED" };
            match bar {
                Bar::AtLeast(least) => write!(f, "  # at least {}: {said}", short(least))?,
                Bar::AtMost(most) => write!(f, "  # at most {}: {said}", short(most))?,
            }
        }
        Ok(())
    }
}

/// Three digits that say something.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
