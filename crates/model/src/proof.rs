//! What `muster prove gang` shows: one order of arrivals step by step, the outcomes of all orders
//! counted, and the same over pool and gang sizes. Wire shapes of `--json`: fields may be added,
//! never renamed or removed (ADR 0003).
//!
//! Values only. They are made in `sim`, and become text in `report`. Numbers of orders are 128-bit
//! integers: they are exact, and a reader that keeps numbers as floating point loses digits beyond
//! 2^53.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reason::Reason;

/// One order of arrivals, under both admissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangProof {
    /// GPUs of the pool.
    pub gpus: u32,
    /// GPUs that each pod asks for.
    pub gpus_per_pod: u32,
    /// The gangs, by letter.
    pub gangs: Vec<GangNeed>,
    /// Arrivals, one letter per pod.
    pub order: String,
    /// Each pod is a job of its own.
    pub per_pod: AdmissionRun,
    /// Each gang is one job.
    pub gang: AdmissionRun,
}

/// What a gang is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangNeed {
    /// Its letter.
    pub gang: char,
    /// Pods without which it does not run.
    pub need_pods: u32,
}

/// What one admission made of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdmissionRun {
    /// Every submission to the engine, in order.
    pub steps: Vec<ProofStep>,
    /// Where each gang stands after the last step.
    pub gangs: Vec<GangStand>,
    /// GPUs that nobody holds after the last step.
    pub free_gpus: u32,
    /// What it came to.
    pub verdict: Verdict,
}

/// One submission and what the engine decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofStep {
    /// Place of the arrival in the order, from 1.
    pub at: u32,
    /// Whose pod arrived.
    pub gang: char,
    /// Pods submitted: 1, or all of the gang.
    pub pods: u32,
    /// What the engine decided.
    pub decided: Decided,
    /// Pods of each gang that hold GPUs now.
    pub held_pods: BTreeMap<char, u32>,
    /// GPUs that nobody holds now.
    pub free_gpus: u32,
}

/// What became of a submission at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Decided {
    /// It holds these devices.
    Placed {
        /// Indices in the pool, ascending.
        devices: Vec<u16>,
    },
    /// It holds nothing and waits.
    Waits {
        /// The engine's first reason; absent when it has none.
        reason: Option<Reason>,
    },
    /// It was not accepted: waiting could not help.
    Refused {
        /// The engine's reason.
        reason: Reason,
    },
}

/// Where a gang stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangStand {
    /// Its letter.
    pub gang: char,
    /// Pods without which it does not run.
    pub need_pods: u32,
    /// Pods that the engine was asked to place.
    pub arrived_pods: u32,
    /// Pods that hold GPUs.
    pub held_pods: u32,
    /// All its pods hold GPUs.
    pub runs: bool,
}

/// What an order comes to. Nobody ends and nobody gives a GPU back: all but [`Verdict::Open`] stay
/// as they are.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Incomplete gangs hold GPUs, no further pod can have one, and nothing runs.
    Deadlock,
    /// Something runs, and an incomplete gang holds GPUs idle until it ends.
    Waste,
    /// No incomplete gang holds any GPU.
    Whole,
    /// A pod that has not arrived would still get a GPU: the rest of the order decides.
    Open,
}

impl Verdict {
    /// The word that people read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Deadlock => "deadlock",
            Verdict::Waste => "waste",
            Verdict::Whole => "whole",
            Verdict::Open => "open",
        }
    }
}

/// The outcomes of all orders in which all pods can arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangOrders {
    /// GPUs of the pool.
    pub gpus: u32,
    /// GPUs that each pod asks for.
    pub gpus_per_pod: u32,
    /// The gangs, by letter.
    pub gangs: Vec<GangNeed>,
    /// How many orders there are; pods of one gang are alike.
    pub orders: u128,
    /// Each pod is a job of its own.
    pub per_pod: OrderCounts,
    /// Each gang is one job.
    pub gang: OrderCounts,
}

/// How many orders come to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderCounts {
    /// Orders that deadlock.
    pub deadlock: Share,
    /// Orders in which something runs and an incomplete gang holds GPUs.
    pub waste: Share,
    /// Orders in which no incomplete gang holds any GPU.
    pub whole: Share,
    /// Submissions that the engine decided for this count.
    pub engine_steps: u64,
}

/// Some of all orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// How many.
    pub orders: u128,
    /// Of all, as a fraction in lowest terms: above the line.
    pub numerator: u128,
    /// Below the line.
    pub denominator: u128,
    /// The same in millionths, rounded down.
    pub ppm: u32,
}

/// Equal gangs on pools of several sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangSweep {
    /// How many gangs contend.
    pub gangs: u32,
    /// GPUs that each pod asks for.
    pub gpus_per_pod: u32,
    /// One per pool and gang size: by gang size, then by pool.
    pub cells: Vec<SweepCell>,
}

/// One pool with gangs of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepCell {
    /// GPUs of the pool.
    pub gpus: u32,
    /// Pods without which a gang does not run.
    pub need_pods: u32,
    /// How many orders there are.
    pub orders: u128,
    /// Each pod is a job of its own.
    pub per_pod: OrderCounts,
    /// Each gang is one job.
    pub gang: OrderCounts,
}
