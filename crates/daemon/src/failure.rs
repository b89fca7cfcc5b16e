//! Why a request was not carried out, and how that looks on the wire. One place maps kinds to
//! statuses.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use muster_api::types::{Diagnostic, ErrorBody};
use muster_runtime::StoreError;
use muster_spec::access::Denied;

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not a request of this API.
    InvalidRequest {
        /// 400, 405 or 415.
        status: StatusCode,
        /// What is wrong with it.
        message: String,
    },
    /// The body is larger than a request may be.
    TooLarge,
    /// A text has errors.
    InvalidSpec {
        /// How many, in words.
        message: String,
        /// Where and what.
        diagnostics: Vec<Diagnostic>,
    },
    /// No such thing.
    NotFound(String),
    /// Not the caller's.
    Forbidden(String),
    /// The caller's queue does not grant it.
    Denied {
        /// What.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The state of things does not allow it.
    Conflict {
        /// Why.
        message: String,
        /// What to do.
        hints: Vec<String>,
    },
    /// The engine refuses for good.
    Refused {
        /// Why.
        message: String,
        /// What to do.
        hints: Vec<String>,
    },
    /// Too much at once.
    Busy {
        /// Of what.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The state cannot be written or read.
    Store(StoreError),
    /// A defect of the daemon.
    Internal(String),
}

impl Failure {
    /// The state does not allow it.
    pub(crate) fn conflict(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::Conflict { message: message.into(), hints: vec![hint.into()] }
    }

    /// A request that does not make sense.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Failure::InvalidRequest { status: StatusCode::BAD_REQUEST, message: message.into() }
    }

    /// There is no such job.
    pub(crate) fn no_job(job: muster_model::JobId) -> Self {
        Failure::NotFound(format!("no job {job}"))
    }

    /// The job is somebody else's.
    pub(crate) fn not_yours(job: muster_model::JobId) -> Self {
        Failure::Forbidden(format!("job {job} belongs to another user"))
    }

    /// The dispatcher is gone: the daemon is on its way out.
    pub(crate) fn stopping() -> Self {
        Failure::Store(StoreError::Io("the daemon is stopping".to_owned()))
    }

    fn status(&self) -> StatusCode {
        match self {
            Failure::InvalidRequest { status, .. } => *status,
            Failure::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Failure::InvalidSpec { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Failure::NotFound(_) => StatusCode::NOT_FOUND,
            Failure::Forbidden(_) | Failure::Denied { .. } => StatusCode::FORBIDDEN,
            Failure::Conflict { .. } | Failure::Refused { .. } => StatusCode::CONFLICT,
            Failure::Busy { .. } | Failure::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            Failure::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn body(self) -> ErrorBody {
        let body = |code: &str, message: String, hints: Vec<String>| ErrorBody {
            code: code.to_owned(),
            message,
            hints,
            diagnostics: Vec::new(),
        };
        match self {
            Failure::InvalidRequest { message, .. } => body("invalid_request", message, Vec::new()),
            Failure::TooLarge => ErrorBody::too_large(),
            Failure::InvalidSpec { message, diagnostics } => {
                ErrorBody { diagnostics, ..body("invalid_spec", message, Vec::new()) }
            }
            Failure::NotFound(message) => body("not_found", message, Vec::new()),
            Failure::Forbidden(message) => body("forbidden", message, Vec::new()),
            Failure::Denied { message, hint } => body("forbidden", message, vec![hint]),
            Failure::Conflict { message, hints } => body("conflict", message, hints),
            Failure::Refused { message, hints } => body("refused", message, hints),
            Failure::Busy { message, hint } => body("busy", message, vec![hint]),
            Failure::Store(error) => {
                body("store_unavailable", error.to_string(), vec![error.hint().to_owned()])
            }
            Failure::Internal(message) => body("internal", message, Vec::new()),
        }
    }
}

impl From<Denied> for Failure {
    fn from(Denied { message, hint }: Denied) -> Self {
        Failure::Denied { message, hint }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Store(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        if let Failure::Internal(message) = &self {
            tracing::error!(%message, "a request failed by a defect");
        }
        (self.status(), Json(self.body())).into_response()
    }
}
