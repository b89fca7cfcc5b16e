//! Environments of jobs before they are submitted: reads the files that `env-file` names, and looks whether this
//! machine has what the program needs, so that what is missing is told before the job is queued.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use muster_backends::environment::{self, EnvironmentError, Variables};
use muster_model::TaskEnvironment;
use muster_spec::{CheckedJob, ParsedJob, read_env_file};

use crate::exit::Failure;

/// Largest file of variables, in bytes: the kernel takes 2 MiB of arguments and variables at the default limit of
/// the stack (execve(2)), and a request as much.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Variables of files, by their names in job files.
pub type EnvFiles = BTreeMap<String, Variables>;

/// Reads the files that the jobs of a text name. A relative path starts at the folder of the job file.
///
/// # Errors
/// A file that cannot be read, and the first mistake in one.
pub fn read_env_files(documents: &[ParsedJob], job_file: Option<&str>) -> Result<EnvFiles> {
    let folder = job_file.map(Path::new).and_then(Path::parent).unwrap_or(Path::new(""));
    let mut files = EnvFiles::new();
    for name in documents.iter().flat_map(ParsedJob::env_files) {
        let path = match (name.strip_prefix("~/"), std::env::home_dir()) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_), None) | (None, _) => folder.join(name),
        };
        let refused = |why: String| Failure::usage(format!("{}: {why}", path.display()));
        let size = fs::metadata(&path)
            .map_err(|error| {
                refused(error.to_string()).hint(
                    "`env-file` names it; a relative path starts at the folder of the job file",
                )
            })?
            .len();
        if size > MAX_FILE_BYTES {
            return Err(refused(format!("{size} bytes; at most {MAX_FILE_BYTES}")).into());
        }
        let text = fs::read_to_string(&path).map_err(|error| refused(error.to_string()))?;
        let variables = read_env_file(&text).map_err(|error| {
            refused(error.to_string()).hint("lines are NAME=VALUE; see docs/jobs.md, Environments")
        })?;
        files.insert(name.to_owned(), variables);
    }
    Ok(files)
}

/// Place where a job will run, seen from this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// This machine: it must have everything.
    ThisMachine,
    /// Slurm, whose nodes often have the same files.
    Slurm,
}

/// Looks whether the environments of jobs can be activated, with the variables of this process, in `workdir`.
/// Returns warnings.
///
/// # Errors
/// On this machine, the first part that is missing.
pub fn check(
    jobs: &[CheckedJob],
    env: &Variables,
    workdir: &str,
    place: RunsOn,
) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    for job in jobs.iter().filter(|job| !job.environment.is_empty()) {
        let mut env = env.clone();
        env.extend(job.env.clone());
        let workdir = Path::new(workdir);
        let workdir = job.workdir.as_ref().map_or(workdir.to_owned(), |own| workdir.join(own));
        match place {
            RunsOn::ThisMachine => check_here(job, env, &workdir).map_err(|error| {
                let failure = Failure::usage(format!("`{}`: {}", job.spec.name, error.what));
                if error.hint.is_empty() { failure } else { failure.hint(error.hint) }
            })?,
            RunsOn::Slurm => {
                // Modules and images are those of the nodes.
                let files = TaskEnvironment {
                    python: job.environment.python.clone(),
                    secrets: job.environment.secrets.clone(),
                    ..TaskEnvironment::default()
                };
                if let Err(error) = environment::activate(&files, env, &workdir) {
                    warnings.push(format!(
                        "`{}`: seen from here, {}; the job fails at its start unless its nodes have it",
                        job.spec.name, error.what
                    ));
                }
            }
        }
    }
    Ok(warnings)
}

fn check_here(job: &CheckedJob, env: Variables, workdir: &Path) -> Result<(), EnvironmentError> {
    let env = environment::activate(&job.environment, env, workdir)?;
    let Some(image) = &job.environment.image else { return Ok(()) };
    for command in job.commands.values() {
        environment::image::wrap(&job.environment, image, command, &env, workdir, false)?;
    }
    Ok(())
}
