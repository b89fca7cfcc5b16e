//! Evidence about a Slurm cluster, collected from files and from the output of Slurm's commands.
//! Output of the running cluster takes precedence over files; a file that was not given is unknown,
//! not a default. Nothing here judges.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::check::CheckPlace;
use muster_model::hostlist::expand;

use crate::conf::{self, ConfLine, ConfPair};
use crate::source::{CheckSource, SourceKind};

/// Everything known about a cluster.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Names of the sources that were read.
    pub(crate) read: Vec<String>,
    /// Settings of slurm.conf by lower-case key; of a repeated key, the last value applies.
    conf: Option<ConfSettings>,
    /// Settings of the running controller.
    running: Option<ConfSettings>,
    cgroup: Option<ConfSettings>,
    dbd: Option<ConfSettings>,
    /// Included files that were not given.
    pub(crate) missing: Vec<String>,
    /// Every line of the files that Slurm parses, with the kind of the file; slurm.conf with its
    /// includes.
    pub(crate) lines: Vec<(SourceKind, ConfLine)>,
    /// Text in those files that is not a setting.
    pub(crate) not_understood: Vec<(CheckPlace, String)>,
    pub(crate) nodes: Vec<ConfRecord>,
    pub(crate) partitions: Vec<ConfRecord>,
    node_sets: Vec<ConfRecord>,
    /// Lines of gres.conf, if it was given.
    pub(crate) gres: Option<Vec<ConfLine>>,
    /// Lines of topology.conf, if it was given.
    pub(crate) switches: Option<Vec<ConfLine>>,
    /// QOS, each with its fields.
    pub(crate) qos: Option<Vec<ConfRecord>>,
    /// Name and permissions of slurmdbd.conf.
    pub(crate) dbd_mode: Option<(String, u32)>,
    /// Name of this machine, and the driver's names of its GPUs.
    pub(crate) devices: Option<(String, Vec<String>)>,
    /// Names of the nodes of the Kubernetes cluster.
    pub(crate) kubernetes: Option<BTreeSet<String>>,
}

type ConfSettings = BTreeMap<String, Vec<ConfSetting>>;

/// Setting with its source, or its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfSetting {
    pub(crate) key: String,
    /// Empty where Slurm prints `(null)`.
    pub(crate) value: String,
    /// Source of the setting; `None` for a default.
    pub(crate) place: Option<CheckPlace>,
}

/// Node, partition or similar record: fields by lower-case key, with defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfRecord {
    pub(crate) name: String,
    fields: BTreeMap<String, String>,
    pub(crate) place: CheckPlace,
}

impl ConfRecord {
    /// Returns a field; `None` where it is not set.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let value = self.fields.get(&key.to_ascii_lowercase())?;
        (!is_null(value)).then_some(value.as_str())
    }
}

/// Input that would be needed to judge a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingInput(pub(crate) String);

/// Returns the error for a missing input.
pub(crate) fn needs_input<T>(needed: impl Into<String>) -> Result<T, MissingInput> {
    Err(MissingInput(needed.into()))
}

impl Evidence {
    /// Collects the evidence from sources.
    #[must_use]
    pub fn of(sources: &[CheckSource]) -> Self {
        let mut evidence = Self::default();
        for source in sources {
            evidence.read.push(source.name.clone());
            let parsed = || conf::parse(&source.name, &source.text).lines;
            if source.kind.is_file() {
                evidence
                    .not_understood
                    .extend(conf::parse(&source.name, &source.text).not_understood);
            }
            if source.kind.is_file()
                && source.kind != SourceKind::Included
                && source.kind != SourceKind::SlurmConf
            {
                evidence.lines.extend(parsed().into_iter().map(|line| (source.kind, line)));
            }
            match source.kind {
                SourceKind::SlurmConf => evidence.read_conf(source, sources),
                SourceKind::Included => {}
                SourceKind::GresConf => evidence.gres.get_or_insert_default().extend(parsed()),
                SourceKind::TopologyConf => {
                    evidence.switches.get_or_insert_default().extend(parsed())
                }
                SourceKind::CgroupConf => add(evidence.cgroup.get_or_insert_default(), &parsed()),
                SourceKind::SlurmdbdConf => add(evidence.dbd.get_or_insert_default(), &parsed()),
                SourceKind::Config => evidence.read_running(source),
                SourceKind::Partitions | SourceKind::Nodes => {}
                SourceKind::Qos => evidence.qos = Some(table(source)),
            }
        }
        // Output of the running cluster takes precedence, in whatever order it was given.
        for source in sources {
            match source.kind {
                SourceKind::Partitions => evidence.partitions = printed(source, "PartitionName"),
                SourceKind::Nodes => evidence.nodes = printed(source, "NodeName"),
                _ => {}
            }
        }
        evidence
    }

    /// Adds the permissions of slurmdbd.conf, from its inode.
    #[must_use]
    pub fn with_dbd_mode(mut self, name: &str, mode: u32) -> Self {
        self.dbd_mode = Some((name.to_owned(), mode));
        self
    }

    /// Adds the driver's names of the GPUs of this machine.
    #[must_use]
    pub fn with_devices(mut self, host: &str, names: Vec<String>) -> Self {
        self.devices = Some((host.to_owned(), names)).filter(|(_, names)| !names.is_empty());
        self
    }

    /// Adds the names of the nodes of the Kubernetes cluster.
    #[must_use]
    pub fn with_kubernetes(mut self, name: &str, nodes: BTreeSet<String>) -> Self {
        self.read.push(name.to_owned());
        self.kubernetes = Some(nodes);
        self
    }

    /// Reads a slurm.conf with its includes.
    fn read_conf(&mut self, source: &CheckSource, sources: &[CheckSource]) {
        let lines = self.lines_with_includes(source, sources, 0);
        self.lines.extend(lines.iter().cloned().map(|line| (SourceKind::SlurmConf, line)));
        let mut settings = self.conf.take().unwrap_or_default();
        let mut defaults: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
        for line in &lines {
            let kind = line.pairs[0].key.to_ascii_lowercase();
            let list = match kind.as_str() {
                "nodename" => &mut self.nodes,
                "partitionname" => &mut self.partitions,
                "nodeset" => &mut self.node_sets,
                _ => {
                    add(&mut settings, std::slice::from_ref(line));
                    continue;
                }
            };
            let default = match kind.as_str() {
                "nodename" => defaults.entry("node").or_default(),
                "partitionname" => defaults.entry("partition").or_default(),
                _ => defaults.entry("set").or_default(),
            };
            let own = fields(&line.pairs);
            if line.pairs[0].value.eq_ignore_ascii_case("default") {
                default.extend(own);
                continue;
            }
            let fields: BTreeMap<String, String> = default.clone().into_iter().chain(own).collect();
            // Only a node line can define several records.
            let names = match kind.as_str() {
                "nodename" => expand(&line.pairs[0].value).unwrap_or_default(),
                _ => vec![line.pairs[0].value.clone()],
            };
            list.extend(names.into_iter().map(|name| ConfRecord {
                name,
                fields: fields.clone(),
                place: line.place.clone(),
            }));
        }
        self.conf = Some(settings);
    }

    /// Returns the lines of a file, with those of included files in their place. Cyclic includes
    /// end at a fixed depth.
    fn lines_with_includes(
        &mut self,
        source: &CheckSource,
        sources: &[CheckSource],
        depth: usize,
    ) -> Vec<ConfLine> {
        /// Maximum depth of includes. Slurm has no limit; deeper nesting is a cycle.
        const DEPTH: usize = 8;
        let parsed = conf::parse(&source.name, &source.text);
        let mut lines = Vec::new();
        let mut taken = 0;
        for (at, file) in &parsed.includes {
            lines.extend_from_slice(&parsed.lines[taken..*at]);
            taken = *at;
            let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
            let given = sources.iter().find(|other| {
                other.kind == SourceKind::Included && base(&other.name) == base(file)
            });
            match given {
                Some(other) if depth < DEPTH => {
                    lines.extend(self.lines_with_includes(other, sources, depth + 1))
                }
                _ => self.missing.push(file.clone()),
            }
        }
        lines.extend_from_slice(&parsed.lines[taken..]);
        lines
    }

    /// Reads the output of `scontrol show config`: settings, then those of cgroup.conf below their
    /// heading.
    fn read_running(&mut self, source: &CheckSource) {
        let mut is_cgroup = false;
        for line in source.text.lines() {
            if line.starts_with("Cgroup Support Configuration") {
                is_cgroup = true;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let place = CheckPlace { source: source.name.clone(), line: None };
            let key = key.trim().split('[').next().unwrap_or_default().to_owned();
            let value = value.trim();
            let value = if is_null(value) { "" } else { value }.to_owned();
            let settings = if is_cgroup { &mut self.cgroup } else { &mut self.running };
            let said = ConfSetting { key: key.clone(), value, place: Some(place) };
            settings
                .get_or_insert_default()
                .entry(key.to_ascii_lowercase())
                .or_default()
                .push(said);
        }
    }

    /// Returns a setting of slurm.conf, or its default where it is not set; the default `None`
    /// means that it depends on the version.
    pub(crate) fn conf_setting(
        &self,
        key: &str,
        default: Option<&str>,
    ) -> Result<ConfSetting, MissingInput> {
        let lower = key.to_ascii_lowercase();
        let last = |settings: &Option<ConfSettings>| -> Option<ConfSetting> {
            settings.as_ref()?.get(&lower)?.last().cloned()
        };
        let written = last(&self.conf);
        if let Some(mut said) = last(&self.running) {
            // The place in a file is more useful than the output of a command.
            if let Some(written) = written.filter(|written| is_same(&written.value, &said.value)) {
                said.place = written.place;
            }
            return Ok(said);
        }
        match (written, default) {
            (Some(said), _) => Ok(said),
            (None, _) if self.conf.is_none() => {
                needs_input("slurm.conf, or the output of `scontrol show config`")
            }
            (None, _) if !self.missing.is_empty() => {
                needs_input(format!("{}, which slurm.conf includes", self.missing.join(", ")))
            }
            (None, Some(default)) => {
                Ok(ConfSetting { key: key.to_owned(), value: default.to_owned(), place: None })
            }
            (None, None) => needs_input(format!(
                "{key} is not set, and its default depends on the version: the output of `scontrol show config`"
            )),
        }
    }

    /// Returns all values of a setting that may be given several times.
    pub(crate) fn all_conf_settings(&self, key: &str) -> Result<Vec<ConfSetting>, MissingInput> {
        let lower = key.to_ascii_lowercase();
        let of = |settings: &Option<ConfSettings>| {
            settings.as_ref().map(|settings| settings.get(&lower).cloned().unwrap_or_default())
        };
        match of(&self.running).or_else(|| of(&self.conf)) {
            Some(all) => Ok(all),
            None => needs_input("slurm.conf, or the output of `scontrol show config`"),
        }
    }

    /// Returns settings of the files that have this value, whatever their keys.
    pub(crate) fn with_value(&self, value: &str) -> Result<Vec<ConfSetting>, MissingInput> {
        let files: Vec<&ConfSettings> = [&self.conf, &self.dbd].into_iter().flatten().collect();
        if files.is_empty() {
            return needs_input("slurm.conf or slurmdbd.conf");
        }
        Ok(files
            .into_iter()
            .flat_map(|file| file.values().flatten())
            .filter(|said| said.value == value)
            .cloned()
            .collect())
    }

    /// Returns a setting of cgroup.conf.
    pub(crate) fn cgroup(&self, key: &str, default: &str) -> Result<ConfSetting, MissingInput> {
        of_file(
            self.cgroup.as_ref(),
            key,
            default,
            "cgroup.conf, or the output of `scontrol show config`",
        )
    }

    /// Returns a setting of slurmdbd.conf.
    pub(crate) fn dbd(&self, key: &str, default: &str) -> Result<ConfSetting, MissingInput> {
        of_file(self.dbd.as_ref(), key, default, "slurmdbd.conf")
    }

    /// Returns the partitions, of which there is at least one.
    pub(crate) fn partitions(&self) -> Result<&[ConfRecord], MissingInput> {
        match self.partitions.as_slice() {
            [] => needs_input(
                "partitions: slurm.conf with what it includes, or the output of `scontrol show partition -o`",
            ),
            some => Ok(some),
        }
    }

    /// Returns the nodes, of which there is at least one.
    pub(crate) fn nodes(&self) -> Result<&[ConfRecord], MissingInput> {
        match self.nodes.as_slice() {
            [] => needs_input(
                "nodes: slurm.conf with what it includes, or the output of `scontrol show node -o -d`",
            ),
            some => Ok(some),
        }
    }

    /// Returns the nodes with GPUs, of which there is at least one.
    pub(crate) fn gpu_nodes(&self) -> Result<Vec<&ConfRecord>, MissingInput> {
        let found: Vec<&ConfRecord> = self.nodes()?.iter().filter(|node| gpus(node) > 0).collect();
        if found.is_empty() { needs_input("a node with GPUs (Gres=gpu:...)") } else { Ok(found) }
    }

    /// Returns the names of the nodes of a partition; `None` where the list cannot be read.
    pub(crate) fn nodes_of(&self, partition: &ConfRecord) -> Option<BTreeSet<String>> {
        let list = partition.get("Nodes").unwrap_or_default();
        let every = || self.nodes.iter().map(|node| node.name.clone());
        let mut names = BTreeSet::new();
        for name in expand(list).ok()? {
            match self.node_sets.iter().find(|set| set.name == name) {
                _ if name.eq_ignore_ascii_case("all") => names.extend(every()),
                Some(set) => {
                    let feature = set.get("Feature");
                    names.extend(expand(set.get("Nodes").unwrap_or_default()).ok()?);
                    let has = |node: &&ConfRecord| {
                        let of = node.get("Feature").or(node.get("Features")).unwrap_or_default();
                        feature.is_some_and(|feature| of.split(',').any(|own| own == feature))
                    };
                    names.extend(self.nodes.iter().filter(has).map(|node| node.name.clone()));
                }
                None => _ = names.insert(name),
            }
        }
        Some(names)
    }
}

/// Returns a setting of a file without includes.
fn of_file(
    file: Option<&ConfSettings>,
    key: &str,
    default: &str,
    needed: &str,
) -> Result<ConfSetting, MissingInput> {
    let Some(file) = file else { return needs_input(needed) };
    let said = file.get(&key.to_ascii_lowercase()).and_then(|all| all.last()).cloned();
    Ok(said.unwrap_or_else(|| ConfSetting {
        key: key.to_owned(),
        value: default.to_owned(),
        place: None,
    }))
}

/// Returns the GPUs of a node: type, if it has one, and count.
pub(crate) fn gpu_types(node: &ConfRecord) -> Vec<(Option<String>, u64)> {
    let mut found = Vec::new();
    for entry in node.get("Gres").unwrap_or_default().split(',') {
        let entry = entry.split('(').next().unwrap_or_default();
        let mut parts = entry.split(':').filter(|part| !part.eq_ignore_ascii_case("no_consume"));
        if !parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gpu")) {
            continue;
        }
        let rest: Vec<&str> = parts.collect();
        let count = rest.last().and_then(|last| last.parse().ok());
        let kind = match (rest.as_slice(), count) {
            ([kind, _], Some(_)) | ([kind], None) => Some((*kind).to_owned()),
            _ => None,
        };
        found.push((kind, count.unwrap_or(1)));
    }
    found
}

/// Returns the number of GPUs of a node.
pub(crate) fn gpus(node: &ConfRecord) -> u64 {
    gpu_types(node).iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

/// Returns whether two values are the same, although Slurm prints one with its unit or a user's
/// number: `5 sec`, `slurm(64030)`.
fn is_same(written: &str, printed: &str) -> bool {
    let bare = printed.split([' ', '(']).next().unwrap_or_default();
    written.eq_ignore_ascii_case(printed) || written.eq_ignore_ascii_case(bare)
}

/// Returns whether a value means that nothing is set.
fn is_null(value: &str) -> bool {
    matches!(value, "(null)" | "N/A" | "(null type)" | "")
}

fn fields(pairs: &[ConfPair]) -> BTreeMap<String, String> {
    pairs.iter().map(|pair| (pair.key.to_ascii_lowercase(), pair.value.clone())).collect()
}

fn add(settings: &mut ConfSettings, lines: &[ConfLine]) {
    for line in lines {
        for ConfPair { key, value } in &line.pairs {
            let said = ConfSetting {
                key: key.clone(),
                value: value.clone(),
                place: Some(line.place.clone()),
            };
            settings.entry(key.to_ascii_lowercase()).or_default().push(said);
        }
    }
}

/// Reads records that Slurm printed, one per line.
fn printed(source: &CheckSource, key: &str) -> Vec<ConfRecord> {
    let record = |line: &str| {
        let pairs = conf::printed_pairs(line);
        let first = pairs.first().filter(|pair| pair.key == key)?;
        let place = CheckPlace { source: source.name.clone(), line: None };
        Some(ConfRecord { name: first.value.clone(), fields: fields(&pairs), place })
    };
    source.text.lines().filter_map(record).collect()
}

/// Reads rows below a heading, with `|` between fields. The first column is the name.
fn table(source: &CheckSource) -> Vec<ConfRecord> {
    let mut lines = source.text.lines();
    let heading: Vec<String> =
        lines.next().unwrap_or_default().split('|').map(str::to_ascii_lowercase).collect();
    let record = |line: &str| {
        let cells: Vec<&str> = line.split('|').collect();
        let fields =
            heading.iter().cloned().zip(cells.iter().map(|cell| (*cell).to_owned())).collect();
        let place = CheckPlace { source: source.name.clone(), line: None };
        ConfRecord { name: cells[0].to_owned(), fields, place }
    };
    lines.filter(|line| line.contains('|')).map(record).collect()
}
