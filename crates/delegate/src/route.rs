//! Parts of the routes that all external schedulers read and write alike.

use std::time::SystemTime;

use muster_api::{Call, RouteResponse, RouteValue};
use muster_model::{JobId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::RequestError;

/// Returns the job that a call names by its number.
pub(crate) fn job_number(call: &Call) -> Result<JobId, RequestError> {
    let name = call.name.as_deref().unwrap_or_default();
    name.parse()
        .map(JobId)
        .map_err(|_| RequestError::invalid(format!("`{name}` is not a job number")))
}

/// Reads a query or body.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, RequestError> {
    serde_json::from_value(value.clone()).map_err(|error| RequestError::invalid(error.to_string()))
}

/// Makes the response of a route from its type.
pub(crate) fn value<T: Serialize + Send + 'static>(value: T) -> RouteResponse {
    RouteResponse::Value(RouteValue::new(value))
}

/// Returns the present time by the clock of this machine.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
