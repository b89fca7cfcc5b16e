//! Shows Slurm accounts as queues, with the controller's figures for shares and limits, and GPU
//! usage per user and account from the accounting.

use std::collections::BTreeMap;

use muster_api::query::UsageQuery;
use muster_api::types::{QueueList, UsageList, UsageReport};
use muster_model::view::{
    HeldGpus, HoldingEnd, JobState, QueueView, QuotaView, UsageSum, UsageView,
};
use muster_model::{GpuMilli, GpuModel, JobId, QueueName, Time};
use muster_slurm::job::NativeJob;
use muster_slurm::limits::{self, Association, ClusterLimits, LimitUsage, LimitUsages};

use super::{RequestError, Result, SlurmScheduler};
use crate::route::now;

/// Root account, which is not shown.
const ROOT: &str = "root";
/// Period over which usage is summed, as sacct takes it.
const USED: &str = "now-30days";

impl SlurmScheduler {
    /// Returns the limits of accounts and QOS, and how much of them is in use.
    pub(super) async fn limits(&self) -> Result<ClusterLimits> {
        Ok(limits::read(
            &self.tools().output("scontrol", &["--oneliner", "show", "assoc_mgr"]).await?,
        ))
    }

    /// Lists every account, parents before children.
    pub(super) async fn queues(&self) -> Result<QueueList> {
        let limits = self.limits().await?;
        let accounts =
            limits.associations.iter().filter(|one| one.user.is_empty() && one.account != ROOT);
        let mut queues: Vec<QueueView> = accounts.map(|one| queue(one, &limits)).collect();
        queues
            .sort_by(|one, other| one.name.as_str().split('/').cmp(other.name.as_str().split('/')));
        Ok(QueueList { now: now(), queues })
    }

    /// Sums GPU time of the last thirty days by user and account, beside the decayed usage that
    /// fair share counts.
    pub(super) async fn usage(&self) -> Result<UsageList> {
        let rows = self.used_since(USED, &[]).await?;
        let limits = self.limits().await?;
        let now = now();
        let mut sums: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for row in rows.iter().filter(|row| !row.nodes.is_empty()) {
            let (jobs, secs) = sums.entry((row.user.clone(), row.account.clone())).or_default();
            (*jobs, *secs) = (*jobs + 1, *secs + gpu_secs(row, now));
        }
        let row = |((user, account), (jobs, gpu_secs)): ((String, String), (u64, u64))| {
            let counts =
                limits.associations.iter().find(|one| one.user == user && one.account == account);
            UsageView {
                decayed_gpu_secs: counts.map_or(0, decayed_gpu_secs),
                user: user.into(),
                queue: path(&account, &limits),
                jobs,
                gpu_secs,
            }
        };
        Ok(UsageList { now, rows: sums.into_iter().map(row).collect() })
    }

    /// Sums the GPU time of a period, also of earlier runs of jobs that were queued again.
    pub(super) async fn usage_report(&self, query: &UsageQuery) -> Result<UsageReport> {
        let by = query.keys().map_err(RequestError::refused)?;
        let now = now();
        let (since, until) = query.period(now);
        let begin = format!("now-{}seconds", now.since(since).as_secs() + 1);
        let rows = self.used_since(&begin, &["--duplicates"]).await?;
        let limits = self.limits().await?;
        // Of the runs of an element, all but the last were followed by another.
        let element = |row: &NativeJob| (row.job(), row.array_tasks.clone(), row.component);
        let mut last: BTreeMap<_, Option<Time>> = BTreeMap::new();
        for row in &rows {
            let newest = last.entry(element(row)).or_default();
            *newest = row.start.max(*newest);
        }
        let mut sum = UsageSum::new(since, until, &by);
        for row in rows.iter().filter(|row| !row.nodes.is_empty()) {
            let Some(from) = row.start else { continue };
            let is_last = last.get(&element(row)) == Some(&row.start);
            sum.add(held(row, from, now, is_last, path(&row.account, &limits)));
        }
        Ok(UsageReport { now, since, until, rows: sum.rows() })
    }
}

/// Returns what one run of a job held.
fn held(row: &NativeJob, from: Time, now: Time, is_last: bool, queue: QueueName) -> HeldGpus {
    let to = row.end.unwrap_or(now);
    let gpus = u64::from(muster_slurm::tres::gpus(&row.tres_allocated));
    let end = match row.state.state(row.is_held()) {
        _ if row.end.is_none() => HoldingEnd::Open,
        _ if !is_last => HoldingEnd::Restarted,
        // Slurm has queued it again.
        JobState::Pending | JobState::Held => HoldingEnd::Restarted,
        JobState::Done | JobState::Cancelled => HoldingEnd::Ended,
        _ => HoldingEnd::Failed,
    };
    HeldGpus {
        user: row.user.as_str().into(),
        queue,
        job: JobId(row.job()),
        name: Some(row.name.clone()),
        from,
        to,
        gpu_milli_ms: gpus * 1000 * to.since(from).0,
        measured: None,
        end,
    }
}

fn gpu_secs(row: &NativeJob, now: Time) -> u64 {
    let Some(start) = row.start else { return 0 };
    row.end.unwrap_or(now).since(start).as_secs()
        * u64::from(muster_slurm::tres::gpus(&row.tres_allocated))
}

/// Returns the controller's usage figure, which decays with its half-life.
fn decayed_gpu_secs(one: &Association) -> u64 {
    one.usages.get("GrpTRESMins gres/gpu").map_or(0, |usage| usage.used * 60)
}

/// Returns the path of an account without the root, such as `lab/vision`.
fn path(account: &str, limits: &ClusterLimits) -> QueueName {
    let above = limits.above(account);
    let mut names: Vec<&str> =
        above.iter().map(|one| one.account.as_str()).filter(|name| *name != ROOT).collect();
    names.reverse();
    if names.is_empty() { account.into() } else { names.join("/").into() }
}

fn queue(one: &Association, limits: &ClusterLimits) -> QueueView {
    let count = |name: &str| one.usages.get(name).map_or(0, |usage| usage.used);
    let running = count("GrpJobs");
    QueueView {
        name: path(&one.account, limits),
        is_leaf: !limits
            .associations
            .iter()
            .any(|child| child.user.is_empty() && child.parent == one.account),
        weight: one.shares,
        gpus: quotas(&one.usages),
        waiting: u32::try_from(count("GrpSubmitJobs").saturating_sub(running)).unwrap_or(u32::MAX),
        running: u32::try_from(running).unwrap_or(u32::MAX),
        usage_gpu_secs: decayed_gpu_secs(one),
        share_ppm: (one.usage_ppm * 1_000_000).checked_div(one.norm_shares_ppm).unwrap_or(0),
        budget: None,
        default_time: None,
        idle: None,
        access: None,
    }
}

/// Returns the GPU limit and usage of an account, by GPU type where limits or usage are by type.
fn quotas(usages: &LimitUsages) -> Vec<QuotaView> {
    let view = |model: &str, usage: &LimitUsage| QuotaView {
        model: GpuModel::from(model),
        nominal: usage.limit.map(milli),
        used: milli(usage.used),
        borrowed: GpuMilli(0),
    };
    let typed = usages
        .iter()
        .filter_map(|(name, usage)| Some((name.strip_prefix("GrpTRES gres/gpu:")?, usage)));
    let typed = typed.filter(|(_, usage)| usage.limit.is_some() || usage.used > 0);
    let all = usages.get("GrpTRES gres/gpu").filter(|usage| usage.limit.is_some());
    all.map(|usage| view("gpu", usage))
        .into_iter()
        .chain(typed.map(|(model, usage)| view(model, usage)))
        .collect()
}

fn milli(gpus: u64) -> GpuMilli {
    GpuMilli(u32::try_from(gpus.saturating_mul(1000)).unwrap_or(u32::MAX))
}
