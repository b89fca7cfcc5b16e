//! QOS as `sacctmgr` accepts them; `accounting` decides which ones exist.

use super::{InitInput, clock};
use muster_model::Span;

/// Limits on GPUs by TRES, `gres/gpu` and `gres/gpu:h100`, with an entry for each GPU type, so that
/// a repeated run removes old limits.
pub(super) type TresLimits = Vec<(String, Option<u64>)>;

/// QOS of the new cluster. `None` clears a setting, so that a repeated run of the script removes
/// old ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GeneratedQos {
    pub(super) name: String,
    /// Purpose of the QOS, as a comment.
    pub(super) about: String,
    pub(super) priority: u32,
    /// Names of the QOS whose jobs its jobs may preempt.
    pub(super) preempts: Vec<String>,
    /// Set when its jobs may be preempted.
    pub(super) is_preempted: bool,
    /// Run time during which its jobs cannot be preempted.
    pub(super) exempt: Option<Span>,
    pub(super) gpus: TresLimits,
    pub(super) gpus_per_user: Option<u64>,
    pub(super) max_wall: Option<Span>,
    /// GPU-hours without decay; the usage is reset at the start of each budget period.
    pub(super) gpu_hours: Option<u64>,
}

impl GeneratedQos {
    /// Returns the arguments of `sacctmgr modify qos NAME set`.
    pub(super) fn settings(&self, order: &InitInput<'_>) -> String {
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

/// Formats limits by TRES: `gres/gpu=16,gres/gpu:h100=-1`; -1 clears.
pub(super) fn tres(limits: &TresLimits) -> String {
    let each: Vec<String> =
        limits.iter().map(|(name, limit)| format!("{name}={}", or_none(*limit))).collect();
    each.join(",")
}

/// Formats a limit for `sacctmgr`; -1 clears.
pub(super) fn or_none(limit: Option<u64>) -> String {
    limit.map_or("-1".to_owned(), |limit| limit.to_string())
}

/// Formats a time limit for `sacctmgr`; -1 clears.
pub(super) fn wall(limit: Option<Span>) -> String {
    limit.map_or("-1".to_owned(), clock)
}
