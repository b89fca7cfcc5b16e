//! Conversion of scripts that start a Ray cluster by hand, or with `ray symmetric-run`, to a job of kind
//! `ray`: the commands that build and end the cluster go, what is left is the program. A script in which
//! anything is uncertain is not converted.

mod blocks;
mod cluster;
mod command;
mod parts;

use muster_model::imported::LaunchMode;

pub(super) use command::{RayCommand, ray_commands};

use super::body::BodyTranslation;
use super::draft::ImportedJob;
use super::geometry::Geometry;
use super::launch::LaunchCommand;
use super::program::text;
use super::read::BatchScript;
use super::shell::ShellCommand;
use super::sizes::{RequestedSizes, TaskLayout};
use blocks::blocks;
use parts::ScriptParts;

/// Options of `ray start` that a job cannot express.
const WITHOUT_FIELD: [&str; 6] = [
    "resources",
    "labels",
    "system-config",
    "plasma-directory",
    "autoscaling-config",
    "redis-password",
];

/// Variables of the environment by which Ray finds a cluster; the job sets them itself.
const OF_RAY: [&str; 3] = ["RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"];

/// A script with Ray, as far as it is read.
struct RayScript<'a> {
    body: &'a str,
    all: &'a [ShellCommand],
    steps: &'a [(LaunchCommand, Geometry)],
    rays: Vec<RayCommand>,
}

/// Job of kind `ray` that a script becomes.
pub(super) struct RayTranslation {
    body: BodyTranslation,
    /// Interpreter of the virtual environment that the script activates.
    python: Option<String>,
    /// Commands that every node runs before Ray starts: modules and environments.
    setup: Option<String>,
}

impl RayTranslation {
    /// Makes a job one of kind `ray`; returns its program.
    pub(super) fn put_into(self, draft: &mut ImportedJob) -> BodyTranslation {
        draft.is_ray = true;
        draft.ray_python = self.python;
        draft.slurm.setup = self.setup.or(draft.slurm.setup.take());
        self.body
    }
}

/// Converts a script; `None` for one that builds no Ray cluster, or that is not understood.
pub(super) fn translate(
    script: &BatchScript<'_>,
    all: &[ShellCommand],
    steps: &[(LaunchCommand, Geometry)],
    sizes: &[RequestedSizes],
) -> Option<RayTranslation> {
    // 1. One Ray node on each node of one component.
    let [sizes] = sizes else { return None };
    let is_sized = matches!(sizes.shape(), TaskLayout::One | TaskLayout::Nodes { .. });
    if !script.is_shell() || !is_sized {
        return None;
    }
    let body = script.body();
    let rays = ray_commands(all, steps.iter().map(|(step, _)| step));
    let ray = RayScript { body: &body, all, steps, rays };
    ray.is_understood().then_some(())?;
    // 2. Sort its blocks: those of the cluster go, and what only those use.
    let blocks = blocks(&body, all)?;
    let gone = ray.gone(&blocks);
    let kept = blocks.iter().zip(gone).filter(|(_, gone)| !gone);
    // 3. What the shell of every node did before Ray started is in the environment of every node.
    let mut parts = ScriptParts::default();
    for (block, _) in kept {
        ray.sort(block, ray.is_before_start(block), &mut parts)?;
    }
    // Several programs in the background run at once, which one program after the other would not.
    if !parts.has_program || parts.background > 1 {
        return None;
    }
    let kept = parts.program.trim_start_matches('\n');
    let program = format!("{}{kept}", ray.exported(kept));
    let says = "every node of the job is a node of its Ray cluster, and rank 0 runs the program of the script: Muster starts and ends Ray";
    let mut translated =
        BodyTranslation::new(LaunchMode::Ray, says, vec![text(script, "", &program)]);
    translated.is_merged = sizes.per_node().is_some_and(|tasks| tasks > 1);
    translated.env = parts.env;
    let setup = Some(parts.setup).filter(|setup| !setup.is_empty());
    Some(RayTranslation { body: translated, python: parts.python, setup })
}

impl RayScript<'_> {
    pub(super) fn command(&self, ray: &RayCommand) -> Option<&ShellCommand> {
        self.all.get(ray.command)
    }

    /// Returns the command of Ray at an index.
    pub(super) fn ray_at(&self, index: usize) -> Option<&RayCommand> {
        self.rays.iter().find(|ray| ray.command == index)
    }

    pub(super) fn step_at(&self, index: usize) -> Option<&LaunchCommand> {
        self.steps.iter().map(|(step, _)| step).find(|step| step.command == index)
    }

    /// Returns true if the script builds one cluster, and nothing in its commands is beyond a job.
    pub(super) fn is_understood(&self) -> bool {
        let heads = self.rays.iter().filter(|ray| ray.is_start(true)).count();
        let symmetric = self.rays.iter().filter(|ray| ray.verb == "symmetric-run").count();
        let is_plain = |ray: &RayCommand| {
            let is_outside = self.command(ray).is_some_and(|command| command.is_in_function);
            let zero = |name: &str| ray.value(name).is_some_and(|value| value == "0");
            !is_outside
                && !ray.is_contained
                && !WITHOUT_FIELD.iter().any(|option| ray.has(option))
                // A head without CPUs or GPUs: the job's nodes are equal.
                && !(ray.is_start(true) && (zero("num-gpus") || zero("num-cpus")))
        };
        let of_container = |step: &LaunchCommand| {
            let srun = step.srun.as_ref();
            srun.is_some_and(|srun| srun.value("container-image").is_some())
        };
        heads + symmetric == 1
            && self.rays.iter().all(is_plain)
            && !self.steps.iter().any(|(step, _)| of_container(step))
    }
}
