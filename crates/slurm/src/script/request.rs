//! Options of sbatch for a job (sbatch(1)), in the usual order.

use muster_model::job::{AfterCheckpoint, Dependency, Protection};
use muster_model::slurm::{GroupOptions, SlurmOptions};
use muster_model::{JobSpec, Span, Topology, TopologyRule, Unsupported, WorkloadKind};

use super::directive::{Directive, directive_value};
use super::shape::{Component, components};
use super::{ScriptInput, checkpoint, listener, notices, output, quote};

/// Default of `KillWait` in slurm.conf.
const KILL_WAIT: Span = Span::from_secs(30);

/// Names of signals that sbatch accepts; others are given by number.
pub(super) const SIGNALS: [(i32, &str); 8] = [
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (10, "USR1"),
    (12, "USR2"),
    (15, "TERM"),
    (18, "CONT"),
    (28, "WINCH"),
];

/// Options of a job, with its components.
pub(super) struct SbatchRequest {
    pub(super) directives: Vec<Directive>,
    pub(super) roles: Vec<Component>,
    pub(super) warnings: Vec<String>,
}

/// Converts the whole job.
pub(super) fn request(source: &ScriptInput<'_>) -> Result<SbatchRequest, Vec<Unsupported>> {
    let spec = source.spec;
    let slurm = source.slurm;
    let mut warnings = Vec::new();
    let mut unfit = Vec::new();
    // 1. Collect what Slurm cannot do, or does differently.
    kinds(spec, &mut warnings, &mut unfit);
    let needs_requeue = [
        (spec.restart.on_failure, "`restart`"),
        (checkpoint::has_time_slices(source), "`checkpoint: {then: requeue}`"),
    ];
    for (_, what) in
        needs_requeue.iter().filter(|(needs, _)| *needs && slurm.requeue == Some(false))
    {
        unfit.push(Unsupported::new(
            format!(
                "{what} with `slurm: {{requeue: false}}`: a job that may not be requeued cannot start again"
            ),
            "remove one of them",
        ));
    }
    differences(spec, &mut warnings);
    growth(source, &mut warnings);
    if source.sweep.is_some_and(|sweep| sweep.early_stop.is_some()) {
        warnings.push("no element is stopped early: nothing compares them on Slurm".to_owned());
    }
    variables(source, &mut unfit);
    if let (None, Some(folders)) = (&source.directory, output::folders(source.files)) {
        warnings.push(format!(
            "{folders} must exist before sbatch, which creates no directory for the output"
        ));
    }
    // 2. Options of the whole job.
    let mut directives = identity(source);
    accounting_options(spec, slurm, &mut directives);
    when(source, &mut directives);
    ending(source, &mut directives);
    directives.extend(notices::options(source.notices, &mut warnings));
    // 3. Sizes; components after the first are on their own lines.
    let mut roles = components(spec, slurm, &mut warnings, &mut unfit);
    let mut shared = resources(spec, slurm);
    shared.extend(placing(spec, slurm, &mut unfit));
    shared.extend(slurm.options.iter().map(|option| Directive::new("", own_option(option))));
    for (index, component) in roles.iter_mut().enumerate() {
        if index > 0 {
            directives.push(Directive::new("", "hetjob"));
        }
        if is_on_one_node(spec) && roles_tasks(component) > 1 {
            component.directives.retain(|one| one.name != "nodes");
            component.directives.insert(0, Directive::new("nodes", "1"));
        }
        directives.append(&mut component.directives);
        // A problem with a label is reported once.
        let unfit = if index == 0 { &mut unfit } else { &mut Vec::new() };
        directives.extend(partition_options(spec, slurm, &component.own, unfit));
        directives.extend(shared.iter().cloned());
    }
    if unfit.is_empty() { Ok(SbatchRequest { directives, roles, warnings }) } else { Err(unfit) }
}

fn roles_tasks(component: &Component) -> u32 {
    component.roles.iter().map(|role| role.tasks).sum()
}

/// Checks the kind of the job: a service would end at its limit, and settings that are not enforced
/// cause warnings.
fn kinds(spec: &JobSpec, warnings: &mut Vec<String>, unfit: &mut Vec<Unsupported>) {
    match (&spec.kind, spec.time_limit) {
        (WorkloadKind::Task, _) => {}
        (WorkloadKind::Service(_), None) => unfit.push(Unsupported::new(
            "a service: Slurm neither keeps a service running nor gives it an address",
            "`--on kubernetes` or `--on local` keeps it running; with `time: 24h` it becomes an array of replicas here that all end after that time",
        )),
        (WorkloadKind::Service(service), Some(limit)) => {
            let replicas = service.replicas;
            let each = match replicas.guaranteed {
                0 | 1 => "its replica ends".to_owned(),
                floor => format!("each of {floor} replicas ends"),
            };
            warnings.push(format!(
                "Slurm does not keep a service running: {each} for good when its program ends, or after {limit}"
            ));
            if replicas.max > replicas.guaranteed {
                warnings.push("opportunistic replicas are not started: Slurm has no tier for idle GPUs".to_owned());
            }
        }
        (WorkloadKind::Notebook(notebook), _) => {
            if let Some(idle) = notebook.idle {
                warnings.push(format!("it is not stopped after being idle for {idle}; it ends at its time limit"));
            }
        }
    }
}

/// Warns of a growing Ray cluster in a container, in which there is no `muster` to ask.
fn growth(source: &ScriptInput<'_>, warnings: &mut Vec<String>) {
    let grows = source.commands.values().any(muster_ray::grows);
    if grows && source.directory.is_some() && source.slurm.container.is_some() {
        warnings.push(
            "the Ray cluster keeps its smallest size: it asks for further nodes by `muster`, which the container lacks"
                .to_owned(),
        );
    }
}

fn differences(spec: &JobSpec, warnings: &mut Vec<String>) {
    if spec.priority > 0 {
        warnings.push(
            "`priority` above 0 is ignored: in Slurm only operators can raise a priority; below 0 it becomes `--nice`"
                .to_owned(),
        );
    }
    if spec.time_limit.is_none() && matches!(spec.kind, WorkloadKind::Task) {
        warnings.push(
            "without `time` the partition's default limit applies; backfill needs a short one"
                .to_owned(),
        );
    }
    if spec.grace > KILL_WAIT {
        warnings.push(format!(
            "`grace: {}` is ignored: Slurm waits for its KillWait between SIGTERM and SIGKILL, usually 30s",
            spec.grace
        ));
    }
    if let Some(limit) = spec.time_limit.filter(|limit| limit.0 % 60_000 != 0) {
        warnings.push(format!(
            "Slurm counts whole minutes: the limit is {}, not {limit}",
            minutes(limit)
        ));
    }
    if spec.restart.on_failure && spec.restart.has_own_backoff() {
        warnings.push(format!(
            "`backoff: {}` is ignored: Slurm delays a requeued job by `cred_expire`, 2m by default",
            spec.restart.backoff
        ));
    }
    if spec.protect != Protection::None {
        warnings.push(
            "`protect` is ignored: in Slurm the QOS and partitions decide which jobs can be preempted; `slurm: {qos: …}` sets one".to_owned(),
        );
    }
    if spec.checkpoint.is_some_and(|checkpoint| checkpoint.then == AfterCheckpoint::Stop) {
        warnings.push(
            "`checkpoint: {then: stop}` is ignored: after the checkpoint the job continues to its limit, as a script cannot end as timed out"
                .to_owned(),
        );
    }
    if spec.restart.always {
        warnings.push(
            "`restart: always` is ignored: Slurm does not restart a job that ended well".to_owned(),
        );
    }
}

/// Rejects names that a shell cannot export.
fn variables(source: &ScriptInput<'_>, unfit: &mut Vec<Unsupported>) {
    for name in source.env.keys().filter(|name| !quote::is_variable(name)) {
        unfit.push(Unsupported::new(
            format!(
                "the variable `{}` of `env`: no shell can export that name",
                name.escape_debug()
            ),
            "use letters, digits and `_`",
        ));
    }
}

/// Returns the options for the name and the output.
fn identity(source: &ScriptInput<'_>) -> Vec<Directive> {
    let mut directives = vec![Directive::new("job-name", source.spec.name.as_ref())];
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    if let Some(kept) = &source.directory {
        set("comment", format!("muster:{}", kept.id));
    }
    if let Some(workdir) = source.workdir {
        set("chdir", workdir.to_owned());
    }
    match &source.directory {
        Some(kept) => {
            let file = if elements(source.spec).is_some() { "%A_%a" } else { "%j" };
            set("output", format!("{}/batch-{file}.log", kept.dir.replace('%', "%%")));
            set("open-mode", "append".to_owned());
            set("export", "ALL".to_owned());
        }
        None => {
            let named = output::directives(source.files);
            // A later start must not truncate the output of the first.
            if named.is_empty()
                && (source.spec.restart.on_failure || checkpoint::has_time_slices(source))
            {
                set("open-mode", "append".to_owned());
            }
            directives.extend(named);
        }
    }
    directives
}

/// Returns the array indices, `0-199%32`; of a service its replicas.
fn elements(spec: &JobSpec) -> Option<String> {
    if let WorkloadKind::Service(service) = &spec.kind {
        return Some(format!("0-{}", service.replicas.guaranteed.max(1) - 1));
    }
    Some(spec.array.as_ref()?.to_string())
}

/// Adds account, QOS and priority.
fn accounting_options(spec: &JobSpec, slurm: &SlurmOptions, directives: &mut Vec<Directive>) {
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    // The account for Slurm, else the last component of the queue.
    let queue = spec.queue.as_str();
    let account = slurm.account.as_deref().or_else(|| {
        let last = queue.rsplit('/').next();
        last.filter(|_| queue != "default" && !queue.is_empty())
    });
    if let Some(account) = account {
        set("account", account.to_owned());
    }
    if let Some(qos) = &slurm.qos {
        set("qos", qos.to_string());
    }
    if spec.priority < 0 {
        set("nice", spec.priority.unsigned_abs().to_string());
    }
}

/// Returns the partitions and constraints of a component: its own, else those of the job.
fn partition_options(
    spec: &JobSpec,
    slurm: &SlurmOptions,
    own: &GroupOptions,
    unfit: &mut Vec<Unsupported>,
) -> Vec<Directive> {
    let mut directives = Vec::new();
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    // Labels that an inventory of Slurm has.
    let mut partitions: Vec<&str> = slurm.partitions.iter().map(AsRef::as_ref).collect();
    let mut constraint: Vec<&str> = slurm.constraint.iter().map(AsRef::as_ref).collect();
    if !own.partitions.is_empty() {
        partitions = own.partitions.iter().map(AsRef::as_ref).collect();
    }
    if let Some(own) = &own.constraint {
        constraint = vec![own];
    }
    for (label, value) in &spec.constraint.labels {
        match label.as_ref() {
            "partition" if !own.partitions.is_empty() => {}
            "partition" => partitions.push(value),
            "features" => constraint.extend(value.split(',')),
            other => unfit.push(Unsupported::new(
                format!("the label `{other}`: nodes of Slurm have partitions and features"),
                "write `slurm: {partition: …}` or `slurm: {constraint: …}`",
            )),
        }
    }
    if !partitions.is_empty() {
        set("partition", partitions.join(","));
    }
    if !constraint.is_empty() {
        set("constraint", constraint.join("&"));
    }
    directives
}

/// Returns the resources that every component of a heterogeneous job requests.
fn resources(spec: &JobSpec, slurm: &SlurmOptions) -> Vec<Directive> {
    let mut directives = Vec::new();
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    if let Some(window) = &spec.constraint.advance_reservation {
        set("reservation", window.to_string());
    }
    if !slurm.licenses.is_empty() {
        set("licenses", slurm.licenses.join(","));
    }
    directives
}

/// Adds begin time, dependencies and requeue options.
fn when(source: &ScriptInput<'_>, directives: &mut Vec<Directive>) {
    let spec = source.spec;
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    if let Some(limit) = spec.time_limit {
        set("time", minutes(limit));
    }
    if let Some(elements) = elements(spec) {
        set("array", elements);
    }
    let singleton = source.slurm.singleton.then(|| "singleton".to_owned());
    let after: Vec<String> = spec.after.iter().map(dependency).chain(singleton).collect();
    if !after.is_empty() {
        set("dependency", after.join(","));
        set("kill-on-invalid-dep", "yes".to_owned());
    }
    if let Some(begin) = spec.begin {
        set("begin", format!("now+{}", begin.since(source.now).0.div_ceil(1000)));
    }
    if spec.held {
        set("hold", String::new());
    }
}

fn dependency(one: &Dependency) -> String {
    format!("{}:{}", one.kind.word(), one.job)
}

/// Formats a time limit, rounded up to Slurm's minutes: `1-12:00:00`.
fn minutes(limit: Span) -> String {
    let minutes = limit.0.div_ceil(60_000);
    let days = minutes / 1440;
    let hours = minutes / 60 % 24;
    let minutes = minutes % 60;
    match days {
        0 => format!("{hours:02}:{minutes:02}:00"),
        days => format!("{days}-{hours:02}:{minutes:02}:00"),
    }
}

/// Adds the options for the time before the limit, and for failures other than the program's.
fn ending(source: &ScriptInput<'_>, directives: &mut Vec<Directive>) {
    let spec = source.spec;
    let slurm = source.slurm;
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    if let Some(checkpoint) = &spec.checkpoint {
        // The listeners of the ranks receive the signal, or the script itself where the job is
        // requeued after the checkpoint.
        let who = if checkpoint::has_time_slices(source) { "B:USR1" } else { listener::WAKE };
        set("signal", format!("{who}@{}", checkpoint.lead.0.div_ceil(1000)));
    }
    let comes_again = spec.restart.on_failure || checkpoint::has_time_slices(source);
    let is_requeued = slurm.requeue.or(comes_again.then_some(true));
    match is_requeued {
        Some(true) => set("requeue", String::new()),
        Some(false) => set("no-requeue", String::new()),
        None => {}
    }
}

/// Returns the options for the selection of nodes.
fn placing(spec: &JobSpec, slurm: &SlurmOptions, unfit: &mut Vec<Unsupported>) -> Vec<Directive> {
    let mut directives = Vec::new();
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    if !slurm.nodelist.is_empty() {
        set("nodelist", slurm.nodelist.join(","));
    }
    if !spec.constraint.exclude.is_empty() {
        let names: Vec<&str> = spec.constraint.exclude.iter().map(|node| node.as_str()).collect();
        set("exclude", names.join(","));
    }
    if slurm.exclusive {
        set("exclusive", String::new());
    }
    let rule = spec.constraint.topology.as_ref().map(|topology| &topology.rule);
    match (slurm.switches, rule) {
        (Some(switches), _) => {
            let wait = switches.wait.map_or(String::new(), |wait| format!("@{}", minutes(wait)));
            set("switches", format!("{}{wait}", switches.count));
        }
        // The longest wait that sbatch accepts; the cluster's max_switch_wait still limits it,
        // which `explain` reports.
        (None, Some(TopologyRule::Required(level))) if level.as_ref() != Topology::NODE => {
            set("switches", "1@365-00:00:00".to_owned());
        }
        (None, Some(TopologyRule::Spread(level))) => unfit.push(Unsupported::new(
            format!("`topology: {{spread: {level}}}`: Slurm can spread over nodes only"),
            "remove it, or write `slurm: {options: [--spread-job]}`",
        )),
        // topology/tree uses as few leaf switches as possible by default.
        _ => {}
    }
    if let Some(nodes) = slurm.segment_nodes {
        set("segment", nodes.to_string());
    } else if spec.constraint.topology.as_ref().is_some_and(|topology| topology.segment.is_some()) {
        unfit.push(Unsupported::new(
            "`topology: {segment: …}`: Slurm counts nodes, and only with topology/block",
            "write `slurm: {segment: 4}` for segments of 4 nodes",
        ));
    }
    directives
}

fn is_on_one_node(spec: &JobSpec) -> bool {
    let rule = spec.constraint.topology.as_ref().map(|topology| &topology.rule);
    matches!(rule, Some(TopologyRule::Required(level)) if level.as_ref() == Topology::NODE)
}

/// Formats `--name=value`, with the value in quotes where sbatch would split it.
fn own_option(option: &str) -> String {
    match option.split_once('=') {
        Some((name, value)) => format!("{name}={}", directive_value(value)),
        None => option.to_owned(),
    }
}
