//! Environment variables that sbatch reads, and the option of a script that each would override.

/// Environment variables of sbatch by long option name: those of sbatch(1), INPUT ENVIRONMENT
/// VARIABLES, of 22.05, and undocumented ones in its source. They override the options in a script.
const VARIABLES: &[(&str, &str)] = &[
    ("account", "SBATCH_ACCOUNT"),
    ("acctg-freq", "SBATCH_ACCTG_FREQ"),
    ("array", "SBATCH_ARRAY_INX"),
    ("batch", "SBATCH_BATCH"),
    ("bb", "SBATCH_BURST_BUFFER"),
    ("cluster-constraint", "SBATCH_CLUSTER_CONSTRAINT"),
    ("clusters", "SBATCH_CLUSTERS"),
    ("clusters", "SLURM_CLUSTERS"),
    ("constraint", "SBATCH_CONSTRAINT"),
    ("container", "SBATCH_CONTAINER"),
    ("core-spec", "SBATCH_CORE_SPEC"),
    ("cpu-freq", "SBATCH_CPU_FREQ_REQ"),
    ("cpus-per-gpu", "SBATCH_CPUS_PER_GPU"),
    ("delay-boot", "SBATCH_DELAY_BOOT"),
    ("distribution", "SBATCH_DISTRIBUTION"),
    ("error", "SBATCH_ERROR"),
    ("exclusive", "SBATCH_EXCLUSIVE"),
    ("export", "SBATCH_EXPORT"),
    ("get-user-env", "SBATCH_GET_USER_ENV"),
    ("gpu-bind", "SBATCH_GPU_BIND"),
    ("gpu-freq", "SBATCH_GPU_FREQ"),
    ("gpus", "SBATCH_GPUS"),
    ("gpus-per-node", "SBATCH_GPUS_PER_NODE"),
    ("gpus-per-socket", "SBATCH_GPUS_PER_SOCKET"),
    ("gpus-per-task", "SBATCH_GPUS_PER_TASK"),
    ("gres", "SBATCH_GRES"),
    ("gres-flags", "SBATCH_GRES_FLAGS"),
    ("hint", "SBATCH_HINT"),
    ("hint", "SLURM_HINT"),
    ("ignore-pbs", "SBATCH_IGNORE_PBS"),
    ("input", "SBATCH_INPUT"),
    ("job-name", "SBATCH_JOB_NAME"),
    ("mem", "SBATCH_MEM_PER_NODE"),
    ("mem-bind", "SBATCH_MEM_BIND"),
    ("mem-per-cpu", "SBATCH_MEM_PER_CPU"),
    ("mem-per-gpu", "SBATCH_MEM_PER_GPU"),
    ("network", "SBATCH_NETWORK"),
    ("no-kill", "SBATCH_NO_KILL"),
    ("no-requeue", "SBATCH_NO_REQUEUE"),
    ("open-mode", "SBATCH_OPEN_MODE"),
    ("output", "SBATCH_OUTPUT"),
    ("overcommit", "SBATCH_OVERCOMMIT"),
    ("partition", "SBATCH_PARTITION"),
    ("power", "SBATCH_POWER"),
    ("profile", "SBATCH_PROFILE"),
    ("qos", "SBATCH_QOS"),
    ("requeue", "SBATCH_REQUEUE"),
    ("reservation", "SBATCH_RESERVATION"),
    ("signal", "SBATCH_SIGNAL"),
    ("spread-job", "SBATCH_SPREAD_JOB"),
    ("switches", "SBATCH_REQ_SWITCH"),
    ("switches", "SBATCH_WAIT4SWITCH"),
    ("thread-spec", "SBATCH_THREAD_SPEC"),
    ("threads-per-core", "SBATCH_THREADS_PER_CORE"),
    ("time", "SBATCH_TIMELIMIT"),
    ("use-min-nodes", "SBATCH_USE_MIN_NODES"),
    ("verbose", "SBATCH_DEBUG"),
    ("wait", "SBATCH_WAIT"),
    ("wait-all-nodes", "SBATCH_WAIT_ALL_NODES"),
    ("wckey", "SBATCH_WCKEY"),
];

/// Groups of options of which the last one counts.
const GROUPS: &[&[&str]] = &[&["requeue", "no-requeue"], &["mem", "mem-per-cpu", "mem-per-gpu"]];

/// Returns every option with the variable that sets it.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    VARIABLES.iter().copied()
}

/// Returns whether setting one option replaces the other.
pub(super) fn replaces(one: &str, other: &str) -> bool {
    one == other || GROUPS.iter().any(|group| group.contains(&one) && group.contains(&other))
}

/// Returns the variables that would override a script with these options.
pub fn overruling(options: &[&str]) -> Vec<&'static str> {
    let overrules = |option: &str| options.iter().any(|one| replaces(option, one));
    all().filter(|(option, _)| overrules(option)).map(|(_, variable)| variable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overrules_an_option_is_its_own_variables_and_those_of_what_would_take_its_place() {
        let check = |options: &[&str], expected: &[&str]| assert_eq!(overruling(options), expected);
        check(&["time", "qos"], &["SBATCH_QOS", "SBATCH_TIMELIMIT"]);
        check(&["requeue"], &["SBATCH_NO_REQUEUE", "SBATCH_REQUEUE"]);
        check(
            &["mem-per-gpu"],
            &["SBATCH_MEM_PER_NODE", "SBATCH_MEM_PER_CPU", "SBATCH_MEM_PER_GPU"],
        );
        check(
            &["clusters", "hint"],
            &["SBATCH_CLUSTERS", "SLURM_CLUSTERS", "SBATCH_HINT", "SLURM_HINT"],
        );
        check(&["nodes"], &[]);
    }
}
