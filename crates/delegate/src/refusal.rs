//! Why a request is not carried out, in the words of the API: the same codes as the daemon's, so that exit codes are the same.

use muster_api::types::{Diagnostic, ErrorBody};
use muster_backends::slurm::tool::ToolError;
use muster_spec::{Colour, Diagnostics};

/// A refusal.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    code: &'static str,
    message: String,
    hints: Vec<String>,
    diagnostics: Vec<Diagnostic>,
}

impl Refusal {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hints: Vec::new(), diagnostics: Vec::new() }
    }

    /// The queue, or this front of it, does not do that.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new("refused", message)
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new("not_found", message)
    }

    /// Not a request of the API.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_request", message)
    }

    /// What should have worked did not.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new("internal", message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<Refusal> for ErrorBody {
    fn from(refusal: Refusal) -> Self {
        let Refusal { code, message, hints, diagnostics } = refusal;
        Self { code: code.to_owned(), message, hints, diagnostics }
    }
}

impl From<Diagnostics> for Refusal {
    fn from(diagnostics: Diagnostics) -> Self {
        let list = diagnostics.iter().map(|one| Diagnostic {
            message: one.message.clone(),
            line: one.line,
            column: one.column,
            rendered: diagnostics.render_one(one, Colour::Never),
        });
        Self { diagnostics: list.collect(), ..Self::new("invalid_spec", "the text is wrong") }
    }
}

impl From<ToolError> for Refusal {
    fn from(error: ToolError) -> Self {
        match &error {
            ToolError::Start { program, .. } => Self::refused(error.to_string()).hint(format!(
                "is Slurm's `{program}` in the path here? $MUSTER_SLURM_BIN names another folder; from elsewhere, ssh to a login node"
            )),
            ToolError::Timeout { .. } => Self::refused(error.to_string())
                .hint("Slurm's controller may be down: `scontrol ping` says; running jobs go on without it"),
            ToolError::Failed { message, .. } if message.contains("Unable to contact") => Self::refused(error.to_string())
                .hint("Slurm's controller is down or not reached: `scontrol ping` says; running jobs go on without it"),
            ToolError::Failed { .. } => Self::refused(error.to_string()),
        }
    }
}
