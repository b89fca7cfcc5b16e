//! Job file under construction: its fields, and their output as YAML. Independent of the script.

use std::fmt::Write as _;

use muster_model::OutputFiles;

/// Role of a job, or the whole job where it has one role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DraftGroup {
    pub(super) name: Option<String>,
    pub(super) nodes: Option<u64>,
    pub(super) min_nodes: Option<u64>,
    pub(super) tasks_per_node: Option<u64>,
    pub(super) tasks: Option<u64>,
    pub(super) gpus: Option<u64>,
    pub(super) gpus_per_task: Option<u64>,
    pub(super) gpu: Option<String>,
    pub(super) cpus: Option<u64>,
    /// Memory per task in MiB.
    pub(super) memory: Option<u64>,
    /// Extra resources per task.
    pub(super) extras: Vec<(String, u64)>,
    /// Partitions of the group, where they differ between groups.
    pub(super) partition: Vec<String>,
    pub(super) constraint: Option<String>,
    pub(super) run: DraftProgram,
}

/// Program of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DraftProgram {
    Text(String),
    Words(Vec<String>),
}

impl Default for DraftProgram {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// Options for Slurm only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlurmDraft {
    pub(super) partition: Vec<String>,
    pub(super) account: Option<String>,
    pub(super) qos: Option<String>,
    pub(super) constraint: Option<String>,
    pub(super) licenses: Vec<String>,
    pub(super) nodelist: Vec<String>,
    pub(super) exclusive: bool,
    pub(super) singleton: bool,
    pub(super) switches: Option<u64>,
    /// Maximum wait for switches in minutes.
    pub(super) switches_wait: Option<u64>,
    pub(super) segment: Option<u64>,
    pub(super) requeue: Option<bool>,
    pub(super) modules: Vec<String>,
    pub(super) conda: Option<String>,
    pub(super) venv: Option<String>,
    pub(super) container: Option<String>,
    pub(super) container_mounts: Vec<String>,
    pub(super) setup: Option<String>,
    pub(super) options: Vec<String>,
}

/// Service that `muster export slurm` wrote as an array of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DraftService {
    pub(super) replicas: u64,
    pub(super) port: Option<u64>,
}

/// Checkpoint request before the time limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DraftCheckpoint {
    pub(super) signal: String,
    /// Time before the limit, in seconds.
    pub(super) lead_secs: u64,
    /// Set when the job is requeued after the checkpoint.
    pub(super) then_requeue: bool,
    /// Set when each rank saves, not the first alone.
    pub(super) by_all: bool,
    /// Processes that get the signal, where not the default.
    pub(super) to: Option<String>,
}

/// Job file with its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ImportedJob {
    pub(super) name: String,
    pub(super) service: Option<DraftService>,
    /// Set for a job whose tasks are the nodes of a Ray cluster.
    pub(super) is_ray: bool,
    /// Fields of `ray` that are not the default, with their values as YAML.
    pub(super) ray: Vec<(&'static str, String)>,
    pub(super) groups: Vec<DraftGroup>,
    /// Time limit in minutes.
    pub(super) time: Option<u64>,
    pub(super) array: Option<String>,
    pub(super) after: Vec<String>,
    /// Earliest start in seconds after submission.
    pub(super) begin: Option<u64>,
    pub(super) hold: bool,
    pub(super) priority: Option<i64>,
    pub(super) workdir: Option<String>,
    pub(super) files: OutputFiles,
    pub(super) env: Vec<(String, String)>,
    /// Files of secrets, with the variable that each becomes.
    pub(super) secrets: Vec<(String, String)>,
    pub(super) checkpoint: Option<DraftCheckpoint>,
    /// Maximum number of restarts.
    pub(super) restart: Option<u64>,
    pub(super) exclude: Vec<String>,
    pub(super) reservation: Option<String>,
    pub(super) slurm: SlurmDraft,
}

impl ImportedJob {
    /// Formats the job file as YAML.
    pub(super) fn yaml(&self) -> String {
        let mut lines = YamlWriter::default();
        // 1. Name and sizes.
        lines.text("name", &self.name);
        if let Some(service) = &self.service {
            lines.plain("kind", "service");
            lines.shown("replicas", Some(service.replicas));
            lines.shown("port", service.port);
        }
        if self.is_ray {
            lines.plain("kind", "ray");
        }
        if let [group] = self.groups.as_slice() {
            sizes(&mut lines, group);
        }
        // 2. Time, queue and placement.
        lines.shown("time", self.time.map(super::value::minutes));
        lines.optional("array", self.array.as_deref());
        lines.list("after", &self.after);
        lines.shown("begin", self.begin.map(|seconds| format!("+{seconds}s")));
        if self.hold {
            lines.plain("hold", "true");
        }
        lines.shown("priority", self.priority);
        lines.optional("workdir", self.workdir.as_deref());
        lines.optional("output", self.files.output.as_deref());
        lines.optional("error", self.files.error.as_deref());
        if let Some(DraftCheckpoint { signal, lead_secs, then_requeue: takes_turns, by_all, to }) =
            &self.checkpoint
        {
            let then = if *takes_turns { ", then: requeue" } else { "" };
            let by = if *by_all { ", by: all" } else { "" };
            let to = to.as_ref().map_or_else(String::new, |to| format!(", to: {to}"));
            lines.plain(
                "checkpoint",
                &format!("{{signal: {signal}, grace: {lead_secs}s{then}{by}{to}}}"),
            );
        }
        if let Some(max) = self.restart {
            lines.plain("restart", &format!("{{max: {max}}}"));
        }
        lines.list("exclude", &self.exclude);
        lines.optional("reservation", self.reservation.as_deref());
        if !self.env.is_empty() {
            lines.open("env");
            for (name, value) in &self.env {
                lines.text(&scalar(name), value);
            }
            lines.close();
        }
        if !self.secrets.is_empty() {
            lines.open("secrets");
            for (name, file) in &self.secrets {
                lines.text(&scalar(name), file);
            }
            lines.close();
        }
        if !self.ray.is_empty() {
            let terms = self.ray.iter().map(|(name, value)| format!("{name}: {value}"));
            lines.plain("ray", &format!("{{{}}}", terms.collect::<Vec<_>>().join(", ")));
        }
        // 3. Options for Slurm only.
        self.slurm(&mut lines);
        // 4. Programs.
        self.programs(&mut lines);
        lines.text
    }

    /// Writes the program of the job, or groups with theirs.
    fn programs(&self, lines: &mut YamlWriter) {
        // Every task of a Ray job has the program, which is written once.
        if let ([first], _) | ([first, ..], true) = (self.groups.as_slice(), self.is_ray) {
            lines.program(&first.run);
        }
        let groups @ [_, _, ..] = self.groups.as_slice() else { return };
        lines.open("groups");
        for group in groups {
            lines.item();
            lines.optional("name", group.name.as_deref());
            sizes(lines, group);
            if !self.is_ray {
                lines.program(&group.run);
            }
        }
        lines.close();
    }

    fn slurm(&self, lines: &mut YamlWriter) {
        let slurm = &self.slurm;
        if *slurm == SlurmDraft::default() {
            return;
        }
        lines.open("slurm");
        lines.list("partition", &slurm.partition);
        lines.optional("account", slurm.account.as_deref());
        lines.optional("qos", slurm.qos.as_deref());
        lines.optional("constraint", slurm.constraint.as_deref());
        lines.list("licenses", &slurm.licenses);
        lines.list("nodelist", &slurm.nodelist);
        if slurm.exclusive {
            lines.plain("exclusive", "true");
        }
        if slurm.singleton {
            lines.plain("singleton", "true");
        }
        lines.shown("switches", slurm.switches);
        lines.shown("switches-wait", slurm.switches_wait.map(super::value::minutes));
        lines.shown("segment", slurm.segment);
        lines.shown("requeue", slurm.requeue);
        lines.list("modules", &slurm.modules);
        lines.optional("conda", slurm.conda.as_deref());
        lines.optional("venv", slurm.venv.as_deref());
        lines.optional("container", slurm.container.as_deref());
        lines.list("container-mounts", &slurm.container_mounts);
        if let Some(setup) = &slurm.setup {
            lines.block("setup", setup);
        }
        lines.list("options", &slurm.options);
        lines.close();
    }
}

fn sizes(lines: &mut YamlWriter, group: &DraftGroup) {
    lines.shown("nodes", group.nodes);
    lines.shown("min-nodes", group.min_nodes);
    lines.shown("tasks-per-node", group.tasks_per_node);
    lines.shown("tasks", group.tasks);
    lines.shown("gpus", group.gpus);
    lines.shown("gpus-per-task", group.gpus_per_task);
    lines.optional("gpu", group.gpu.as_deref());
    lines.shown("cpus", group.cpus);
    lines.shown("memory", group.memory.map(super::value::memory));
    if !group.extras.is_empty() {
        let extras: Vec<String> =
            group.extras.iter().map(|(name, count)| format!("{}: {count}", scalar(name))).collect();
        lines.plain("extras", &format!("{{{}}}", extras.join(", ")));
    }
    let partitions: Vec<String> = group.partition.iter().map(|name| quoted(name)).collect();
    let partition =
        (!partitions.is_empty()).then(|| format!("partition: [{}]", partitions.join(", ")));
    let constraint = group.constraint.as_ref().map(|text| format!("constraint: {}", quoted(text)));
    let own: Vec<String> = partition.into_iter().chain(constraint).collect();
    if !own.is_empty() {
        lines.plain("slurm", &format!("{{{}}}", own.join(", ")));
    }
}

/// Writer of YAML lines with their depth.
#[derive(Default)]
struct YamlWriter {
    text: String,
    depth: usize,
    /// Set when the next line begins an item of a list.
    is_item: bool,
}

impl YamlWriter {
    fn start(&mut self, name: &str) {
        let mut indent = "  ".repeat(self.depth);
        if std::mem::take(&mut self.is_item) {
            let end = indent.len().saturating_sub(2);
            indent.replace_range(end.., "- ");
        }
        let _ = write!(self.text, "{indent}{name}:");
    }

    fn plain(&mut self, name: &str, value: &str) {
        self.start(name);
        let _ = writeln!(self.text, " {value}");
    }

    fn text(&mut self, name: &str, value: &str) {
        self.plain(name, &scalar(value));
    }

    fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn shown(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.plain(name, &value.to_string());
        }
    }

    fn list(&mut self, name: &str, values: &[String]) {
        match values {
            [] => {}
            [one] => self.text(name, one),
            several => {
                let items: Vec<String> = several.iter().map(|item| scalar(item)).collect();
                self.plain(name, &format!("[{}]", items.join(", ")));
            }
        }
    }

    fn open(&mut self, name: &str) {
        self.start(name);
        self.text.push('\n');
        self.depth += 1;
    }

    fn close(&mut self) {
        // Items of a list are one level deeper than the list itself.
        self.depth = 0;
    }

    fn item(&mut self) {
        (self.depth, self.is_item) = (2, true);
    }

    fn program(&mut self, program: &DraftProgram) {
        match program {
            DraftProgram::Text(text) => self.block("run", text),
            DraftProgram::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                self.plain("run", &format!("[{}]", words.join(", ")));
            }
        }
    }

    /// Writes several lines literally, where YAML allows it.
    fn block(&mut self, name: &str, text: &str) {
        let is_plain = text.ends_with('\n')
            && !text.ends_with("\n\n")
            && !text.starts_with([' ', '\n', '\t'])
            && text.chars().all(|c| {
                c == '\n' || c == '\t' || !c.is_control() && !('\u{80}'..='\u{9f}').contains(&c)
            })
            && !text.contains(['\u{feff}', '\u{2028}', '\u{2029}', '\u{85}'])
            && text.lines().all(|line| line.trim() == "" || !line.starts_with('\t'));
        if !is_plain {
            return self.plain(name, &quoted(text));
        }
        self.plain(name, "|");
        let indent = "  ".repeat(self.depth + 1);
        for line in text.lines() {
            if line.is_empty() {
                self.text.push('\n');
            } else {
                let _ = writeln!(self.text, "{indent}{line}");
            }
        }
    }
}

/// Formats a YAML scalar: plain where that is unambiguous, else in quotes.
pub(super) fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | '='))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "yes" | "no" | "on" | "off" | "null" | "y" | "n" | "inf" | "nan"
        );
    let is_range = text.starts_with(|c: char| c.is_ascii_digit())
        && text.contains('-')
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '%'));
    if is_word || is_range { text.to_owned() } else { quoted(text) }
}

/// Formats text in double quotes, in the syntax that YAML shares with JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
