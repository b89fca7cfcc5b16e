//! Sources of evidence and their recognition. Reads no file: name and text are given.

use super::parse;

/// Text with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSource {
    /// Name of the file as given, or the command whose output it is.
    pub name: String,
    /// Kind of the text.
    pub kind: SourceKind,
    /// Content of the source.
    pub text: String,
}

/// Kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// The main configuration, slurm.conf.
    SlurmConf,
    /// File that another one includes.
    Included,
    /// The GPU configuration, gres.conf.
    GresConf,
    /// The cgroup configuration, cgroup.conf.
    CgroupConf,
    /// The tree of switches, topology.conf.
    TopologyConf,
    /// Configuration of the accounting daemon, slurmdbd.conf.
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
    /// Returns whether it is a file that Slurm parses, rather than output of a command.
    #[must_use]
    pub fn is_file(self) -> bool {
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

    /// Recognises a text by its name, else by its beginning. `None` where it is of no known kind.
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
            let says = |key: &str| parse("", text).lines.iter().any(|line| line.get(key).is_some());
            says("ClusterName").then_some(Self::SlurmConf)
        }
    }
}
