//! Refuses scripts whose job would differ: nodes that are not equal, starts of Ray that are only text for
//! other programs, and starts with more around them than a job can say.

use std::collections::BTreeSet;

use super::super::launch::LaunchCommand;
use super::super::shell::{ShellCommand, ShellWord, Then, WordPart};
use super::super::variables::ShellVariables;
use super::cluster::{is_trap_of_ray, prints};
use super::{OF_RAY, RayCommand, RayScript};

/// Options of `ray start` that a job cannot express.
const WITHOUT_FIELD: [&str; 6] = [
    "resources",
    "labels",
    "system-config",
    "plasma-directory",
    "autoscaling-config",
    "redis-password",
];

impl RayScript<'_> {
    /// Returns true if the script builds one cluster, and nothing in its commands is beyond a job.
    pub(super) fn is_understood(&self) -> bool {
        let heads = self.rays.iter().filter(|ray| ray.is_start(true)).count();
        let symmetric = self.rays.iter().filter(|ray| ray.verb == "symmetric-run").count();
        let of_container = |step: &LaunchCommand| {
            let srun = step.srun.as_ref();
            srun.is_some_and(|srun| srun.value("container-image").is_some())
        };
        heads + symmetric == 1
            && self.rays.iter().all(|ray| self.is_plain(ray))
            && !self.steps.iter().any(|(step, _)| of_container(step))
            && !self.all.iter().enumerate().any(|(index, one)| self.hides_ray(index, one))
            && self.has_equal_nodes()
            && self.has_all_nodes()
    }

    /// Returns true for a command that the shell of the script runs, with nothing around it.
    fn is_plain(&self, ray: &RayCommand) -> bool {
        let is_outside = self.command(ray).is_some_and(|command| command.is_in_function);
        let is_of_ray = |name: &String| OF_RAY.contains(&name.as_str());
        let srun = self.step_at(ray.command).and_then(|step| step.srun.as_ref());
        let is_elsewhere = srun.is_some_and(|srun| srun.value("chdir").is_some());
        !is_outside
            && !is_elsewhere
            && ray.is_direct
            && !ray.is_contained
            && ray.environment.iter().all(is_of_ray)
            && !WITHOUT_FIELD.iter().any(|option| ray.has(option))
    }

    /// Returns true for a command that names a start or an end of Ray for another program to run: `ssh` and
    /// a text, a function of the shell, a variable.
    fn hides_ray(&self, index: usize, command: &ShellCommand) -> bool {
        let is_run = |part: &WordPart| matches!(part, WordPart::Substitution(_));
        let only_prints = prints(command)
            && command.then != Then::Pipe
            && !command.words.iter().flat_map(|word| &word.parts).any(is_run);
        if self.ray_at(index).is_some() || is_trap_of_ray(command) || only_prints {
            return false;
        }
        let raw = command.words.iter().map(|word| word.raw.clone());
        let shown = command.words.iter().map(ShellWord::shown);
        let given = command.redirects.iter().map(|(_, target)| target.raw.clone());
        let document = command.document.iter().map(|document| document.text.clone());
        let text: Vec<String> = raw.chain(shown).chain(given).chain(document).collect();
        let text = text.join(" ").to_lowercase();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        ["ray start", "ray stop"].iter().any(|call| text.contains(call))
    }

    /// Returns true if the starts make as many nodes as the job has, as far as both are known.
    fn has_all_nodes(&self) -> bool {
        let made = self.rays.iter().filter(|ray| ray.is_node()).map(|ray| {
            let is_certain = self.command(ray).is_some_and(|command| command.depth == 0);
            let step = self.steps.iter().find(|(step, _)| step.command == ray.command);
            step.map_or(Some(1), |(_, geometry)| geometry.tasks).filter(|_| is_certain)
        });
        let made: Option<u64> = made.sum();
        made.zip(self.sizes.node_count()).is_none_or(|(made, nodes)| made == nodes)
    }

    /// Returns true if all nodes are told the same resources, as far as is known those of the job.
    fn has_equal_nodes(&self) -> bool {
        let cpus = self.sizes.cpus_of_task().zip(self.sizes.per_node());
        let sizes = [
            ("num-gpus", self.sizes.gpus_on_node()),
            ("num-cpus", cpus.map(|(cpus, tasks)| cpus * tasks)),
        ];
        let mut variables = ShellVariables::of_job(self.sizes);
        // Values by option; without one the node is told the job's.
        let mut told: [BTreeSet<Option<String>>; 2] = [BTreeSet::new(), BTreeSet::new()];
        for (index, command) in self.all.iter().enumerate() {
            let node = self.ray_at(index).filter(|ray| ray.is_node());
            for ((option, of_job), told) in sizes.iter().zip(&mut told).filter(|_| node.is_some()) {
                let word = node.and_then(|ray| ray.word(option));
                let known = word.as_ref().and_then(|word| variables.resolve(word));
                told.insert(match (known, of_job) {
                    (Some(known), Some(of_job)) if known == of_job.to_string() => None,
                    (Some(_), Some(_)) => return false,
                    _ => word.map(|word| word.shown()),
                });
            }
            variables.take(command);
        }
        told.iter().all(|values| values.len() <= 1)
    }
}
