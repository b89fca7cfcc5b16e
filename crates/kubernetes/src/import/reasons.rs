//! Reasons why fields have no counterpart in a job file, by their names.

/// Field names, the innermost of which decides, and the reason with a replacement where there is one.
const REASONS: &[(&str, &str)] = &[
    (
        "tolerations",
        "a job tolerates the taint of its GPUs' resource only; add others to the exported objects",
    ),
    ("initContainers", "a job has no init containers: do their work at the start of `run`"),
    ("securityContext", "a job runs as the user who submits it; in a container, as the image says"),
    (
        "livenessProbe",
        "a service is ready once its port accepts connections, and is restarted when it ends",
    ),
    ("readinessProbe", "a service is ready once its port accepts connections"),
    ("startupProbe", "a service is ready once its port accepts connections"),
    ("lifecycle", "a job has no hooks: handle SIGTERM in the program, within `grace`"),
    ("ports", "only services have a port"),
    (
        "valueFrom",
        "a variable of a job has a value: whole secrets and config maps are `kubernetes: {env-from: …}`",
    ),
    ("topologySpreadConstraints", "write `nodes`, or `topology: {spread: LEVEL}`"),
    ("nodeName", "nodes can be excluded, not named: select them with `labels`"),
    ("hostPID", "a container of a job has processes of its own"),
    ("hostIPC", "a container of a job has shared memory of its own: `kubernetes: {shm: …}`"),
    ("resourceClaims", "a job requests GPUs by number"),
    (
        "ttlSecondsAfterFinished",
        "Muster keeps ended jobs as its site says; of jobs on Kubernetes a week",
    ),
    ("podFailurePolicy", "`restart` has a number of restarts only"),
    ("successPolicy", "a job has succeeded when all its tasks have"),
    ("volumes", "a job mounts volume claims only: `kubernetes: {volumes: CLAIM:/path}`"),
    ("volumeMounts", "a job mounts volume claims only: `kubernetes: {volumes: CLAIM:/path}`"),
    ("affinity", "write `labels`, `exclude` or `nodes`"),
    (
        "volumeClaimTemplates",
        "a job mounts volume claims that exist: `kubernetes: {volumes: CLAIM:/path}`",
    ),
    ("subGroupPolicy", "write `topology: {required: LEVEL}`, or a group for each part"),
    ("subGroups", "a job starts as a whole: write its roles as `groups`"),
    ("runtimePatches", "put the patch into the runtime, and import both"),
    ("podTemplateOverrides", "put the patch into the runtime, and import both"),
    ("initializer", "load the data at the start of `run`, or with an earlier job: `after: NAME`"),
    ("managedBy", "another controller would make its pods"),
];

/// Reason for the topology rules of other schedulers.
pub(super) const TOPOLOGY: &str =
    "levels of Muster have names of their own: write `topology: {required: LEVEL}`";

/// Reason for a value that the roles of a job do not share.
pub(super) const DIFFERS: &str =
    "it differs from that of the first role, and a job has one for all";

/// Note on the secret of a Ray cluster.
pub(super) const SECRET: &str = "every Ray job has a secret of its own";

/// Reason for the containers of a pod after the first.
pub(super) const CONTAINER: &str =
    "a task is one process: start the programs of other containers from `run`, or as a group";

/// Returns why a field is not converted.
pub(super) fn of(at: &str) -> &'static str {
    let parts = at.rsplit('/');
    let known = |part: &str| REASONS.iter().find(|(name, _)| *name == part).map(|known| known.1);
    parts.into_iter().find_map(known).unwrap_or("a job file has no field for it")
}
