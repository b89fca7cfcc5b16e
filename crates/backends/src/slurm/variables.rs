//! What sbatch reads from its environment, as a table.

/// Variables by which sbatch takes options from its environment (sbatch(1), INPUT ENVIRONMENT VARIABLES), by long name. They
/// would overrule what stands in a script.
pub const VARIABLES: &[(&str, &str)] = &[
    ("account", "SBATCH_ACCOUNT"),
    ("array", "SBATCH_ARRAY_INX"),
    ("constraint", "SBATCH_CONSTRAINT"),
    ("exclusive", "SBATCH_EXCLUSIVE"),
    ("cpus-per-gpu", "SBATCH_CPUS_PER_GPU"),
    ("error", "SBATCH_ERROR"),
    ("export", "SBATCH_EXPORT"),
    ("gpus", "SBATCH_GPUS"),
    ("gpus-per-node", "SBATCH_GPUS_PER_NODE"),
    ("gpus-per-task", "SBATCH_GPUS_PER_TASK"),
    ("gres", "SBATCH_GRES"),
    ("job-name", "SBATCH_JOB_NAME"),
    ("mem", "SBATCH_MEM_PER_NODE"),
    ("mem-per-cpu", "SBATCH_MEM_PER_CPU"),
    ("mem-per-gpu", "SBATCH_MEM_PER_GPU"),
    ("no-requeue", "SBATCH_NO_REQUEUE"),
    ("open-mode", "SBATCH_OPEN_MODE"),
    ("output", "SBATCH_OUTPUT"),
    ("partition", "SBATCH_PARTITION"),
    ("qos", "SBATCH_QOS"),
    ("requeue", "SBATCH_REQUEUE"),
    ("reservation", "SBATCH_RESERVATION"),
    ("signal", "SBATCH_SIGNAL"),
    ("switches", "SBATCH_REQ_SWITCH"),
    ("time", "SBATCH_TIMELIMIT"),
];
