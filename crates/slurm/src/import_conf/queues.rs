//! Converts accounts and QOS of a Slurm cluster to a queue file. Settings that a queue file cannot
//! express are listed, since the file then does not describe the cluster completely.

use std::collections::BTreeMap;

use muster_model::gpu_model::normalise_label;
use muster_model::job::Protection;
use muster_model::queue::{Backfill, PlacementPolicy, QueueLimits};
use muster_model::{GpuModel, Preemption, QueueName, QueueSpec, QueueTree, Span};

use crate::conf::evidence::Evidence;
use crate::sacctmgr::{AccountEntry, AccountingDump, Fields};
use crate::time::minutes;
use crate::tres;

/// Largest weight of a queue.
const MAX_WEIGHT: u32 = 1_000_000;
/// Number of blocked jobs per leaf queue for which backfill reserves; Slurm reserves for all jobs
/// that a pass examines.
const DEPTH: u32 = 16;
/// Name of the leaf queue for users of an account that also has child accounts.
const DIRECT: &str = "direct";

/// Values of a partition's settings that mean unset.
const UNSET: [&str; 3] = ["(null)", "N/A", "ALL"];

/// Suffix of the QOS that `muster init slurm` creates for borrowed GPUs, even if no QOS preempts
/// it.
const PROTECTED: &str = "-idle";

/// Queue tree converted from accounts or partitions.
pub(super) struct ImportedQueues {
    /// Queue tree, with one leaf per account.
    pub(super) tree: QueueTree,
    /// Settings that could not be converted.
    pub(super) lost: Vec<String>,
}

/// Converts accounts to queues; without accounts, each partition becomes a queue.
pub(super) fn read(
    evidence: &Evidence,
    entered: &AccountingDump,
    models: &[GpuModel],
) -> ImportedQueues {
    let mut reader = QueueImporter {
        entered,
        models,
        lost: Vec::new(),
        has_owners: false,
        are_partitions: false,
    };
    // 1. Convert global settings.
    let half_life = evidence.setting("PriorityDecayHalfLife");
    let half_life = half_life.and_then(|text| minutes(&text)).filter(|minutes| *minutes > 0);
    let mut tree = QueueTree {
        half_life: Span::from_secs(half_life.unwrap_or(7 * 24 * 60) * 60),
        backfill: match evidence.setting("SchedulerType").as_deref() {
            Some("sched/builtin") => Backfill::None,
            _ => Backfill::Conservative { depth: DEPTH },
        },
        preemption: Preemption::OFF,
        placement: PlacementPolicy::Pack,
        ..QueueTree::single()
    };
    if is_in_order_of_submission(evidence) {
        tree.fair_share_after = None;
    }
    if evidence
        .partitions
        .iter()
        .any(|partition| partition.get("LLN").is_some_and(|lln| lln.eq_ignore_ascii_case("yes")))
    {
        tree.placement = PlacementPolicy::Spread;
    }

    // 2. Convert the queues.
    let queues = reader.below("root", "");
    if queues.is_empty() {
        reader.of_partitions(evidence, &mut tree);
    } else {
        tree.queues = queues;
        tree.default_queue = QueueName::from(first_leaf(&tree.queues, "").as_str());
    }
    reader.drop_small_caps(&mut tree.queues);

    // 3. Convert preemption.
    let preempts = evidence.setting("PreemptType").unwrap_or_default();
    match preempts.as_str() {
        "" | "preempt/none" => {}
        "preempt/qos" if reader.has_owners => {
            tree.preemption = Preemption { reclaim: true, priority: false }
        }
        other => reader.lost.push(format!(
            "PreemptType={other}: it cannot be expressed by quotas; preemption is off"
        )),
    }
    reader.weights(evidence);
    reader.partitions(evidence);
    ImportedQueues { tree, lost: reader.lost }
}

fn first_leaf(queues: &[QueueSpec], above: &str) -> String {
    let Some(first) = queues.first() else { return above.trim_end_matches('/').to_owned() };
    first_leaf(&first.queues, &format!("{above}{}/", first.name))
}

fn is_in_order_of_submission(evidence: &Evidence) -> bool {
    evidence.setting("PriorityType").is_some_and(|kind| kind.eq_ignore_ascii_case("priority/basic"))
}

struct QueueImporter<'a> {
    entered: &'a AccountingDump,
    models: &'a [GpuModel],
    lost: Vec<String>,
    /// True if the default QOS of some account may preempt others.
    has_owners: bool,
    /// True if the queues were converted from partitions.
    are_partitions: bool,
}

impl QueueImporter<'_> {
    /// Converts the accounts below `parent`.
    fn below(&mut self, parent: &str, path: &str) -> Vec<QueueSpec> {
        /// Depth at which a tree is taken for a cycle.
        const DEPTH: usize = 32;
        if path.matches('/').count() > DEPTH {
            return Vec::new();
        }
        let accounts: Vec<&AccountEntry> =
            self.entered.accounts.iter().filter(|account| account.parent == parent).collect();
        let mut queues = Vec::new();
        for account in accounts {
            let path = if path.is_empty() {
                account.name.clone()
            } else {
                format!("{path}/{}", account.name)
            };
            let mut queue = self.queue(account, &path);
            queue.queues = self.below(&account.name, &path);
            let has_users =
                self.entered.users.values().any(|accounts| accounts.contains(&account.name));
            if !queue.queues.is_empty() && has_users {
                self.lost.push(format!(
                    "{path}: the account has users and child accounts; the users are in `{path}/{DIRECT}`"
                ));
                queue.queues.push(QueueSpec::named(DIRECT));
            }
            queues.push(queue);
        }
        queues
    }

    fn queue(&mut self, account: &AccountEntry, path: &str) -> QueueSpec {
        let entered = self.entered;
        let fields = &account.fields;
        let default =
            default_qos(fields).and_then(|name| entered.qos.iter().find(|qos| qos.name == name));
        let own = default.map(|qos| &qos.fields);
        let borrowing = borrowing(entered, fields, own);

        if let Some(name) =
            default_qos(fields).filter(|_| own.is_some_and(|own| own.contains_key("grptres")))
        {
            let others = entered
                .accounts
                .iter()
                .filter(|other| default_qos(&other.fields) == Some(name))
                .count();
            if others > 1 {
                self.lost.push(format!("{path}: the limits of the QOS {name} are shared with other accounts in Slurm; here each account has them separately"));
            }
        }

        // 1. Convert the share.
        let weight = match fields.get("share").map(String::as_str) {
            None => 1,
            Some(text) => text.parse::<u32>().unwrap_or(0).min(MAX_WEIGHT),
        };
        if weight == 0 {
            self.lost
                .push(format!("{path}: Fairshare={} is not a number; 1 is used", fields["share"]));
        }

        // 2. Convert quota and borrowing.
        let cap = self.gpus(path, fields.get("grptres"));
        let owned = own
            .filter(|own| own.contains_key("preempt"))
            .and_then(|own| self.gpus(path, own.get("grptres")));
        self.has_owners |= owned.is_some();
        let is_owner = owned.is_some();
        let (quota, borrow) = match (owned, cap) {
            (Some(owned), cap) => {
                let more = cap.map(|cap| {
                    owned
                        .iter()
                        .map(|(model, gpus)| {
                            cap.get(model).map_or(0, |cap| cap.saturating_sub(*gpus))
                        })
                        .max()
                        .unwrap_or(0)
                });
                let borrow = if borrowing.is_none() { Some(0) } else { more };
                (owned, borrow)
            }
            (None, Some(cap)) => (cap, Some(0)),
            (None, None) => (BTreeMap::new(), None),
        };

        // 3. Convert the limits of the account and of its QOS.
        let limits = self.limits(path, fields, own, borrowing.filter(|_| is_owner));
        let exempt =
            borrowing.and_then(|qos| qos.get("preemptexempttime")).and_then(|text| minutes(text));
        QueueSpec {
            weight: weight.max(1),
            quota,
            borrow,
            limits,
            protect: exempt.map(|minutes| Protection::For(Span::from_secs(minutes * 60))),
            ..QueueSpec::named(&account.name)
        }
    }

    fn limits(
        &mut self,
        path: &str,
        fields: &Fields,
        own: Option<&Fields>,
        borrowing: Option<&Fields>,
    ) -> QueueLimits {
        let number =
            |fields: &Fields, key: &str| fields.get(key).and_then(|text| text.parse::<u32>().ok());
        let time = |fields: &Fields| {
            fields
                .get("maxwall")
                .and_then(|text| minutes(text))
                .map(|minutes| Span::from_secs(minutes * 60))
        };
        let per_user = own.and_then(|own| own.get("maxtrespu"));
        let per_user = per_user
            .and_then(|list| tres::amounts(list).into_iter().find(|(name, _)| name == "gres/gpu"));
        let pending_jobs = number(fields, "maxsubmit").filter(|jobs| *jobs > 0);
        if pending_jobs.is_some() {
            self.lost.push(format!(
                "{path}: MaxSubmitJobs counts pending and running jobs in Slurm; here it counts pending jobs only"
            ));
        }
        for key in ["maxjobs", "maxtres", "grptresmins"] {
            if let Some(value) = fields.get(key).or_else(|| own.and_then(|own| own.get(key))) {
                self.lost.push(format!("{path}: {key}={value} has no counterpart"));
            }
        }
        QueueLimits {
            running_jobs: number(fields, "grpjobs").filter(|jobs| *jobs > 0),
            gpus_per_user: per_user.map(|(_, gpus)| gpus).filter(|gpus| *gpus > 0),
            pending_jobs,
            time: time(fields).or_else(|| own.and_then(time)),
            borrowed_time: borrowing.and_then(time),
        }
    }

    /// Converts a limit on GPUs to limits by model. A limit on all GPUs together can only be
    /// converted if the cluster has one model.
    fn gpus(&mut self, path: &str, list: Option<&String>) -> Option<BTreeMap<GpuModel, u64>> {
        let limits = tres::amounts(list?);
        let mut quota: BTreeMap<GpuModel, u64> = BTreeMap::new();
        for (name, gpus) in &limits {
            if let Some(kind) = name.strip_prefix("gres/gpu:") {
                quota.insert(normalise_label(kind), *gpus);
            }
        }
        let all = limits.iter().find(|(name, _)| name == "gres/gpu").map(|(_, gpus)| *gpus);
        match (all, quota.is_empty(), self.models) {
            (Some(gpus), true, [model]) => _ = quota.insert(model.clone(), gpus),
            (Some(gpus), true, _) => {
                self.lost.push(format!(
                    "{path}: a limit of {gpus} GPUs of all models together has no counterpart"
                ));
            }
            _ => {}
        }
        for (name, amount) in limits.iter().filter(|(name, _)| !name.starts_with("gres/gpu")) {
            self.lost.push(format!("{path}: a limit on {name} ({amount}) has no counterpart"));
        }
        (!quota.is_empty()).then_some(quota)
    }

    /// Removes quotas of parents that are less than those of their children together: in Slurm the
    /// limit of the parent is a cap, and each child may have the same limit.
    fn drop_small_caps(&mut self, queues: &mut [QueueSpec]) -> BTreeMap<GpuModel, u64> {
        let mut together: BTreeMap<GpuModel, u64> = BTreeMap::new();
        for queue in queues {
            let mut below = self.drop_small_caps(&mut queue.queues);
            for (model, gpus) in std::mem::take(&mut queue.quota) {
                match below.get(&model) {
                    Some(more) if *more > gpus => self.lost.push(format!(
                        "{}: its cap of {gpus} {model} is less than the {more} of its child accounts together; left out",
                        queue.name
                    )),
                    _ => {
                        below.insert(model.clone(), gpus);
                        queue.quota.insert(model, gpus);
                    }
                }
            }
            if queue.quota.is_empty() {
                queue.borrow = None;
                queue.limits.borrowed_time = None;
            }
            for (model, gpus) in below {
                let sum = together.entry(model).or_insert(0);
                *sum = sum.saturating_add(gpus);
            }
        }
        together
    }

    /// Converts each partition to a queue, if there are no accounts: its maximum time limit, and
    /// the limits of its QOS.
    fn of_partitions(&mut self, evidence: &Evidence, tree: &mut QueueTree) {
        let entered = self.entered;
        let mut default = None;
        if !evidence.partitions.is_empty() {
            tree.queues.clear();
        }
        for partition in &evidence.partitions {
            let name = partition.name.as_str();
            let own = partition
                .get("QOS")
                .and_then(|qos| entered.qos.iter().find(|known| known.name == qos));
            let own = own.map(|qos| &qos.fields);
            let mut limits = self.limits(name, &Fields::default(), own, None);
            let time = partition
                .get("MaxTime")
                .and_then(minutes)
                .map(|minutes| Span::from_secs(minutes * 60));
            // In Slurm both limits apply.
            limits.time = limits.time.into_iter().chain(time).min();
            let quota = self.gpus(name, own.and_then(|own| own.get("grptres"))).unwrap_or_default();
            let borrow = (!quota.is_empty()).then_some(0);
            tree.queues.push(QueueSpec { limits, quota, borrow, ..QueueSpec::named(name) });
            if partition.get("Default").is_some_and(|text| text.eq_ignore_ascii_case("yes")) {
                default = Some(name);
            }
        }
        match tree.queues.first() {
            None => self
                .lost
                .push("no accounts were given, so there is one queue; add `--sacctmgr`".to_owned()),
            Some(first) => {
                tree.default_queue = QueueName::from(default.unwrap_or(&first.name));
                self.are_partitions = true;
                self.lost.push(
                    "no accounts were given, so each partition is a queue, on all nodes; add `--sacctmgr`".to_owned(),
                );
            }
        }
    }

    /// Lists the priority weights. Muster orders jobs by fair share, then by job priority, then by
    /// age.
    fn weights(&mut self, evidence: &Evidence) {
        const WEIGHTS: [&str; 7] = [
            "PriorityWeightAge",
            "PriorityWeightAssoc",
            "PriorityWeightFairshare",
            "PriorityWeightJobSize",
            "PriorityWeightPartition",
            "PriorityWeightQOS",
            "PriorityWeightTRES",
        ];
        let set: Vec<String> = WEIGHTS
            .iter()
            .filter_map(|key| Some((key, evidence.setting(key).filter(|value| value != "0")?)))
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        if is_in_order_of_submission(evidence) {
            self.lost.push("PriorityType=priority/basic: Slurm starts all jobs in order of submission; here the jobs of one queue, and queues by fair share".to_owned());
        } else if !set.is_empty() {
            self.lost.push(format!(
                "priority weights ({}): a queue file has none; here the shares of queues come first, then job priority, then the shares of users (`fair-share-after`). \
                 `muster simulate --scheduler slurm --slurm-conf` uses them",
                set.join(", ")
            ));
        }
    }

    /// Lists settings of partitions that queues do not have.
    fn partitions(&mut self, evidence: &Evidence) {
        let of = |key: &str| -> Vec<String> {
            let named = evidence
                .partitions
                .iter()
                .filter_map(|entry| Some((entry.name.as_str(), entry.get(key)?)));
            // `scontrol show partition` prints these values for settings that are not set.
            let set = named
                .filter(|(_, value)| !UNSET.iter().any(|unset| value.eq_ignore_ascii_case(unset)));
            set.map(|(name, value)| format!("{name} {value}")).collect()
        };
        for (key, what) in [
            ("MaxTime", "maximum time limits"),
            ("DefaultTime", "default time limits"),
            ("MaxNodes", "maximum nodes per job"),
            ("AllowGroups", "allowed groups"),
            ("AllowAccounts", "allowed accounts"),
            ("PriorityTier", "priority tiers"),
            ("QOS", "partition QOS"),
        ] {
            let said = of(key);
            let is_carried = self.are_partitions && matches!(key, "MaxTime" | "QOS");
            if !said.is_empty() && !is_carried {
                self.lost.push(format!(
                    "partitions, {what} ({key}): {}; a queue file has no partitions",
                    said.join(", ")
                ));
            }
        }
        // A single partition is the default anyway.
        let default = evidence.partitions.iter().rfind(|entry| {
            entry.get("Default").is_some_and(|text| text.eq_ignore_ascii_case("yes"))
        });
        if let Some(default) =
            default.filter(|_| !self.are_partitions && evidence.partitions.len() > 1)
        {
            self.lost.push(format!(
                "partitions, default partition (Default): {}; a queue file has no partitions",
                default.name
            ));
        }
    }
}

/// Returns the default QOS of an account.
fn default_qos(fields: &Fields) -> Option<&str> {
    let first = || fields.get("qos").filter(|list| !list.contains(','));
    fields.get("defaultqos").or_else(first).map(String::as_str)
}

/// Returns the QOS that an account may request and that other QOS may preempt.
fn borrowing<'a>(
    entered: &'a AccountingDump,
    fields: &Fields,
    own: Option<&Fields>,
) -> Option<&'a Fields> {
    let lists = entered.qos.iter().filter_map(|qos| qos.fields.get("preempt"));
    let taken: Vec<&str> = lists.flat_map(|list| list.split(',')).collect();
    let mut allowed = fields.get("qos")?.split(',');
    let found = allowed.find_map(|name| {
        let is_beyond = taken.contains(&name) || name.ends_with(PROTECTED);
        entered.qos.iter().find(|qos| qos.name == name && is_beyond)
    })?;
    (own != Some(&found.fields)).then_some(&found.fields)
}
