//! Number and size of tasks: converts the ways to write them (`nodes` × `gpus`, `tasks` ×
//! `gpus-per-task`) to one task group. Contradictions are refused here; `fit` checks that it fits
//! the site.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::TaskGroup;
use muster_model::job::{GpuRequest, Resources};
use muster_model::unit::{Bytes, CpuMilli, GpuMilli};

use crate::diagnostic::{Problem, Problems};
use crate::field::{Item, Located, Named, NamedItem, OneOrMany, Whole};
use crate::job::document::{GroupDocument, JobDocument};
use crate::job::fields::{Cpus, Gpus, MAX_TASKS, Model, Size, TaskRange, duplicates, used_twice};
use crate::quantity::GpuAmount;
use crate::source::Place;

/// Smallest accepted memory: a process does not start in less.
const MIN_MEMORY: Bytes = Bytes(1 << 20);

/// The fields that set the size of a group, of the job or of a role.
pub(super) struct GroupFields<'a> {
    pub(super) place: Place,
    pub(super) nodes: Option<&'a Located<Whole<1, MAX_TASKS>>>,
    pub(super) min_nodes: Option<&'a Located<Whole<1, MAX_TASKS>>>,
    pub(super) gpus: Option<&'a Located<Gpus>>,
    pub(super) gpu: Option<&'a Located<OneOrMany<Model>>>,
    pub(super) tasks: Option<&'a Located<TaskRange>>,
    pub(super) gpus_per_task: Option<&'a Located<Gpus>>,
    pub(super) tasks_per_node: Option<&'a Located<Whole<1, MAX_TASKS>>>,
    pub(super) cpus: Option<&'a Located<Cpus>>,
    pub(super) memory: Option<&'a Located<Size>>,
    pub(super) extras: Option<&'a Located<Named<Whole<1, 1_000_000_000>>>>,
}

impl<'a> GroupFields<'a> {
    /// Returns the fields of a job without groups.
    pub(super) fn of_job(job: &'a JobDocument, place: Place) -> Self {
        Self {
            place,
            nodes: job.nodes.as_ref(),
            min_nodes: job.min_nodes.as_ref(),
            gpus: job.gpus.as_ref(),
            gpu: job.gpu.as_ref(),
            tasks: job.tasks.as_ref(),
            gpus_per_task: job.gpus_per_task.as_ref(),
            tasks_per_node: job.tasks_per_node.as_ref(),
            cpus: job.cpus.as_ref(),
            memory: job.memory.as_ref(),
            extras: job.extras.as_ref(),
        }
    }

    /// Returns the fields of one group; `gpu` of the job applies to groups that name no model.
    pub(super) fn of_group(group: &'a Item<GroupDocument>, job: &'a JobDocument) -> Self {
        let place = group.place;
        let group = &group.value;
        let asks = group.gpus.is_some() || group.gpus_per_task.is_some();
        Self {
            place,
            nodes: group.nodes.as_ref(),
            min_nodes: None,
            gpus: group.gpus.as_ref(),
            gpu: group.gpu.as_ref().or(job.gpu.as_ref().filter(|_| asks)),
            tasks: group.tasks.as_ref(),
            gpus_per_task: group.gpus_per_task.as_ref(),
            tasks_per_node: group.tasks_per_node.as_ref(),
            cpus: group.cpus.as_ref(),
            memory: group.memory.as_ref(),
            extras: group.extras.as_ref(),
        }
    }

    /// Returns the place of the size of a task's GPU request.
    pub(super) fn gpu_place(&self) -> Place {
        let count = self.gpus.or(self.gpus_per_task).map(|gpus| gpus.place);
        count.or(self.gpu.map(|gpu| gpu.place)).unwrap_or(self.place)
    }

    /// Returns the place of the number of tasks.
    pub(super) fn count_place(&self) -> Place {
        let tasks = self.nodes.map(|nodes| nodes.place).or(self.tasks.map(|tasks| tasks.place));
        tasks.unwrap_or_else(|| self.gpu_place())
    }

    /// Returns the task group; `None` after problems.
    pub(super) fn resolve(&self, name: Arc<str>, problems: &mut Problems) -> Option<TaskGroup> {
        let before = problems.len();
        self.refuse_contradictions(problems);
        if problems.len() > before {
            return None;
        }
        let per_node = self.tasks_per_node.map(|count| count.value.0 as u32);
        let ((min_tasks, max_tasks), tasks_per_node) = match (self.nodes, self.tasks) {
            (Some(nodes), _) => {
                let per_node = per_node.unwrap_or(1);
                let most = self.product(nodes.value.0, per_node, problems)?;
                let least = self.min_nodes.map_or(most, |least| least.value.0 as u32 * per_node);
                ((least, most), Some(per_node))
            }
            (None, Some(tasks)) => (self.plain_tasks(tasks, per_node, problems)?, per_node),
            (None, None) => ((per_node.unwrap_or(1), per_node.unwrap_or(1)), per_node),
        };
        let gpu = self.gpu_per_task(tasks_per_node.unwrap_or(1), problems);
        let task = Resources {
            gpu: gpu?,
            cpus: self.cpus(problems)?,
            memory: self.memory(problems)?,
            extras: self.extras.map_or_else(BTreeMap::new, |extras| {
                let pair = |item: &NamedItem<Whole<1, 1_000_000_000>>| {
                    (Arc::from(item.name.as_str()), item.value.0 as u64)
                };
                extras.value.0.iter().map(pair).collect()
            }),
        };
        Some(TaskGroup { name, min_tasks, max_tasks, tasks_per_node, task })
    }

    fn refuse_contradictions(&self, problems: &mut Problems) {
        if let (Some(nodes), Some(tasks)) = (self.nodes, self.tasks) {
            problems.add(
                contradiction("nodes", nodes.key, "tasks", tasks.key).hint(
                    "`nodes` with `tasks-per-node` fixes how many run on each; `tasks` alone packs them"
                        .to_owned(),
                ),
            );
        }
        if let (Some(gpus), Some(per_task)) = (self.gpus, self.gpus_per_task) {
            problems.add(
                contradiction("gpus", gpus.key, "gpus-per-task", per_task.key)
                    .hint("`gpus` counts per node, `gpus-per-task` per task: keep one".to_owned()),
            );
        }
        if let (Some(gpus), Some(tasks)) = (self.gpus, self.tasks) {
            problems.add(
                contradiction("gpus", gpus.key, "tasks", tasks.key)
                    .hint("`gpus` counts per node; with `tasks` write `gpus-per-task`".to_owned()),
            );
        }
        if let Some(gpu) = self.gpu
            && self.gpus.is_none()
            && self.gpus_per_task.is_none()
        {
            problems.add(
                Problem::new("`gpu` names a model, but no GPU is asked for")
                    .at(gpu.key, "the number of GPUs is missing")
                    .hint("add `gpus: 1`".to_owned()),
            );
        }
    }

    fn product(&self, nodes: i64, per_node: u32, problems: &mut Problems) -> Option<u32> {
        let tasks = nodes.saturating_mul(i64::from(per_node));
        if tasks <= MAX_TASKS {
            return Some(tasks as u32);
        }
        problems.add(
            Problem::new("the job has too many tasks")
                .at(self.count_place(), format!("{tasks} in all; at most {MAX_TASKS}")),
        );
        None
    }

    fn plain_tasks(
        &self,
        tasks: &Located<TaskRange>,
        per_node: Option<u32>,
        problems: &mut Problems,
    ) -> Option<(u32, u32)> {
        let (low, high) = tasks.value.0;
        let (Some(per_node), Some(written)) = (per_node, self.tasks_per_node) else {
            return Some((low, high));
        };
        let Some(odd) = [low, high].into_iter().find(|count| count % per_node != 0) else {
            return Some((low, high));
        };
        let whole = |count: u32| count.div_ceil(per_node) * per_node;
        let better = if low == high {
            whole(low).to_string()
        } else {
            format!("{}..{}", whole(low), whole(high))
        };
        problems.add(
            Problem::new("`tasks` is not a multiple of `tasks-per-node`")
                .at(tasks.place, format!("{odd} leaves {} over", odd % per_node))
                .also(written.place, format!("{per_node} on each node"))
                .hint(format!("write `tasks: {better}`")),
        );
        None
    }

    fn gpu_per_task(&self, per_node: u32, problems: &mut Problems) -> Option<GpuRequest> {
        let amount = match (self.gpus_per_task, self.gpus) {
            (Some(each), _) => each.value.0,
            (None, Some(gpus)) => self.divided(gpus, per_node, problems)?,
            (None, None) => GpuAmount { devices: 0, share: GpuMilli(0) },
        };
        let models = match self.gpu {
            Some(gpu) => {
                for pair in duplicates(&gpu.value.0, |model| model.0.as_str()) {
                    problems.add(used_twice("models", pair.1.value.0.as_str(), pair));
                }
                gpu.value.0.iter().map(|item| item.value.0.clone()).collect()
            }
            None => Vec::new(),
        };
        Some(GpuRequest { devices: amount.devices, share: amount.share, models })
    }

    /// Divides the GPUs of a node among its tasks.
    fn divided(
        &self,
        gpus: &Located<Gpus>,
        per_node: u32,
        problems: &mut Problems,
    ) -> Option<GpuAmount> {
        let GpuAmount { devices, share } = gpus.value.0;
        if devices.is_multiple_of(per_node) && (share.0 == 0 || per_node == 1) {
            return Some(GpuAmount { devices: devices / per_node, share });
        }
        let written = self.tasks_per_node.map_or(gpus.place, |count| count.place);
        let hint = match share.0 {
            0 => format!(
                "for one GPU each write `gpus: {per_node}`; to share GPUs, `gpus-per-task: 0.5`"
            ),
            _ => format!("for a share each write `gpus-per-task: {share}` instead of `gpus`"),
        };
        problems.add(
            Problem::new("the GPUs of a node do not divide among its tasks")
                .at(gpus.place, "per node")
                .also(written, format!("{per_node} tasks on each node"))
                .hint(hint),
        );
        None
    }

    fn cpus(&self, problems: &mut Problems) -> Option<CpuMilli> {
        match self.cpus {
            Some(cpus) if cpus.value.0.0 == 0 => {
                problems.add(
                    Problem::new("`cpus` is 0")
                        .at(cpus.place, "the smallest is 0.001")
                        .hint("to allocate no CPUs, remove the line".to_owned()),
                );
                None
            }
            Some(cpus) => Some(cpus.value.0),
            None => Some(CpuMilli(0)),
        }
    }

    fn memory(&self, problems: &mut Problems) -> Option<Bytes> {
        match self.memory {
            Some(memory) if memory.value.0 < MIN_MEMORY => {
                problems.add(
                    Problem::new("`memory` is too small for a process")
                        .at(memory.place, format!("the smallest is {MIN_MEMORY}")),
                );
                None
            }
            Some(memory) => Some(memory.value.0),
            None => Some(Bytes(0)),
        }
    }
}

/// Returns the problem for two fields that exclude each other, with both places.
pub(super) fn contradiction(one: &str, at: Place, other: &str, also: Place) -> Problem {
    Problem::new(format!("`{one}` and `{other}` contradict each other"))
        .at(at, "this")
        .also(also, "and this")
}
