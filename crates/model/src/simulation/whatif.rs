//! What would become of a site if something about it were different.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FleetFigures, FleetUnit, Spread};
use crate::id::{JobId, QueueName, UserName};
use crate::reason::Reason;
use crate::unit::{GpuMilli, Time};

/// A question to a site, and its answer: as it is, and with the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// When the site was looked at.
    pub taken: Time,
    /// What is different, a few words each.
    pub changes: Vec<String>,
    /// What waits now, and when it starts if nobody submits anything more.
    pub waiting: Vec<Waiting>,
    /// What has run, once more from an idle site. `None` where nothing has in that time.
    pub past: Option<Past>,
    /// It was interrupted: what is here is about what had been reached by then.
    pub is_partial: bool,
}

/// A job that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// Which.
    pub job: JobId,
    /// Its name; empty where the snapshot has none.
    pub name: String,
    /// Whose.
    pub user: UserName,
    /// Where.
    pub queue: QueueName,
    /// GPUs of one element.
    pub gpus: GpuMilli,
    /// When it was submitted.
    pub submitted: Time,
    /// Elements that wait.
    pub elements: u32,
    /// As things are.
    pub as_it_is: Starts,
    /// With the change.
    pub changed: Starts,
    /// Why it does not start at once with the change.
    pub still: Option<Reason>,
}

/// When elements of a job start that wait now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Starts {
    /// How many do; the others wait for what is not known to come.
    pub begun: u32,
    /// The first.
    pub first: Option<Time>,
    /// The last.
    pub last: Option<Time>,
}

/// What has run, replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Past {
    /// When the first of it was submitted.
    pub since: Time,
    /// How many ran, or got as far as holding something.
    pub runs: u64,
    /// Those that are replayed, the same ones both times.
    pub replayed: u64,
    /// Left out, since they never got to work.
    pub never_ran: u64,
    /// Left out, since not even the idle site could host them.
    pub too_large: u64,
    /// Left out, since the changed site could not host them though the present one can.
    pub no_longer_fit: u64,
    /// What sizes and hours are in.
    pub unit: FleetUnit,
    /// Seconds from submission to the first start that those which are replayed took in fact; to be
    /// compared with `first_start_secs` of the replays.
    pub first_start_secs: Spread,
    /// As things are.
    pub as_it_is: FleetFigures,
    /// With the change.
    pub changed: FleetFigures,
}
