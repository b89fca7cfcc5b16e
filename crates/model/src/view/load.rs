//! Load of GPUs: one row of `muster top` for each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ElementId, NodeName};
use crate::unit::{Bytes, Time};

/// Load of a GPU at one time. Each figure is `None` where the driver has none: of a slice of a GPU all but the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuLoad {
    /// Part of about the last second in which the GPU computed, in percent.
    pub busy_percent: Option<u8>,
    /// Bytes of its memory that are allocated.
    pub memory_used: Option<Bytes>,
    /// Power that it draws, in watts.
    pub power_watts: Option<u32>,
    /// Power that it may draw, in watts.
    pub power_limit_watts: Option<u32>,
}

/// GPU of a node with its load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuLoadView {
    /// Name of the node.
    pub node: NodeName,
    /// Index of the device on its node.
    pub index: u16,
    /// Load of the device; `None` for virtual devices, and where no driver answers for it.
    pub load: Option<GpuLoad>,
}

/// Element of a job that holds GPUs and has left all of them idle for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleView {
    /// Element that holds the GPUs.
    pub element: ElementId,
    /// Instant since which every look found them idle.
    pub since: Time,
    /// Number of the GPUs, over all nodes.
    pub gpus: u32,
}
