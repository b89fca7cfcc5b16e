//! Evidence about a Slurm cluster, collected from files and from the output of Slurm's commands.
//! Output of the running cluster takes precedence over files; a file that was not given is unknown,
//! not a default. Nothing here judges.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::check::CheckPlace;
use muster_model::hostlist::expand;

use super::source::{CheckSource, SourceKind};
use super::{ConfLine, ConfPair, parse, printed_pairs};
use crate::gres;

/// Everything known about a cluster.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Names of the sources that were read.
    pub read: Vec<String>,
    /// Settings of slurm.conf by lower-case key; of a repeated key, the last value applies.
    conf: Option<ConfSettings>,
    /// Settings of the running controller.
    running: Option<ConfSettings>,
    cgroup: Option<ConfSettings>,
    dbd: Option<ConfSettings>,
    /// Included files that were not given.
    pub missing: Vec<String>,
    /// Every line of the files that Slurm parses, with the kind of the file; slurm.conf with its
    /// includes.
    pub lines: Vec<(SourceKind, ConfLine)>,
    /// Text in those files that is not a setting.
    pub not_understood: Vec<(CheckPlace, String)>,
    /// Nodes, in the order of their definition.
    pub nodes: Vec<ConfRecord>,
    /// Partitions, in the order of their definition.
    pub partitions: Vec<ConfRecord>,
    node_sets: Vec<ConfRecord>,
    /// Lines of gres.conf, if it was given.
    pub gres: Option<Vec<ConfLine>>,
    /// Lines of topology.conf, if it was given.
    pub switches: Option<Vec<ConfLine>>,
    /// QOS, each with its fields.
    pub qos: Option<Vec<ConfRecord>>,
    /// Name and permissions of slurmdbd.conf.
    pub dbd_mode: Option<(String, u32)>,
    /// Name of this machine, and the driver's names of its GPUs.
    pub devices: Option<(String, Vec<String>)>,
    /// Names of the nodes of the Kubernetes cluster.
    pub kubernetes: Option<BTreeSet<String>>,
}

type ConfSettings = BTreeMap<String, Vec<ConfSetting>>;

/// Setting with its source, or its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfSetting {
    /// Name of the setting, as written.
    pub key: String,
    /// Empty where Slurm prints `(null)`.
    pub value: String,
    /// Source of the setting; `None` for a default.
    pub place: Option<CheckPlace>,
}

impl ConfSetting {
    /// Formats the setting, such as `MaxTime=UNLIMITED`, or that it is not set.
    #[must_use]
    pub fn text(&self) -> String {
        match (&self.place, self.value.as_str()) {
            (_, "") => format!("{} is not set", self.key),
            (None, value) => format!("{} is not set; its default is {value}", self.key),
            (Some(_), value) => format!("{}={value}", self.key),
        }
    }

    /// Compares the value with a word, ignoring case.
    #[must_use]
    pub fn is(&self, word: &str) -> bool {
        self.value.eq_ignore_ascii_case(word)
    }

    /// Returns whether the list contains the word, ignoring case.
    #[must_use]
    pub fn lists(&self, word: &str) -> bool {
        self.value.split(',').any(|own| own.trim().eq_ignore_ascii_case(word))
    }

    /// Returns the number at the beginning: `30 sec` is 30. `None` where there is none.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let digits: String = self.value.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }

    /// Returns the value of `word=` in a list such as that of SchedulerParameters.
    #[must_use]
    pub fn option(&self, word: &str) -> Option<&str> {
        let of = |own: &'_ str| {
            own.split_once('=').is_some_and(|(key, _)| key.trim().eq_ignore_ascii_case(word))
        };
        self.value
            .split(',')
            .find(|own| of(own))
            .and_then(|own| own.split_once('='))
            .map(|(_, value)| value)
    }

    /// Returns whether the value means yes, in the words of cgroup.conf.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        ["yes", "true", "1"].iter().any(|word| self.is(word))
    }
}

/// Node, partition or similar record: fields by lower-case key, with defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfRecord {
    /// Name of the node or partition.
    pub name: String,
    fields: BTreeMap<String, String>,
    /// Source of the record.
    pub place: CheckPlace,
}

impl ConfRecord {
    /// Returns a field, ignoring the case of its name; `None` where it is not set.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let value = self.fields.get(&key.to_ascii_lowercase())?;
        (!is_null(value)).then_some(value.as_str())
    }
}

/// Switch with its nodes and switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologySwitch {
    /// Name of the switch.
    pub name: String,
    /// Nodes directly below the switch.
    pub nodes: Vec<String>,
    /// Switches directly below the switch.
    pub switches: Vec<String>,
}

/// Input that would be needed to answer a question about the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingInput(pub String);

/// Returns the error for a missing input.
///
/// # Errors
/// It never succeeds: a rule returns it where it cannot be tested.
pub fn needs_input<T>(needed: impl Into<String>) -> Result<T, MissingInput> {
    Err(MissingInput(needed.into()))
}

impl Evidence {
    /// Collects the evidence from sources.
    #[must_use]
    pub fn of(sources: &[CheckSource]) -> Self {
        let mut evidence = Self::default();
        for source in sources {
            evidence.read.push(source.name.clone());
            if source.kind.is_file() {
                evidence.not_understood.extend(parse(&source.name, &source.text).not_understood);
            }
            let is_read_here = source.kind.is_file()
                && source.kind != SourceKind::Included
                && source.kind != SourceKind::SlurmConf;
            let mut parsed = Vec::new();
            if is_read_here {
                parsed = evidence.lines_with_includes(source, sources, 0);
                evidence.lines.extend(parsed.iter().cloned().map(|line| (source.kind, line)));
            }
            match source.kind {
                SourceKind::SlurmConf => evidence.read_conf(source, sources),
                SourceKind::Included => {}
                SourceKind::GresConf => evidence.gres.get_or_insert_default().extend(parsed),
                SourceKind::TopologyConf => {
                    evidence.switches.get_or_insert_default().extend(parsed)
                }
                SourceKind::CgroupConf => add(evidence.cgroup.get_or_insert_default(), &parsed),
                SourceKind::SlurmdbdConf => add(evidence.dbd.get_or_insert_default(), &parsed),
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
        let parsed = parse(&source.name, &source.text);
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
    ///
    /// # Errors
    /// The input that is missing.
    pub fn conf_setting(
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
    ///
    /// # Errors
    /// The input that is missing.
    pub fn all_conf_settings(&self, key: &str) -> Result<Vec<ConfSetting>, MissingInput> {
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
    ///
    /// # Errors
    /// The input that is missing.
    pub fn with_value(&self, value: &str) -> Result<Vec<ConfSetting>, MissingInput> {
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
    ///
    /// # Errors
    /// The input that is missing.
    pub fn cgroup(&self, key: &str, default: &str) -> Result<ConfSetting, MissingInput> {
        of_file(
            self.cgroup.as_ref(),
            key,
            default,
            "cgroup.conf, or the output of `scontrol show config`",
        )
    }

    /// Returns a setting of slurmdbd.conf.
    ///
    /// # Errors
    /// The input that is missing.
    pub fn dbd(&self, key: &str, default: &str) -> Result<ConfSetting, MissingInput> {
        of_file(self.dbd.as_ref(), key, default, "slurmdbd.conf")
    }

    /// Returns the partitions, of which there is at least one.
    ///
    /// # Errors
    /// The input that is missing.
    pub fn partitions(&self) -> Result<&[ConfRecord], MissingInput> {
        match self.partitions.as_slice() {
            [] => needs_input(
                "partitions: slurm.conf with what it includes, or the output of `scontrol show partition -o`",
            ),
            some => Ok(some),
        }
    }

    /// Returns the nodes, of which there is at least one.
    ///
    /// # Errors
    /// The input that is missing.
    pub fn nodes(&self) -> Result<&[ConfRecord], MissingInput> {
        match self.nodes.as_slice() {
            [] => needs_input(
                "nodes: slurm.conf with what it includes, or the output of `scontrol show node -o -d`",
            ),
            some => Ok(some),
        }
    }

    /// Returns the nodes with GPUs, of which there is at least one.
    ///
    /// # Errors
    /// The input that is missing.
    pub fn gpu_nodes(&self) -> Result<Vec<&ConfRecord>, MissingInput> {
        let found: Vec<&ConfRecord> = self.nodes()?.iter().filter(|node| gpus(node) > 0).collect();
        if found.is_empty() { needs_input("a node with GPUs (Gres=gpu:...)") } else { Ok(found) }
    }

    /// Returns a setting of slurm.conf, from the running cluster or else the file.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<String> {
        let said = self.conf_setting(key, Some("")).ok()?;
        (!said.value.is_empty()).then_some(said.value)
    }

    /// Returns the GPU types of a node in gres.conf, in order.
    #[must_use]
    pub fn gres_types(&self, node: &str) -> Vec<String> {
        let lines = self.gres.iter().flatten();
        let of_node = lines.filter(|line| {
            let list = line.get("NodeName").and_then(|list| expand(list).ok());
            list.is_none_or(|names| names.iter().any(|name| name == node))
                && line.get("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu"))
        });
        of_node.filter_map(|line| line.get("Type").map(str::to_owned)).collect()
    }

    /// Returns the switches, in the order of the file; none where no topology.conf was given.
    #[must_use]
    pub fn switch_tree(&self) -> Vec<TopologySwitch> {
        let list = |text: Option<&str>| text.and_then(|list| expand(list).ok()).unwrap_or_default();
        let read = |line: &ConfLine| {
            Some(TopologySwitch {
                name: line.get("SwitchName")?.to_owned(),
                nodes: list(line.get("Nodes")),
                switches: list(line.get("Switches")),
            })
        };
        self.switches.iter().flatten().filter_map(read).collect()
    }

    /// Returns the names of the nodes of a partition; `None` where the list cannot be read.
    #[must_use]
    pub fn nodes_of(&self, partition: &ConfRecord) -> Option<BTreeSet<String>> {
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
#[must_use]
pub fn gpu_types(node: &ConfRecord) -> Vec<(Option<String>, u64)> {
    let gpus = gres::gpus(node.get("Gres").unwrap_or_default()).into_iter();
    gpus.map(|gpu| (Some(gpu.kind).filter(|kind| !kind.is_empty()), gpu.count)).collect()
}

/// Returns the number of GPUs of a node.
#[must_use]
pub fn gpus(node: &ConfRecord) -> u64 {
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
        let pairs = printed_pairs(line);
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
