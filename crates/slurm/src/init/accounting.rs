//! Converts the queue tree to Slurm's accounting: accounts with shares and limits, and QOS that
//! decide which jobs preempt which. Queue settings that Slurm cannot express are listed. Writes no
//! text of a file.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::job::Protection;
use muster_model::queue::{Backfill, PlacementPolicy, PlannedRuntimes};
use muster_model::{GpuModel, QueueSpec, Span};

use super::qos::{GeneratedQos, TresLimits};
use super::{InitError, InitInput, clock};
use crate::pool::{kind, types};

/// Words in the names of queues for interactive use, the same as the check uses for partitions.
const INTERACTIVE: [&str; 7] =
    ["interactive", "inter", "debug", "dev", "devel", "notebook", "jupyter"];
/// Priority of jobs in a queue's own QOS; jobs in `idle` have 0, and come after all of them.
const OWN_PRIORITY: u32 = 1000;

/// Account of the new cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GeneratedAccount {
    pub(super) name: String,
    /// Parent account; `root` at the top.
    pub(super) parent: String,
    /// Path of the queue.
    pub(super) path: String,
    pub(super) shares: u32,
    pub(super) gpus: TresLimits,
    pub(super) running_jobs: Option<u32>,
    pub(super) max_wall: Option<Span>,
    pub(super) max_submit: Option<u32>,
    /// QOS that its jobs may request, the default first; empty for a queue with child queues.
    pub(super) qos: Vec<String>,
}

/// Accounts, QOS and scheduling settings for a queue tree.
///
/// * A queue is an account: its weight becomes the account's shares, its limits those of the
///   account.
/// * A quota with `preemption: reclaim` is a QOS, `NAME-own`, with the quota as its limit; jobs
///   beyond it run in the QOS `idle` (or `NAME-idle` for a queue with rules of its own), which
///   owners can preempt.
/// * `quota` and `borrow` together are the limit of the account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GeneratedAccounting {
    /// Accounts, parents before children.
    pub(super) accounts: Vec<GeneratedAccount>,
    pub(super) qos: Vec<GeneratedQos>,
    /// Set when some jobs may preempt others.
    pub(super) preempts: bool,
    /// Set when tasks are placed on the least loaded node.
    pub(super) spreads: bool,
    /// Set when no job may overtake a blocked one.
    pub(super) in_order: bool,
    /// Accounts for interactive use, with the time limit of their queue.
    pub(super) interactive: Vec<(String, Option<Span>)>,
    /// Longest time limit of the other queues.
    pub(super) longest: Option<Span>,
    /// Set when every other queue has a time limit.
    pub(super) all_limited: bool,
    /// Queue settings that Slurm cannot express, or handles differently.
    pub(super) lost: Vec<String>,
}

/// Limits that a queue inherits from its ancestors, nearest first.
#[derive(Clone, Copy)]
struct InheritedLimits<'a> {
    account: &'a str,
    path: &'a str,
    owner: Option<(&'a str, &'a QueueSpec)>,
    time: Option<Span>,
    gpus_per_user: Option<u64>,
    pending: Option<u32>,
    borrowed_time: Option<Span>,
    borrows: bool,
    protect: Option<Protection>,
}

impl GeneratedAccounting {
    /// Converts the queue tree.
    pub(super) fn of(order: &InitInput<'_>) -> Result<Self, InitError> {
        let tree = order.queues;
        let names = names(&tree.queues)?;
        let has_quota = tree.queues.iter().any(any_quota);
        let mut accounting = Self {
            preempts: tree.preemption.reclaim && has_quota,
            spreads: tree.placement == PlacementPolicy::Spread,
            in_order: tree.backfill == Backfill::None,
            all_limited: true,
            ..Self::default()
        };
        let top = InheritedLimits {
            account: "root",
            path: "",
            owner: None,
            time: None,
            gpus_per_user: None,
            pending: None,
            borrowed_time: None,
            borrows: true,
            protect: None,
        };
        accounting.enter(order, &names, &tree.queues, top);
        accounting.of_tree(order, has_quota);

        // Owners may preempt all jobs in preemptible QOS.
        let victims: Vec<String> = accounting
            .qos
            .iter()
            .filter(|qos| qos.is_preempted)
            .map(|qos| qos.name.clone())
            .collect();
        for qos in &mut accounting.qos {
            if accounting.preempts
                && qos.name.ends_with("-own")
                && qos.gpus.iter().any(|(_, gpus)| gpus.is_some())
            {
                qos.preempts.clone_from(&victims);
            }
        }
        accounting.preempts &= !victims.is_empty();
        for member in order.members {
            let known = |queue: &String| {
                accounting.accounts.iter().any(|own| own.path == *queue && !own.qos.is_empty())
            };
            if let Some(queue) = member.queues.iter().find(|queue| !known(queue)) {
                return Err(InitError::UnknownQueue {
                    user: member.user.clone(),
                    queue: queue.clone(),
                });
            }
        }
        Ok(accounting)
    }

    /// Returns the account of a queue.
    pub(super) fn account_of(&self, path: &str) -> Option<&GeneratedAccount> {
        self.accounts.iter().find(|account| account.path == path)
    }

    fn enter(
        &mut self,
        order: &InitInput<'_>,
        names: &BTreeMap<String, String>,
        queues: &[QueueSpec],
        above: InheritedLimits<'_>,
    ) {
        for queue in queues {
            let path = join(above.path, &queue.name);
            let name = names.get(&path).expect("every queue was named").clone();
            let limits = &queue.limits;
            let own = InheritedLimits {
                account: &name,
                path: &path,
                owner: if queue.quota.is_empty() { above.owner } else { Some((&name, queue)) },
                time: least(limits.time, above.time),
                gpus_per_user: least(limits.gpus_per_user, above.gpus_per_user),
                pending: least(limits.pending_jobs, above.pending),
                borrowed_time: least(limits.borrowed_time, above.borrowed_time),
                borrows: above.borrows && queue.borrow != Some(0),
                protect: queue.protect.or(above.protect),
            };
            if name != queue.name.to_lowercase() {
                self.lost.push(format!(
                    "{path}: its account is {name}, as another queue has the same name; in a job write `slurm: {{account: {name}}}`"
                ));
            }
            self.cannot(&path, queue);
            let qos =
                if queue.queues.is_empty() { self.leaf(order, &own, queue) } else { Vec::new() };
            let gpus = self.cap(order, &path, queue);
            self.accounts.push(GeneratedAccount {
                parent: above.account.to_owned(),
                shares: queue.weight,
                gpus,
                running_jobs: limits.running_jobs,
                max_wall: limits.time.and(own.time),
                max_submit: limits.pending_jobs.and(own.pending),
                qos,
                path: path.clone(),
                name: name.clone(),
            });
            self.enter(order, names, &queue.queues, InheritedLimits { account: &name, ..own });
        }
    }

    /// Returns the QOS of a leaf, created where needed; the default first.
    fn leaf(
        &mut self,
        order: &InitInput<'_>,
        own: &InheritedLimits<'_>,
        queue: &QueueSpec,
    ) -> Vec<String> {
        // 1. Time limits of partitions.
        let name = own.account.to_owned();
        let words = name.split(['-', '_']);
        if words.into_iter().any(|word| INTERACTIVE.contains(&word)) {
            self.interactive.push((name.clone(), own.time));
        } else {
            self.longest = self.longest.max(own.time);
            self.all_limited &= own.time.is_some();
        }

        // 2. The QOS of its quota.
        let budget = queue.budget.as_ref().and_then(|budget| budget.gpu_hours);
        let mut qos = Vec::new();
        let owner = own.owner.filter(|_| self.preempts);
        let is_own = own.gpus_per_user.is_some() || budget.is_some();
        if owner.is_some() || (!self.preempts && is_own) {
            let of = owner
                .map_or(name.as_str(), |(owner, _)| if is_own { name.as_str() } else { owner });
            let gpus = gpus(order, owner.map(|(_, queue)| &queue.quota), 0);
            self.add(GeneratedQos {
                name: format!("{of}-own"),
                about: match owner {
                    Some((owner, _)) => {
                        format!("quota of {owner}: its jobs preempt those in {IDLE}")
                    }
                    None => format!("limits of {of}"),
                },
                priority: OWN_PRIORITY,
                gpus,
                gpus_per_user: own.gpus_per_user,
                gpu_hours: budget,
                ..GeneratedQos::default()
            });
            qos.push(format!("{of}-own"));
        }

        // 3. The QOS for use beyond the quota.
        if self.preempts && own.borrows {
            qos.push(self.idle(order, own, budget.is_some()));
        } else if qos.is_empty() {
            self.add(GeneratedQos {
                name: NORMAL.to_owned(),
                about: "all other jobs".to_owned(),
                priority: OWN_PRIORITY,
                gpus: gpus(order, None, 0),
                ..GeneratedQos::default()
            });
            qos.push(NORMAL.to_owned());
        }
        qos
    }

    /// Returns the QOS in which a leaf uses GPUs that are idle elsewhere.
    fn idle(
        &mut self,
        order: &InitInput<'_>,
        own: &InheritedLimits<'_>,
        has_budget: bool,
    ) -> String {
        let protect = own.protect.filter(|protect| *protect != Protection::None);
        let is_own =
            own.borrowed_time.is_some() || protect.is_some() || own.gpus_per_user.is_some();
        let name = if is_own { format!("{}-{IDLE}", own.account) } else { IDLE.to_owned() };
        if has_budget {
            self.lost.push(format!(
                "{}: jobs in the QOS {name} are not charged to its budget",
                own.path
            ));
        }
        if own.gpus_per_user.is_some() {
            self.lost.push(format!(
                "{}: gpus-per-user counts separately in each QOS, its own and {name}",
                own.path
            ));
        }
        self.add(GeneratedQos {
            name: name.clone(),
            about: "idle GPUs of other queues: jobs may be preempted, and are requeued".to_owned(),
            is_preempted: protect != Some(Protection::Always),
            exempt: match protect {
                Some(Protection::For(span)) => Some(span),
                _ => None,
            },
            gpus: gpus(order, None, 0),
            gpus_per_user: own.gpus_per_user,
            max_wall: own.borrowed_time,
            ..GeneratedQos::default()
        });
        name
    }

    fn add(&mut self, qos: GeneratedQos) {
        if !self.qos.iter().any(|known| known.name == qos.name) {
            self.qos.push(qos);
        }
    }

    /// Returns the limit of an account: quota plus borrowing, where borrowing is bounded.
    fn cap(&mut self, order: &InitInput<'_>, path: &str, queue: &QueueSpec) -> TresLimits {
        if queue.quota.is_empty() {
            return gpus(order, None, 0);
        }
        let known = types(order.nodes);
        for model in
            queue.quota.keys().filter(|model| !known.iter().any(|own| own == kind(model.as_str())))
        {
            self.lost.push(format!("{path}: quota of {model}, which no node has"));
        }
        match queue.borrow {
            Some(borrow) => gpus(order, Some(&queue.quota), borrow),
            None => {
                if !queue.queues.is_empty() {
                    self.lost.push(format!(
                        "{path}: its quota is only the sum of its child queues; without `borrow` Slurm has no limit for it"
                    ));
                } else if !self.preempts {
                    self.lost.push(format!(
                        "{path}: without preemption a quota with unbounded borrowing is no limit; only shares are kept"
                    ));
                }
                gpus(order, None, 0)
            }
        }
    }

    /// Lists settings of a queue that Slurm cannot express.
    fn cannot(&mut self, path: &str, queue: &QueueSpec) {
        let mut say = |what: String| self.lost.push(format!("{path}: {what}"));
        if let Some(lend) = queue.lend {
            say(format!(
                "`lend: {lend}` reserves the rest; in Slurm all idle GPUs are lent, and reclaimed"
            ));
        }
        if queue.priority.is_some() {
            say("`priority`: Slurm's users can only lower the priority of their jobs, with --nice"
                .to_owned());
        }
        if queue.limits.pending_jobs.is_some() {
            say("`pending-jobs` is MaxSubmitJobs, which also counts running jobs, and each element of an array"
                .to_owned());
        }
        if let Some(budget) = &queue.budget {
            let every = clock(budget.every);
            match (budget.gpu_hours, queue.queues.is_empty()) {
                (Some(_), true) => say(format!(
                    "`budget`: Slurm has no budget periods; run the command in accounts.sh every {every}"
                )),
                (Some(_), false) => {
                    say("`budget` of several queues together has no counterpart".to_owned())
                }
                (None, _) => {}
            }
            if budget.gpu_hours_per_user.is_some() {
                say("`gpu-hours-per-user` has no counterpart".to_owned());
            }
        }
        if queue.limits.gpus_per_user.is_some() && !queue.queues.is_empty() {
            say("`gpus-per-user` of several queues together: the limit applies to each of them separately"
                .to_owned());
        }
    }

    /// Lists settings of the whole tree that Slurm cannot express.
    fn of_tree(&mut self, order: &InitInput<'_>, has_quota: bool) {
        let tree = order.queues;
        if self.preempts {
            self.lost.push(
                "borrowing: jobs do not borrow automatically; beyond the quota a job is pending unless it is submitted with --qos=idle"
                    .to_owned(),
            );
        }
        if has_quota && types(order.nodes).len() > 1 {
            self.lost.push(
                "quotas by model apply to jobs that request the model (--gpus=h100:8); for other jobs only the sum counts".to_owned(),
            );
        }
        if tree.preemption.priority {
            self.lost.push(
                "`preemption: priority`: within an account no job is preempted by one of higher priority"
                    .to_owned(),
            );
        }
        match tree.backfill {
            Backfill::Easy => self.lost.push(
                "`backfill: easy`: Slurm plans a start for every job that a pass considers, not for the first of each queue only".to_owned(),
            ),
            Backfill::None => self.lost.push(
                "`backfill: none` is SchedulerType=sched/builtin, which the check reports (no-backfill)".to_owned(),
            ),
            Backfill::Conservative { .. } => {}
        }
        match tree.placement {
            PlacementPolicy::Pack | PlacementPolicy::Spread => {}
            PlacementPolicy::BestFit | PlacementPolicy::Fragmentation => {
                self.lost.push(
                    "`placement`: Slurm fills nodes in its own order, as with `pack`".to_owned(),
                );
            }
        }
        if tree.estimates == PlannedRuntimes::Predicted {
            self.lost.push("`estimates`: Slurm plans by time limits".to_owned());
        }
        if tree.defragment.is_some() {
            self.lost.push("`defragment`: Slurm does not move jobs".to_owned());
        }
    }
}

/// Shared QOS for borrowed GPUs.
pub(super) const IDLE: &str = "idle";
/// Slurm's default QOS, which every cluster has.
const NORMAL: &str = "normal";

/// Returns the limit for each TRES of GPUs. With one type of GPU in the cluster there is one TRES:
/// a limit on a type applies only to jobs that request the type.
fn gpus(order: &InitInput<'_>, quota: Option<&BTreeMap<GpuModel, u64>>, more: u64) -> TresLimits {
    let types = types(order.nodes);
    let of = |name: &str| {
        let mut own = quota?
            .iter()
            .filter(|(model, _)| kind(model.as_str()) == name)
            .map(|(_, gpus)| gpus + more);
        let first = own.next()?;
        Some(own.fold(first, |sum, gpus| sum + gpus))
    };
    let each: Vec<Option<u64>> = types.iter().map(|name| of(name)).collect();
    // A type without a quota is not limited, and then neither is the sum.
    let sum = each.iter().copied().sum::<Option<u64>>().filter(|_| !types.is_empty());
    let mut tres = vec![("gres/gpu".to_owned(), sum)];
    if types.len() > 1 {
        tres.extend(
            types.iter().zip(each).map(|(name, limit)| (format!("gres/gpu:{name}"), limit)),
        );
    }
    tres
}

fn any_quota(queue: &QueueSpec) -> bool {
    !queue.quota.is_empty() || queue.queues.iter().any(any_quota)
}

fn least<T: Ord>(own: Option<T>, above: Option<T>) -> Option<T> {
    match (own, above) {
        (Some(own), Some(above)) => Some(own.min(above)),
        (own, above) => own.or(above),
    }
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}

/// Names accounts by the path of their queue: the queue's own name, or its path where the name is
/// not unique.
fn names(queues: &[QueueSpec]) -> Result<BTreeMap<String, String>, InitError> {
    fn paths(queues: &[QueueSpec], above: &str, found: &mut Vec<(String, String)>) {
        for queue in queues {
            let path = join(above, &queue.name);
            found.push((path.clone(), queue.name.to_lowercase()));
            paths(&queue.queues, &path, found);
        }
    }
    let mut found = Vec::new();
    paths(queues, "", &mut found);
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<String> = found
        .iter()
        .filter(|(_, name)| !seen.insert(name.clone()))
        .map(|(_, name)| name.clone())
        .collect();
    let mut names = BTreeMap::new();
    let mut owner: BTreeMap<String, String> =
        BTreeMap::from([("root".to_owned(), "root".to_owned())]);
    for (path, name) in found {
        let name = if twice.contains(&name) { path.to_lowercase().replace('/', "-") } else { name };
        if let Some(other) = owner.insert(name.clone(), path.clone()) {
            return Err(InitError::SameAccount(other, path, name));
        }
        names.insert(path, name);
    }
    Ok(names)
}
