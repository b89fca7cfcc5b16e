//! The options of a cluster: its nodes, GPUs and feature gates. They are written to its facts file, since a
//! program that is started again needs them, too.

use anyhow::{Context, Result, bail};

/// Nodes and feature gates of a cluster, as given to `up`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Number of fake nodes.
    pub fake_nodes: u32,
    /// Number of GPUs of each node.
    pub gpus: u32,
    /// Feature gates that are enabled in all programs.
    pub gates: Vec<String>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { fake_nodes: 8, gpus: 8, gates: Vec::new() }
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
                "--fake-nodes" => options.fake_nodes = number(option, value)?,
                "--gpus" => options.gpus = number(option, value)?,
                "--gate" => options.gates.push((*value).to_owned()),
                _ => bail!("unknown option: {option}\nhint: cargo xtask kubernetes help"),
            }
            rest = tail;
        }
        Ok(options)
    }

    /// Returns the lines of the facts file.
    pub fn lines(&self) -> String {
        let Self { fake_nodes, gpus, gates } = self;
        format!("fake-nodes: {fake_nodes}\ngpus: {gpus}\ngates: {}\n", gates.join(" "))
    }

    /// Reads the lines back from a facts file.
    pub fn from_lines(facts: &str) -> Result<Self> {
        let value = |name: &str| {
            let line = facts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim).with_context(|| format!("the facts file has no {name}"))
        };
        Ok(Self {
            fake_nodes: number("fake-nodes", value("fake-nodes")?)?,
            gpus: number("gpus", value("gpus")?)?,
            gates: value("gates")?.split_whitespace().map(str::to_owned).collect(),
        })
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
        assert_eq!((options.fake_nodes, options.gpus), (3, 0));
        assert_eq!(options.gates, ["A", "B"]);
        for options in [options, ClusterOptions::default()] {
            assert_eq!(ClusterOptions::from_lines(&options.lines()).unwrap(), options);
        }
    }

    #[test]
    fn wrong_options_are_rejected() {
        for words in [&["--gpus"][..], &["--gpus", "-1"], &["--nodez", "2"], &["8"]] {
            assert!(ClusterOptions::parse(words).is_err(), "{words:?}");
        }
    }
}
