//! Data types shared by all crates: ids, units, jobs, nodes, queues, plans, effects, events and
//! views.
//!
//! This crate has no behaviour beyond constructors, conversions and display. It must not do I/O,
//! read a clock, or depend on any other crate of the workspace; every other crate depends on it.

pub mod advance_reservation;
pub mod advice;
pub mod array;
pub mod check;
mod cluster_name;
pub mod effect;
pub mod environment;
pub mod event;
pub mod gpu_model;
pub mod hash;
pub mod hostlist;
pub mod id;
pub mod imported;
pub mod inventory;
pub mod job;
pub mod kubernetes;
pub mod node;
pub mod notice;
mod notice_order;
pub mod outcome;
pub mod output;
pub mod payload;
pub mod plan;
pub mod proof;
pub mod queue;
pub mod reason;
pub mod redact;
pub mod signal;
pub mod simulation;
pub mod slurm;
pub mod snapshot;
pub mod sweep;
pub mod trace;
pub mod unit;
mod unsupported;
pub mod verify;
pub mod view;

pub use advance_reservation::{
    AdvanceReservation, AdvanceReservationTimes, ReservedPlace, ReservedResources,
};
pub use array::{Array, IndexRange};
pub use cluster_name::{ClusterName, UnknownCluster};
pub use effect::{Effect, StopCause};
pub use environment::{PythonEnvironment, TaskEnvironment};
pub use event::{CommandTarget, Event, Observation, TaskCheckpoint, TaskReport, TaskSignalled};
pub use id::{
    AdvanceReservationName, Attempt, AttemptId, ElementId, JobId, NodeId, NodeName, PayloadId,
    QueueName, Rank, UserName,
};
pub use job::{
    AfterCheckpoint, Checkpoint, CheckpointBy, CheckpointTo, Dependency, DependencyKind, Elastic,
    JobSpec, NodeConstraint, Notebook, Protection, Replicas, Restart, Segment, Service, TaskGroup,
    Tier, Topology, TopologyRule, WorkloadKind,
};
pub use node::{Device, DeviceSet, Drain, Foreign, ForeignProcess, GpuModel, NodeSpec};
pub use notice_order::NoticeOrder;
pub use outcome::{Outcome, TaskExit};
pub use output::OutputFiles;
pub use payload::{Identity, Payload};
pub use plan::{
    Decision, Eviction, EvictionCause, HeadReservation, Plan, Reservation, TaskPlacement,
};
pub use queue::{Preemption, QueueSpec, QueueTree};
pub use reason::Reason;
pub use redact::Redaction;
pub use signal::signal_name;
pub use snapshot::{PastRun, SiteSnapshot};
pub use unit::{Bytes, CpuMilli, GpuMilli, Span, Time};
pub use unsupported::Unsupported;
