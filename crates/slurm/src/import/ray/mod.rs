//! Conversion of scripts that start a Ray cluster by hand, or with `ray symmetric-run`, to a job of kind
//! `ray`: the commands that build and end the cluster go, what is left is the program. A script in which
//! anything is uncertain is not converted.

mod blocks;
mod cluster;
mod command;
mod doubt;
mod effects;
mod order;
mod parts;

use muster_model::imported::LaunchMode;

pub(super) use command::{RayCommand, ray_commands};

use super::body::BodyTranslation;
use super::draft::{ImportedJob, scalar};
use super::geometry::Geometry;
use super::launch::LaunchCommand;
use super::program::text;
use super::read::BatchScript;
use super::shell::ShellCommand;
use super::sizes::{RequestedSizes, TaskLayout};
use blocks::blocks;
use order::VariableUse;

/// Variables of the environment by which Ray finds a cluster; the job sets them itself.
const OF_RAY: [&str; 3] = ["RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"];

/// A script with Ray, as far as it is read.
struct RayScript<'a> {
    body: &'a str,
    all: &'a [ShellCommand],
    steps: &'a [(LaunchCommand, Geometry)],
    sizes: &'a RequestedSizes,
    /// Set when the script starts in the folder of `sbatch`.
    is_in_submit_folder: bool,
    rays: Vec<RayCommand>,
}

/// Parts of a job that a script becomes.
#[derive(Default)]
struct ScriptParts {
    program: String,
    has_program: bool,
    /// Set when the script starts its program in the background.
    has_background: bool,
    setup: String,
    env: Vec<(String, String)>,
    python: Option<String>,
    variables: VariableUse,
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
        draft.ray.extend(self.python.map(|python| ("python", scalar(&python))));
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
    let is_in_submit_folder = script.last("chdir").is_none();
    let ray = RayScript { body: &body, all, steps, sizes, is_in_submit_folder, rays };
    ray.is_understood().then_some(())?;
    // 2. Sort its blocks: those of the cluster go, and what only those use.
    let blocks = blocks(&body, all)?;
    let gone = ray.gone(&blocks);
    // 3. What the shell of every node did before Ray started is in the environment of every node.
    let mut parts = ScriptParts::default();
    for (block, gone) in blocks.iter().zip(gone) {
        if gone {
            ray.note_gone(block, &mut parts);
        } else {
            ray.sort(block, &mut parts)?;
        }
    }
    if !parts.has_program || !ray.is_complete(&parts) {
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
}
