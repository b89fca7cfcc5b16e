//! Output of `muster prove gang`: one order of arrivals step by step, the outcomes of all orders
//! counted, and the counts over pool and gang sizes. Wire format of `--json`: fields may be added,
//! never renamed or removed (ADR 0003).
//!
//! This module holds only values, which `sim` computes and `report` prints. Numbers of orders are
//! 128-bit integers: they are exact, and a reader that stores numbers as floating point loses
//! digits beyond 2^53.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reason::Reason;

/// One order of arrivals, under per-pod and under gang admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangProof {
    /// GPUs of the pool.
    pub gpus: u32,
    /// GPUs that each pod requests.
    pub gpus_per_pod: u32,
    /// Gangs of the example, identified by letters.
    pub gangs: Vec<GangNeed>,
    /// Arrivals, one letter per pod.
    pub order: String,
    /// Run in which each pod is a job of its own.
    pub per_pod: AdmissionRun,
    /// Run in which each gang is one job.
    pub gang: AdmissionRun,
}

/// Gang and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangNeed {
    /// Letter of the gang.
    pub gang: char,
    /// Pods that the gang needs to run.
    pub need_pods: u32,
}

/// Result of one kind of admission for an order of arrivals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdmissionRun {
    /// Submissions to the engine, in order.
    pub steps: Vec<ProofStep>,
    /// Status of each gang after the last step.
    pub gangs: Vec<GangStatus>,
    /// Free GPUs after the last step.
    pub free_gpus: u32,
    /// Verdict on the order.
    pub verdict: OrderVerdict,
}

/// One submission and the engine's decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofStep {
    /// Position of the arrival in the order, from 1.
    pub at: u32,
    /// Letter of the gang whose pod arrived.
    pub gang: char,
    /// Number of pods submitted: 1, or all of the gang.
    pub pods: u32,
    /// Decision of the engine.
    pub decided: SubmissionDecision,
    /// Number of pods of each gang that hold GPUs after this step.
    pub held_pods: BTreeMap<char, u32>,
    /// Free GPUs after this step.
    pub free_gpus: u32,
}

/// Immediate decision on a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum SubmissionDecision {
    /// The submission is placed on these devices.
    Placed {
        /// Device indices in the pool, ascending.
        devices: Vec<u16>,
    },
    /// The submission is pending and holds nothing.
    Waits {
        /// First reason of the engine; `None` when it has none.
        reason: Option<Reason>,
    },
    /// The submission is rejected: waiting could not help.
    Refused {
        /// Reason of the engine.
        reason: Reason,
    },
}

/// Status of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangStatus {
    /// Letter of the gang.
    pub gang: char,
    /// Pods that the gang needs to run.
    pub need_pods: u32,
    /// Pods that were submitted to the engine.
    pub arrived_pods: u32,
    /// Pods that hold GPUs.
    pub held_pods: u32,
    /// True when all its pods hold GPUs.
    pub runs: bool,
}

/// Verdict on an order. No job ends and no GPU is released: all verdicts but [`OrderVerdict::Open`]
/// are final.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum OrderVerdict {
    /// Deadlock: incomplete gangs hold GPUs, no further pod can get one, and no gang runs.
    Deadlock,
    /// At least one gang runs, and an incomplete gang holds GPUs idle until it ends.
    Waste,
    /// No incomplete gang holds a GPU.
    Whole,
    /// A pod that has not arrived would still get a GPU: the rest of the order decides.
    Open,
}

impl OrderVerdict {
    /// Returns the word in tables and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            OrderVerdict::Deadlock => "deadlock",
            OrderVerdict::Waste => "waste",
            OrderVerdict::Whole => "whole",
            OrderVerdict::Open => "open",
        }
    }
}

/// Outcomes of all orders in which the pods can arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangOrders {
    /// GPUs of the pool.
    pub gpus: u32,
    /// GPUs that each pod requests.
    pub gpus_per_pod: u32,
    /// Gangs of the example, identified by letters.
    pub gangs: Vec<GangNeed>,
    /// Number of orders; pods of one gang are indistinguishable.
    pub orders: u128,
    /// Counts when each pod is a job of its own.
    pub per_pod: OrderCounts,
    /// Counts when each gang is one job.
    pub gang: OrderCounts,
}

/// Number of orders by verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderCounts {
    /// Orders that end in a deadlock.
    pub deadlock: OrderShare,
    /// Orders in which a gang runs and an incomplete gang holds GPUs.
    pub waste: OrderShare,
    /// Orders in which no incomplete gang holds a GPU.
    pub whole: OrderShare,
    /// Submissions that the engine decided for this count.
    pub engine_steps: u64,
}

/// Part of all orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderShare {
    /// Number of orders in the part.
    pub orders: u128,
    /// Numerator of the fraction of all orders, in lowest terms.
    pub numerator: u128,
    /// Denominator of the fraction.
    pub denominator: u128,
    /// Fraction in millionths, rounded down.
    pub ppm: u32,
}

/// Equal gangs on pools of several sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangSweep {
    /// Number of gangs that compete.
    pub gangs: u32,
    /// GPUs that each pod requests.
    pub gpus_per_pod: u32,
    /// Results by gang size, then by pool size.
    pub cells: Vec<SweepCell>,
}

/// Result for one pool size and one gang size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepCell {
    /// GPUs of the pool.
    pub gpus: u32,
    /// Pods that a gang needs to run.
    pub need_pods: u32,
    /// Number of orders of this pool and gang size.
    pub orders: u128,
    /// Counts when each pod is a job of its own.
    pub per_pod: OrderCounts,
    /// Counts when each gang is one job.
    pub gang: OrderCounts,
}
