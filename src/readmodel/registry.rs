//! The read models of this build, with their SQL.

use std::collections::BTreeSet;

use rust_embed::RustEmbed;

use super::{ReadModelError, history};
use crate::fold::history::ENDING;
use crate::fold::{Mode, ReadModel};

#[derive(RustEmbed)]
#[folder = "projections/"]
#[allow_missing = true]
struct Folders;

/// The SQL of a read model; `{table}` stands for its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sql {
    /// Makes the table and its indexes.
    pub schema: String,
    /// Writes rows: `{changes}` stands for what yields key, workspace_id, position, recorded_at and row,
    /// `{base}` for what is added to each position.
    pub upsert: String,
}

impl Sql {
    /// The SQL of a table that has no columns but those of the contract.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            schema: include_str!("sql/schema.sql").to_owned(),
            upsert: include_str!("sql/upsert.sql").to_owned(),
        }
    }

    /// The SQL in `projections/<name>/`; the upsert may be left to the contract's.
    ///
    /// # Errors
    /// [`ReadModelError::Folder`] when the schema is missing or the version there is another.
    pub fn embedded(name: &str, version: u32) -> Result<Self, ReadModelError> {
        let text = |file: &str| {
            Folders::get(&format!("{name}/{file}"))
                .map(|found| String::from_utf8_lossy(&found.data).into_owned())
        };
        let wrong = |file, problem| ReadModelError::Folder { name: name.to_owned(), file, problem };
        let said = text("version").ok_or_else(|| wrong("version", "is missing"))?;
        if said.trim() != version.to_string() {
            return Err(wrong("version", "differs from the fold's"));
        }
        let plain = Self::plain();
        Ok(Self {
            schema: text("schema.sql").ok_or_else(|| wrong("schema.sql", "is missing"))?,
            upsert: text("upsert.sql").unwrap_or(plain.upsert),
        })
    }

    /// The SQL of a read model of this build: its own folder's, or made from its base's where it is a history.
    fn of(model: &dyn ReadModel) -> Result<Self, ReadModelError> {
        match model.history_of() {
            None => Self::embedded(model.name(), model.version()),
            Some(base) => history::made_from(base, &Self::embedded(base, model.version())?),
        }
    }
}

/// A read model with its SQL.
pub struct Registered {
    model: Box<dyn ReadModel>,
    key: String,
    sql: Sql,
}

impl Registered {
    /// Its fold.
    #[must_use]
    pub fn model(&self) -> &dyn ReadModel {
        self.model.as_ref()
    }

    /// Its table without the schema: `<name>__v<version>`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The table that an installation makes for it: `rm.<name>__v<version>`. A rebuild makes others; which one
    /// answers stands in `es.projections`.
    #[must_use]
    pub fn table(&self) -> String {
        format!("rm.{}", self.key)
    }

    /// Whether it is the row history of another.
    #[must_use]
    pub fn is_history(&self) -> bool {
        self.model.history_of().is_some()
    }

    /// The rows of a table of its as they are now, as what stands after `from`: of a history, those that nothing has
    /// changed since.
    #[must_use]
    pub fn current(&self, table: &str) -> String {
        if self.is_history() { history::current(table) } else { table.to_owned() }
    }

    /// Its SQL.
    #[must_use]
    pub fn sql(&self) -> &Sql {
        &self.sql
    }
}

/// The read models of this build.
pub struct Registry {
    models: Vec<Registered>,
}

impl Registry {
    /// Registers read models whose SQL is in `projections/`.
    ///
    /// # Errors
    /// [`ReadModelError::Folder`], [`ReadModelError::Name`].
    pub fn new(models: Vec<Box<dyn ReadModel>>) -> Result<Self, ReadModelError> {
        let with_sql = models
            .into_iter()
            .map(|model| Sql::of(model.as_ref()).map(|sql| (model, sql)))
            .collect::<Result<_, _>>()?;
        Self::with_sql(with_sql)
    }

    /// Registers read models that bring their SQL.
    ///
    /// # Errors
    /// [`ReadModelError::Name`] for a name that can't be a table's, is there twice, or ends as a history's does
    /// without being one.
    pub fn with_sql(models: Vec<(Box<dyn ReadModel>, Sql)>) -> Result<Self, ReadModelError> {
        let mut names = BTreeSet::new();
        let mut registered = Vec::with_capacity(models.len());
        for (model, sql) in models {
            let name = model.name();
            let fits = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            let reserved = name.strip_suffix(ENDING) != model.history_of();
            if name.is_empty() || name.len() > 40 || !fits || reserved || !names.insert(name) {
                return Err(ReadModelError::Name { name: name.to_owned() });
            }
            let key = format!("{name}__v{}", model.version());
            registered.push(Registered { model, key, sql });
        }
        registered.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { models: registered })
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Registered> {
        self.models.iter()
    }

    /// Those that the append keeps.
    pub fn inline(&self) -> impl Iterator<Item = &Registered> {
        self.models.iter().filter(|registered| registered.model.mode() == Mode::Inline)
    }

    /// Those that follow the log.
    pub fn followers(&self) -> impl Iterator<Item = &Registered> {
        self.models.iter().filter(|registered| registered.model.mode() == Mode::Follower)
    }

    /// The one of that name.
    ///
    /// # Errors
    /// [`ReadModelError::Unknown`].
    pub fn get(&self, name: &str) -> Result<&Registered, ReadModelError> {
        self.models
            .iter()
            .find(|registered| registered.model.name() == name)
            .ok_or_else(|| ReadModelError::Unknown { name: name.to_owned() })
    }

    /// Names the inline tables: an append of a build with others is refused.
    #[must_use]
    pub fn inline_set(&self) -> String {
        self.inline().map(Registered::key).collect::<Vec<_>>().join(",")
    }
}
