//! Texts that evidence is made of, and how each is recognised. It reads no file: name and text are
//! given.

use crate::conf;

/// A text with what to call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file as it was named, or the command whose output it is.
    pub name: String,
    /// What kind of text it is.
    pub kind: SourceKind,
    /// The text.
    pub text: String,
}

/// Kinds of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// slurm.conf
    SlurmConf,
    /// A file that a slurm.conf includes.
    Included,
    /// gres.conf
    GresConf,
    /// cgroup.conf
    CgroupConf,
    /// topology.conf
    TopologyConf,
    /// slurmdbd.conf
    SlurmdbdConf,
    /// Output of `scontrol show config`.
    Config,
    /// Output of `scontrol show partition -o`.
    Partitions,
    /// Output of `scontrol show node -o -d`.
    Nodes,
    /// Output of `sacctmgr -P show qos`, with its heading.
    Qos,
}

impl SourceKind {
    /// True for files that Slurm parses, false for what it prints.
    pub(crate) fn is_file(self) -> bool {
        match self {
            Self::SlurmConf
            | Self::Included
            | Self::GresConf
            | Self::CgroupConf
            | Self::TopologyConf
            | Self::SlurmdbdConf => true,
            Self::Config | Self::Partitions | Self::Nodes | Self::Qos => false,
        }
    }

    /// What a text is, by its name and else by how it begins. `None` when it is nothing that is
    /// read here.
    #[must_use]
    pub fn of(name: &str, text: &str) -> Option<Self> {
        let file = name.rsplit('/').next().unwrap_or(name);
        let by_name = [
            ("slurm.conf", Self::SlurmConf),
            ("gres.conf", Self::GresConf),
            ("cgroup.conf", Self::CgroupConf),
            ("topology.conf", Self::TopologyConf),
            ("slurmdbd.conf", Self::SlurmdbdConf),
        ];
        let named = by_name.iter().find(|(known, _)| *known == file).map(|(_, kind)| *kind);
        named.or_else(|| Self::by_beginning(text))
    }

    fn by_beginning(text: &str) -> Option<Self> {
        let first =
            text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
        let has = |words: &[&str]| words.iter().all(|word| first.contains(word));
        if first.starts_with("Configuration data as of") {
            Some(Self::Config)
        } else if first.starts_with("PartitionName=") && has(&[" TotalNodes="]) {
            Some(Self::Partitions)
        } else if first.starts_with("NodeName=") && has(&[" Gres=", " CPUTot="]) {
            Some(Self::Nodes)
        } else if first.starts_with("Name|") && has(&["|GraceTime|"]) {
            Some(Self::Qos)
        } else {
            let says =
                |key: &str| conf::parse("", text).lines.iter().any(|line| line.get(key).is_some());
            says("ClusterName").then_some(Self::SlurmConf)
        }
    }
}

/// Files that a text of configuration includes, as they are named there.
#[must_use]
pub fn includes(text: &str) -> Vec<String> {
    conf::includes(text)
}
