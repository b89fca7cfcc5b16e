//! Accounts and qualities of service as a queue file. What of them a queue file can say is said;
//! the rest is listed, so that nobody takes the file for all that the cluster does.

use std::collections::BTreeMap;

use muster_backends::gpu::model::normalise_label;
use muster_backends::slurm::sacctmgr::{Account, Entered, Fields, tres};
use muster_doctor::{Evidence, minutes};
use muster_model::job::Protection;
use muster_model::queue::{Backfill, Limits, PlacementPolicy};
use muster_model::{GpuModel, Preemption, QueueName, QueueSpec, QueueTree, Span};

/// Most that a weight can be.
const MAX_WEIGHT: u32 = 1_000_000;
/// Blocked jobs of each leaf that are planned for; Slurm plans for all that a pass looks at.
const DEPTH: u32 = 16;
/// The leaf of users in an account that has others below it.
const DIRECT: &str = "direct";

/// Values of a partition that set nothing.
const UNSET: [&str; 3] = ["(null)", "N/A", "ALL"];

/// How `muster init slurm` ends the name of a quality of service for what is borrowed, also where
/// nobody takes from it.
const PROTECTED: &str = "-idle";

/// The tree, and what it leaves out.
pub struct Queues {
    /// The queues.
    pub tree: QueueTree,
    /// What could not be mapped.
    pub lost: Vec<String>,
}

/// Makes it; without accounts there is one queue.
pub fn read(evidence: &Evidence, entered: &Entered, models: &[GpuModel]) -> Queues {
    let mut reader =
        Reader { entered, models, lost: Vec::new(), has_owners: false, are_partitions: false };
    // 1. The whole.
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
    if evidence
        .partition_entries()
        .any(|partition| partition.get("LLN").is_some_and(|lln| lln.eq_ignore_ascii_case("yes")))
    {
        tree.placement = PlacementPolicy::Spread;
    }

    // 2. Queues.
    let queues = reader.below("root", "");
    if queues.is_empty() {
        reader.of_partitions(evidence, &mut tree);
    } else {
        tree.queues = queues;
        tree.default_queue = QueueName::from(first_leaf(&tree.queues, "").as_str());
    }
    reader.promised(&mut tree.queues);

    // 3. Who goes for whom.
    let preempts = evidence.setting("PreemptType").unwrap_or_default();
    match preempts.as_str() {
        "" | "preempt/none" => {}
        "preempt/qos" if reader.has_owners => {
            tree.preemption = Preemption { reclaim: true, priority: false }
        }
        other => reader.lost.push(format!(
            "PreemptType={other}: who goes for whom is not said by quotas here; nobody goes"
        )),
    }
    reader.weights(evidence);
    reader.partitions(evidence);
    Queues { tree, lost: reader.lost }
}

fn first_leaf(queues: &[QueueSpec], above: &str) -> String {
    let Some(first) = queues.first() else { return above.trim_end_matches('/').to_owned() };
    first_leaf(&first.queues, &format!("{above}{}/", first.name))
}

struct Reader<'a> {
    entered: &'a Entered,
    models: &'a [GpuModel],
    lost: Vec<String>,
    /// Some account runs by default in a quality of service that takes from others.
    has_owners: bool,
    /// Queues were made of partitions.
    are_partitions: bool,
}

impl Reader<'_> {
    /// Queues of the accounts below one.
    fn below(&mut self, parent: &str, path: &str) -> Vec<QueueSpec> {
        /// Deeper trees are circles.
        const DEPTH: usize = 32;
        if path.matches('/').count() > DEPTH {
            return Vec::new();
        }
        let accounts: Vec<&Account> =
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
                    "{path}: it has users and accounts below it; the users are in `{path}/{DIRECT}`"
                ));
                queue.queues.push(QueueSpec::named(DIRECT));
            }
            queues.push(queue);
        }
        queues
    }

    fn queue(&mut self, account: &Account, path: &str) -> QueueSpec {
        let (entered, fields) = (self.entered, &account.fields);
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
                self.lost.push(format!("{path}: it shares the limits of the QOS {name} with others; here each has them for itself"));
            }
        }

        // 1. Weight.
        let weight = match fields.get("share").map(String::as_str) {
            None => 1,
            Some(text) => text.parse::<u32>().unwrap_or(0).min(MAX_WEIGHT),
        };
        if weight == 0 {
            self.lost
                .push(format!("{path}: Fairshare={} is no share; 1 is taken", fields["share"]));
        }

        // 2. What is its own, and what it may have beyond.
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

        // 3. Limits, of the account and of the quality of service that its jobs run in.
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
    ) -> Limits {
        let number =
            |fields: &Fields, key: &str| fields.get(key).and_then(|text| text.parse::<u32>().ok());
        let time = |fields: &Fields| {
            fields
                .get("maxwall")
                .and_then(|text| minutes(text))
                .map(|minutes| Span::from_secs(minutes * 60))
        };
        let per_user = own.and_then(|own| own.get("maxtrespu"));
        let per_user =
            per_user.and_then(|list| tres(list).into_iter().find(|(name, _)| name == "gres/gpu"));
        let pending_jobs = number(fields, "maxsubmit").filter(|jobs| *jobs > 0);
        if pending_jobs.is_some() {
            self.lost.push(format!(
                "{path}: MaxSubmitJobs also counts what runs; here it counts what waits"
            ));
        }
        for key in ["maxjobs", "maxtres", "grptresmins"] {
            if let Some(value) = fields.get(key).or_else(|| own.and_then(|own| own.get(key))) {
                self.lost.push(format!("{path}: {key}={value} has no counterpart"));
            }
        }
        Limits {
            running_jobs: number(fields, "grpjobs").filter(|jobs| *jobs > 0),
            gpus_per_user: per_user.map(|(_, gpus)| gpus).filter(|gpus| *gpus > 0),
            pending_jobs,
            time: time(fields).or_else(|| own.and_then(time)),
            borrowed_time: borrowing.and_then(time),
        }
    }

    /// A limit on GPUs by model. One on all GPUs is one on the only model; with several it is none
    /// that can be said.
    fn gpus(&mut self, path: &str, list: Option<&String>) -> Option<BTreeMap<GpuModel, u64>> {
        let limits = tres(list?);
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

    /// Queues together may not own more than the one above them: there it was a cap, which the
    /// queues below had each for themselves, too.
    fn promised(&mut self, queues: &mut [QueueSpec]) -> BTreeMap<GpuModel, u64> {
        let mut together: BTreeMap<GpuModel, u64> = BTreeMap::new();
        for queue in queues {
            let mut below = self.promised(&mut queue.queues);
            for (model, gpus) in std::mem::take(&mut queue.quota) {
                match below.get(&model) {
                    Some(more) if *more > gpus => self.lost.push(format!(
                        "{}: its cap of {gpus} {model} is less than the {more} of the accounts below it together; left out",
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

    /// A queue for each partition, where no accounts divide the cluster: its longest time, and the
    /// limits of its own QOS.
    fn of_partitions(&mut self, evidence: &Evidence, tree: &mut QueueTree) {
        let entered = self.entered;
        let mut default = None;
        if evidence.partition_entries().next().is_some() {
            tree.queues.clear();
        }
        for partition in evidence.partition_entries() {
            let name = partition.name();
            let own = partition
                .get("QOS")
                .and_then(|qos| entered.qos.iter().find(|known| known.name == qos));
            let own = own.map(|qos| &qos.fields);
            let mut limits = self.limits(name, &Fields::default(), own, None);
            let time = partition
                .get("MaxTime")
                .and_then(minutes)
                .map(|minutes| Span::from_secs(minutes * 60));
            // Both hold in Slurm.
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
                .push("no accounts were given: one queue; `--sacctmgr` reads them".to_owned()),
            Some(first) => {
                tree.default_queue = QueueName::from(default.unwrap_or(&first.name));
                self.are_partitions = true;
                self.lost.push(
                    "no accounts were given: a queue for each partition, all of them on all nodes; `--sacctmgr` reads them".to_owned(),
                );
            }
        }
    }

    /// What the order of jobs is made of in Slurm. Here it is fair share alone, then the priority
    /// of each job, then age.
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
        let is_basic = evidence
            .setting("PriorityType")
            .is_some_and(|kind| kind.eq_ignore_ascii_case("priority/basic"));
        if is_basic {
            self.lost.push("PriorityType=priority/basic: jobs go in the order in which they came; here fair share comes first".to_owned());
        } else if !set.is_empty() {
            self.lost.push(format!(
                "weights of the order ({}): a queue file has none; here fair share comes first, then the priority of a job, then its age. \
                 `simulate --scheduler slurm --slurm-conf` takes them",
                set.join(", ")
            ));
        }
    }

    /// What partitions say that queues do not.
    fn partitions(&mut self, evidence: &Evidence) {
        let of = |key: &str| -> Vec<String> {
            let named = evidence
                .partition_entries()
                .filter_map(|entry| Some((entry.name(), entry.get(key)?)));
            // What `scontrol show partition` has where nothing is set.
            let set = named
                .filter(|(_, value)| !UNSET.iter().any(|unset| value.eq_ignore_ascii_case(unset)));
            set.map(|(name, value)| format!("{name} {value}")).collect()
        };
        for (key, what) in [
            ("MaxTime", "longest times"),
            ("DefaultTime", "times of jobs that name none"),
            ("MaxNodes", "most nodes of a job"),
            ("AllowGroups", "groups that alone may use"),
            ("AllowAccounts", "accounts that alone may use"),
            ("PriorityTier", "tiers"),
            ("QOS", "qualities of service whose limits hold for all of their jobs"),
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
        // With one there is no other for jobs that name none.
        let default = evidence
            .partition_entries()
            .filter(|entry| {
                entry.get("Default").is_some_and(|text| text.eq_ignore_ascii_case("yes"))
            })
            .last();
        if let Some(default) =
            default.filter(|_| !self.are_partitions && evidence.partition_entries().count() > 1)
        {
            self.lost.push(format!(
                "partitions, the one of jobs that name none (Default): {}; a queue file has no partitions",
                default.name()
            ));
        }
    }
}

/// The quality of service that jobs run in when they name none.
fn default_qos(fields: &Fields) -> Option<&str> {
    let first = || fields.get("qos").filter(|list| !list.contains(','));
    fields.get("defaultqos").or_else(first).map(String::as_str)
}

/// The quality of service, of those that an account may ask for, that others take from.
fn borrowing<'a>(
    entered: &'a Entered,
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
