//! Job file under construction: its fields, and their output as YAML. It does not know the objects.

use muster_model::sweep::Sweep;
use muster_model::{AfterCheckpoint, Checkpoint, CheckpointBy, CheckpointTo, signal_name};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use serde_saphyr::{FlowMap, FlowSeq};

use crate::names;

mod sweep;

/// Job file with its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobDraft {
    pub(super) name: String,
    pub(super) service: Option<ServiceDraft>,
    pub(super) is_notebook: bool,
    /// Terms of a Ray cluster, of which each task is a node; its program is that of the first group.
    pub(super) ray: Option<RayDraft>,
    pub(super) groups: Vec<GroupDraft>,
    pub(super) queue: Option<String>,
    /// Time limit in seconds.
    pub(super) time_secs: Option<u64>,
    pub(super) array: Option<String>,
    pub(super) sweep: Option<Sweep>,
    /// Most elements of a sweep that run at once.
    pub(super) max_running: Option<u32>,
    pub(super) after: Vec<String>,
    pub(super) begin: Option<String>,
    pub(super) is_held: bool,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) workdir: Option<String>,
    /// Time between the request to stop a pod and SIGKILL; it includes [`Self::saving_secs`].
    pub(super) grace_secs: Option<u64>,
    /// Time of a pod to save before SIGTERM.
    pub(super) saving_secs: u64,
    /// Highest number of restarts.
    pub(super) restarts: Option<u64>,
    pub(super) labels: Vec<(String, String)>,
    pub(super) exclude: Vec<String>,
    /// Rule and level of the topology.
    pub(super) topology: Option<(&'static str, String)>,
    /// Advance reservation in which it runs.
    pub(super) reservation: Option<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) kubernetes: OptionsDraft,
    /// ConfigMap with the files that the job sends; no field of the job file.
    pub(super) sent_from: Option<String>,
}

/// Replicas of a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ServiceDraft {
    pub(super) guaranteed: u64,
    pub(super) max: u64,
    pub(super) port: Option<u64>,
}

/// Terms of a Ray cluster; `None` means the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RayDraft {
    pub(super) python: Option<String>,
    pub(super) version: Option<String>,
    /// Nodes that the program waits for.
    pub(super) wait: Option<u64>,
    pub(super) object_store_percent: Option<u64>,
    pub(super) dashboard: Option<bool>,
    /// Head of another cluster, whose nodes the tasks are.
    pub(super) join: Option<String>,
    pub(super) idle_secs: Option<u64>,
    /// Runtime environment in Ray's own terms.
    pub(super) runtime_env: Option<Value>,
}

/// Role of a job, or the whole job where it has one role.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GroupDraft {
    pub(super) name: String,
    pub(super) pods: u64,
    /// Pods that it may grow to; `None` for a fixed number.
    pub(super) most_pods: Option<u64>,
    /// True if each pod is on a node of its own.
    pub(super) is_spread: bool,
    pub(super) tasks_per_pod: u64,
    pub(super) task: TaskDraft,
}

/// A task: resources and program.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskDraft {
    pub(super) gpus: u64,
    pub(super) cpus_milli: u64,
    pub(super) memory_bytes: u64,
    pub(super) extras: Vec<(String, u64)>,
    pub(super) run: ProgramDraft,
}

/// Program of a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ProgramDraft {
    Text(String),
    Words(Vec<String>),
}

impl Default for ProgramDraft {
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

/// Options for Kubernetes only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OptionsDraft {
    pub(super) image: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) service_account: Option<String>,
    pub(super) pull_secrets: Vec<String>,
    pub(super) volumes: Vec<String>,
    pub(super) send: Option<String>,
    pub(super) git: Option<GitDraft>,
    pub(super) env_from: Vec<String>,
    pub(super) shm_bytes: Option<u64>,
    pub(super) gpu_resource: Option<String>,
    pub(super) is_host_network: bool,
    pub(super) priority_class: Option<String>,
    pub(super) runtime_class: Option<String>,
    pub(super) annotations: Vec<(String, String)>,
}

/// Git repository that a job names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GitDraft {
    pub(super) url: String,
    pub(super) reference: Option<String>,
    pub(super) image: Option<String>,
    pub(super) secret: Option<String>,
}

impl JobDraft {
    /// Returns the time between SIGTERM and SIGKILL in seconds; `None` for the default.
    fn grace(&self) -> Option<u64> {
        // The default of Kubernetes as well.
        const DEFAULT: u64 = 30;
        let secs = self.grace_secs?.saturating_sub(self.saving_secs);
        (secs != DEFAULT).then_some(secs)
    }

    /// Returns the number of pods that start together; of a service, those of a replica.
    pub(super) fn pods(&self) -> u64 {
        self.groups.iter().map(|group| group.pods).sum()
    }

    /// Returns the number of GPUs of these pods.
    pub(super) fn gpus(&self) -> u64 {
        let groups = self.groups.iter();
        groups.map(|group| group.pods * group.tasks_per_pod * group.task.gpus).sum()
    }

    /// Returns the job file as YAML.
    pub(super) fn yaml(&self) -> String {
        // Long lines of a program stay as they are.
        let options = serde_saphyr::ser_options! { folded_wrap_chars: MAX_LINE };
        let text = serde_saphyr::to_string_with_options(&self.fields(), options)
            .expect("texts and numbers are valid YAML");
        format!("{}\n", text.trim_end())
    }

    fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        fields.text("name", Some(&self.name));
        if let Some(service) = &self.service {
            fields.text("kind", Some("service"));
            let replicas = if service.guaranteed == service.max {
                service.max.into()
            } else {
                format!("{}..{}", service.guaranteed, service.max).into()
            };
            fields.value("replicas", Some(replicas));
            fields.value("port", service.port.map(Value::from));
        }
        if let Some(sweep) = &self.sweep {
            sweep::add(&mut fields, sweep);
        }
        fields.value("max-running", self.max_running.map(Value::from));
        fields.text("kind", self.is_notebook.then_some("notebook"));
        fields.text("kind", self.ray.as_ref().map(|_| "ray"));
        fields.text("queue", self.queue.as_deref());
        if let [group] = &self.groups[..] {
            group.sizes(&mut fields);
        }
        fields.text("time", self.time_secs.map(seconds).as_deref());
        fields.text("array", self.array.as_deref());
        fields.list("after", &self.after);
        fields.text("begin", self.begin.as_deref());
        fields.value("hold", self.is_held.then(|| true.into()));
        fields.value("checkpoint", self.checkpoint.map(checkpoint));
        fields.text("grace", self.grace().map(seconds).as_deref());
        fields.value("restart", self.restarts.map(Value::from));
        fields.map("labels", &self.labels);
        fields.list("exclude", &self.exclude);
        if let Some((rule, level)) = &self.topology {
            fields.map("topology", &[((*rule).to_owned(), level.clone())]);
        }
        fields.text("reservation", self.reservation.as_deref());
        fields.text("workdir", self.workdir.as_deref());
        fields.map("env", &self.env);
        if let ([first], _) | ([first, ..], Some(_)) = (&self.groups[..], &self.ray) {
            // A Ray cluster may have no program of its own.
            let has_none = self.ray.is_some() && first.task.run == ProgramDraft::default();
            if !has_none {
                first.task.program(&mut fields);
            }
        }
        if let groups @ [_, _, ..] = &self.groups[..] {
            let groups = groups.iter().map(|group| {
                let mut fields = Fields::default();
                fields.text("name", Some(&group.name));
                group.sizes(&mut fields);
                if self.ray.is_none() {
                    group.task.program(&mut fields);
                }
                fields
            });
            fields.0.push(("groups".to_owned(), Entry::Groups(groups.collect())));
        }
        let ray = self.ray.as_ref().map(RayDraft::fields).unwrap_or_default();
        if !ray.0.is_empty() {
            fields.0.push(("ray".to_owned(), Entry::Fields(ray)));
        }
        let options = self.kubernetes.fields();
        if !options.0.is_empty() {
            fields.0.push(("kubernetes".to_owned(), Entry::Fields(options)));
        }
        fields
    }
}

impl GroupDraft {
    /// Adds the fields of the size: nodes where pods are on nodes of their own, else tasks.
    fn sizes(&self, fields: &mut Fields) {
        let gpus = |count: u64| (count > 0).then(|| Value::from(count));
        let pods: Value = match self.most_pods.filter(|most| *most > self.pods) {
            Some(most) => format!("{}..{most}", self.pods).into(),
            None => self.pods.into(),
        };
        if self.is_spread || self.tasks_per_pod > 1 {
            fields.value("nodes", Some(pods));
            fields.value(
                "tasks-per-node",
                (self.tasks_per_pod > 1).then(|| self.tasks_per_pod.into()),
            );
            fields.value("gpus", gpus(self.task.gpus * self.tasks_per_pod));
        } else if pods == 1 {
            fields.value("gpus", gpus(self.task.gpus));
        } else {
            fields.value("tasks", Some(pods));
            fields.value("gpus-per-task", gpus(self.task.gpus));
        }
        let cpus = match self.task.cpus_milli {
            0 => None,
            milli if milli % 1000 == 0 => Some((milli / 1000).into()),
            milli => Some(format!("{milli}m").into()),
        };
        fields.value("cpus", cpus);
        fields.value("memory", (self.task.memory_bytes > 0).then(|| bytes(self.task.memory_bytes)));
        let extras: Vec<(String, Value)> =
            self.task.extras.iter().map(|(name, count)| (name.clone(), (*count).into())).collect();
        if !extras.is_empty() {
            fields.0.push(("extras".to_owned(), Entry::Map(extras)));
        }
    }
}

impl RayDraft {
    fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        fields.text("python", self.python.as_deref());
        fields.text("version", self.version.as_deref());
        fields.value("wait", self.wait.map(Value::from));
        fields.value("object-store-percent", self.object_store_percent.map(Value::from));
        fields.value("dashboard", self.dashboard.map(Value::from));
        fields.text("join", self.join.as_deref());
        fields.text("idle", self.idle_secs.map(seconds).as_deref());
        fields.value("runtime-env", self.runtime_env.clone());
        fields
    }
}

impl TaskDraft {
    fn program(&self, fields: &mut Fields) {
        match &self.run {
            ProgramDraft::Text(text) => fields.text("run", Some(text)),
            ProgramDraft::Words(words) => {
                fields.0.push(("run".to_owned(), Entry::List(words.clone())));
            }
        }
    }
}

impl OptionsDraft {
    fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        fields.text("image", self.image.as_deref());
        fields.text("namespace", self.namespace.as_deref());
        fields.text("service-account", self.service_account.as_deref());
        fields.list("pull-secrets", &self.pull_secrets);
        fields.list("volumes", &self.volumes);
        fields.text("send", self.send.as_deref());
        if let Some(git) = &self.git {
            fields.0.push(("git".to_owned(), Entry::Fields(git.fields())));
        }
        fields.list("env-from", &self.env_from);
        fields.value("shm", self.shm_bytes.map(bytes));
        fields.text("gpu-resource", self.gpu_resource.as_deref());
        fields.value("host-network", self.is_host_network.then(|| true.into()));
        fields.text("priority-class", self.priority_class.as_deref());
        fields.text("runtime-class", self.runtime_class.as_deref());
        fields.map("annotations", &self.annotations);
        fields
    }
}

impl GitDraft {
    fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        fields.text("url", Some(&self.url));
        fields.text("ref", self.reference.as_deref());
        fields.text("image", self.image.as_deref());
        fields.text("secret", self.secret.as_deref());
        fields
    }
}

/// Fields in the order in which they are written.
#[derive(Default)]
struct Fields(Vec<(String, Entry)>);

enum Entry {
    Value(Value),
    List(Vec<String>),
    Map(Vec<(String, Value)>),
    Fields(Fields),
    Groups(Vec<Fields>),
}

impl Fields {
    fn value(&mut self, name: &str, value: Option<Value>) {
        self.0.extend(value.map(|value| (name.to_owned(), Entry::Value(value))));
    }

    fn text(&mut self, name: &str, text: Option<&str>) {
        self.value(name, text.map(Value::from));
    }

    fn list(&mut self, name: &str, items: &[String]) {
        match items {
            [] => {}
            [one] => self.text(name, Some(one)),
            items => self.0.push((name.to_owned(), Entry::List(items.to_vec()))),
        }
    }

    fn map(&mut self, name: &str, entries: &[(String, String)]) {
        if !entries.is_empty() {
            let entries = entries.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
            self.0.push((name.to_owned(), Entry::Map(entries.collect())));
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, entry) in &self.0 {
            map.serialize_entry(name, entry)?;
        }
        map.end()
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Entry::Value(value) => value.serialize(serializer),
            Entry::List(items) => FlowSeq(items).serialize(serializer),
            Entry::Map(entries) if entries.len() == 1 => {
                FlowMap(Entries(entries)).serialize(serializer)
            }
            Entry::Map(entries) => Entries(entries).serialize(serializer),
            Entry::Fields(fields) => fields.serialize(serializer),
            Entry::Groups(groups) => groups.serialize(serializer),
        }
    }
}

struct Entries<'a>(&'a [(String, Value)]);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// Returns a time in the largest unit that divides it.
fn seconds(secs: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    let unit = units.iter().find(|(size, _)| secs > 0 && secs.is_multiple_of(*size));
    unit.map_or_else(|| format!("{secs}s"), |(size, name)| format!("{}{name}", secs / size))
}

/// Returns the settings of checkpoints; defaults are left out.
fn checkpoint(checkpoint: Checkpoint) -> Value {
    let signal = signal_name(checkpoint.signal);
    let mut fields = json!({"grace": seconds(checkpoint.lead.0.div_ceil(1000))});
    let mut set = |name: &str, value: &str| fields[name] = value.into();
    if signal != "SIGUSR1" {
        set("signal", signal.strip_prefix("SIG").unwrap_or(&signal));
    }
    if checkpoint.by == CheckpointBy::All {
        set("by", "all");
    }
    match checkpoint.to {
        CheckpointTo::Handlers => {}
        CheckpointTo::Outermost => set("to", "outermost"),
        CheckpointTo::All => set("to", "all"),
    }
    match checkpoint.then {
        AfterCheckpoint::Continue => {}
        AfterCheckpoint::Stop => set("then", "stop"),
        AfterCheckpoint::Requeue => set("then", "requeue"),
    }
    fields
}

/// Returns a size in the largest unit that divides it: decimal ones as people write them, else binary.
fn bytes(bytes: u64) -> Value {
    let units = [
        (1 << 40, "TiB"),
        (1_000_000_000_000, "TB"),
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1000, "KB"),
    ];
    let unit = units.iter().find(|(size, _)| bytes > 0 && bytes.is_multiple_of(*size));
    unit.map_or_else(|| format!("{bytes}B"), |(size, name)| format!("{}{name}", bytes / size))
        .into()
}

/// Longest line that is not folded, in characters.
const MAX_LINE: usize = 1 << 20;

/// Longest name of a job.
const NAME_CHARACTERS: usize = 64;

/// Returns a name as a job may have it.
pub(super) fn job_name(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String =
        text.chars().map(|c| if allowed(c) { c } else { '-' }).take(NAME_CHARACTERS).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { names::SCHEDULER.to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_lose_nothing() {
        for (secs, expected) in
            [(90, "90s"), (7200, "2h"), (86_400, "1d"), (5400, "90m"), (0, "0s")]
        {
            assert_eq!(seconds(secs), expected);
        }
        for (count, expected) in [
            (64_000_000_000, "64GB"),
            (64 << 30, "64GiB"),
            (1_048_577, "1048577B"),
            (1 << 40, "1TiB"),
        ] {
            assert_eq!(bytes(count), expected);
        }
    }

    #[test]
    fn a_job_file_reads_like_one_that_a_person_wrote() {
        let task = TaskDraft {
            gpus: 8,
            run: ProgramDraft::Text("set -e\ntorchrun train.py\n".to_owned()),
            ..TaskDraft::default()
        };
        let group = GroupDraft {
            name: "main".to_owned(),
            pods: 2,
            most_pods: None,
            is_spread: true,
            tasks_per_pod: 1,
            task,
        };
        let job = JobDraft {
            name: "train".to_owned(),
            groups: vec![group],
            time_secs: Some(43_200),
            env: vec![("A".to_owned(), "1".to_owned())],
            kubernetes: OptionsDraft { image: Some("a/b:1".to_owned()), ..OptionsDraft::default() },
            ..JobDraft::default()
        };
        let expected = "name: train\nnodes: 2\ngpus: 8\ntime: 12h\nenv: {A: \"1\"}\nrun: |\n  set -e\n  torchrun train.py\nkubernetes:\n  image: a/b:1\n";
        assert_eq!(job.yaml(), expected);
    }
}
