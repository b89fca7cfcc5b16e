//! Redaction: anonymises the state of a site. Users, nodes, devices, labels and advance
//! reservations get numbers in place of names, always the same number for the same name; job names
//! and free text are removed. Everything that scheduling depends on stays: queues, GPU models,
//! topology levels, sizes and times.
//!
//! Types that contain names are destructured field by field, so that a new field does not compile
//! until its redaction is decided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::advance_reservation::{AdvanceReservation, ReservedPlace, ReservedResources};
use crate::id::{AdvanceReservationName, NodeName, PayloadId, UserName};
use crate::job::{JobSpec, NodeConstraint, Resources, TaskGroup};
use crate::node::{Device, Drain, Foreign, NodeSpec};
use crate::outcome::Outcome;

/// Returns the placeholder name of the `nth` task group of a job, from 1.
#[must_use]
pub fn role(nth: u32) -> String {
    format!("role-{nth}")
}

/// Mapping from names to placeholders, one table per kind of name.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    users: Aliases,
    nodes: Aliases,
    advance_reservations: Aliases,
    domains: Aliases,
    labels: Aliases,
    extras: Aliases,
    devices: Aliases,
}

/// Placeholders by name, numbered in the order of first use.
#[derive(Clone, Debug, Default)]
struct Aliases(BTreeMap<Arc<str>, Arc<str>>);

impl Aliases {
    /// Assigns placeholders in the order of the names, so that scheduling decisions that depend on
    /// name order stay the same.
    fn assign<'a>(&mut self, kind: &str, names: impl Iterator<Item = &'a Arc<str>>) {
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
    /// Makes a redaction that keeps the order of the names of these nodes, of their domains and
    /// extras, and of these advance reservations.
    #[must_use]
    pub fn of<'a>(
        nodes: impl Iterator<Item = &'a NodeSpec> + Clone,
        advance_reservations: impl Iterator<Item = &'a AdvanceReservationName>,
    ) -> Self {
        let mut names = Self::default();
        names.nodes.assign("node", nodes.clone().map(|node| &node.name.0));
        names.domains.assign("domain", nodes.clone().flat_map(|node| &node.domains));
        names.extras.assign("extra", nodes.flat_map(|node| node.extras.keys()));
        names.advance_reservations.assign("reservation", advance_reservations.map(|name| &name.0));
        names
    }

    /// Returns the original name of each placeholder, except those of devices. Only for readers
    /// that may see the names.
    #[must_use]
    pub fn names(&self) -> BTreeMap<String, String> {
        let Self { users, nodes, advance_reservations, domains, labels, extras, devices: _ } = self;
        let all = [users, nodes, advance_reservations, domains, labels, extras]
            .into_iter()
            .flat_map(|names| &names.0);
        all.map(|(name, given)| (given.to_string(), name.to_string())).collect()
    }

    /// Returns the placeholder of a user.
    pub fn user(&mut self, user: &UserName) -> UserName {
        UserName(self.users.of("user", &user.0))
    }

    /// Returns the placeholder of a node.
    pub fn node(&mut self, node: &NodeName) -> NodeName {
        NodeName(self.nodes.of("node", &node.0))
    }

    /// Returns the placeholder of an advance reservation.
    pub fn advance_reservation(&mut self, name: &AdvanceReservationName) -> AdvanceReservationName {
        AdvanceReservationName(self.advance_reservations.of("reservation", &name.0))
    }

    /// Returns the placeholder of a device UUID; an empty one stays empty.
    pub fn device(&mut self, uuid: &Arc<str>) -> Arc<str> {
        if uuid.is_empty() { Arc::clone(uuid) } else { self.devices.of("gpu", uuid) }
    }

    /// Returns the placeholder of a label key or value.
    fn label(&mut self, text: &Arc<str>) -> Arc<str> {
        self.labels.of("label", text)
    }

    /// Returns use from outside without its processes, and with other names.
    pub fn foreign(&mut self, foreign: Foreign) -> Foreign {
        let extras = self.extras(foreign.extras);
        Foreign { processes: Vec::new(), extras, ..foreign }
    }

    /// Redacts the names of extra resources (licences, NICs).
    fn extras(&mut self, extras: BTreeMap<Arc<str>, u64>) -> BTreeMap<Arc<str>, u64> {
        extras.into_iter().map(|(extra, count)| (self.extras.of("extra", &extra), count)).collect()
    }

    /// Redacts the `nth` task group of a job, from 1.
    fn group(&mut self, nth: u32, group: TaskGroup) -> TaskGroup {
        let TaskGroup { name: _, min_tasks, max_tasks, tasks_per_node, task } = group;
        let Resources { gpu, cpus, memory, extras } = task;
        let task = Resources { gpu, cpus, memory, extras: self.extras(extras) };
        TaskGroup { name: role(nth).into(), min_tasks, max_tasks, tasks_per_node, task }
    }

    fn labels(&mut self, labels: BTreeMap<Arc<str>, Arc<str>>) -> BTreeMap<Arc<str>, Arc<str>> {
        labels.into_iter().map(|(key, value)| (self.label(&key), self.label(&value))).collect()
    }

    /// Redacts the names and labels of a node.
    pub fn node_spec(&mut self, node: NodeSpec) -> NodeSpec {
        let NodeSpec { name, devices, cpus, memory, extras, labels, domains } = node;
        let devices = devices.into_iter().map(|device| {
            let Device { model, memory, uuid, is_virtual, slice_of } = device;
            let slice_of = slice_of.map(|whole| self.device(&whole));
            Device { model, memory, uuid: self.device(&uuid), is_virtual, slice_of }
        });
        let devices = devices.collect();
        let domains = domains.iter().map(|domain| self.domains.of("domain", domain)).collect();
        let name = self.node(&name);
        let labels = self.labels(labels);
        let extras = self.extras(extras);
        NodeSpec { name, devices, cpus, memory, extras, labels, domains }
    }

    /// Redacts the names in a job; removes free text.
    pub fn job_spec(&mut self, job: &JobSpec) -> JobSpec {
        let JobSpec {
            name: _,
            user,
            uid: _,
            queue,
            priority,
            groups,
            time_limit,
            expected_runtime,
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
            preempts,
        } = job.clone();
        let NodeConstraint { labels, exclude, topology, advance_reservation } = constraint;
        let constraint = NodeConstraint {
            labels: self.labels(labels),
            exclude: exclude.iter().map(|node| self.node(node)).collect(),
            topology,
            advance_reservation: advance_reservation.map(|name| self.advance_reservation(&name)),
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
            expected_runtime,
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
            preempts,
        }
    }

    /// Redacts an advance reservation.
    pub fn advance_reservation_spec(&mut self, spec: &AdvanceReservation) -> AdvanceReservation {
        let AdvanceReservation { name, users, queues, resources: what, times, stop, by, reason: _ } =
            spec.clone();
        let what = match what {
            ReservedResources::Nodes(nodes) => {
                ReservedResources::Nodes(nodes.iter().map(|node| self.node(node)).collect())
            }
            ReservedResources::Gpus { count, model, labels } => {
                ReservedResources::Gpus { count, model, labels: self.labels(labels) }
            }
        };
        AdvanceReservation {
            name: self.advance_reservation(&name),
            users: users.iter().map(|user| self.user(user)).collect(),
            queues,
            resources: what,
            times,
            stop,
            by: by.map(|by| self.user(&by)),
            reason: "".into(),
        }
    }

    /// Redacts a place of an advance reservation.
    pub fn reserved_place(&mut self, place: ReservedPlace) -> ReservedPlace {
        let ReservedPlace { node, devices } = place;
        ReservedPlace { node: self.node(&node), devices }
    }

    /// Redacts the user of a drain; removes its reason.
    pub fn drain(&mut self, drain: Drain) -> Drain {
        let Drain { from, by, reason: _, stop } = drain;
        Drain { from, by: by.map(|by| self.user(&by)), reason: "".into(), stop }
    }

    /// Redacts the user in an outcome; removes free text.
    pub fn outcome(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Cancelled { by } => Outcome::Cancelled { by: self.user(&by) },
            Outcome::StoppedEarly { step, why: _ } => {
                Outcome::StoppedEarly { step, why: "".into() }
            }
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
            | Outcome::IdleGpus { .. }
            | Outcome::Idle { .. }) => plain,
            Outcome::Native { state, message: _, code } => {
                Outcome::Native { state, message: "".into(), code }
            }
        }
    }
}
