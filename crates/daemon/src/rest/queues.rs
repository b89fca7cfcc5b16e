//! Handlers for queues.

use axum::Json;
use axum::extract::State;
use muster_api::types::{ActionResponse, QueueList, QueuesRequest};
use muster_model::view::AccessView;
use muster_model::{Protection, QueueName, QueueTree, Span};
use muster_spec::access::{self, Grants};

use super::submit::invalid_spec;
use super::{ApiState, JsonBody};
use crate::auth::Caller;
use crate::failure::ApiFailure;

pub(super) async fn list(
    State(app): State<ApiState>,
    caller: Caller,
) -> Result<Json<QueueList>, ApiFailure> {
    let now = app.handle.status().await?.now;
    let mut queues = app.handle.queues().await?;
    let site = app.site.borrow().clone();
    for queue in &mut queues {
        queue.default_time = access::default_time(&site.queues, &queue.name).map(|(time, _)| time);
        queue.idle = access::idle_policy(&site.queues, &queue.name);
        queue.access = (!caller.admin).then(|| access_of(&site.queues, &queue.name, &caller));
    }
    Ok(Json(QueueList { now, queues }))
}

/// Returns the permissions of a user in a queue.
fn access_of(tree: &QueueTree, queue: &QueueName, caller: &Caller) -> AccessView {
    let grants = Grants::of(tree, queue);
    AccessView {
        may_submit: grants.admits(caller.submitter()),
        max_priority: grants.max_priority,
        max_protect: match grants.max_protect {
            Protection::None => Span(0),
            Protection::For(span) => span,
            Protection::Always => Span(u64::MAX),
        },
        users: grants.users,
        groups: grants.groups.iter().map(ToString::to_string).collect(),
    }
}

pub(super) async fn set(
    State(app): State<ApiState>,
    caller: Caller,
    JsonBody(request): JsonBody<QueuesRequest>,
) -> Result<Json<ActionResponse>, ApiFailure> {
    caller.require_admin("change the queues")?;
    let file = muster_spec::parse_queue_file(&request.source, request.file.as_deref())
        .map_err(|diagnostics| invalid_spec(&diagnostics))?;
    let mut answer = app.handle.set_queues(Box::new(file.tree)).await?;
    app.handle.set_queue_notices(file.notices).await?;
    if let Some(file) = &app.about.queues_file {
        let file = file.display();
        answer.message.push_str(&format!(
            "; a daemon that starts with `--queues {file}` replaces them by that file again"
        ));
    }
    Ok(Json(answer))
}
