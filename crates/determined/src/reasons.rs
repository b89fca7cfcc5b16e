//! Reasons why fields of an experiment have no counterpart in a job file, by JSON pointer.

/// Pointers, and the reason with a replacement where there is one.
const REASONS: &[(&str, &str)] = &[
    ("/description", "a job has a name only"),
    ("/labels", "the labels of a job are those of its nodes: put them into the name"),
    ("/workspace", "jobs are in queues: write `queue`"),
    ("/project", "jobs are in queues: write `queue`"),
    (
        "/data",
        "Determined only hands it to the program: keep it in a file of the program, or in `env`",
    ),
    ("/integrations", "the program connects to other services itself"),
    ("/scheduling_unit", "the program decides how often it reports and saves"),
    ("/records_per_epoch", "the program counts its epochs itself"),
    ("/min_validation_period", "the program decides how often it validates"),
    ("/perform_initial_validation", "the program decides when it validates"),
    (
        "/min_checkpoint_period",
        "the program decides when it saves, or is asked to: `checkpoint` has when",
    ),
    ("/checkpoint_policy", "the program decides which checkpoints it keeps"),
    (
        "/checkpoint_storage",
        "the program writes checkpoints where it likes; it finds the last one by `$MUSTER_LAST_CHECKPOINT`",
    ),
    ("/tensorboard_storage", "the program writes its own records: name a folder in `run`"),
    ("/optimizations", "the program configures its own training"),
    (
        "/profiling",
        "`muster top` and `muster usage` show the use of GPUs; profiling is the program's",
    ),
    (
        "/log_policies",
        "output is not searched while a job runs: end the program, or see `muster logs --grep`",
    ),
    ("/retention_policy", "logs are kept as the site's daemon says"),
    ("/debug", "Muster's own messages are the daemon's"),
    ("/internal", "it concerns Determined's own programs"),
    ("/security", "it concerns Determined's own programs"),
    ("/data_layer", "the program reads its data itself"),
    ("/pbs", "Muster does not submit to PBS"),
    (
        "/searcher/source_trial_id",
        "trials of Determined are not known here: name the checkpoint in `run`",
    ),
    (
        "/searcher/source_checkpoint_uuid",
        "checkpoints of Determined are not known here: name the file in `run`",
    ),
    ("/searcher/stop_once", "a trial that was stopped early is not resumed"),
    ("/searcher/max_steps", "the program ends by itself"),
    ("/batches_per_step", "the program decides how often it reports and saves"),
    ("/searcher/budget", "write the number of trials: `samples`"),
    ("/searcher/train_stragglers", "comparisons are made as reports come, and never wait"),
    ("/resources/weight", "shares belong to queues: `weight` in the queue file"),
    (
        "/resources/priority",
        "priorities have another scale: `priority` of a job is higher for earlier, within its queue",
    ),
    (
        "/resources/shm_size",
        "a job has the machine's /dev/shm; on Kubernetes write `kubernetes: {shm: …}`",
    ),
    ("/resources/devices", "a job gets its GPUs; other devices are the site's matter"),
    ("/resources/slots", "Determined ignores it, too: `slots_per_trial` counts"),
    ("/resources/agent_label", "name nodes by `labels`"),
    ("/resources/native_parallel", "Determined ignores it, too"),
    ("/environment/force_pull_image", "the image's program decides when it pulls"),
    (
        "/environment/registry_auth",
        "log in to the registry before: `podman login`, `apptainer registry login`",
    ),
    ("/environment/pod_spec", "write what it needs into `kubernetes`, see docs/kubernetes.md"),
    ("/environment/add_capabilities", "a container has the rights of its user"),
    ("/environment/drop_capabilities", "a container has the rights of its user"),
    ("/environment/proxy_ports", "a service has a port: `kind: service` with `port`"),
    ("/environment/ports", "a service has a port: `kind: service` with `port`"),
];

/// Parts of an experiment that are mappings; the first is the whole.
const PARTS: [&str; 7] = [
    "",
    "/hyperparameters",
    "/searcher",
    "/resources",
    "/environment",
    "/reproducibility",
    "/slurm",
];

/// Returns why a field is not converted; `None` if nothing is known of it as a whole.
pub(crate) fn of(at: &str) -> Option<&'static str> {
    REASONS.iter().find(|(field, _)| *field == at).map(|(_, reason)| *reason)
}

/// Returns true for a part of an experiment that is a mapping.
pub(crate) fn is_part(at: &str) -> bool {
    PARTS.contains(&at)
}

/// Returns why a field was not read of which nothing is known.
pub(crate) fn of_unread(at: &str) -> &'static str {
    if is_part(at) { "it is no mapping" } else { "it is no known field of an experiment" }
}
