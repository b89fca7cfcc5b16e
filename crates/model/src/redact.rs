//! Redaction: the state of a site as it may leave the house. People, hosts, devices, labels and
//! reservations get numbers in place of names, the same number each time; what jobs are called and
//! what people wrote goes. What stays is what decides who runs where and when: queues, GPU models,
//! topology levels, sizes and times.
//!
//! What has names in it is taken apart field by field, so that a new field does not compile until
//! somebody has said what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::{NodeName, PayloadId, UserName, WindowName};
use crate::job::{JobSpec, NodeConstraint, Resources, TaskGroup};
use crate::node::{Device, Drain, NodeSpec};
use crate::outcome::Outcome;
use crate::window::{Window, WindowPlace, WindowWhat};

/// What the `nth` role of a job is called, from 1.
#[must_use]
pub fn role(nth: u32) -> String {
    format!("role-{nth}")
}

/// Names that were given so far.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    users: Aliases,
    nodes: Aliases,
    windows: Aliases,
    domains: Aliases,
    labels: Aliases,
    extras: Aliases,
    devices: Aliases,
}

/// Numbers by name, in order of first sight.
#[derive(Clone, Debug, Default)]
struct Aliases(BTreeMap<Arc<str>, Arc<str>>);

impl Aliases {
    /// Names that keep their order: who decides by it decides the same.
    fn learn<'a>(&mut self, kind: &str, names: impl Iterator<Item = &'a Arc<str>>) {
        let names: BTreeSet<&Arc<str>> = names.collect();
        let width = names.len().to_string().len();
        let numbered = names.into_iter().zip(1..);
        self.0.extend(
            numbered.map(|(name, nth)| (Arc::clone(name), format!("{kind}-{nth:0width$}").into())),
        );
    }

    fn of(&mut self, kind: &str, name: &Arc<str>) -> Arc<str> {
        let next = self.0.len() + 1;
        Arc::clone(
            self.0.entry(Arc::clone(name)).or_insert_with(|| format!("{kind}-{next}").into()),
        )
    }
}

impl Redaction {
    /// Of these nodes, what stands on them, and these reservations the names keep their order.
    #[must_use]
    pub fn of<'a>(
        nodes: impl Iterator<Item = &'a NodeSpec> + Clone,
        windows: impl Iterator<Item = &'a WindowName>,
    ) -> Self {
        let mut names = Self::default();
        names.nodes.learn("node", nodes.clone().map(|node| &node.name.0));
        names.domains.learn("domain", nodes.clone().flat_map(|node| &node.domains));
        names.extras.learn("extra", nodes.flat_map(|node| node.extras.keys()));
        names.windows.learn("reservation", windows.map(|window| &window.0));
        names
    }

    /// What each number stands for, devices left out: for who may know it.
    #[must_use]
    pub fn names(&self) -> BTreeMap<String, String> {
        let Self { users, nodes, windows, domains, labels, extras, devices: _ } = self;
        let all =
            [users, nodes, windows, domains, labels, extras].into_iter().flat_map(|names| &names.0);
        all.map(|(name, given)| (given.to_string(), name.to_string())).collect()
    }

    /// Whose it is.
    pub fn user(&mut self, user: &UserName) -> UserName {
        UserName(self.users.of("user", &user.0))
    }

    /// Where it is.
    pub fn node(&mut self, node: &NodeName) -> NodeName {
        NodeName(self.nodes.of("node", &node.0))
    }

    /// An advance reservation.
    pub fn window(&mut self, window: &WindowName) -> WindowName {
        WindowName(self.windows.of("reservation", &window.0))
    }

    /// A device by what the vendor calls it; what has no name gets none.
    pub fn device(&mut self, uuid: &Arc<str>) -> Arc<str> {
        if uuid.is_empty() { Arc::clone(uuid) } else { self.devices.of("gpu", uuid) }
    }

    /// A label: of keys and values.
    fn label(&mut self, text: &Arc<str>) -> Arc<str> {
        self.labels.of("label", text)
    }

    /// Licences, NICs and whatever else is counted.
    fn extras(&mut self, extras: BTreeMap<Arc<str>, u64>) -> BTreeMap<Arc<str>, u64> {
        extras.into_iter().map(|(extra, count)| (self.extras.of("extra", &extra), count)).collect()
    }

    /// The `nth` role of a job, from 1.
    fn group(&mut self, nth: u32, group: TaskGroup) -> TaskGroup {
        let TaskGroup { name: _, min_tasks, max_tasks, tasks_per_node, task } = group;
        let Resources { gpu, cpus, memory, extras } = task;
        let task = Resources { gpu, cpus, memory, extras: self.extras(extras) };
        TaskGroup { name: role(nth).into(), min_tasks, max_tasks, tasks_per_node, task }
    }

    fn labels(&mut self, labels: BTreeMap<Arc<str>, Arc<str>>) -> BTreeMap<Arc<str>, Arc<str>> {
        labels.into_iter().map(|(key, value)| (self.label(&key), self.label(&value))).collect()
    }

    /// A node.
    pub fn node_spec(&mut self, node: NodeSpec) -> NodeSpec {
        let NodeSpec { name, devices, cpus, memory, extras, labels, domains } = node;
        let devices = devices.into_iter().map(|device| {
            let Device { model, memory, uuid, is_virtual, slice_of } = device;
            let slice_of = slice_of.map(|whole| self.device(&whole));
            Device { model, memory, uuid: self.device(&uuid), is_virtual, slice_of }
        });
        let devices = devices.collect();
        let domains = domains.iter().map(|domain| self.domains.of("domain", domain)).collect();
        let (name, labels, extras) = (self.node(&name), self.labels(labels), self.extras(extras));
        NodeSpec { name, devices, cpus, memory, extras, labels, domains }
    }

    /// A job.
    pub fn job_spec(&mut self, job: &JobSpec) -> JobSpec {
        let JobSpec {
            name: _,
            user,
            uid: _,
            queue,
            priority,
            groups,
            time_limit,
            grace,
            constraint,
            array,
            after,
            restart,
            checkpoint,
            held,
            begin,
            protect,
            payload: _,
            kind,
            tier,
            grow_after,
        } = job.clone();
        let NodeConstraint { labels, exclude, topology, window } = constraint;
        let constraint = NodeConstraint {
            labels: self.labels(labels),
            exclude: exclude.iter().map(|node| self.node(node)).collect(),
            topology,
            window: window.map(|window| self.window(&window)),
        };
        let groups = groups.into_iter().zip(1..).map(|(group, nth)| self.group(nth, group));
        let groups = groups.collect();
        JobSpec {
            name: "".into(),
            user: self.user(&user),
            uid: None,
            queue,
            priority,
            groups,
            time_limit,
            grace,
            constraint,
            array,
            after,
            restart,
            checkpoint,
            held,
            begin,
            protect,
            payload: PayloadId(0),
            kind,
            tier,
            grow_after,
        }
    }

    /// An advance reservation as it was asked for.
    pub fn window_spec(&mut self, window: &Window) -> Window {
        let Window { name, users, queues, what, times, stop, by, reason: _ } = window.clone();
        let what = match what {
            WindowWhat::Nodes(nodes) => {
                WindowWhat::Nodes(nodes.iter().map(|node| self.node(node)).collect())
            }
            gpus @ WindowWhat::Gpus { .. } => gpus,
        };
        Window {
            name: self.window(&name),
            users: users.iter().map(|user| self.user(user)).collect(),
            queues,
            what,
            times,
            stop,
            by: by.map(|by| self.user(&by)),
            reason: "".into(),
        }
    }

    /// Where it is.
    pub fn window_place(&mut self, place: WindowPlace) -> WindowPlace {
        let WindowPlace { node, devices } = place;
        WindowPlace { node: self.node(&node), devices }
    }

    /// A drain.
    pub fn drain(&mut self, drain: Drain) -> Drain {
        let Drain { from, by, reason: _, stop } = drain;
        Drain { from, by: by.map(|by| self.user(&by)), reason: "".into(), stop }
    }

    /// How something ended.
    pub fn outcome(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Cancelled { by } => Outcome::Cancelled { by: self.user(&by) },
            Outcome::Lost { rank, reason: _ } => Outcome::Lost { rank, reason: "".into() },
            Outcome::StartFailed { rank, reason: _ } => {
                Outcome::StartFailed { rank, reason: "".into() }
            }
            plain @ (Outcome::Succeeded
            | Outcome::Failed { .. }
            | Outcome::Signaled { .. }
            | Outcome::OutOfMemory { .. }
            | Outcome::TimedOut
            | Outcome::DependencyFailed { .. }
            | Outcome::Idle { .. }) => plain,
            Outcome::Native { state, says: _, code } => {
                Outcome::Native { state, says: "".into(), code }
            }
        }
    }
}
