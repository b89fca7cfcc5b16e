//! Sizes that one component requests in Slurm's terms: nodes, tasks, GPUs, CPUs, memory, and what
//! follows from them. Both the job file and the findings use them.

use super::option::GivenOption;
use super::value::{self, Gpus};

/// Requested memory by its unit of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Memory per node in MiB.
    Node(u64),
    /// All memory of a node.
    WholeNode,
    /// Memory per CPU in MiB.
    Cpu(u64),
    /// Memory per GPU in MiB.
    Gpu(u64),
}

/// Sizes as requested; unreadable values count as unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestedSizes {
    pub(super) nodes: Option<(u64, u64)>,
    pub(super) tasks: Option<u64>,
    pub(super) tasks_per_node: Option<u64>,
    pub(super) tasks_per_gpu: Option<u64>,
    pub(super) gpus_per_node: Option<Gpus>,
    pub(super) gpus_per_task: Option<Gpus>,
    pub(super) gpus: Option<Gpus>,
    pub(super) cpus_per_task: Option<u64>,
    pub(super) cpus_per_gpu: Option<u64>,
    pub(super) memory: Option<Memory>,
    pub(super) extras: Vec<(String, u64)>,
}

/// Layout of the tasks on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskLayout {
    /// One task on one node.
    One,
    /// The same number of tasks on each node.
    Nodes { fewest: u64, most: u64, per_node: u64 },
    /// Tasks wherever they fit.
    Anywhere { tasks: u64 },
    /// Tasks that do not divide evenly among the nodes.
    Uneven { nodes: u64, tasks: u64 },
}

impl RequestedSizes {
    /// Reads the options of a component; of a repeated one the last counts.
    pub(super) fn of(given: &[GivenOption]) -> Self {
        let mut sizes = Self::default();
        for (at, one) in given.iter().enumerate() {
            let Some(name) = one.name else { continue };
            // Replaced values are dropped before parsing: an earlier value does not return where
            // the last one is invalid.
            if given[at + 1..].iter().any(|later| later.name == one.name) {
                continue;
            }
            sizes.take(name, one.value.as_deref().unwrap_or_default());
        }
        sizes
    }

    /// Applies one option; also one of a step, whose options override those of its job.
    pub(super) fn take(&mut self, name: &str, text: &str) {
        match name {
            "nodes" => self.nodes = value::nodes(text).or(self.nodes),
            "ntasks" => self.tasks = value::count(text).filter(|count| *count > 0).or(self.tasks),
            "ntasks-per-node" => {
                self.tasks_per_node =
                    value::count(text).filter(|count| *count > 0).or(self.tasks_per_node);
            }
            "ntasks-per-gpu" => self.tasks_per_gpu = value::count(text),
            "gpus-per-node" => self.gpus_per_node = value::gpus(text),
            "gpus-per-task" => self.gpus_per_task = value::gpus(text),
            "gpus" => self.gpus = value::gpus(text),
            "cpus-per-task" => self.cpus_per_task = value::count(text).filter(|count| *count > 0),
            "cpus-per-gpu" => self.cpus_per_gpu = value::count(text),
            "gres" => {
                if let Some((gpus, extras)) = value::gres(text) {
                    (self.gpus_per_node, self.extras) =
                        (gpus.or(self.gpus_per_node.take()), extras);
                }
            }
            "mem" => {
                self.memory = match value::mebibytes(text) {
                    Some(0) => Some(Memory::WholeNode),
                    other => other.map(Memory::Node),
                };
            }
            "mem-per-cpu" => self.memory = value::mebibytes(text).map(Memory::Cpu),
            "mem-per-gpu" => self.memory = value::mebibytes(text).map(Memory::Gpu),
            "tres-per-task" => self.take_per_task(text),
            _ => {}
        }
    }

    /// Parses `cpu:4,gres/gpu:h100:1`, also with `=`.
    fn take_per_task(&mut self, text: &str) {
        for part in text.split(',') {
            let part = part.replace('=', ":");
            if let Some(count) = part.strip_prefix("cpu:") {
                self.cpus_per_task = value::count(count).or(self.cpus_per_task);
            } else if let Some(gpus) = part.strip_prefix("gres/gpu:") {
                self.gpus_per_task = value::gpus(gpus).or(self.gpus_per_task.take());
            }
        }
    }

    /// Returns the layout of tasks that Slurm would choose.
    pub(super) fn shape(&self) -> TaskLayout {
        let tasks = self.tasks.or_else(|| self.tasks_of_gpus());
        let nodes =
            |count: u64, per_node: u64| TaskLayout::Nodes { fewest: count, most: count, per_node };
        match (self.nodes, tasks, self.tasks_per_node) {
            (None, None | Some(1), None) => TaskLayout::One,
            (None, Some(tasks), None) => TaskLayout::Anywhere { tasks },
            (None, None, Some(per_node)) => nodes(1, per_node),
            (None, Some(tasks), Some(per_node)) if tasks % per_node == 0 => {
                nodes(tasks / per_node, per_node)
            }
            (None, Some(tasks), Some(per_node)) => {
                TaskLayout::Uneven { nodes: tasks.div_ceil(per_node), tasks }
            }
            (Some((fewest, most)), None, per_node) => {
                TaskLayout::Nodes { fewest, most, per_node: per_node.unwrap_or(1) }
            }
            // Slurm drops nodes without a task, with a warning.
            (Some((_, most)), Some(tasks), _) if tasks < most => nodes(tasks, 1),
            (Some((fewest, most)), Some(tasks), _) if tasks % most == 0 => {
                let per_node = tasks / most;
                TaskLayout::Nodes {
                    fewest: if fewest == most { most } else { fewest },
                    most,
                    per_node,
                }
            }
            (Some((_, most)), Some(tasks), _) => TaskLayout::Uneven { nodes: most, tasks },
        }
    }

    /// Returns the tasks that `--ntasks-per-gpu` implies.
    fn tasks_of_gpus(&self) -> Option<u64> {
        let per_gpu = self.tasks_per_gpu?;
        let nodes = self.nodes.map_or(1, |(_, most)| most);
        let gpus = match (&self.gpus, &self.gpus_per_node) {
            (Some(gpus), _) => gpus.count,
            (None, Some(gpus)) => gpus.count * nodes,
            (None, None) => return None,
        };
        Some(gpus * per_gpu)
    }

    /// Returns the number of nodes, if certain.
    pub(super) fn node_count(&self) -> Option<u64> {
        match self.shape() {
            TaskLayout::One => Some(1),
            TaskLayout::Nodes { fewest, most, .. } => (fewest == most).then_some(most),
            TaskLayout::Anywhere { .. } => None,
            TaskLayout::Uneven { nodes, .. } => Some(nodes),
        }
    }

    /// Returns the number of tasks, if certain.
    pub(super) fn task_count(&self) -> Option<u64> {
        match self.shape() {
            TaskLayout::One => Some(1),
            TaskLayout::Nodes { fewest, most, per_node } => {
                (fewest == most).then_some(most * per_node)
            }
            TaskLayout::Anywhere { tasks } | TaskLayout::Uneven { tasks, .. } => Some(tasks),
        }
    }

    /// Returns the number of tasks per node, if certain.
    pub(super) fn per_node(&self) -> Option<u64> {
        match self.shape() {
            TaskLayout::One => Some(1),
            TaskLayout::Nodes { per_node, .. } => Some(per_node),
            TaskLayout::Anywhere { .. } | TaskLayout::Uneven { .. } => None,
        }
    }

    /// Returns whether any GPU is requested.
    pub(super) fn has_gpus(&self) -> bool {
        [&self.gpus_per_node, &self.gpus_per_task, &self.gpus]
            .into_iter()
            .flatten()
            .any(|gpus| gpus.count > 0)
    }

    /// Returns the GPU model, if one is named.
    pub(super) fn model(&self) -> Option<&str> {
        let all = [&self.gpus_per_node, &self.gpus_per_task, &self.gpus];
        all.into_iter().flatten().find_map(|gpus| gpus.model.as_deref())
    }

    /// Returns the GPUs per node, if certain.
    pub(super) fn gpus_on_node(&self) -> Option<u64> {
        if !self.has_gpus() {
            return Some(0);
        }
        if let Some(gpus) = &self.gpus_per_node {
            return Some(gpus.count);
        }
        if let Some(gpus) = &self.gpus_per_task {
            return Some(gpus.count * self.per_node()?);
        }
        let all = self.gpus.as_ref()?.count;
        let nodes = self.node_count()?;
        (all % nodes == 0).then_some(all / nodes)
    }

    /// Returns the total number of GPUs, if certain.
    pub(super) fn gpu_count(&self) -> Option<u64> {
        match (&self.gpus, &self.gpus_per_task) {
            _ if !self.has_gpus() => Some(0),
            (Some(gpus), _) => Some(gpus.count),
            (None, Some(gpus)) => Some(gpus.count * self.task_count()?),
            (None, None) => Some(self.gpus_on_node()? * self.node_count()?),
        }
    }

    /// Returns the GPUs per task, if they divide evenly.
    pub(super) fn gpus_of_task(&self) -> Option<u64> {
        if let Some(gpus) = &self.gpus_per_task {
            return Some(gpus.count);
        }
        let (gpus, over) = match self.per_node() {
            Some(per_node) => (self.gpus_on_node()?, per_node),
            None => (self.gpu_count()?, self.task_count()?),
        };
        (gpus % over == 0).then_some(gpus / over)
    }

    /// Returns the CPUs per task, if certain.
    pub(super) fn cpus_of_task(&self) -> Option<u64> {
        match (self.cpus_per_task, self.cpus_per_gpu.filter(|_| self.has_gpus())) {
            (Some(cpus), _) => Some(cpus),
            (None, Some(each)) => Some(each * self.gpus_of_task()?),
            (None, None) => Some(1),
        }
    }

    /// Returns the memory per task in MiB, if it divides evenly.
    pub(super) fn memory_of_task(&self) -> Option<u64> {
        match self.memory? {
            Memory::Node(all) => {
                let per_node = self.per_node()?;
                (all % per_node == 0).then_some(all / per_node)
            }
            Memory::Cpu(each) => Some(each * self.cpus_of_task()?),
            Memory::WholeNode | Memory::Gpu(_) => None,
        }
    }
}
