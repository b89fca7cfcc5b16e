//! The job file that is being made: its fields, and how they stand in YAML. It decides nothing
//! about a script.

use std::fmt::Write as _;

use muster_model::OutputFiles;

/// One role, or the whole job where it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: Option<String>,
    pub(super) nodes: Option<u64>,
    pub(super) min_nodes: Option<u64>,
    pub(super) tasks_per_node: Option<u64>,
    pub(super) tasks: Option<u64>,
    pub(super) gpus: Option<u64>,
    pub(super) gpus_per_task: Option<u64>,
    pub(super) gpu: Option<String>,
    pub(super) cpus: Option<u64>,
    /// MiB of each task.
    pub(super) memory: Option<u64>,
    /// Of each task.
    pub(super) extras: Vec<(String, u64)>,
    /// Where it waits, where the groups differ in that.
    pub(super) partition: Vec<String>,
    pub(super) constraint: Option<String>,
    pub(super) run: Program,
}

/// What a role runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Text(String),
    Words(Vec<String>),
}

impl Default for Program {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// What is said to Slurm alone.
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
    /// Minutes.
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

/// A service that `muster export slurm` wrote as an array of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) replicas: u64,
    pub(super) port: Option<u64>,
}

/// It is asked to save before its limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) signal: String,
    /// Seconds before the limit.
    pub(super) lead_secs: u64,
    /// Once it has saved it goes back into the queue.
    pub(super) takes_turns: bool,
    /// Each rank saves, not the first alone.
    pub(super) by_all: bool,
    /// Which processes get the signal, where that is not as usual.
    pub(super) to: Option<String>,
}

/// A job file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) service: Option<Service>,
    pub(super) groups: Vec<Group>,
    /// Minutes.
    pub(super) time: Option<u64>,
    pub(super) array: Option<String>,
    pub(super) after: Vec<String>,
    /// Seconds after submission.
    pub(super) begin: Option<u64>,
    pub(super) hold: bool,
    pub(super) priority: Option<i64>,
    pub(super) workdir: Option<String>,
    pub(super) files: OutputFiles,
    pub(super) env: Vec<(String, String)>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Restarts at most.
    pub(super) restart: Option<u64>,
    pub(super) exclude: Vec<String>,
    pub(super) reservation: Option<String>,
    pub(super) slurm: SlurmDraft,
}

impl Draft {
    /// As YAML.
    pub(super) fn yaml(&self) -> String {
        let mut lines = Lines::default();
        // 1. What it is, and how large.
        lines.text("name", &self.name);
        if let Some(service) = &self.service {
            lines.plain("kind", "service");
            lines.shown("replicas", Some(service.replicas));
            lines.shown("port", service.port);
        }
        if let [group] = self.groups.as_slice() {
            sizes(&mut lines, group);
        }
        // 2. When and where it runs.
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
        if let Some(Checkpoint { signal, lead_secs, takes_turns, by_all, to }) = &self.checkpoint {
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
        // 3. What Slurm alone has words for.
        self.slurm(&mut lines);
        // 4. What it runs.
        match self.groups.as_slice() {
            [group] => lines.program(&group.run),
            groups => {
                lines.open("groups");
                for group in groups {
                    lines.item();
                    lines.optional("name", group.name.as_deref());
                    sizes(&mut lines, group);
                    lines.program(&group.run);
                }
                lines.close();
            }
        }
        lines.text
    }

    fn slurm(&self, lines: &mut Lines) {
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

fn sizes(lines: &mut Lines, group: &Group) {
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

/// Lines of YAML with their depth.
#[derive(Default)]
struct Lines {
    text: String,
    depth: usize,
    /// The next line begins an item of a list.
    is_item: bool,
}

impl Lines {
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
        // Items of a list lie one deeper than the list itself.
        self.depth = 0;
    }

    fn item(&mut self) {
        (self.depth, self.is_item) = (2, true);
    }

    fn program(&mut self, program: &Program) {
        match program {
            Program::Text(text) => self.block("run", text),
            Program::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                self.plain("run", &format!("[{}]", words.join(", ")));
            }
        }
    }

    /// Several lines as they are, where YAML can have them so.
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
            match line.is_empty() {
                true => self.text.push('\n'),
                false => {
                    let _ = writeln!(self.text, "{indent}{line}");
                }
            }
        }
    }
}

/// A value as a YAML scalar: plain where nobody can take it for another thing, else in quotes.
fn scalar(text: &str) -> String {
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

/// In double quotes, which YAML has in common with JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
