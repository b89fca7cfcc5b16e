//! Advance reservations: nodes or GPUs that are set aside for some users over a stretch of time,
//! perhaps again and again.
//!
//! People call them reservations. Here they are windows, since [`crate::Reservation`] is the
//! planned start of a job. What follows from one for placing is in `engine`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{NodeName, QueueName, UserName, WindowName};
use crate::node::{DeviceSet, GpuModel};
use crate::unit::{Span, Time};

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Unique while it is there.
    pub name: WindowName,
    /// Whose jobs may name it, besides those of `queues`.
    pub users: Vec<UserName>,
    /// The jobs of these queues, and of all below them, may name it, besides those of `users`.
    pub queues: Vec<QueueName>,
    /// What is set aside.
    pub what: WindowWhat,
    /// When.
    pub times: WindowTimes,
    /// What of others is still there when it begins is stopped and queued again.
    pub stop: bool,
    /// Who asked for it, when that is known.
    pub by: Option<UserName>,
    /// What for; may be empty.
    pub reason: Arc<str>,
}

/// What a window sets aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WindowWhat {
    /// These nodes as a whole.
    Nodes(Vec<NodeName>),
    /// So many whole GPUs; the engine says which. CPUs and memory beside them are not set aside.
    Gpus {
        /// How many.
        count: u32,
        /// Of this model; `None` is any, also several.
        model: Option<GpuModel>,
    },
}

/// When a window is open: from `start` on for `length`, and again after each `every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowTimes {
    /// When it begins for the first time.
    pub start: Time,
    /// How long it is open each time; not 0.
    pub length: Span,
    /// From one beginning to the next, at least `length`; `None` is just once.
    pub every: Option<Span>,
    /// How many times in all, with `every`; `None` is for ever.
    pub count: Option<u32>,
}

/// Where a window is: a node, or some of its devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowPlace {
    /// The node.
    pub node: NodeName,
    /// Only these devices; `None` is the node as a whole.
    pub devices: Option<DeviceSet>,
}
