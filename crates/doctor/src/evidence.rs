//! What is known of a Slurm cluster, put together from files and from what it says of itself. What
//! it says of itself goes before files; what nobody gave is unknown and not a default. Nothing here
//! judges.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::check::CheckPlace;

use crate::conf::{self, Line, Pair};
use crate::hosts::expand;
use crate::source::{Source, SourceKind};

/// Everything that was given.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Names of what was read.
    pub(crate) read: Vec<String>,
    /// Settings of slurm.conf by their key in lower case; the last of a key is the one that counts.
    conf: Option<Settings>,
    /// Settings that the running controller says it has.
    running: Option<Settings>,
    cgroup: Option<Settings>,
    dbd: Option<Settings>,
    /// Files that are included and were not given.
    pub(crate) missing: Vec<String>,
    /// Every line of a file that Slurm parses, with the kind of the file; of slurm.conf with what
    /// it includes.
    pub(crate) lines: Vec<(SourceKind, Line)>,
    /// Text in those files that is no setting.
    pub(crate) odd: Vec<(CheckPlace, String)>,
    pub(crate) nodes: Vec<Record>,
    pub(crate) partitions: Vec<Record>,
    node_sets: Vec<Record>,
    /// Lines of gres.conf.
    pub(crate) gres: Option<Vec<Line>>,
    /// Lines of topology.conf.
    pub(crate) switches: Option<Vec<Line>>,
    /// Qualities of service, each with its fields.
    pub(crate) qos: Option<Vec<Record>>,
    /// slurmdbd.conf by its name, and its permissions.
    pub(crate) dbd_mode: Option<(String, u32)>,
    /// This machine's name, and what the driver calls its GPUs.
    pub(crate) devices: Option<(String, Vec<String>)>,
    /// Names of nodes that Kubernetes has.
    pub(crate) kubernetes: Option<BTreeSet<String>>,
}

type Settings = BTreeMap<String, Vec<Said>>;

/// A setting as it was found, or its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) key: String,
    /// Empty where Slurm says `(null)`.
    pub(crate) value: String,
    /// `None` for a default.
    pub(crate) place: Option<CheckPlace>,
}

/// A node, a partition or the like: fields by their keys in lower case, defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: String,
    fields: BTreeMap<String, String>,
    pub(crate) place: CheckPlace,
}

impl Record {
    /// A field; `None` where it is not set.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let value = self.fields.get(&key.to_ascii_lowercase())?;
        (!is_null(value)).then_some(value.as_str())
    }
}

/// What would be needed to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Untested(pub(crate) String);

/// Shorthand of what cannot be known.
pub(crate) fn untested<T>(needed: impl Into<String>) -> Result<T, Untested> {
    Err(Untested(needed.into()))
}

impl Evidence {
    /// Puts sources together.
    #[must_use]
    pub fn of(sources: &[Source]) -> Self {
        let mut evidence = Self::default();
        for source in sources {
            evidence.read.push(source.name.clone());
            let parsed = || conf::parse(&source.name, &source.text).lines;
            if source.kind.is_file() {
                evidence.odd.extend(conf::parse(&source.name, &source.text).odd);
            }
            if source.kind.is_file()
                && source.kind != SourceKind::Included
                && source.kind != SourceKind::SlurmConf
            {
                evidence.lines.extend(parsed().into_iter().map(|line| (source.kind, line)));
            }
            match source.kind {
                SourceKind::SlurmConf => evidence.take_conf(source, sources),
                SourceKind::Included => {}
                SourceKind::GresConf => evidence.gres.get_or_insert_default().extend(parsed()),
                SourceKind::TopologyConf => {
                    evidence.switches.get_or_insert_default().extend(parsed())
                }
                SourceKind::CgroupConf => add(evidence.cgroup.get_or_insert_default(), &parsed()),
                SourceKind::SlurmdbdConf => add(evidence.dbd.get_or_insert_default(), &parsed()),
                SourceKind::Config => evidence.take_running(source),
                SourceKind::Partitions | SourceKind::Nodes => {}
                SourceKind::Qos => evidence.qos = Some(table(source)),
            }
        }
        // What the cluster says of itself counts, in whatever order it was given.
        for source in sources {
            match source.kind {
                SourceKind::Partitions => evidence.partitions = printed(source, "PartitionName"),
                SourceKind::Nodes => evidence.nodes = printed(source, "NodeName"),
                _ => {}
            }
        }
        evidence
    }

    /// Adds the permissions of slurmdbd.conf, as its inode has them.
    #[must_use]
    pub fn with_dbd_mode(mut self, name: &str, mode: u32) -> Self {
        self.dbd_mode = Some((name.to_owned(), mode));
        self
    }

    /// Adds what the driver calls the GPUs of the machine that the check runs on.
    #[must_use]
    pub fn with_devices(mut self, host: &str, names: Vec<String>) -> Self {
        self.devices = Some((host.to_owned(), names)).filter(|(_, names)| !names.is_empty());
        self
    }

    /// Adds the names of nodes that Kubernetes has.
    #[must_use]
    pub fn with_kubernetes(mut self, name: &str, nodes: BTreeSet<String>) -> Self {
        self.read.push(name.to_owned());
        self.kubernetes = Some(nodes);
        self
    }

    /// A slurm.conf with what it includes.
    fn take_conf(&mut self, source: &Source, sources: &[Source]) {
        let lines = self.spliced(source, sources, 0);
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
            // Only nodes are defined many at a time.
            let names = match kind.as_str() {
                "nodename" => expand(&line.pairs[0].value).unwrap_or_default(),
                _ => vec![line.pairs[0].value.clone()],
            };
            list.extend(names.into_iter().map(|name| Record {
                name,
                fields: fields.clone(),
                place: line.place.clone(),
            }));
        }
        self.conf = Some(settings);
    }

    /// The lines of a file, with those of included files where they are included. Files that
    /// include each other end at some depth.
    fn spliced(&mut self, source: &Source, sources: &[Source], depth: usize) -> Vec<Line> {
        /// Slurm itself has no limit; who nests deeper includes in a circle.
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
                    lines.extend(self.spliced(other, sources, depth + 1))
                }
                _ => self.missing.push(file.clone()),
            }
        }
        lines.extend_from_slice(&parsed.lines[taken..]);
        lines
    }

    /// What `scontrol show config` prints: settings, then those of cgroup.conf below their heading.
    fn take_running(&mut self, source: &Source) {
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
            let said = Said { key: key.clone(), value, place: Some(place) };
            settings
                .get_or_insert_default()
                .entry(key.to_ascii_lowercase())
                .or_default()
                .push(said);
        }
    }

    /// What a setting of slurm.conf is. Where it is not set it is its default; `None` stands for a
    /// default that depends on the version.
    pub(crate) fn said(&self, key: &str, default: Option<&str>) -> Result<Said, Untested> {
        let lower = key.to_ascii_lowercase();
        let last = |settings: &Option<Settings>| -> Option<Said> {
            settings.as_ref()?.get(&lower)?.last().cloned()
        };
        let written = last(&self.conf);
        if let Some(mut said) = last(&self.running) {
            // Where it is written is of more use than where it was read.
            if let Some(written) = written.filter(|written| is_same(&written.value, &said.value)) {
                said.place = written.place;
            }
            return Ok(said);
        }
        match (written, default) {
            (Some(said), _) => Ok(said),
            (None, _) if self.conf.is_none() => {
                untested("slurm.conf, or the output of `scontrol show config`")
            }
            (None, _) if !self.missing.is_empty() => {
                untested(format!("{}, which slurm.conf includes", self.missing.join(", ")))
            }
            (None, Some(default)) => {
                Ok(Said { key: key.to_owned(), value: default.to_owned(), place: None })
            }
            (None, None) => untested(format!(
                "{key} is not set, and its default depends on the version: the output of `scontrol show config`"
            )),
        }
    }

    /// All values of a setting that may be given several times.
    pub(crate) fn all_said(&self, key: &str) -> Result<Vec<Said>, Untested> {
        let lower = key.to_ascii_lowercase();
        let of = |settings: &Option<Settings>| {
            settings.as_ref().map(|settings| settings.get(&lower).cloned().unwrap_or_default())
        };
        match of(&self.running).or_else(|| of(&self.conf)) {
            Some(all) => Ok(all),
            None => untested("slurm.conf, or the output of `scontrol show config`"),
        }
    }

    /// Settings of files that have this value, whatever their keys.
    pub(crate) fn with_value(&self, value: &str) -> Result<Vec<Said>, Untested> {
        let files: Vec<&Settings> = [&self.conf, &self.dbd].into_iter().flatten().collect();
        if files.is_empty() {
            return untested("slurm.conf or slurmdbd.conf");
        }
        Ok(files
            .into_iter()
            .flat_map(|file| file.values().flatten())
            .filter(|said| said.value == value)
            .cloned()
            .collect())
    }

    /// What a setting of cgroup.conf is.
    pub(crate) fn cgroup(&self, key: &str, default: &str) -> Result<Said, Untested> {
        of_file(
            self.cgroup.as_ref(),
            key,
            default,
            "cgroup.conf, or the output of `scontrol show config`",
        )
    }

    /// What a setting of slurmdbd.conf is.
    pub(crate) fn dbd(&self, key: &str, default: &str) -> Result<Said, Untested> {
        of_file(self.dbd.as_ref(), key, default, "slurmdbd.conf")
    }

    /// Partitions, of which there is at least one.
    pub(crate) fn partitions(&self) -> Result<&[Record], Untested> {
        match self.partitions.as_slice() {
            [] => untested(
                "partitions: slurm.conf with what it includes, or the output of `scontrol show partition -o`",
            ),
            some => Ok(some),
        }
    }

    /// Nodes, of which there is at least one.
    pub(crate) fn nodes(&self) -> Result<&[Record], Untested> {
        match self.nodes.as_slice() {
            [] => untested(
                "nodes: slurm.conf with what it includes, or the output of `scontrol show node -o -d`",
            ),
            some => Ok(some),
        }
    }

    /// Nodes with GPUs, of which there is at least one.
    pub(crate) fn gpu_nodes(&self) -> Result<Vec<&Record>, Untested> {
        let found: Vec<&Record> = self.nodes()?.iter().filter(|node| gpus(node) > 0).collect();
        match found.is_empty() {
            true => untested("a node with GPUs (Gres=gpu:...): the rule is about those"),
            false => Ok(found),
        }
    }

    /// Names of the nodes of a partition; `None` where they are said in a way that is not
    /// understood.
    pub(crate) fn nodes_of(&self, partition: &Record) -> Option<BTreeSet<String>> {
        let list = partition.get("Nodes").unwrap_or_default();
        let every = || self.nodes.iter().map(|node| node.name.clone());
        let mut names = BTreeSet::new();
        for name in expand(list)? {
            match self.node_sets.iter().find(|set| set.name == name) {
                _ if name.eq_ignore_ascii_case("all") => names.extend(every()),
                Some(set) => {
                    let feature = set.get("Feature");
                    names.extend(expand(set.get("Nodes").unwrap_or_default())?);
                    let has = |node: &&Record| {
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

/// A setting of a file that stands alone.
fn of_file(
    file: Option<&Settings>,
    key: &str,
    default: &str,
    needed: &str,
) -> Result<Said, Untested> {
    let Some(file) = file else { return untested(needed) };
    let said = file.get(&key.to_ascii_lowercase()).and_then(|all| all.last()).cloned();
    Ok(said.unwrap_or_else(|| Said { key: key.to_owned(), value: default.to_owned(), place: None }))
}

/// What a node has of GPUs: type, where it has one, and count.
pub(crate) fn gpu_types(node: &Record) -> Vec<(Option<String>, u64)> {
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

/// How many GPUs a node has.
pub(crate) fn gpus(node: &Record) -> u64 {
    gpu_types(node).iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

/// The same value, though Slurm prints it with its unit or with the number of a user: `5 sec`,
/// `slurm(64030)`.
fn is_same(written: &str, printed: &str) -> bool {
    let bare = printed.split([' ', '(']).next().unwrap_or_default();
    written.eq_ignore_ascii_case(printed) || written.eq_ignore_ascii_case(bare)
}

/// Words for nothing.
fn is_null(value: &str) -> bool {
    matches!(value, "(null)" | "N/A" | "(null type)" | "")
}

fn fields(pairs: &[Pair]) -> BTreeMap<String, String> {
    pairs.iter().map(|pair| (pair.key.to_ascii_lowercase(), pair.value.clone())).collect()
}

fn add(settings: &mut Settings, lines: &[Line]) {
    for line in lines {
        for Pair { key, value } in &line.pairs {
            let said =
                Said { key: key.clone(), value: value.clone(), place: Some(line.place.clone()) };
            settings.entry(key.to_ascii_lowercase()).or_default().push(said);
        }
    }
}

/// Records that Slurm printed, one a line.
fn printed(source: &Source, key: &str) -> Vec<Record> {
    let record = |line: &str| {
        let pairs = conf::printed_pairs(line);
        let first = pairs.first().filter(|pair| pair.key == key)?;
        let place = CheckPlace { source: source.name.clone(), line: None };
        Some(Record { name: first.value.clone(), fields: fields(&pairs), place })
    };
    source.text.lines().filter_map(record).collect()
}

/// Rows below a heading, with `|` between fields. The first column is the name.
fn table(source: &Source) -> Vec<Record> {
    let mut lines = source.text.lines();
    let heading: Vec<String> =
        lines.next().unwrap_or_default().split('|').map(str::to_ascii_lowercase).collect();
    let record = |line: &str| {
        let cells: Vec<&str> = line.split('|').collect();
        let fields =
            heading.iter().cloned().zip(cells.iter().map(|cell| (*cell).to_owned())).collect();
        let place = CheckPlace { source: source.name.clone(), line: None };
        Record { name: cells[0].to_owned(), fields, place }
    };
    lines.filter(|line| line.contains('|')).map(record).collect()
}
