//! Errors of requests, and their representation in HTTP. The only place that maps kinds of errors
//! to status codes.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use muster_api::types::{ErrorBody, ErrorDiagnostic};
use muster_runtime::StoreError;
use muster_spec::access::Denied;

/// Error of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiFailure {
    /// The request does not conform to the API.
    InvalidRequest {
        /// Status code: 400, 405 or 415.
        status: StatusCode,
        /// Description of the error.
        message: String,
    },
    /// The body is larger than the limit.
    TooLarge,
    /// A text has errors.
    InvalidSpec {
        /// Summary with the number of errors.
        message: String,
        /// Errors with their places in the text.
        diagnostics: Vec<ErrorDiagnostic>,
    },
    /// The object does not exist.
    NotFound(String),
    /// The caller is not permitted to do this.
    Forbidden(String),
    /// The queue's grants do not permit this to the caller.
    Denied {
        /// Permission that is missing.
        message: String,
        /// Next step for the user.
        hint: String,
    },
    /// The present state does not permit the action.
    Conflict {
        /// Reason in terms of the state.
        message: String,
        /// Next steps for the user.
        hints: Vec<String>,
    },
    /// The engine rejects the request permanently.
    Refused {
        /// Reason of the rejection.
        message: String,
        /// Next steps for the user.
        hints: Vec<String>,
    },
    /// A limit on concurrent use is reached.
    Busy {
        /// Limit that is reached.
        message: String,
        /// Next step for the user.
        hint: String,
    },
    /// The state cannot be read or written.
    Store(StoreError),
    /// Internal error of the daemon.
    Internal(String),
}

impl ApiFailure {
    /// Makes an error for an action that the present state does not permit.
    pub(crate) fn conflict(message: impl Into<String>, hint: impl Into<String>) -> Self {
        ApiFailure::Conflict { message: message.into(), hints: vec![hint.into()] }
    }

    /// Makes an error for an invalid request.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        ApiFailure::InvalidRequest { status: StatusCode::BAD_REQUEST, message: message.into() }
    }

    /// Makes an error for an unknown job.
    pub(crate) fn no_job(job: muster_model::JobId) -> Self {
        ApiFailure::NotFound(format!("no job {job}"))
    }

    /// Makes an error for a job of another user.
    pub(crate) fn not_yours(job: muster_model::JobId) -> Self {
        ApiFailure::Forbidden(format!("job {job} belongs to another user"))
    }

    /// Makes an error for a daemon that is stopping, whose dispatcher has ended.
    pub(crate) fn stopping() -> Self {
        ApiFailure::Store(StoreError::Io("the daemon is stopping".to_owned()))
    }

    fn status(&self) -> StatusCode {
        match self {
            ApiFailure::InvalidRequest { status, .. } => *status,
            ApiFailure::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ApiFailure::InvalidSpec { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            ApiFailure::NotFound(_) => StatusCode::NOT_FOUND,
            ApiFailure::Forbidden(_) | ApiFailure::Denied { .. } => StatusCode::FORBIDDEN,
            ApiFailure::Conflict { .. } | ApiFailure::Refused { .. } => StatusCode::CONFLICT,
            ApiFailure::Busy { .. } | ApiFailure::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            ApiFailure::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
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
            ApiFailure::InvalidRequest { message, .. } => {
                body("invalid_request", message, Vec::new())
            }
            ApiFailure::TooLarge => ErrorBody::too_large(),
            ApiFailure::InvalidSpec { message, diagnostics } => {
                ErrorBody { diagnostics, ..body("invalid_spec", message, Vec::new()) }
            }
            ApiFailure::NotFound(message) => body("not_found", message, Vec::new()),
            ApiFailure::Forbidden(message) => body("forbidden", message, Vec::new()),
            ApiFailure::Denied { message, hint } => body("forbidden", message, vec![hint]),
            ApiFailure::Conflict { message, hints } => body("conflict", message, hints),
            ApiFailure::Refused { message, hints } => body("refused", message, hints),
            ApiFailure::Busy { message, hint } => body("busy", message, vec![hint]),
            ApiFailure::Store(error) => {
                body("store_unavailable", error.to_string(), vec![error.hint().to_owned()])
            }
            ApiFailure::Internal(message) => body("internal", message, Vec::new()),
        }
    }
}

impl From<Denied> for ApiFailure {
    fn from(Denied { message, hint }: Denied) -> Self {
        ApiFailure::Denied { message, hint }
    }
}

impl From<StoreError> for ApiFailure {
    fn from(error: StoreError) -> Self {
        ApiFailure::Store(error)
    }
}

impl IntoResponse for ApiFailure {
    fn into_response(self) -> Response {
        if let ApiFailure::Internal(message) = &self {
            tracing::error!(%message, "a request failed with an internal error");
        }
        (self.status(), Json(self.body())).into_response()
    }
}
