//! Settings of a job that another system cannot express.

/// Setting that a system does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The setting and the reason, as one fragment.
    pub what: String,
    /// Alternative for the user.
    pub hint: String,
}

impl Unsupported {
    /// Makes a setting with its reason, and an alternative.
    #[must_use]
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}
