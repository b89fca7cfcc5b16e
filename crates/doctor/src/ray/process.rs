//! Command lines and environments of the processes of Ray: what a raylet offers, which cluster it is in,
//! and to which job it belongs. Text in, values out.

use std::collections::BTreeMap;
use std::fmt;

use super::host::HostProcess;

/// Variable of the nodes of Muster's jobs that join the cluster of another job, with its address: further
/// nodes of a cluster that grows, and jobs with `join`.
pub(crate) const JOINS: &str = "MUSTER_RAY_JOINS";

/// Environment variables that the rules read.
pub const VARIABLES: &[&str] = &[
    "MUSTER_JOB_ID",
    JOINS,
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_GPUS_ON_NODE",
    "SLURM_CPUS_ON_NODE",
    "SLURM_MEM_PER_NODE",
    "KUBERNETES_SERVICE_HOST",
    "CUDA_VISIBLE_DEVICES",
    "RAY_AUTH_MODE",
];

/// Program of a process of Ray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RayProgram {
    /// Server of one node.
    Raylet,
    /// Control store of a cluster (GCS), beside the raylet of its head.
    Gcs,
    /// Web server beside the head.
    Dashboard,
    /// `ray start --block`, which stays until its node ends.
    BlockedStart,
}

/// Ends of the first argument of the two servers.
const SERVERS: [(&str, RayProgram); 2] =
    [("raylet/raylet", RayProgram::Raylet), ("gcs/gcs_server", RayProgram::Gcs)];

/// Returns true for the command line of a process that the rules read.
#[must_use]
pub fn is_of_ray(arguments: &[String]) -> bool {
    program(arguments).is_some()
}

/// Returns true for the command line of a dashboard.
#[must_use]
pub fn is_dashboard(arguments: &[String]) -> bool {
    program(arguments) == Some(RayProgram::Dashboard)
}

/// Returns the program of a command line; `None` for others, the workers of Ray among them.
pub(crate) fn program(arguments: &[String]) -> Option<RayProgram> {
    let first = arguments.first()?;
    if let Some((_, program)) = SERVERS.iter().find(|(end, _)| first.ends_with(end)) {
        return Some(*program);
    }
    // `python3 -u …/dashboard.py`, `python3 …/bin/ray start …`, `python3 -m ray.scripts.scripts start …`
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let is_script = |end: &str| arguments.iter().take(3).any(|argument| argument.ends_with(end));
    if is_script("ray/dashboard/dashboard.py") {
        return Some(RayProgram::Dashboard);
    }
    // Others start it: `srun …/ray start`, `timeout 8h …/ray start`, `sudo …/ray start`.
    let is_python = first.rsplit('/').next().is_some_and(|name| name.starts_with("python"));
    let is_ray =
        first.ends_with("/ray") || is_python && (is_script("/ray") || has("ray.scripts.scripts"));
    (is_ray && has("start") && has("--block")).then_some(RayProgram::BlockedStart)
}

/// Returns the value of an option `--NAME=VALUE` of the two servers, which write some names with dashes
/// and some with underscores.
pub(crate) fn option<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let is_named = |given: &str| given.replace('-', "_") == name;
    arguments.iter().find_map(|argument| {
        let (given, value) = argument.strip_prefix("--")?.split_once('=')?;
        is_named(given).then_some(value)
    })
}

/// Returns the amounts that a raylet offers: `node:10.0.0.1,1.0,CPU,2,GPU,1,memory,16767477351`.
pub(crate) fn offered(arguments: &[String]) -> BTreeMap<&str, f64> {
    let list = option(arguments, "static_resource_list").unwrap_or_default();
    let words: Vec<&str> = list.split(',').collect();
    let pairs = words.chunks_exact(2);
    pairs.filter_map(|pair| Some((pair[0], pair[1].parse().ok()?))).collect()
}

/// Owner of a process: what counts and limits its resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Job of Muster, by its number.
    Muster(u64),
    /// Job of Slurm, by its number.
    Slurm(u64),
    /// Pod, which Kubernetes limits.
    Pod,
    /// No job and no pod.
    Nobody,
    /// The control groups name none, and the environment cannot be read.
    Unknown,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Muster(job) => write!(f, "job {job} of Muster"),
            Self::Slurm(job) => write!(f, "job {job} of Slurm"),
            Self::Pod => f.write_str("a pod"),
            Self::Nobody => f.write_str("no job"),
            Self::Unknown => f.write_str("an unknown job"),
        }
    }
}

/// Returns the owner of a process: by its control groups, which a program cannot leave, else by its
/// environment.
pub(crate) fn owner(process: &HostProcess) -> Owner {
    if let Some(job) = process.muster_job {
        return Owner::Muster(job);
    }
    if let Some(job) = slurm_job(&process.groups) {
        return Owner::Slurm(job);
    }
    if process.groups.contains("kubepods") {
        return Owner::Pod;
    }
    let Some(environment) = &process.environment else { return Owner::Unknown };
    let number = |name: &str| environment.get(name)?.parse().ok();
    // A job that Muster runs through Slurm has the variables of both: Slurm is what limits it.
    if let Some(job) = number("SLURM_JOB_ID") {
        return Owner::Slurm(job);
    }
    match number("MUSTER_JOB_ID") {
        Some(job) => Owner::Muster(job),
        None if environment.contains_key("KUBERNETES_SERVICE_HOST") => Owner::Pod,
        None => Owner::Nobody,
    }
}

/// Returns the job in a path of Slurm's control groups: `…/slurm/uid_1000/job_12/step_0`,
/// `…/slurmstepd.scope/job_12/…`.
fn slurm_job(groups: &str) -> Option<u64> {
    let paths = groups.lines().filter(|line| line.contains("slurm"));
    let mut parts = paths.flat_map(|line| line.split('/'));
    parts.find_map(|part| part.strip_prefix("job_")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn programs_are_told_by_their_command_lines() {
        let site = "/v/lib/python3.11/site-packages/ray";
        let told = |text: &str| program(&words(text));
        assert_eq!(
            told(&format!("{site}/core/src/ray/raylet/raylet --head")),
            Some(RayProgram::Raylet)
        );
        assert_eq!(told(&format!("{site}/core/src/ray/gcs/gcs_server")), Some(RayProgram::Gcs));
        assert_eq!(
            told(&format!("/v/bin/python3 {site}/dashboard/dashboard.py --host=::")),
            Some(RayProgram::Dashboard)
        );
        let start = "/v/bin/python3 /v/bin/ray start --address=h:1 --block";
        assert_eq!(told(start), Some(RayProgram::BlockedStart));
        assert_eq!(
            told("python3 -m ray.scripts.scripts start --head --block"),
            Some(RayProgram::BlockedStart)
        );
        assert_eq!(told("/v/bin/ray start --head --block"), Some(RayProgram::BlockedStart));
        // What starts it has its command line as well.
        for outer in ["srun -N1", "timeout 8h", "sudo", "/usr/bin/env", "bash"] {
            assert_eq!(told(&format!("{outer} /v/bin/ray start --head --block")), None, "{outer}");
            assert_eq!(told(&format!("{outer} {start}")), None, "{outer}");
        }
        // Ends at once; an editor; a worker.
        assert_eq!(told("/v/bin/python3 /v/bin/ray start --head"), None);
        assert_eq!(told("vim start --block /v/bin/ray"), None);
        assert_eq!(told("ray::Worker"), None);
        assert_eq!(told(""), None);
    }

    #[test]
    fn options_have_dashes_or_underscores() {
        let raylet = words(
            "raylet --gcs-address=h:6379 --session_dir=/tmp/s --static_resource_list=node:h,1.0,CPU,2,GPU,0.5,memory,x --head",
        );
        assert_eq!(option(&raylet, "gcs_address"), Some("h:6379"));
        assert_eq!(option(&raylet, "session_dir"), Some("/tmp/s"));
        assert_eq!(option(&raylet, "head"), None);
        let offered = offered(&raylet);
        assert_eq!((offered.get("CPU"), offered.get("GPU")), (Some(&2.0), Some(&0.5)));
        assert_eq!(offered.get("memory"), None);
    }

    #[test]
    fn control_groups_tell_more_than_the_environment() {
        let process = |groups: &str, environment: Option<&[(&str, &str)]>| HostProcess {
            groups: groups.to_owned(),
            environment: environment.map(|variables| {
                variables
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect()
            }),
            ..HostProcess::default()
        };
        let told = |groups: &str, environment| owner(&process(groups, environment));
        let slurm = "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0";
        assert_eq!(told(slurm, Some(&[("MUSTER_JOB_ID", "3")])), Owner::Slurm(12));
        assert_eq!(told("5:cpuset:/slurm/uid_1/job_7/step_batch", None), Owner::Slurm(7));
        assert_eq!(told("0::/user.slice/job_7", None), Owner::Unknown);
        assert_eq!(told("0::/kubepods.slice/kubepods-pod1.slice", None), Owner::Pod);
        let both: &[(&str, &str)] = &[("MUSTER_JOB_ID", "3"), ("SLURM_JOB_ID", "9")];
        assert_eq!(told("0::/", Some(both)), Owner::Slurm(9));
        assert_eq!(told("0::/", Some(&[("MUSTER_JOB_ID", "3")])), Owner::Muster(3));
        assert_eq!(told("0::/", Some(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")])), Owner::Pod);
        assert_eq!(told("0::/", Some(&[])), Owner::Nobody);
        let mut of_muster = process("0::/muster-a-3.0.1.0", None);
        of_muster.muster_job = Some(3);
        assert_eq!(owner(&of_muster), Owner::Muster(3));
    }
}
