//! Why a request is not carried out, in the words of the API: the same codes as the daemon's, so
//! that exit codes are the same.

use muster_api::types::{Diagnostic, ErrorBody};
use muster_backends::slurm::tool::ToolError;
use muster_spec::{Colour, Diagnostics};

/// Code of an answer that Slurm did not give.
const UNAVAILABLE: &str = "unavailable";

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

    /// Slurm does not answer; it may do so later.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(UNAVAILABLE, message)
    }

    /// True when the same request may be answered later.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.code == UNAVAILABLE
    }

    /// The submission was withdrawn by its user.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self::new("interrupted", message)
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
            _ if error.is_silence() => Self::unavailable(format!("Slurm does not answer: {error}")).hint(silence_hint(&error)),
            _ => Self::refused(error.to_string()),
        }
    }
}

/// What to do when Slurm does not answer.
fn silence_hint(error: &ToolError) -> &'static str {
    let message = error.to_string();
    match () {
        () if message.contains("unge") || message.contains("authentication") => {
            "munge may be down here or at the controller: `munge -n | unmunge` says; running jobs go on without it"
        }
        () if message.contains("database") || message.contains("sacct") => {
            "slurmdbd may be down: `sacctmgr ping` says; jobs go on without it"
        }
        () => "Slurm's controller may be down: `scontrol ping` says; running jobs go on without it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slurm_that_does_not_answer_has_a_code_of_its_own() {
        let failed = |program: &str, message: &str| {
            Refusal::from(ToolError::Failed {
                program: program.into(),
                message: message.into(),
                code: Some(1),
            })
        };
        let down = failed(
            "squeue",
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        );
        assert!(down.is_unavailable() && down.hints[0].contains("scontrol ping"), "{down:?}");
        let munge = failed("squeue", "slurm_load_jobs error: Protocol authentication error");
        assert!(munge.is_unavailable() && munge.hints[0].contains("munge"), "{munge:?}");
        assert!(!failed("scancel", "Access/permission denied").is_unavailable());
    }
}
