//! State of a running Ray cluster, and why parts of its program wait. [`STATUS`] reads it inside the job;
//! [`ClusterStatus::waiting`] says what cannot start, and what would help.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Program in Python that prints a [`ClusterStatus`] as the last line of its output. It needs the
/// environment that [`crate::inside()`] sets.
pub const STATUS: &str = include_str!("status.py");

/// State of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// GPUs and CPUs of each node that is alive.
    pub nodes: Vec<RayResources>,
    /// Those in use, of all nodes together.
    pub used: RayResources,
    /// Placement groups of which not all bundles are placed.
    pub groups: Vec<PendingGroup>,
    /// Actors that are alive or pending.
    pub actors: Vec<ActorStatus>,
    /// Tasks that wait for a node.
    pub tasks: Vec<PendingTask>,
    /// Those of `nodes` that the cluster got besides its own: they belong to other jobs.
    #[serde(default)]
    pub further: Vec<RayResources>,
    /// Further nodes of a cluster that may grow; `None` for one of fixed size.
    #[serde(default)]
    pub growth: Option<GrowthStatus>,
    /// Number of programs that use the cluster; `None` if the cluster did not say.
    #[serde(default)]
    pub drivers: Option<usize>,
}

/// Further nodes that a cluster has asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// A cluster that an earlier version started must stay readable.
#[serde(default)]
pub struct GrowthStatus {
    /// Most nodes that it may have besides its own.
    pub nodes: u32,
    /// Number of nodes of each job that has not ended, by the number of the job.
    pub asked: BTreeMap<String, u32>,
    /// Those that are pending.
    pub pending: Vec<String>,
    /// Number of nodes that the program needs besides; `None` before the cluster has looked. What lasts is
    /// asked for.
    pub wanted: Option<u32>,
    /// Reason why none can be asked for now.
    pub error: Option<String>,
}

/// Amounts of the resources that are shown; a missing one is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(default)]
pub struct RayResources {
    /// GPUs; Ray gives shares of one, too.
    #[serde(rename = "GPU")]
    pub gpus: f64,
    /// CPUs; Ray counts those that it was told of, not those of the machine.
    #[serde(rename = "CPU")]
    pub cpus: f64,
}

/// Placement group that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingGroup {
    /// Its name, or the beginning of its id.
    pub name: String,
    /// Strategy, such as `STRICT_PACK`; empty if Ray does not say.
    pub strategy: String,
    /// `PENDING`, or `RESCHEDULING` after a node was lost.
    pub state: String,
    /// True if no set of this cluster's nodes can ever hold it.
    pub is_infeasible: bool,
    /// Resources of each bundle.
    pub bundles: Vec<RayResources>,
    /// Number of bundles that are placed.
    pub placed: usize,
}

/// Actor that is alive or pending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActorStatus {
    /// Name of its class.
    pub name: String,
    /// Id of the driver that made it.
    pub driver: String,
    /// False while it is pending.
    pub is_alive: bool,
    /// Resources that it takes.
    pub needs: RayResources,
}

/// Task without a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingTask {
    /// Name of its function.
    pub name: String,
    /// Id of the driver that made it.
    pub driver: String,
    /// Resources that it takes.
    pub needs: RayResources,
}

/// Part of a program that waits, with what would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitingPart {
    /// The part, and the reason why it waits.
    pub text: String,
    /// Change that would help; `None` where only waiting does.
    pub hint: Option<String>,
}

impl fmt::Display for RayResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = |amount: f64, one: &str| {
            let plural = if (amount - 1.0).abs() < f64::EPSILON { "" } else { "s" };
            format!("{amount} {one}{plural}")
        };
        match (self.gpus > 0.0, self.cpus > 0.0) {
            (true, true) => write!(f, "{} and {}", noun(self.gpus, "GPU"), noun(self.cpus, "CPU")),
            (true, false) => f.write_str(&noun(self.gpus, "GPU")),
            (false, true) => f.write_str(&noun(self.cpus, "CPU")),
            (false, false) => f.write_str("no GPU or CPU"),
        }
    }
}

impl RayResources {
    /// Returns true if these fit into others.
    fn fits(self, free: Self) -> bool {
        self.gpus <= free.gpus && self.cpus <= free.cpus
    }
}

impl GrowthStatus {
    /// Says what the cluster does about the parts that wait.
    fn part(&self) -> WaitingPart {
        let asked: u32 = self.asked.values().sum();
        let nouns = |count: u32| if count == 1 { "node" } else { "nodes" };
        if let Some(error) = &self.error {
            let text = format!("the cluster cannot ask for further nodes: {error}");
            return WaitingPart { text, hint: None };
        }
        let most = format!("at most {} further {}", self.nodes, nouns(self.nodes));
        let waiting: u32 = self.pending.iter().filter_map(|job| self.asked.get(job)).sum();
        let (text, hint) = match self.pending.first() {
            Some(first) => (
                format!("{waiting} of {most} wait in the queue: job {}", self.pending.join(", ")),
                Some(format!("`muster explain {first}` says why")),
            ),
            None if asked > 0 => (format!("{asked} of {most} are there or starting"), None),
            None if self.may_help() => (format!("{most} are asked for if that lasts"), None),
            None => (
                format!("{most} may be asked for, but they would not help"),
                Some("give the job a larger range of `tasks`, or larger tasks".to_owned()),
            ),
        };
        WaitingPart { text, hint }
    }

    /// Returns true where nodes are on their way, or may be soon.
    fn may_help(&self) -> bool {
        !self.asked.is_empty() || self.wanted != Some(0)
    }
}

impl ClusterStatus {
    /// Reads the output of [`STATUS`]; `None` if it has none.
    #[must_use]
    pub fn parse(output: &str) -> Option<Self> {
        output.lines().rev().find_map(|line| serde_json::from_str(line.trim()).ok())
    }

    /// Returns the resources of all nodes together.
    #[must_use]
    pub fn total(&self) -> RayResources {
        let sum = |of: fn(&RayResources) -> f64| self.nodes.iter().map(of).sum();
        RayResources { gpus: sum(|node| node.gpus), cpus: sum(|node| node.cpus) }
    }

    /// Returns the nodes that belong to the job itself.
    #[must_use]
    pub fn own_nodes(&self) -> Vec<RayResources> {
        let mut own = self.nodes.clone();
        for other in &self.further {
            if let Some(at) = own.iter().position(|node| node == other) {
                own.remove(at);
            }
        }
        own
    }

    fn free(&self) -> RayResources {
        let total = self.total();
        RayResources { gpus: total.gpus - self.used.gpus, cpus: total.cpus - self.used.cpus }
    }

    /// Returns the parts of the program that wait, the placement groups first.
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitingPart> {
        let groups = self.groups.iter().map(|group| self.group(group));
        let mut parts: Vec<WaitingPart> = groups.collect();
        // Equal ones are told once: programs make thousands.
        let mut kinds: BTreeMap<(&str, &str, String), (usize, RayResources)> = BTreeMap::new();
        let pending = self.actors.iter().filter(|actor| !actor.is_alive);
        let actors = pending.map(|actor| ("actor", actor.name.as_str(), actor.needs));
        let tasks = self.tasks.iter().map(|task| ("task", task.name.as_str(), task.needs));
        for (what, name, needs) in actors.chain(tasks) {
            let kind = kinds.entry((what, name, needs.to_string())).or_insert((0, needs));
            kind.0 += 1;
        }
        for ((what, name, _), (count, needs)) in kinds {
            parts.push(self.part(what, name, count, needs));
        }
        parts.extend(self.deadlock());
        if !parts.is_empty() {
            parts.extend(self.growth.as_ref().map(GrowthStatus::part));
        }
        if self.drivers == Some(0) {
            let text = "no program uses the cluster".to_owned();
            let hint = "a program joins it by `ray.init()` without an address; `muster ray submit` starts another one";
            parts.push(WaitingPart { text, hint: Some(hint.to_owned()) });
        }
        parts
    }

    fn group(&self, group: &PendingGroup) -> WaitingPart {
        let PendingGroup { bundles, placed, .. } = group;
        let name = match group.strategy.as_str() {
            "" => format!("placement group `{}`", group.name),
            strategy => format!("placement group `{}` ({strategy})", group.name),
        };
        let largest = bundles.iter().copied().fold(RayResources::default(), |most, one| {
            RayResources { gpus: most.gpus.max(one.gpus), cpus: most.cpus.max(one.cpus) }
        });
        let needs = match bundles.as_slice() {
            [one] => one.to_string(),
            [first, rest @ ..] if rest.iter().all(|one| one == first) => {
                format!("{} bundles of {first}", bundles.len())
            }
            _ => format!("{} bundles of up to {largest}", bundles.len()),
        };
        if group.is_infeasible {
            return WaitingPart {
                text: format!(
                    "{name} {} be placed: it needs {needs}; the cluster has {}",
                    self.never(),
                    self.nodes_text()
                ),
                hint: self.advice("give the job more or larger nodes, or the group fewer bundles or another strategy"),
            };
        }
        let lost = if group.state == "RESCHEDULING" {
            format!("lost a node: {placed} of {} bundles are placed; it", bundles.len())
        } else {
            "waits: it".to_owned()
        };
        WaitingPart { text: format!("{name} {lost} needs {needs}; {}", self.in_use()), hint: None }
    }

    /// Says why actors or tasks of one kind wait.
    fn part(&self, what: &str, name: &str, count: usize, needs: RayResources) -> WaitingPart {
        let (subject, waits, each) = match count {
            1 => (format!("{what} `{name}`"), "waits", ""),
            _ => (format!("{count} {what}s `{name}`"), "wait", " each"),
        };
        if !self.nodes.iter().any(|node| needs.fits(*node)) {
            return WaitingPart {
                text: format!(
                    "{subject} {} start: no node has {needs}; the cluster has {}",
                    self.never(),
                    self.nodes_text()
                ),
                hint: self.advice("a node of the cluster is a task of the job: give each more `gpus-per-task` or `cpus`"),
            };
        }
        // One that asks for a GPU without saying how many CPUs it needs takes a CPU, too.
        let free = self.free();
        let lacks_cpus = needs.gpus > 0.0 && needs.gpus <= free.gpus && needs.cpus > free.cpus;
        let hint = lacks_cpus.then(|| {
            "GPUs are free, but not enough CPUs: give the job more `cpus`, or ask for `num_cpus=0`".to_owned()
        });
        let text = format!("{subject} {waits} for {needs}{each}; {}", self.in_use());
        WaitingPart { text, hint }
    }

    /// Says that something does not fit: for ever, unless nodes are on their way.
    fn never(&self) -> &'static str {
        if self.may_get_nodes() { "cannot yet" } else { "can never" }
    }

    fn advice(&self, text: &str) -> Option<String> {
        (!self.may_get_nodes()).then(|| text.to_owned())
    }

    fn may_get_nodes(&self) -> bool {
        self.growth.as_ref().is_some_and(GrowthStatus::may_help)
    }

    /// Returns the deadlock of drivers that each hold GPUs and wait for more while none is free.
    fn deadlock(&self) -> Option<WaitingPart> {
        let on_gpus = || self.actors.iter().filter(|actor| actor.needs.gpus > 0.0);
        let drivers = |is_alive: bool| -> BTreeSet<&str> {
            let those = on_gpus().filter(|actor| actor.is_alive == is_alive);
            those.map(|actor| actor.driver.as_str()).collect()
        };
        let waiting = drivers(false);
        let stuck: Vec<&str> = drivers(true).intersection(&waiting).copied().collect();
        if stuck.is_empty() || on_gpus().any(|one| !one.is_alive && one.needs.fits(self.free())) {
            return None;
        }
        let text = match stuck.as_slice() {
            [one] => format!(
                "driver {one} holds GPUs with some actors while others of its own wait: it cannot go on if it needs them all"
            ),
            several => format!(
                "drivers {} each hold GPUs and wait for more: none of them can go on if it needs all its actors",
                several.join(", ")
            ),
        };
        Some(WaitingPart {
            text,
            hint: Some("create actors that need each other in a placement group, or submit each driver as a job of its own".to_owned()),
        })
    }

    /// Describes the nodes: equal ones together.
    fn nodes_text(&self) -> String {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for node in &self.nodes {
            *kinds.entry(node.to_string()).or_default() += 1;
        }
        let several = |(node, count): (String, usize)| match count {
            1 => format!("one node with {node}"),
            _ => format!("{count} nodes with {node} each"),
        };
        kinds.into_iter().map(several).collect::<Vec<_>>().join(", ")
    }

    /// Describes what is in use.
    #[must_use]
    pub fn in_use(&self) -> String {
        let total = self.total();
        format!(
            "{} of {} GPUs and {} of {} CPUs are in use",
            self.used.gpus, total.gpus, self.used.cpus, total.cpus
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(gpus: f64, cpus: f64) -> RayResources {
        RayResources { gpus, cpus }
    }

    fn actor(name: &str, driver: &str, is_alive: bool, needs: RayResources) -> ActorStatus {
        ActorStatus { name: name.to_owned(), driver: driver.to_owned(), is_alive, needs }
    }

    fn texts(status: &ClusterStatus) -> Vec<String> {
        let hint = |part: &WaitingPart| {
            part.hint.clone().map_or(String::new(), |hint| format!(" | {hint}"))
        };
        status.waiting().iter().map(|part| format!("{}{}", part.text, hint(part))).collect()
    }

    #[test]
    fn the_last_line_is_read_whatever_was_printed_before() {
        let text = "warning\n{}x\n\n{\"nodes\": [{\"GPU\": 2.0, \"CPU\": 3.0}, {}], \"used\": {\"GPU\": 0.5}, \"groups\": [], \"actors\": [], \"tasks\": []}\r\n";
        let status = ClusterStatus::parse(text).unwrap();
        assert_eq!(status.nodes, [resources(2.0, 3.0), resources(0.0, 0.0)]);
        assert_eq!(status.in_use(), "0.5 of 2 GPUs and 0 of 3 CPUs are in use");
        assert_eq!(ClusterStatus::parse("no status"), None);
    }

    #[test]
    fn a_cluster_without_a_program_is_told() {
        let of = |drivers| ClusterStatus { drivers, ..ClusterStatus::default() }.waiting();
        assert_eq!(of(Some(0))[0].text, "no program uses the cluster");
        assert_eq!((of(Some(1)), of(None)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_group_waits_or_can_never_be_placed() {
        let group = |state: &str, is_infeasible: bool, bundles: &[RayResources]| PendingGroup {
            name: "g".to_owned(),
            strategy: if is_infeasible { String::new() } else { "PACK".to_owned() },
            state: state.to_owned(),
            is_infeasible,
            bundles: bundles.to_vec(),
            placed: 1,
        };
        let two = [resources(2.0, 0.0); 2];
        let status = ClusterStatus {
            nodes: vec![resources(2.0, 3.0), resources(2.0, 3.0), resources(0.0, 1.0)],
            used: resources(3.0, 1.0),
            groups: vec![
                group("PENDING", false, &two),
                group("PENDING", true, &[resources(8.0, 1.0)]),
                group("RESCHEDULING", false, &[resources(1.0, 0.0), resources(0.0, 1.0)]),
            ],
            ..ClusterStatus::default()
        };
        let [waits, never, lost] = <[String; 3]>::try_from(texts(&status)).unwrap();
        assert_eq!(
            waits,
            "placement group `g` (PACK) waits: it needs 2 bundles of 2 GPUs; 3 of 4 GPUs and 1 of 7 CPUs are in use"
        );
        assert!(
            never.starts_with("placement group `g` can never be placed: it needs 8 GPUs and 1 CPU; the cluster has one node with 1 CPU, 2 nodes with 2 GPUs and 3 CPUs each | "),
            "{never}"
        );
        assert!(lost.contains("lost a node: 1 of 2 bundles are placed; it needs 2 bundles of up to 1 GPU and 1 CPU"), "{lost}");
    }

    #[test]
    fn actors_and_tasks_of_a_kind_are_told_once() {
        let one = resources(1.0, 1.0);
        let task = PendingTask { name: "eval".to_owned(), driver: "01".to_owned(), needs: one };
        let status = ClusterStatus {
            nodes: vec![resources(4.0, 2.0)],
            used: resources(2.0, 2.0),
            actors: vec![
                actor("Big", "01", false, resources(8.0, 1.0)),
                actor("A", "01", false, one),
                actor("A", "01", false, one),
            ],
            tasks: vec![task],
            ..ClusterStatus::default()
        };
        let said = texts(&status);
        assert!(said[0].starts_with("2 actors `A` wait for 1 GPU and 1 CPU each; 2 of 4 GPUs and 2 of 2 CPUs are in use | GPUs are free, but not enough CPUs"), "{said:?}");
        assert!(said[1].starts_with("actor `Big` can never start: no node has 8 GPUs and 1 CPU; the cluster has one node with 4 GPUs and 2 CPUs | "), "{said:?}");
        assert!(said[2].starts_with("task `eval` waits for 1 GPU and 1 CPU; "), "{said:?}");
        assert_eq!(said.len(), 3);
    }

    #[test]
    fn clusters_of_earlier_versions_are_read() {
        let text = r#"{"nodes": [], "used": {}, "groups": [], "actors": [], "tasks": [], "growth": {"nodes": 3, "asked": {"7": 2}}}"#;
        let growth = ClusterStatus::parse(text).unwrap().growth.unwrap();
        assert_eq!((growth.nodes, growth.pending.len(), growth.error), (3, 0, None));
    }

    #[test]
    fn a_growing_cluster_says_what_it_does_about_it() {
        let growth = |asked: &[(&str, u32)], pending: &[&str], error: Option<&str>| GrowthStatus {
            nodes: 4,
            asked: asked.iter().map(|(job, nodes)| ((*job).to_owned(), *nodes)).collect(),
            pending: pending.iter().map(|job| (*job).to_owned()).collect(),
            wanted: Some(0),
            error: error.map(str::to_owned),
        };
        let said = |growth: GrowthStatus| {
            let task = PendingTask {
                name: "eval".to_owned(),
                driver: "01".to_owned(),
                needs: resources(1.0, 1.0),
            };
            texts(&ClusterStatus {
                nodes: vec![resources(0.0, 1.0)],
                tasks: vec![task],
                growth: Some(growth),
                ..ClusterStatus::default()
            })
        };
        let none = said(growth(&[], &[], None));
        assert!(none[0].starts_with("task `eval` can never start: no node has 1 GPU"), "{none:?}");
        assert!(
            none[1].starts_with(
                "at most 4 further nodes may be asked for, but they would not help | "
            ),
            "{none:?}"
        );
        let pending = said(growth(&[("7", 2), ("8", 1)], &["7"], None));
        assert!(
            pending[0].starts_with("task `eval` cannot yet start: no node has 1 GPU"),
            "{pending:?}"
        );
        assert_eq!(
            pending[1],
            "2 of at most 4 further nodes wait in the queue: job 7 | `muster explain 7` says why"
        );
        let soon = said(GrowthStatus { wanted: Some(1), ..growth(&[], &[], None) });
        assert!(soon[0].starts_with("task `eval` cannot yet start: "), "{soon:?}");
        assert_eq!(soon[1], "at most 4 further nodes are asked for if that lasts");
        let running = said(growth(&[("7", 2)], &[], None));
        assert_eq!(running[1], "2 of at most 4 further nodes are there or starting");
        let failed = said(growth(&[], &[], Some("no space")));
        assert_eq!(failed[1], "the cluster cannot ask for further nodes: no space");
    }

    #[test]
    fn drivers_that_wait_for_each_other_are_told() {
        let one = resources(1.0, 1.0);
        let of = |driver: &str, alive: usize, pending: usize| -> Vec<ActorStatus> {
            let all = (0..alive + pending).map(|nth| actor("W", driver, nth < alive, one));
            all.collect()
        };
        let mut status = ClusterStatus {
            nodes: vec![resources(8.0, 16.0)],
            used: resources(8.0, 8.0),
            actors: [of("01", 4, 1), of("02", 4, 1)].concat(),
            ..ClusterStatus::default()
        };
        let said = texts(&status);
        assert!(said[1].starts_with("drivers 01, 02 each hold GPUs and wait for more"), "{said:?}");
        // One that only waits is in no deadlock, and neither is one whose actor can start.
        status.actors = [of("01", 8, 0), of("02", 0, 1)].concat();
        assert_eq!(texts(&status).len(), 1);
        status.actors = of("01", 4, 1);
        assert!(texts(&status)[1].starts_with("driver 01 holds GPUs with some actors"));
        status.used = resources(4.0, 4.0);
        assert_eq!(texts(&status).len(), 1);
    }
}
