//! Refuses jobs that do not fit the idle site, with what the site has. This gives a good message at
//! the right line; the engine makes the exact check.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::{GpuRequest, NodeConstraint};
use muster_model::{GpuModel, TaskGroup};

use crate::diagnostic::{Problem, Problems, show};
use crate::field::NamedItem;
use crate::job::document::JobDocument;
use crate::job::shape::GroupFields;
use crate::site::{SiteNode, SubmissionSite};
use crate::source::Place;
use crate::suggest::nearest;

/// Most names listed in a label.
const MAX_LISTED: usize = 8;

/// The nodes that a job may use.
pub(super) struct EligibleNodes<'a> {
    site: &'a SubmissionSite<'a>,
    eligible: Vec<&'a SiteNode<'a>>,
}

impl<'a> EligibleNodes<'a> {
    /// Returns the nodes that satisfy labels and exclusions, or adds a problem if there are none.
    /// `None` if the nodes of the site are unknown, or after a problem.
    pub(super) fn of(
        site: &'a SubmissionSite<'a>,
        job: &JobDocument,
        place: Place,
        constraint: &NodeConstraint,
        problems: &mut Problems,
    ) -> Option<Self> {
        if site.hosts.is_empty() {
            return None;
        }
        let before = problems.len();
        for item in job.labels.iter().flat_map(|labels| &labels.value.0) {
            if let Some(problem) = unknown_label(site, item) {
                problems.add(problem);
            }
        }
        let allowed = |host: &&SiteNode<'_>| {
            let has = |(key, value)| host.node.labels.get(key) == Some(value);
            constraint.labels.iter().all(has)
                && constraint.exclude.binary_search(&host.node.name).is_err()
        };
        let eligible: Vec<_> = site.hosts.iter().filter(allowed).collect();
        let written = job.labels.as_ref().map(|labels| labels.key);
        let written = written.or(job.exclude.as_ref().map(|exclude| exclude.key)).unwrap_or(place);
        if eligible.is_empty() && problems.len() == before {
            let label = format!("none of {} nodes is left", site.hosts.len());
            problems
                .add(Problem::new("no node satisfies labels and exclusions").at(written, label));
        }
        (problems.len() == before).then_some(Self { site, eligible })
    }

    /// Refuses a group that does not fit the idle site.
    pub(super) fn check(
        &self,
        shape: &GroupFields<'_>,
        group: &TaskGroup,
        problems: &mut Problems,
    ) {
        let gpu = &group.task.gpu;
        let before = problems.len();
        self.check_models(shape, problems);
        self.check_extras(shape, problems);
        if problems.len() > before {
            return;
        }
        let problem = self
            .too_large_for_a_node(shape, group)
            .or_else(|| self.too_many_nodes(shape, group))
            .or_else(|| self.too_many_tasks(shape, group, gpu));
        if let Some(problem) = problem {
            problems.add(problem);
        }
    }

    /// Refuses groups that fit one by one but not together.
    pub(super) fn check_sum(&self, place: Place, groups: &[TaskGroup], problems: &mut Problems) {
        let asked: u64 = groups
            .iter()
            .map(|group| u64::from(group.min_tasks) * u64::from(group.task.gpu.milli().0))
            .sum();
        let there = 1000 * self.devices(&GpuRequest::default());
        if asked > there {
            let label = format!(
                "{} GPUs in all; {} has {}",
                asked.div_ceil(1000),
                self.word(),
                there / 1000
            );
            problems.add(
                Problem::new("the groups together need more GPUs than there are").at(place, label),
            );
        }
    }

    fn check_models(&self, shape: &GroupFields<'_>, problems: &mut Problems) {
        let models = &self.site.models;
        for item in shape.gpu.iter().flat_map(|gpu| &gpu.value.0) {
            if models.contains_key(&item.value.0) {
                continue;
            }
            let near = nearest(item.value.0.as_str(), models.keys().map(|model| model.as_str()));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`? `muster nodes` lists them"),
                None => "`muster nodes` lists them".to_owned(),
            };
            problems.add(
                Problem::new("`gpu` names a model that no node has")
                    .at(item.place, format!("{} has {}", self.word(), listed(models)))
                    .hint(hint),
            );
        }
    }

    fn check_extras(&self, shape: &GroupFields<'_>, problems: &mut Problems) {
        for item in shape.extras.iter().flat_map(|extras| &extras.value.0) {
            let name = item.name.as_str();
            let most = self.eligible.iter().filter_map(|host| host.node.extras.get(name)).max();
            let problem = match most {
                Some(most) if *most >= item.value.0 as u64 => continue,
                Some(most) => Problem::new(format!("no node has that much of {}", show(name)))
                    .at(item.place, format!("the most on one node is {most}")),
                None => {
                    let known = self.eligible.iter().flat_map(|host| host.node.extras.keys());
                    let near = nearest(name, known.map(|name| &**name));
                    Problem::new("`extras` names a resource that no node has")
                        .at(item.name_place, format!("{} has none", self.word()))
                        .hint(near.map(|near| format!("did you mean `{near}`?")))
                }
            };
            problems.add(problem);
        }
    }

    /// Checks one task, or the tasks of one node, against the largest node.
    fn too_large_for_a_node(&self, shape: &GroupFields<'_>, group: &TaskGroup) -> Option<Problem> {
        let per_node = group.tasks_per_node.unwrap_or(1);
        let gpu = &group.task.gpu;
        let task = &group.task;
        let most = self.eligible.iter().map(|host| hosts(host, gpu)).max().unwrap_or(0);
        if most < u64::from(per_node) {
            return Some(self.no_such_node(shape, gpu, per_node));
        }
        let cpus = self.eligible.iter().map(|host| host.node.cpus.0).max()?;
        let asked = u64::from(task.cpus.0) * u64::from(per_node);
        if let Some(written) = shape.cpus.filter(|_| asked > u64::from(cpus)) {
            let label = format!("the largest node has {}", muster_model::CpuMilli(cpus));
            return Some(Problem::new("no node has that many CPUs").at(written.place, label));
        }
        let memory = self.eligible.iter().map(|host| host.node.memory).max()?;
        let asked = u128::from(task.memory.0) * u128::from(per_node);
        if let Some(written) = shape.memory.filter(|_| asked > u128::from(memory.0)) {
            let label = format!("the largest node has {memory}");
            return Some(Problem::new("no node has that much memory").at(written.place, label));
        }
        None
    }

    fn no_such_node(&self, shape: &GroupFields<'_>, gpu: &GpuRequest, per_node: u32) -> Problem {
        let place = shape.gpu_place();
        let total = self.devices(gpu);
        if total == 0 {
            return Problem::new("there is no GPU")
                .at(place, format!("{} has none", self.word()))
                .hint("to try it without hardware: `--virtual-gpus 8`".to_owned());
        }
        let on_one = self.eligible.iter().map(|host| largest(host, gpu)).max().unwrap_or(0);
        let asked = muster_model::GpuMilli(gpu.milli().0.saturating_mul(per_node));
        let problem = Problem::new("no node has that many GPUs")
            .at(place, format!("{asked} on one node; the most of one model on a node is {on_one}"));
        let wanted = u64::from(gpu.devices) * u64::from(per_node);
        let spread = on_one > 0 && shape.nodes.is_none() && wanted % on_one == 0 && wanted <= total;
        // `sbatch -G 16 -N 2` means 16 in all.
        let nodes =
            shape.nodes.map(|nodes| nodes.value.0.unsigned_abs()).filter(|nodes| *nodes > 1);
        let in_all = nodes.filter(|nodes| {
            shape.gpus.is_some() && wanted % nodes == 0 && wanted / nodes <= on_one
        });
        problem.hint(match (in_all, spread) {
            (Some(nodes), _) => Some(format!(
                "`gpus` counts per node: {wanted} in all on {nodes} nodes are `nodes: {nodes}` and `gpus: {}`",
                wanted / nodes
            )),
            (None, true) => Some(format!("over several nodes: `nodes: {}` and `gpus: {on_one}`", wanted / on_one)),
            (None, false) => None,
        })
    }

    /// Checks the number of nodes needed against the number of suitable nodes.
    fn too_many_nodes(&self, shape: &GroupFields<'_>, group: &TaskGroup) -> Option<Problem> {
        let per_node = group.tasks_per_node?;
        let asked = group.min_tasks / per_node;
        let fitting = self
            .eligible
            .iter()
            .filter(|host| hosts(host, &group.task.gpu) >= u64::from(per_node))
            .count();
        if asked as usize <= fitting {
            return None;
        }
        let place = shape.nodes.map_or_else(|| shape.count_place(), |nodes| nodes.place);
        let each = group.task.gpu.milli();
        let problem = match (fitting, self.eligible.len()) {
            (1, 1) => Problem::new(format!("{asked} nodes are asked for, and there is one"))
                .at(place, format!("{} is one node", self.word())),
            (fitting, all) if fitting == all => {
                Problem::new(format!("{asked} nodes are asked for, and there are {all}"))
                    .at(place, format!("{} has {all} nodes that it may use", self.word()))
            }
            (fitting, all) => {
                Problem::new(format!("{asked} nodes are asked for, and {fitting} can host it"))
                    .at(place, format!("{fitting} of {all} nodes have what it needs"))
            }
        };
        let tasks = group.min_tasks;
        let hint = match each.0 {
            0 => format!("tasks that may share a node: `tasks: {tasks}`"),
            _ => format!(
                "tasks that may share a node: `tasks: {tasks}` with `gpus-per-task: {each}`"
            ),
        };
        Some(problem.hint((u64::from(tasks) <= self.hosted(&group.task.gpu)).then_some(hint)))
    }

    /// Checks all tasks against all nodes.
    fn too_many_tasks(
        &self,
        shape: &GroupFields<'_>,
        group: &TaskGroup,
        gpu: &GpuRequest,
    ) -> Option<Problem> {
        let fit = self.hosted(gpu);
        if u64::from(group.min_tasks) <= fit {
            return None;
        }
        let asked = (u64::from(group.min_tasks) * u64::from(gpu.milli().0)).div_ceil(1000);
        let label = format!(
            "{asked} GPUs in all; {} has {} that it may use",
            self.word(),
            self.devices(gpu)
        );
        let hint = (fit > 0 && shape.tasks.is_some()).then(|| format!("`tasks: {fit}` would fit"));
        Some(
            Problem::new("the job needs more GPUs than there are")
                .at(shape.count_place(), label)
                .hint(hint),
        )
    }

    /// Returns the number of tasks that fit all eligible nodes together, by GPUs alone.
    fn hosted(&self, gpu: &GpuRequest) -> u64 {
        self.eligible.iter().fold(0, |sum: u64, host| sum.saturating_add(hosts(host, gpu)))
    }

    /// Returns the number of devices of acceptable models on eligible nodes.
    fn devices(&self, gpu: &GpuRequest) -> u64 {
        self.eligible.iter().flat_map(|host| counts(host, gpu)).sum()
    }

    fn word(&self) -> &'static str {
        match self.site.hosts.len() {
            1 => "this machine",
            _ => "this cluster",
        }
    }
}

/// Returns the number of devices on a node, for each acceptable model.
fn counts<'a>(host: &'a SiteNode<'_>, gpu: &'a GpuRequest) -> impl Iterator<Item = u64> + 'a {
    let accepted = |model: &GpuModel| gpu.models.is_empty() || gpu.models.contains(model);
    host.gpus.iter().filter(move |(model, _)| accepted(model)).map(|(_, count)| *count)
}

/// Returns the largest number of devices of one acceptable model on a node.
fn largest(host: &SiteNode<'_>, gpu: &GpuRequest) -> u64 {
    counts(host, gpu).max().unwrap_or(0)
}

/// Returns the number of tasks that fit an idle node, by GPUs alone; all devices of a task are of
/// one model.
fn hosts(host: &SiteNode<'_>, gpu: &GpuRequest) -> u64 {
    if gpu.is_none() {
        return u64::MAX;
    }
    let per_model = |count: u64| match gpu.share.0 {
        0 => count / u64::from(gpu.devices),
        share => count * u64::from(1000 / share),
    };
    counts(host, gpu).map(per_model).sum()
}

fn listed(models: &BTreeMap<&GpuModel, u64>) -> String {
    let mut most_first: Vec<_> = models.iter().collect();
    most_first.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut parts: Vec<_> =
        most_first.iter().map(|(model, count)| format!("{model} ({count})")).collect();
    let more = parts.len().saturating_sub(MAX_LISTED);
    parts.truncate(MAX_LISTED);
    match (parts.pop(), more) {
        (None, _) => "no GPU".to_owned(),
        (Some(last), 0) if parts.is_empty() => last,
        (Some(last), 0) => format!("{} and {last}", parts.join(", ")),
        (Some(last), more) => format!("{}, {last} and {more} more", parts.join(", ")),
    }
}

fn unknown_label(
    site: &SubmissionSite<'_>,
    item: &NamedItem<crate::field::Text>,
) -> Option<Problem> {
    let values: Vec<&Arc<str>> =
        site.hosts.iter().filter_map(|host| host.node.labels.get(item.name.as_str())).collect();
    if values.is_empty() {
        let keys = site.hosts.iter().flat_map(|host| host.node.labels.keys()).map(|key| &**key);
        let near = nearest(&item.name, keys);
        return Some(
            Problem::new("`labels` names a label that no node has")
                .at(item.name_place, "no node has this label")
                .hint(near.map(|near| format!("did you mean `{near}`?"))),
        );
    }
    if values.iter().any(|value| ***value == *item.value.0) {
        return None;
    }
    let near = nearest(&item.value.0, values.iter().map(|value| &***value));
    Some(
        Problem::new(format!("no node has that value of the label {}", show(&item.name)))
            .at(item.place, "no node has this value")
            .hint(near.map(|near| format!("did you mean `{near}`?"))),
    )
}
