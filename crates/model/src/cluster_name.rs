//! The name of a cluster that jobs run on, as the option `--on` and site files write it.

use std::fmt;
use std::str::FromStr;

/// Cluster that jobs run on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterName {
    /// Nodes of the daemon of this machine.
    Local,
    /// Slurm, by its programs on this machine.
    Slurm,
    /// Slurm, by its programs on that host, over ssh.
    SlurmAt(String),
    /// Kubernetes, by the API server of this context of the kubeconfig; `None` means the current one.
    Kubernetes(Option<String>),
}

impl ClusterName {
    /// Forms of a name, for messages.
    pub const FORMS: [&'static str; 5] =
        ["local", "slurm", "slurm@HOST", "kubernetes", "kubernetes@CONTEXT"];
}

/// Error of a text that names no cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCluster;

impl fmt::Display for UnknownCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", ClusterName::FORMS.join(", "))
    }
}

impl std::error::Error for UnknownCluster {}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterName::Local => f.write_str("local"),
            ClusterName::Slurm => f.write_str("slurm"),
            ClusterName::SlurmAt(host) => write!(f, "slurm@{host}"),
            ClusterName::Kubernetes(None) => f.write_str("kubernetes"),
            ClusterName::Kubernetes(Some(context)) => write!(f, "kubernetes@{context}"),
        }
    }
}

impl FromStr for ClusterName {
    type Err = UnknownCluster;

    fn from_str(text: &str) -> Result<Self, UnknownCluster> {
        match text {
            "local" => Ok(ClusterName::Local),
            "slurm" => Ok(ClusterName::Slurm),
            "kubernetes" => Ok(ClusterName::Kubernetes(None)),
            _ => match text.split_once('@') {
                // ssh would parse a leading dash as an option.
                Some(("slurm", host)) if !host.is_empty() && !host.starts_with('-') => {
                    Ok(ClusterName::SlurmAt(host.to_owned()))
                }
                Some(("kubernetes", context)) if !context.is_empty() => {
                    Ok(ClusterName::Kubernetes(Some(context.to_owned())))
                }
                _ => Err(UnknownCluster),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["local", "slurm", "slurm@login", "kubernetes", "kubernetes@ann@prod"] {
            assert_eq!(text.parse::<ClusterName>().map(|name| name.to_string()), Ok(text.into()));
        }
        for text in
            ["", "k8s", "Slurm", "slurm@", "slurm@-oProxyCommand=x", "kubernetes@", "local@a"]
        {
            assert_eq!(text.parse::<ClusterName>(), Err(UnknownCluster), "{text}");
        }
    }
}
