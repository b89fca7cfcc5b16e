//! What a job asks of Slurm, as options of sbatch (sbatch(1)), in the order in which people write
//! them.

use muster_model::job::{AfterCheckpoint, Dependency, DependencyKind, Protection};
use muster_model::slurm::{GroupOptions, SlurmOptions};
use muster_model::{JobSpec, Kind, Span, Topology, TopologyRule};

use super::shape::{Component, components};
use super::{Source, listener, output, quote, saving};

/// `KillWait` of slurm.conf where a site sets none.
const KILL_WAIT: Span = Span::from_secs(30);

/// Waits before a restart that nobody wrote: of tasks and of services (docs/jobs.md).
const BACKOFFS: [Span; 2] = [Span::from_secs(10), Span::from_secs(1)];

/// Names of signals as sbatch takes them; others go by number.
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

/// An option of sbatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Long name; empty for an option of the user's own, and for what begins the next component.
    pub name: &'static str,
    /// Its value; empty for a flag.
    pub value: String,
}

impl Directive {
    pub(super) fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into() }
    }

    /// As a line of a script.
    pub(super) fn line(&self) -> String {
        match (self.name, self.value.as_str()) {
            ("", own) => format!("#SBATCH {own}\n"),
            (name, "") => format!("#SBATCH --{name}\n"),
            (name, value) => format!("#SBATCH --{name}={}\n", directive_value(value)),
        }
    }
}

/// sbatch splits directives at blanks and takes quotes away.
fn directive_value(value: &str) -> String {
    match value.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '#' | '\\' | '"')) {
        false => value.to_owned(),
        true => format!("\"{}\"", value.replace('\\', r"\\").replace('"', "\\\"")),
    }
}

/// Something that Slurm cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// What, one fragment.
    pub what: String,
    /// What would do.
    pub hint: String,
}

impl Unfit {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

/// What is asked for.
pub(super) struct Request {
    pub(super) directives: Vec<Directive>,
    pub(super) roles: Vec<Component>,
    pub(super) warnings: Vec<String>,
}

/// All of it.
pub(super) fn request(source: &Source<'_>) -> Result<Request, Vec<Unfit>> {
    let (spec, slurm) = (source.spec, source.slurm);
    let (mut warnings, mut unfit) = (Vec::new(), Vec::new());
    // 1. What Slurm cannot do, or does otherwise.
    kinds(spec, &mut warnings, &mut unfit);
    let needs_requeue = [
        (spec.restart.on_failure, "`restart`"),
        (saving::takes_turns(source), "`checkpoint: {then: requeue}`"),
    ];
    for (_, what) in
        needs_requeue.iter().filter(|(needs, _)| *needs && slurm.requeue == Some(false))
    {
        unfit.push(Unfit::new(
            format!(
                "{what} with `slurm: {{requeue: false}}`: what may not be queued again cannot start again"
            ),
            "leave one of them out",
        ));
    }
    differences(spec, &mut warnings);
    variables(source, &mut unfit);
    if let (None, Some(folders)) = (&source.kept, output::folders(source.files)) {
        warnings.push(format!(
            "{folders} must be there before sbatch, which makes no folder for the output"
        ));
    }
    // 2. What is one for the whole job.
    let mut directives = identity(source);
    whose(spec, slurm, &mut directives);
    when(source, &mut directives);
    ending(source, &mut directives);
    // 3. Its sizes: of each component after the first, on lines of its own.
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
        // What one label says wrong is said once.
        let unfit = if index == 0 { &mut unfit } else { &mut Vec::new() };
        directives.extend(where_to(spec, slurm, &component.own, unfit));
        directives.extend(shared.iter().cloned());
    }
    match unfit.is_empty() {
        true => Ok(Request { directives, roles, warnings }),
        false => Err(unfit),
    }
}

fn roles_tasks(component: &Component) -> u32 {
    component.roles.iter().map(|role| role.tasks).sum()
}

/// A service would end at its limit; what nobody enforces is said.
fn kinds(spec: &JobSpec, warnings: &mut Vec<String>, unfit: &mut Vec<Unfit>) {
    match (&spec.kind, spec.time_limit) {
        (Kind::Task, _) => {}
        (Kind::Service(_), None) => unfit.push(Unfit::new(
            "a service: Slurm runs jobs that end, and neither keeps a service up nor gives it an address",
            "with `time: 24h` it is taken as an array of replicas that all end after that; `muster advise` says what suits a service",
        )),
        (Kind::Service(service), Some(limit)) => {
            let replicas = service.replicas;
            let each = match replicas.floor {
                0 | 1 => "its replica ends".to_owned(),
                floor => format!("each of {floor} replicas ends"),
            };
            warnings.push(format!(
                "Slurm does not keep a service up: {each} for good after {limit}, at the latest, or when its program ends"
            ));
            if replicas.ceiling > replicas.floor {
                warnings.push("replicas above the floor are not started: Slurm has no tier for what is idle".to_owned());
            }
        }
        (Kind::Notebook(notebook), _) => {
            if let Some(idle) = notebook.idle {
                warnings.push(format!("nobody stops it when it has been idle for {idle}; it ends at its time limit"));
            }
        }
    }
}

fn differences(spec: &JobSpec, warnings: &mut Vec<String>) {
    if spec.priority > 0 {
        warnings.push(
            "`priority` above 0 is not handed on: in Slurm only operators raise one; below 0 it is `--nice`"
                .to_owned(),
        );
    }
    if spec.time_limit.is_none() && matches!(spec.kind, Kind::Task) {
        warnings.push(
            "without `time` the partition's default limit counts; backfill needs a short one"
                .to_owned(),
        );
    }
    if spec.grace > KILL_WAIT {
        warnings.push(format!(
            "`grace: {}` is not handed on: between SIGTERM and SIGKILL Slurm leaves its KillWait, usually 30s",
            spec.grace
        ));
    }
    if let Some(limit) = spec.time_limit.filter(|limit| limit.0 % 60_000 != 0) {
        warnings
            .push(format!("Slurm counts minutes: its limit is {}, not {limit}", minutes(limit)));
    }
    if spec.restart.on_failure && !BACKOFFS.contains(&spec.restart.backoff) {
        warnings.push(format!(
            "`backoff: {}` is not handed on: Slurm waits for `cred_expire` before it starts a job again, 2m where a site sets none",
            spec.restart.backoff
        ));
    }
    if spec.protect != Protection::None {
        warnings.push(
            "`protect` is not handed on: whom Slurm makes go is for its QOS and partitions; `slurm: {qos: …}` names one".to_owned(),
        );
    }
    if spec.checkpoint.is_some_and(|checkpoint| checkpoint.then == AfterCheckpoint::Stop) {
        warnings.push(
            "`checkpoint: {then: stop}` is not handed on: a job that has saved goes on to its limit; a script cannot end as timed out"
                .to_owned(),
        );
    }
    if spec.restart.always {
        warnings.push(
            "`restart: always` is not handed on: Slurm starts nothing again that ended well"
                .to_owned(),
        );
    }
}

/// The shell exports them: not every name will do.
fn variables(source: &Source<'_>, unfit: &mut Vec<Unfit>) {
    for name in source.env.keys().filter(|name| !quote::is_variable(name)) {
        unfit.push(Unfit::new(
            format!(
                "the variable `{}` of `env`: no shell can export that name",
                name.escape_debug()
            ),
            "use letters, digits and `_`",
        ));
    }
}

/// Who it is, and where its output goes.
fn identity(source: &Source<'_>) -> Vec<Directive> {
    let mut directives = vec![Directive::new("job-name", source.spec.name.as_ref())];
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    if let Some(kept) = &source.kept {
        set("comment", format!("muster:{}", kept.id));
    }
    if let Some(workdir) = source.workdir {
        set("chdir", workdir.to_owned());
    }
    match &source.kept {
        Some(kept) => {
            let file = if elements(source.spec).is_some() { "%A_%a" } else { "%j" };
            set("output", format!("{}/batch-{file}.log", kept.dir.replace('%', "%%")));
            set("open-mode", "append".to_owned());
            set("export", "ALL".to_owned());
        }
        None => {
            let named = output::directives(source.files);
            // A start after the first must not take away what the first has written.
            if named.is_empty() && (source.spec.restart.on_failure || saving::takes_turns(source)) {
                set("open-mode", "append".to_owned());
            }
            directives.extend(named);
        }
    }
    directives
}

/// `0-199%32`; of a service its replicas.
fn elements(spec: &JobSpec) -> Option<String> {
    if let Kind::Service(service) = &spec.kind {
        return Some(format!("0-{}", service.replicas.floor.max(1) - 1));
    }
    Some(spec.array.as_ref()?.to_string())
}

/// Whose it is, and before whom.
fn whose(spec: &JobSpec, slurm: &SlurmOptions, directives: &mut Vec<Directive>) {
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    // As said to Slurm, else the last component of the queue.
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

/// Where a component waits: as is said of it alone, else as the job says.
fn where_to(
    spec: &JobSpec,
    slurm: &SlurmOptions,
    own: &GroupOptions,
    unfit: &mut Vec<Unfit>,
) -> Vec<Directive> {
    let mut directives = Vec::new();
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    // Labels that Slurm's inventory has.
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
            other => unfit.push(Unfit::new(
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

/// What every component of a heterogeneous job asks for.
fn resources(spec: &JobSpec, slurm: &SlurmOptions) -> Vec<Directive> {
    let mut directives = Vec::new();
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    if let Some(window) = &spec.constraint.window {
        set("reservation", window.to_string());
    }
    if !slurm.licenses.is_empty() {
        set("licenses", slurm.licenses.join(","));
    }
    directives
}

/// When it may start, and how often.
fn when(source: &Source<'_>, directives: &mut Vec<Directive>) {
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
    let kind = match one.kind {
        DependencyKind::After => "after",
        DependencyKind::AfterAny => "afterany",
        DependencyKind::AfterOk => "afterok",
        DependencyKind::AfterNotOk => "afternotok",
    };
    format!("{kind}:{}", one.job)
}

/// `1-12:00:00`, rounded up to the minutes that Slurm counts in.
fn minutes(limit: Span) -> String {
    let minutes = limit.0.div_ceil(60_000);
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:00"),
        days => format!("{days}-{hours:02}:{minutes:02}:00"),
    }
}

/// What happens before its limit and after a failure that is not its own.
fn ending(source: &Source<'_>, directives: &mut Vec<Directive>) {
    let (spec, slurm) = (source.spec, source.slurm);
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    if let Some(checkpoint) = &spec.checkpoint {
        // The listeners of the ranks are told, and the script itself where something follows the
        // answer.
        let who = if saving::takes_turns(source) { "B:USR1" } else { listener::WAKE };
        set("signal", format!("{who}@{}", checkpoint.lead.0.div_ceil(1000)));
    }
    let comes_again = spec.restart.on_failure || saving::takes_turns(source);
    let is_requeued = slurm.requeue.or(comes_again.then_some(true));
    match is_requeued {
        Some(true) => set("requeue", String::new()),
        Some(false) => set("no-requeue", String::new()),
        None => {}
    }
}

/// Which nodes.
fn placing(spec: &JobSpec, slurm: &SlurmOptions, unfit: &mut Vec<Unfit>) -> Vec<Directive> {
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
        // The longest wait that sbatch can write down: the cluster's max_switch_wait still ends it,
        // which `explain` says.
        (None, Some(TopologyRule::Required(level))) if level.as_ref() != Topology::NODE => {
            set("switches", "1@365-00:00:00".to_owned());
        }
        (None, Some(TopologyRule::Spread(level))) => unfit.push(Unfit::new(
            format!("`topology: {{spread: {level}}}`: Slurm spreads over nodes only"),
            "leave it out, or write `slurm: {options: [--spread-job]}`",
        )),
        // topology/tree takes as few leaf switches as it can by itself.
        _ => {}
    }
    if let Some(nodes) = slurm.segment_nodes {
        set("segment", nodes.to_string());
    } else if spec.constraint.topology.as_ref().is_some_and(|topology| topology.segment.is_some()) {
        unfit.push(Unfit::new(
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

/// `--name=value`, with the value in quotes where sbatch would split it.
fn own_option(option: &str) -> String {
    match option.split_once('=') {
        Some((name, value)) => format!("{name}={}", directive_value(value)),
        None => option.to_owned(),
    }
}
