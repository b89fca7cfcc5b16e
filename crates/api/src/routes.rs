//! The one table of routes. The daemon's router, the OpenAPI document and the client are made from
//! it, so none of them can know a path that the others do not.

use muster_model::SiteSnapshot;
use muster_model::view::JobView;
use schemars::{Schema, SchemaGenerator};

use crate::query::{
    AttachQuery, ChangesQuery, ElementQuery, JobFilter, LogQuery, SnapshotQuery, TimelineQuery,
};
use crate::types::{
    ActionRequest, ActionResponse, BulkRequest, BulkResponse, Changes, DaemonInfo, DrainRequest,
    DropReservationRequest, Explained, JobDetail, JobList, NodeList, QueueList, QueuesRequest,
    ReserveRequest, ResumeRequest, SavedRequest, ScaleRequest, SubmitRequest, SubmitResponse,
    Timeline, UsageList, WindowList,
};

/// What a route does; the daemon matches on it exhaustively, so a route without a handler does not
/// compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteId {
    /// Who answers.
    Daemon,
    /// End the daemon; tasks keep running.
    StopDaemon,
    /// Submit.
    Submit,
    /// List jobs.
    Jobs,
    /// One job.
    Job,
    /// Why it waits.
    Explain,
    /// End a job.
    Cancel,
    /// Keep it from starting.
    Hold,
    /// Undo a hold.
    Release,
    /// Run it again.
    Requeue,
    /// Cancel, hold, release or requeue many.
    Bulk,
    /// Ask it to save its progress.
    Checkpoint,
    /// Say for it that its progress is saved.
    Saved,
    /// Change how many replicas it has.
    Scale,
    /// Output of a task.
    Logs,
    /// Terminal session beside a task.
    Attach,
    /// List queues.
    Queues,
    /// Replace the queue tree.
    SetQueues,
    /// Consumption.
    Usage,
    /// List nodes.
    Nodes,
    /// Take a node out of service.
    Drain,
    /// Take it back.
    Resume,
    /// List advance reservations.
    Reservations,
    /// Set nodes or GPUs aside.
    Reserve,
    /// Take a reservation back.
    DropReservation,
    /// Who held what when.
    Timeline,
    /// All of it, without names.
    Snapshot,
    /// Long poll.
    Changes,
    /// The OpenAPI document.
    OpenApi,
}

/// HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Reads.
    Get,
    /// Acts.
    Post,
    /// Replaces.
    Put,
}

impl Method {
    /// As it stands in a request line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
        }
    }
}

/// Makes the schema of a type, registering what it refers to.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What travels in a body.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Nothing.
    None,
    /// JSON of this type.
    Json(SchemaOf),
    /// JSON without a fixed shape.
    AnyJson,
    /// Bytes, streamed.
    Bytes,
    /// The connection leaves HTTP (101) and speaks the session protocol.
    Upgrade,
}

/// One route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// What it does.
    pub id: RouteId,
    /// Method.
    pub method: Method,
    /// Path with `{name}` parameters.
    pub path: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Query parameters: an object schema.
    pub query: Option<SchemaOf>,
    /// Request body.
    pub request: Body,
    /// Body of the success answer.
    pub response: Body,
    /// Statuses of refusals; their body is always [`crate::types::ErrorBody`].
    pub errors: &'static [u16],
}

impl Route {
    /// Status of the success answer.
    #[must_use]
    pub fn success(&self) -> u16 {
        match self.response {
            Body::Upgrade => 101,
            Body::None | Body::Json(_) | Body::AnyJson | Body::Bytes => 200,
        }
    }
}

macro_rules! json {
    ($type:ty) => {
        Body::Json(|generator| generator.subschema_for::<$type>())
    };
}

macro_rules! query {
    ($type:ty) => {
        Some(|generator| generator.root_schema_for::<$type>())
    };
}

/// Refusals of a route that only reads: not a request, not a user, the store does not answer, a
/// defect.
const READ: &[u16] = &[400, 403, 500, 503];
/// And names something.
const READ_ONE: &[u16] = &[400, 403, 404, 500, 503];
/// And waits for it to be in a state.
const READ_STARTED: &[u16] = &[400, 403, 404, 409, 500, 503];
/// Refusals of a route that changes something by name.
const ACT: &[u16] = &[400, 403, 404, 409, 413, 415, 422, 500, 503];
/// Refusals of a route that takes a text.
const TEXT: &[u16] = &[400, 403, 409, 413, 415, 422, 500, 503];

const fn get(id: RouteId, path: &'static str, summary: &'static str, response: Body) -> Route {
    Route {
        id,
        method: Method::Get,
        path,
        summary,
        query: None,
        request: Body::None,
        response,
        errors: READ,
    }
}

const fn act(id: RouteId, path: &'static str, summary: &'static str) -> Route {
    Route {
        id,
        method: Method::Post,
        path,
        summary,
        query: None,
        request: json!(ActionRequest),
        response: json!(ActionResponse),
        errors: ACT,
    }
}

/// Every route of API version 1.
pub const ROUTES: &[Route] = &[
    get(
        RouteId::Daemon,
        "/v1/daemon",
        "Who answers, in what mode, with what warnings.",
        json!(DaemonInfo),
    ),
    Route {
        request: Body::None,
        errors: READ,
        ..act(
            RouteId::StopDaemon,
            "/v1/daemon/stop",
            "End the daemon; running tasks keep running and are found again.",
        )
    },
    Route {
        id: RouteId::Submit,
        method: Method::Post,
        path: "/v1/jobs",
        summary: "Submit every job of a text, or none of them.",
        query: None,
        request: json!(SubmitRequest),
        response: json!(SubmitResponse),
        errors: TEXT,
    },
    Route {
        query: query!(JobFilter),
        ..get(RouteId::Jobs, "/v1/jobs", "List jobs.", json!(JobList))
    },
    Route {
        query: query!(ElementQuery),
        errors: READ_ONE,
        ..get(RouteId::Job, "/v1/jobs/{id}", "One job in full.", json!(JobDetail))
    },
    Route {
        query: query!(ElementQuery),
        errors: READ_ONE,
        ..get(
            RouteId::Explain,
            "/v1/jobs/{id}/explain",
            "Why it waits, when it starts, and what would start it now.",
            json!(Explained),
        )
    },
    act(RouteId::Cancel, "/v1/jobs/{id}/cancel", "End a job or one element, whatever its state."),
    act(RouteId::Hold, "/v1/jobs/{id}/hold", "Keep waiting elements from starting."),
    act(RouteId::Release, "/v1/jobs/{id}/release", "Undo a hold."),
    act(RouteId::Requeue, "/v1/jobs/{id}/requeue", "Run it again from the start."),
    Route {
        request: json!(BulkRequest),
        response: json!(BulkResponse),
        errors: TEXT,
        ..act(
            RouteId::Bulk,
            "/v1/actions",
            "Cancel, hold, release or requeue many jobs, each on its own.",
        )
    },
    act(
        RouteId::Checkpoint,
        "/v1/jobs/{id}/checkpoint",
        "Ask what runs of it to save its progress now.",
    ),
    Route {
        request: json!(SavedRequest),
        ..act(
            RouteId::Saved,
            "/v1/jobs/{id}/saved",
            "Say that the progress of a running task is saved, as its write to `$MUSTER_CHECKPOINT_FILE` would.",
        )
    },
    Route {
        request: json!(ScaleRequest),
        ..act(RouteId::Scale, "/v1/jobs/{id}/scale", "Change how many replicas a service has.")
    },
    Route {
        query: query!(LogQuery),
        errors: READ_STARTED,
        ..get(RouteId::Logs, "/v1/jobs/{id}/logs", "Output of one task, as written.", Body::Bytes)
    },
    Route {
        query: query!(AttachQuery),
        request: Body::None,
        response: Body::Upgrade,
        errors: ACT,
        ..act(
            RouteId::Attach,
            "/v1/jobs/{id}/attach",
            "Open a terminal session beside a task (HTTP upgrade).",
        )
    },
    get(RouteId::Queues, "/v1/queues", "List queues, parents before children.", json!(QueueList)),
    Route {
        id: RouteId::SetQueues,
        method: Method::Put,
        path: "/v1/queues",
        summary: "Replace the queue tree; jobs in removed queues move to the default queue.",
        query: None,
        request: json!(QueuesRequest),
        response: json!(ActionResponse),
        errors: TEXT,
    },
    get(RouteId::Usage, "/v1/usage", "GPU-seconds per user and queue.", json!(UsageList)),
    get(RouteId::Nodes, "/v1/nodes", "List nodes and their devices.", json!(NodeList)),
    Route {
        request: json!(DrainRequest),
        ..act(
            RouteId::Drain,
            "/v1/nodes/{name}/drain",
            "Take no new work on a node, or on some of its GPUs.",
        )
    },
    Route {
        request: json!(ResumeRequest),
        ..act(
            RouteId::Resume,
            "/v1/nodes/{name}/resume",
            "Take new work again on a node, or on some of its GPUs.",
        )
    },
    get(RouteId::Reservations, "/v1/reservations", "List advance reservations.", json!(WindowList)),
    Route {
        request: json!(ReserveRequest),
        ..act(
            RouteId::Reserve,
            "/v1/reservations/{name}",
            "Set nodes or GPUs aside for some users over a stretch of time, once or again and again.",
        )
    },
    Route {
        request: json!(DropReservationRequest),
        ..act(
            RouteId::DropReservation,
            "/v1/reservations/{name}/drop",
            "Take an advance reservation back; what runs in it goes on.",
        )
    },
    Route {
        query: query!(TimelineQuery),
        ..get(
            RouteId::Timeline,
            "/v1/timeline",
            "Who held which device when, and planned starts.",
            json!(Timeline),
        )
    },
    Route {
        query: query!(SnapshotQuery),
        ..get(
            RouteId::Snapshot,
            "/v1/snapshot",
            "The state and what has run, without names: what what-if questions are asked of.",
            json!(SiteSnapshot),
        )
    },
    Route {
        query: query!(ChangesQuery),
        ..get(RouteId::Changes, "/v1/changes", "Wait until something has changed.", json!(Changes))
    },
    get(
        RouteId::OpenApi,
        "/v1/openapi.json",
        "This API as an OpenAPI 3.1 document.",
        Body::AnyJson,
    ),
];

/// The route of an id.
#[must_use]
pub fn route(id: RouteId) -> &'static Route {
    ROUTES.iter().find(|route| route.id == id).expect("the table holds every id; a test walks them")
}

/// Schemas that are part of `--json` output though no route refers to them by themselves.
pub(crate) const EXTRA_SCHEMAS: &[SchemaOf] = &[|generator| generator.subschema_for::<JobView>()];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_has_no_duplicates() {
        let ids: BTreeSet<_> = ROUTES.iter().map(|route| route.id).collect();
        let paths: BTreeSet<_> = ROUTES.iter().map(|route| (route.method, route.path)).collect();
        assert_eq!(ids.len(), ROUTES.len());
        assert_eq!(paths.len(), ROUTES.len());
        assert_eq!(RouteId::OpenApi as usize + 1, ROUTES.len(), "an id has no row");
    }
}
