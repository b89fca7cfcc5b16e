//! Responses to requests that are not answered: status codes, and bodies as those of the API.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use muster_api::ClientError;
use muster_api::types::ErrorBody;

use crate::exit::{Failure, NO_DAEMON, NOT_FOUND, UNAVAILABLE, USAGE};

/// Response to a request that is not answered, with what to do about it.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    body: ErrorBody,
}

impl Refusal {
    /// Makes a response with a code of the API, a message and the next step.
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let code = code.to_owned();
        let message = message.into();
        let body = ErrorBody { code, message, hints: Vec::new(), diagnostics: Vec::new() };
        Self { status, body }
    }

    /// Adds a next step.
    pub(super) fn hint(mut self, hint: &str) -> Self {
        self.body.hints.push(hint.to_owned());
        self
    }

    fn hints(self, hints: &[String]) -> Self {
        hints.iter().fold(self, |refusal, hint| refusal.hint(hint))
    }

    /// Makes the response to a request without a valid key or link.
    pub(super) fn no_access(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "no_access", message).hint(
            "press Enter in the terminal of `muster ui` for a new link, or run `muster ui` again",
        )
    }

    /// Makes the response to a request that is not one of the page.
    pub(super) fn foreign(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// Returns the response as text, for a tab of a browser that a job's page is opened in.
    pub(super) fn into_text(self) -> Response {
        let lines = std::iter::once(self.body.message).chain(self.body.hints);
        let text: String = lines.map(|line| line + "\n").collect();
        (self.status, text).into_response()
    }

    /// Makes the response to a request that cannot be read.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// Makes the response to a request that has to wait for others.
    pub(super) fn busy(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).hint("try again in a moment")
    }

    /// Makes the response to a request for something that does not exist.
    pub(super) fn not_found(message: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let status = match failure.code {
            USAGE => StatusCode::BAD_REQUEST,
            NOT_FOUND => StatusCode::NOT_FOUND,
            NO_DAEMON | UNAVAILABLE => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let code = failure.word.as_deref().unwrap_or(match status {
            StatusCode::BAD_REQUEST => "invalid_request",
            StatusCode::NOT_FOUND => "not_found",
            StatusCode::SERVICE_UNAVAILABLE => "unavailable",
            _ => "internal",
        });
        Self::new(status, code, failure.message).hints(&failure.hints)
    }
}

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Api(body) => Self { status: status(&body.code), body },
            other => {
                let failure = Failure::from(other);
                let refusal =
                    Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", failure.message);
                refusal.hints(&failure.hints)
            }
        }
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        let error = match error.downcast::<Failure>() {
            Ok(failure) => return failure.into(),
            Err(error) => error,
        };
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("{error:#}"))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}

/// Returns the status of an error code, as the daemon has it.
fn status(code: &str) -> StatusCode {
    match code {
        "invalid_request" => StatusCode::BAD_REQUEST,
        "invalid_spec" => StatusCode::UNPROCESSABLE_ENTITY,
        "not_found" => StatusCode::NOT_FOUND,
        "forbidden" => StatusCode::FORBIDDEN,
        "conflict" | "refused" => StatusCode::CONFLICT,
        "busy" | "store_unavailable" | "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
