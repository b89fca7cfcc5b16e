//! Route table. The daemon's router, the OpenAPI document and the client are built from it, so they
//! agree on every path.

use muster_model::SiteSnapshot;
use muster_model::view::JobView;
use schemars::{Schema, SchemaGenerator};

use crate::query::{
    AttachQuery, ChangesQuery, ElementQuery, JobFilter, LogQuery, SnapshotQuery, TimelineQuery,
    UsageQuery,
};
use crate::types::{
    ActionRequest, ActionResponse, AdvanceReservationList, BulkRequest, BulkResponse,
    ChangesResponse, DaemonInfo, DrainRequest, DropReservationRequest, ElementList,
    ExplainResponse, GpuLoadList, JobDetail, JobList, NodeList, QueueList, QueuesRequest,
    ReserveRequest, ResumeRequest, SavedRequest, ScaleRequest, SubmitRequest, SubmitResponse,
    Timeline, UsageList, UsageReport,
};

/// Id of a route. The daemon matches on it exhaustively, so a route without a handler does not
/// compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteId {
    /// Describe the daemon that answers.
    Daemon,
    /// Stop the daemon; tasks keep running.
    StopDaemon,
    /// Submit the jobs of a text.
    Submit,
    /// List jobs that match a filter.
    Jobs,
    /// Show one job with all details.
    Job,
    /// List the elements of an array or sweep.
    Elements,
    /// Explain why a job is pending.
    Explain,
    /// Cancel a job or one element.
    Cancel,
    /// Keep a job from starting.
    Hold,
    /// Undo a hold of a job.
    Release,
    /// Run a job again.
    Requeue,
    /// Cancel, hold, release or requeue many jobs.
    Bulk,
    /// Ask a job to save its progress.
    Checkpoint,
    /// Acknowledge a checkpoint on behalf of a task.
    Saved,
    /// Change the number of replicas of a service.
    Scale,
    /// Read the output of a task.
    Logs,
    /// Open a terminal session beside a task.
    Attach,
    /// List the queues with their usage.
    Queues,
    /// Replace the queue tree.
    SetQueues,
    /// List usage per user and queue.
    Usage,
    /// Sum the usage of a period.
    UsageReport,
    /// List the nodes with their devices.
    Nodes,
    /// List the loads of GPUs.
    GpuLoads,
    /// Drain a node or some of its GPUs.
    Drain,
    /// End the drain of a node or of its GPUs.
    Resume,
    /// List the advance reservations.
    Reservations,
    /// Create an advance reservation.
    Reserve,
    /// Delete an advance reservation.
    DropReservation,
    /// Show allocations of devices over time.
    Timeline,
    /// Take an anonymised snapshot of the site.
    Snapshot,
    /// Wait for a change (long poll).
    Changes,
    /// Return the OpenAPI document.
    OpenApi,
}

impl RouteId {
    /// Returns true if the route reads jobs, nodes or queues and changes nothing, so that it can be
    /// asked again.
    #[must_use]
    pub fn only_reads(self) -> bool {
        use RouteId::{
            Changes, Elements, Explain, GpuLoads, Job, Jobs, Logs, Nodes, Queues, Timeline, Usage,
            UsageReport,
        };
        matches!(
            self,
            Jobs | Job
                | Elements
                | Explain
                | Nodes
                | GpuLoads
                | Queues
                | Usage
                | UsageReport
                | Timeline
                | Changes
                | Logs
        )
    }
}

/// HTTP method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Read a resource, without any change.
    Get,
    /// Take an action that changes state.
    Post,
    /// Replace a resource as a whole.
    Put,
}

impl Method {
    /// Returns the method as in a request line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
        }
    }
}

/// Function that makes the schema of a type and registers the types it refers to.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Kind of content in a body.
#[derive(Clone, Copy, Debug)]
pub enum BodyKind {
    /// Body without any content.
    None,
    /// JSON of one type.
    Json(SchemaOf),
    /// JSON without a fixed schema.
    AnyJson,
    /// Stream of bytes without a schema.
    Bytes,
    /// No body: the connection leaves HTTP (101) and speaks the session protocol.
    Upgrade,
}

/// Route of the API.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Id of the route.
    pub id: RouteId,
    /// HTTP method of the route.
    pub method: Method,
    /// Path with `{name}` parameters.
    pub path: &'static str,
    /// Summary in one sentence.
    pub summary: &'static str,
    /// Schema of the query parameters, an object; `None` when there are none.
    pub query: Option<SchemaOf>,
    /// Content of the request body.
    pub request: BodyKind,
    /// Content of the response body on success.
    pub response: BodyKind,
    /// Status codes of errors; their body is always [`crate::types::ErrorBody`].
    pub errors: &'static [u16],
}

impl Route {
    /// Returns the status code of success.
    #[must_use]
    pub fn success(&self) -> u16 {
        match self.response {
            BodyKind::Upgrade => 101,
            BodyKind::None | BodyKind::Json(_) | BodyKind::AnyJson | BodyKind::Bytes => 200,
        }
    }
}

macro_rules! json {
    ($type:ty) => {
        BodyKind::Json(|generator| generator.subschema_for::<$type>())
    };
}

macro_rules! query {
    ($type:ty) => {
        Some(|generator| generator.root_schema_for::<$type>())
    };
}

/// Errors of a route that only reads: invalid request, unknown user, store not available, internal
/// error.
const READ: &[u16] = &[400, 403, 500, 503];
/// Errors of a route that reads one object: also not found.
const READ_ONE: &[u16] = &[400, 403, 404, 500, 503];
/// Errors of a route that reads an object in a certain state: also a conflict.
const READ_STARTED: &[u16] = &[400, 403, 404, 409, 500, 503];
/// Errors of a route that changes one object.
const ACT: &[u16] = &[400, 403, 404, 409, 413, 415, 422, 500, 503];
/// Errors of a route that takes a text.
const TEXT: &[u16] = &[400, 403, 409, 413, 415, 422, 500, 503];

const fn get(id: RouteId, path: &'static str, summary: &'static str, response: BodyKind) -> Route {
    Route {
        id,
        method: Method::Get,
        path,
        summary,
        query: None,
        request: BodyKind::None,
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
        "Describe the daemon: version, mode, warnings.",
        json!(DaemonInfo),
    ),
    Route {
        request: BodyKind::None,
        errors: READ,
        ..act(
            RouteId::StopDaemon,
            "/v1/daemon/stop",
            "Stop the daemon; running tasks keep running, and the next daemon adopts them.",
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
        ..get(RouteId::Job, "/v1/jobs/{id}", "Show one job with all details.", json!(JobDetail))
    },
    Route {
        errors: READ_ONE,
        ..get(
            RouteId::Elements,
            "/v1/jobs/{id}/elements",
            "List the elements of an array or sweep, with the values and reports of a sweep.",
            json!(ElementList),
        )
    },
    Route {
        query: query!(ElementQuery),
        errors: READ_ONE,
        ..get(
            RouteId::Explain,
            "/v1/jobs/{id}/explain",
            "Explain why a job is pending, when it starts, and what would start it now.",
            json!(ExplainResponse),
        )
    },
    act(RouteId::Cancel, "/v1/jobs/{id}/cancel", "Cancel a job or one element in any state."),
    act(RouteId::Hold, "/v1/jobs/{id}/hold", "Keep pending elements from starting."),
    act(RouteId::Release, "/v1/jobs/{id}/release", "Undo a hold."),
    act(RouteId::Requeue, "/v1/jobs/{id}/requeue", "Run a job again from the beginning."),
    Route {
        request: json!(BulkRequest),
        response: json!(BulkResponse),
        errors: TEXT,
        ..act(
            RouteId::Bulk,
            "/v1/actions",
            "Cancel, hold, release or requeue many jobs, each independently.",
        )
    },
    act(
        RouteId::Checkpoint,
        "/v1/jobs/{id}/checkpoint",
        "Ask running tasks of a job to save their progress now.",
    ),
    Route {
        request: json!(SavedRequest),
        ..act(
            RouteId::Saved,
            "/v1/jobs/{id}/saved",
            "Acknowledge a checkpoint of a running task, as its write to `$MUSTER_CHECKPOINT_FILE` would.",
        )
    },
    Route {
        request: json!(ScaleRequest),
        ..act(RouteId::Scale, "/v1/jobs/{id}/scale", "Change the number of replicas of a service.")
    },
    Route {
        query: query!(LogQuery),
        errors: READ_STARTED,
        ..get(
            RouteId::Logs,
            "/v1/jobs/{id}/logs",
            "Output of one task, as written.",
            BodyKind::Bytes,
        )
    },
    Route {
        query: query!(AttachQuery),
        request: BodyKind::None,
        response: BodyKind::Upgrade,
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
    Route {
        query: query!(UsageQuery),
        ..get(
            RouteId::UsageReport,
            "/v1/usage/report",
            "Sum the GPU-seconds that were held in a period, and those of attempts that failed or were restarted.",
            json!(UsageReport),
        )
    },
    get(RouteId::Nodes, "/v1/nodes", "List nodes and their devices.", json!(NodeList)),
    get(RouteId::GpuLoads, "/v1/gpus", "List GPUs with their loads.", json!(GpuLoadList)),
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
    get(
        RouteId::Reservations,
        "/v1/reservations",
        "List advance reservations.",
        json!(AdvanceReservationList),
    ),
    Route {
        request: json!(ReserveRequest),
        ..act(
            RouteId::Reserve,
            "/v1/reservations/{name}",
            "Reserve nodes or GPUs for some users at given times, once or repeatedly.",
        )
    },
    Route {
        request: json!(DropReservationRequest),
        ..act(
            RouteId::DropReservation,
            "/v1/reservations/{name}/drop",
            "Delete an advance reservation; jobs that run in it continue.",
        )
    },
    Route {
        query: query!(TimelineQuery),
        ..get(
            RouteId::Timeline,
            "/v1/timeline",
            "Show allocations of devices over time, and planned starts.",
            json!(Timeline),
        )
    },
    Route {
        query: query!(SnapshotQuery),
        ..get(
            RouteId::Snapshot,
            "/v1/snapshot",
            "Take an anonymised snapshot of the state and past runs, for what-if questions.",
            json!(SiteSnapshot),
        )
    },
    Route {
        query: query!(ChangesQuery),
        ..get(
            RouteId::Changes,
            "/v1/changes",
            "Wait until the state changes.",
            json!(ChangesResponse),
        )
    },
    get(
        RouteId::OpenApi,
        "/v1/openapi.json",
        "Return this API as an OpenAPI 3.1 document.",
        BodyKind::AnyJson,
    ),
];

/// Returns the route of an id.
#[must_use]
pub fn route(id: RouteId) -> &'static Route {
    ROUTES.iter().find(|route| route.id == id).expect("the table holds every id; a test walks them")
}

/// Schemas that are part of `--json` output though no route refers to them.
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
