//! What is not supported, and where it stands.

use std::fmt;

use crate::pipeline::Place;

/// Why a query is not taken. Nothing of it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What is refused: the operator or expression, in SQL's words, and why.
    pub what: String,
    /// What to write instead, when there is something.
    pub hint: Option<String>,
    /// The view, when known.
    pub view: Option<String>,
    /// Where in the file, when known.
    pub place: Option<Place>,
}

impl Refused {
    /// Refused for this reason.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, view: None, place: None }
    }

    /// With what to write instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// In this view.
    #[must_use]
    pub fn within(mut self, view: &str) -> Self {
        self.view.get_or_insert_with(|| view.to_owned());
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(view) = &self.view {
            write!(f, "view {view}: ")?;
        }
        write!(f, "{}", self.what)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for Refused {}
