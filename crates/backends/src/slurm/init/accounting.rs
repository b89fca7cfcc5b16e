//! The queue tree in Slurm's terms: accounts with shares and caps, and qualities of service that
//! say whose jobs go for whose. What has no such term is listed. It writes no text of a file.
//!
//! * A queue is an account, its weight the account's shares, its limits those of the account.
//! * A quota with `preemption: reclaim` is a quality of service, `NAME-own`, in which at most the
//!   quota runs; what is beyond it runs in `idle` (or `NAME-idle`, where a queue has rules of its
//!   own), which goes when an owner wants its GPUs back.
//! * `quota` and `borrow` together are a cap of the account.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::job::Protection;
use muster_model::queue::{Backfill, PlacementPolicy};
use muster_model::{GpuModel, QueueSpec, Span};

use super::nodes::types;
use super::qos::{Qos, Tres};
use super::{Order, Unfit, clock};
use crate::slurm::conf::kind;

/// Words in the names of queues where people sit and wait; the check knows partitions by the same.
const INTERACTIVE: [&str; 7] =
    ["interactive", "inter", "debug", "dev", "devel", "notebook", "jupyter"];
/// Of jobs in a queue's own quality of service; those of `idle` have 0, and come behind all of
/// them.
const OWN_PRIORITY: u32 = 1000;

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    /// `root` at the top.
    pub(super) parent: String,
    /// Path of the queue.
    pub(super) path: String,
    pub(super) shares: u32,
    pub(super) gpus: Tres,
    pub(super) running_jobs: Option<u32>,
    pub(super) max_wall: Option<Span>,
    pub(super) max_submit: Option<u32>,
    /// Qualities of service that its jobs may ask for, the default first; empty for a queue with
    /// others below it.
    pub(super) qos: Vec<String>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Accounting {
    /// Parents first.
    pub(super) accounts: Vec<Account>,
    pub(super) qos: Vec<Qos>,
    /// Jobs may be made to go for others.
    pub(super) preempts: bool,
    /// Places are taken on the least loaded node.
    pub(super) spreads: bool,
    /// Nothing passes a blocked job.
    pub(super) in_order: bool,
    /// Accounts of people who sit and wait, with the limit of their queue.
    pub(super) interactive: Vec<(String, Option<Span>)>,
    /// The longest time limit of any other queue.
    pub(super) longest: Option<Span>,
    /// Every other queue has one.
    pub(super) all_limited: bool,
    /// What Slurm cannot express, or does otherwise.
    pub(super) lost: Vec<String>,
}

/// What counts for a queue from those above it, nearest first.
#[derive(Clone, Copy)]
struct Above<'a> {
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

impl Accounting {
    /// Reads the tree.
    pub(super) fn of(order: &Order<'_>) -> Result<Self, Unfit> {
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
        let top = Above {
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

        // Owners take from all that can be made to go.
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
                return Err(Unfit::UnknownQueue {
                    user: member.user.clone(),
                    queue: queue.clone(),
                });
            }
        }
        Ok(accounting)
    }

    /// The account of a queue.
    pub(super) fn account_of(&self, path: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.path == path)
    }

    fn enter(
        &mut self,
        order: &Order<'_>,
        names: &BTreeMap<String, String>,
        queues: &[QueueSpec],
        above: Above<'_>,
    ) {
        for queue in queues {
            let path = join(above.path, &queue.name);
            let name = names.get(&path).expect("every queue was named").clone();
            let limits = &queue.limits;
            let own = Above {
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
                    "{path}: its account is {name}, as another queue has its name; a job of Muster says so with `slurm: {{account: {name}}}`"
                ));
            }
            self.cannot(&path, queue);
            let qos =
                if queue.queues.is_empty() { self.leaf(order, &own, queue) } else { Vec::new() };
            let gpus = self.cap(order, &path, queue);
            self.accounts.push(Account {
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
            self.enter(order, names, &queue.queues, Above { account: &name, ..own });
        }
    }

    /// Qualities of service of a leaf, made where they are not there yet; the default first.
    fn leaf(&mut self, order: &Order<'_>, own: &Above<'_>, queue: &QueueSpec) -> Vec<String> {
        // 1. Times of partitions.
        let name = own.account.to_owned();
        let words = name.split(['-', '_']);
        if words.into_iter().any(|word| INTERACTIVE.contains(&word)) {
            self.interactive.push((name.clone(), own.time));
        } else {
            self.longest = self.longest.max(own.time);
            self.all_limited &= own.time.is_some();
        }

        // 2. What it owns.
        let budget = queue.budget.as_ref().and_then(|budget| budget.gpu_hours);
        let mut qos = Vec::new();
        let owner = own.owner.filter(|_| self.preempts);
        let is_own = own.gpus_per_user.is_some() || budget.is_some();
        if owner.is_some() || (!self.preempts && is_own) {
            let of = owner
                .map_or(name.as_str(), |(owner, _)| if is_own { name.as_str() } else { owner });
            let gpus = gpus(order, owner.map(|(_, queue)| &queue.quota), 0);
            self.add(Qos {
                name: format!("{of}-own"),
                about: match owner {
                    Some((owner, _)) => {
                        format!("what is {owner}'s own: its quota, taken back from {IDLE} when it is wanted")
                    }
                    None => format!("limits of {of}"),
                },
                priority: OWN_PRIORITY,
                gpus,
                gpus_per_user: own.gpus_per_user,
                gpu_hours: budget,
                ..Qos::default()
            });
            qos.push(format!("{of}-own"));
        }

        // 3. What it may use beyond.
        if self.preempts && own.borrows {
            qos.push(self.idle(order, own, budget.is_some()));
        } else if qos.is_empty() {
            self.add(Qos {
                name: NORMAL.to_owned(),
                about: "all other jobs".to_owned(),
                priority: OWN_PRIORITY,
                gpus: gpus(order, None, 0),
                ..Qos::default()
            });
            qos.push(NORMAL.to_owned());
        }
        qos
    }

    /// The quality of service in which a leaf uses what others leave idle.
    fn idle(&mut self, order: &Order<'_>, own: &Above<'_>, has_budget: bool) -> String {
        let protect = own.protect.filter(|protect| *protect != Protection::None);
        let is_own =
            own.borrowed_time.is_some() || protect.is_some() || own.gpus_per_user.is_some();
        let name = if is_own { format!("{}-{IDLE}", own.account) } else { IDLE.to_owned() };
        if has_budget {
            self.lost.push(format!(
                "{}: what runs in the QOS {name} is not charged to its budget",
                own.path
            ));
        }
        if own.gpus_per_user.is_some() {
            self.lost.push(format!(
                "{}: gpus-per-user counts in each QOS by itself, own and {name}",
                own.path
            ));
        }
        self.add(Qos {
            name: name.clone(),
            about: "what others leave unused: may be made to go, and is queued again".to_owned(),
            is_preempted: protect != Some(Protection::Always),
            exempt: match protect {
                Some(Protection::For(span)) => Some(span),
                _ => None,
            },
            gpus: gpus(order, None, 0),
            gpus_per_user: own.gpus_per_user,
            max_wall: own.borrowed_time,
            ..Qos::default()
        });
        name
    }

    fn add(&mut self, qos: Qos) {
        if !self.qos.iter().any(|known| known.name == qos.name) {
            self.qos.push(qos);
        }
    }

    /// The cap of an account: quota and borrowing together, where borrowing has a bound.
    fn cap(&mut self, order: &Order<'_>, path: &str, queue: &QueueSpec) -> Tres {
        if queue.quota.is_empty() {
            return gpus(order, None, 0);
        }
        let known = types(order.nodes);
        for model in
            queue.quota.keys().filter(|model| !known.iter().any(|own| own == kind(model.as_str())))
        {
            self.lost.push(format!("{path}: quota of {model}, of which no node has any"));
        }
        match queue.borrow {
            Some(borrow) => gpus(order, Some(&queue.quota), borrow),
            None => {
                if !queue.queues.is_empty() {
                    self.lost.push(format!(
                        "{path}: its quota is only what the queues below have of it; without `borrow` Slurm has no cap for it"
                    ));
                } else if !self.preempts {
                    self.lost.push(format!(
                        "{path}: without preemption a quota that may borrow without bound is no limit; only shares are kept"
                    ));
                }
                gpus(order, None, 0)
            }
        }
    }

    /// Fields of a queue for which there is no term.
    fn cannot(&mut self, path: &str, queue: &QueueSpec) {
        let mut say = |what: String| self.lost.push(format!("{path}: {what}"));
        if let Some(lend) = queue.lend {
            say(format!(
                "`lend: {lend}` keeps the rest unused; in Slurm all that is idle is lent, and taken back"
            ));
        }
        if queue.priority.is_some() {
            say(
                "`priority`: users of Slurm can only lower the priority of their jobs, with --nice"
                    .to_owned(),
            );
        }
        if queue.limits.pending_jobs.is_some() {
            say("`pending-jobs` is MaxSubmitJobs, which also counts what runs, and each element of an array"
                .to_owned());
        }
        if let Some(budget) = &queue.budget {
            let every = clock(budget.every);
            match (budget.gpu_hours, queue.queues.is_empty()) {
                (Some(_), true) => say(format!(
                    "`budget`: Slurm knows no windows; every {every} somebody runs the command that accounts.sh shows beside it"
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
            say("`gpus-per-user` of several queues together: each of them has it for itself"
                .to_owned());
        }
    }

    /// Fields of the whole tree for which there is no term.
    fn of_tree(&mut self, order: &Order<'_>, has_quota: bool) {
        let tree = order.queues;
        if self.preempts {
            self.lost.push(
                "borrowing: a job does not borrow by itself; beyond its quota it waits, unless its user submits it with --qos=idle"
                    .to_owned(),
            );
        }
        if has_quota && types(order.nodes).len() > 1 {
            self.lost.push(
                "quotas by model hold for jobs that name the model (--gpus=h100:8); of others only the sum counts".to_owned(),
            );
        }
        if tree.preemption.priority {
            self.lost.push(
                "`preemption: priority`: within an account nobody goes for a job of higher priority"
                    .to_owned(),
            );
        }
        match tree.backfill {
            Backfill::Easy => self.lost.push(
                "`backfill: easy`: Slurm plans a start for every job that a pass looks at, not for the first of each queue".to_owned(),
            ),
            Backfill::None => self.lost.push(
                "`backfill: none` is SchedulerType=sched/builtin, which the check names (no-backfill)".to_owned(),
            ),
            Backfill::Conservative { .. } => {}
        }
        match tree.placement {
            PlacementPolicy::Pack | PlacementPolicy::Spread => {}
            PlacementPolicy::BestFit | PlacementPolicy::Fragmentation => {
                self.lost.push(
                    "`placement`: Slurm fills nodes by its own order, as with `pack`".to_owned(),
                );
            }
        }
        if tree.defragment.is_some() {
            self.lost.push("`defragment`: Slurm moves no jobs".to_owned());
        }
    }
}

/// The shared quality of service of what is borrowed.
pub(super) const IDLE: &str = "idle";
/// Slurm's own, which every cluster has.
const NORMAL: &str = "normal";

/// A limit per name that Slurm counts GPUs by. With one type of GPU in the cluster there is one
/// name: a limit on a type holds against jobs that name it only.
fn gpus(order: &Order<'_>, quota: Option<&BTreeMap<GpuModel, u64>>, more: u64) -> Tres {
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
    // A type without a quota is not limited, nor is then the sum.
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

/// Accounts by the path of their queue: its own name, or its path where others have that name, too.
fn names(queues: &[QueueSpec]) -> Result<BTreeMap<String, String>, Unfit> {
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
            return Err(Unfit::SameAccount(other, path, name));
        }
        names.insert(path, name);
    }
    Ok(names)
}
