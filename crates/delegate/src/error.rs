//! Errors of requests, with the same codes as the daemon's, so that exit codes are the same.

use crate::slurm::tool::ToolError;
use muster_api::types::{ErrorBody, ErrorDiagnostic};
use muster_spec::{Colour, Diagnostics};

/// Error code for a scheduler that does not answer.
const UNAVAILABLE: &str = "unavailable";

/// Error code for a request that something else has overtaken.
const CONFLICT: &str = "conflict";

/// Error code for a right that the user lacks.
const FORBIDDEN: &str = "forbidden";

/// Error of a request, as the API reports it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct RequestError {
    code: &'static str,
    message: String,
    hints: Vec<String>,
    diagnostics: Vec<ErrorDiagnostic>,
}

impl RequestError {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hints: Vec::new(), diagnostics: Vec::new() }
    }

    /// Rejects a request that the scheduler, or its Muster front end, does not support.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new("refused", message)
    }

    /// Reports that the named job, rank or file does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new("not_found", message)
    }

    /// Rejects a request that is malformed.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_request", message)
    }

    /// Rejects a request that the user has no right to.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(FORBIDDEN, message)
    }

    /// Rejects a request that something else has overtaken.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(CONFLICT, message)
    }

    /// Reports that the external scheduler does not answer; a retry may succeed.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(UNAVAILABLE, message)
    }

    /// Returns whether a retry of the same request may succeed.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.code == UNAVAILABLE
    }

    /// Returns whether the user lacks a right for the request.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.code == FORBIDDEN
    }

    /// Returns whether something else has overtaken the request.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code == CONFLICT
    }

    /// Reports that the user withdrew the request.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self::new("interrupted", message)
    }

    /// Reports an internal failure.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new("internal", message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<RequestError> for ErrorBody {
    fn from(refusal: RequestError) -> Self {
        let RequestError { code, message, hints, diagnostics } = refusal;
        Self { code: code.to_owned(), message, hints, diagnostics }
    }
}

impl From<Diagnostics> for RequestError {
    fn from(diagnostics: Diagnostics) -> Self {
        let list = diagnostics.iter().map(|one| ErrorDiagnostic {
            message: one.message.clone(),
            line: one.line,
            column: one.column,
            rendered: diagnostics.render_one(one, Colour::Never),
        });
        Self { diagnostics: list.collect(), ..Self::new("invalid_spec", "the job file is invalid") }
    }
}

impl From<ToolError> for RequestError {
    fn from(error: ToolError) -> Self {
        match &error {
            ToolError::Start { program, .. } => Self::refused(error.to_string()).hint(format!(
                "check that Slurm's `{program}` is in the PATH; $MUSTER_SLURM_BIN can name another directory; elsewhere, ssh to a login node"
            )),
            _ if error.is_silence() => Self::unavailable(format!("Slurm does not answer: {error}")).hint(silence_hint(&error)),
            _ => Self::refused(error.to_string()),
        }
    }
}

/// Returns the next step when Slurm does not answer.
fn silence_hint(error: &ToolError) -> &'static str {
    let message = error.to_string();
    match () {
        () if message.contains("unge") || message.contains("authentication") => {
            "munge may be down here or on the controller: check with `munge -n | unmunge`; running jobs are not affected"
        }
        () if message.contains("database") || message.contains("sacct") => {
            "slurmdbd may be down: check with `sacctmgr ping`; jobs are not affected"
        }
        () => {
            "Slurm's controller may be down: check with `scontrol ping`; running jobs are not affected"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slurm_that_does_not_answer_has_a_code_of_its_own() {
        let failed = |program: &str, message: &str| {
            RequestError::from(ToolError::Failed {
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
