//! Qualities of service as `sacctmgr` takes them. Which there are is decided in `accounting`.

use super::{Order, clock};
use muster_model::Span;

/// Limits on GPUs as Slurm counts them, `gres/gpu` and `gres/gpu:h100`; each that there could be,
/// so that none of before stays.
pub(super) type Tres = Vec<(String, Option<u64>)>;

/// A quality of service. What is `None` is set to nothing, so that a second run of the script takes
/// back what the first set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Qos {
    pub(super) name: String,
    /// Why it is there, for people.
    pub(super) about: String,
    pub(super) priority: u32,
    /// Names of those whose jobs may be made to go for its own.
    pub(super) preempts: Vec<String>,
    /// Its jobs may be made to go.
    pub(super) is_preempted: bool,
    /// Its jobs cannot be made to go until they have run so long.
    pub(super) exempt: Option<Span>,
    pub(super) gpus: Tres,
    pub(super) gpus_per_user: Option<u64>,
    pub(super) max_wall: Option<Span>,
    /// GPU-hours that do not decay; whoever keeps the windows sets the usage back.
    pub(super) gpu_hours: Option<u64>,
}

impl Qos {
    /// What `sacctmgr modify qos NAME set` takes.
    pub(super) fn settings(&self, order: &Order<'_>) -> String {
        let decays = if self.gpu_hours.is_some() { "DenyOnLimit,NoDecay" } else { "DenyOnLimit" };
        let mut words = vec![
            format!("Priority={}", self.priority),
            format!("Flags={decays}"),
            format!("GrpTRES={}", tres(&self.gpus)),
            format!("MaxTRESPerUser=gres/gpu={}", or_none(self.gpus_per_user)),
            format!(
                "GrpTRESMins=gres/gpu={}",
                or_none(self.gpu_hours.map(|hours| hours.saturating_mul(60)))
            ),
            format!("MaxWall={}", wall(self.max_wall)),
        ];
        if self.is_preempted {
            words.push("PreemptMode=requeue".to_owned());
            words.push(format!("GraceTime={}", order.choices.grace.as_secs()));
            words.push(format!("PreemptExemptTime={}", wall(self.exempt)));
        }
        if !self.preempts.is_empty() {
            words.push(format!("Preempt={}", self.preempts.join(",")));
        }
        words.join(" ")
    }
}

/// `gres/gpu=16,gres/gpu:h100=-1`; -1 clears.
pub(super) fn tres(limits: &Tres) -> String {
    let each: Vec<String> =
        limits.iter().map(|(name, limit)| format!("{name}={}", or_none(*limit))).collect();
    each.join(",")
}

/// A limit as `sacctmgr` takes it; -1 clears.
pub(super) fn or_none(limit: Option<u64>) -> String {
    limit.map_or("-1".to_owned(), |limit| limit.to_string())
}

/// A time as `sacctmgr` takes it; -1 clears.
pub(super) fn wall(limit: Option<Span>) -> String {
    limit.map_or("-1".to_owned(), clock)
}
