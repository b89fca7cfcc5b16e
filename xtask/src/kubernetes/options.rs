//! The options of a cluster: its nodes, GPUs, feature gates and audited account. They are written to its facts file, since a
//! program that is started again needs them, too.

use anyhow::{Context, Result, bail};

/// Maximum number of real nodes: each has a kubelet, containerd and an address of its own.
const MAX_REAL: u32 = 16;

/// Nodes and feature gates of a cluster, as given to `up`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Number of nodes, named `node1`, `node2` and so on.
    pub nodes: u32,
    /// False if a program only reports what the nodes' kubelets would.
    pub are_nodes_real: bool,
    /// Number of GPUs of each node.
    pub gpus: u32,
    /// Feature gates that are enabled in all programs.
    pub gates: Vec<String>,
    /// Service account whose requests are recorded, as `NAMESPACE/NAME`.
    pub audited: Option<String>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { nodes: 8, are_nodes_real: false, gpus: 8, gates: Vec::new(), audited: None }
    }
}

impl ClusterOptions {
    /// Parses the words after the folder.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = words;
        while let [option, tail @ ..] = rest {
            let [value, tail @ ..] = tail else { bail!("{option} needs a value") };
            match *option {
                "--nodes" | "--fake-nodes" => {
                    options.nodes = number(option, value)?;
                    options.are_nodes_real = *option == "--nodes";
                }
                "--gpus" => options.gpus = number(option, value)?,
                "--gate" => options.gates.push((*value).to_owned()),
                "--audit" => options.audited = Some((*value).to_owned()),
                _ => bail!("unknown option: {option}\nhint: cargo xtask kubernetes help"),
            }
            rest = tail;
        }
        if options.are_nodes_real && options.nodes > MAX_REAL {
            bail!("--nodes {}: at most {MAX_REAL}\nhint: --fake-nodes", options.nodes);
        }
        Ok(options)
    }

    /// Returns the lines of the facts file.
    pub fn lines(&self) -> String {
        let Self { nodes, are_nodes_real, gpus, gates, audited } = self;
        let kind = if *are_nodes_real { "real" } else { "fake" };
        format!(
            "nodes: {nodes}\nkind: {kind}\ngpus: {gpus}\ngates: {}\naudited: {}\n",
            gates.join(" "),
            audited.as_deref().unwrap_or_default()
        )
    }

    /// Reads the lines back from a facts file.
    pub fn from_lines(facts: &str) -> Result<Self> {
        let value = |name: &str| {
            let line = facts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim).with_context(|| format!("the facts file has no {name}"))
        };
        Ok(Self {
            nodes: number("nodes", value("nodes")?)?,
            are_nodes_real: value("kind")? == "real",
            gpus: number("gpus", value("gpus")?)?,
            gates: value("gates")?.split_whitespace().map(str::to_owned).collect(),
            // A cluster that an earlier version started has no such line.
            audited: value("audited").ok().filter(|name| !name.is_empty()).map(str::to_owned),
        })
    }

    /// Returns the arguments that enable the feature gates.
    pub fn feature_gates(&self) -> impl Iterator<Item = String> {
        self.gates.iter().map(|gate| format!("--feature-gates={gate}=true"))
    }

    /// Returns the number of a node of this name.
    pub fn node_number(&self, name: &str) -> Option<u32> {
        let number = name.strip_prefix("node")?.parse().ok()?;
        (1..=self.nodes).contains(&number).then_some(number)
    }
}

fn number(option: &str, value: &str) -> Result<u32> {
    value.parse().with_context(|| format!("{option} {value}: not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_the_command_line_and_the_facts() {
        let words = ["--fake-nodes", "3", "--gate", "A", "--gpus", "0", "--gate", "B"];
        let options = ClusterOptions::parse(&words).unwrap();
        assert_eq!((options.nodes, options.are_nodes_real, options.gpus), (3, false, 0));
        assert_eq!(options.gates, ["A", "B"]);
        let real = ClusterOptions::parse(&["--nodes", "2", "--audit", "a/b"]).unwrap();
        assert_eq!(real.audited.as_deref(), Some("a/b"));
        assert_eq!((real.nodes, real.are_nodes_real), (2, true));
        for options in [options, real, ClusterOptions::default()] {
            assert_eq!(ClusterOptions::from_lines(&options.lines()).unwrap(), options);
        }
    }

    #[test]
    fn wrong_options_are_rejected() {
        for words in
            [&["--gpus"][..], &["--gpus", "-1"], &["--nodez", "2"], &["8"], &["--nodes", "17"]]
        {
            assert!(ClusterOptions::parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn only_nodes_of_the_cluster_have_a_number() {
        let options = ClusterOptions::default();
        assert_eq!(options.node_number("node8"), Some(8));
        for name in ["node0", "node9", "node", "etcd"] {
            assert_eq!(options.node_number(name), None, "{name}");
        }
    }
}
