//! What the evidence says of a cluster, for those who make something else of it than findings:
//! settings, nodes, partitions and switches, with includes, defaults and host lists resolved. It
//! judges nothing.

use crate::evidence::{Evidence, Record};
use crate::hosts::expand;

/// A node or a partition with its fields.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a>(&'a Record);

impl<'a> Entry<'a> {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'a str {
        &self.0.name
    }

    /// A field, whatever the case of its name; `None` where it is not set.
    #[must_use]
    pub fn get(self, key: &str) -> Option<&'a str> {
        self.0.get(key)
    }

    /// Where it is written, such as `slurm.conf:12`.
    #[must_use]
    pub fn place(self) -> String {
        match self.0.place.line {
            Some(line) => format!("{}:{line}", self.0.place.source),
            None => self.0.place.source.clone(),
        }
    }
}

/// A switch with what hangs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Nodes directly below.
    pub nodes: Vec<String>,
    /// Switches directly below.
    pub switches: Vec<String>,
}

impl Evidence {
    /// A setting of slurm.conf, as the running cluster or else the file has it.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<String> {
        self.said(key, Some("")).ok().map(|said| said.value).filter(|value| !value.is_empty())
    }

    /// Nodes, in the order in which they are defined.
    pub fn node_entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.nodes.iter().map(Entry)
    }

    /// Partitions, in the order in which they are defined.
    pub fn partition_entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.partitions.iter().map(Entry)
    }

    /// Names of the nodes of a partition, in no order; `None` where they are said in a way that is
    /// not understood.
    #[must_use]
    pub fn partition_nodes(&self, partition: Entry<'_>) -> Option<Vec<String>> {
        self.nodes_of(partition.0).map(|names| names.into_iter().collect())
    }

    /// Types that gres.conf names for GPUs of a node, in order.
    #[must_use]
    pub fn gres_types(&self, node: &str) -> Vec<String> {
        let lines = self.gres.iter().flatten();
        let of_node = lines.filter(|line| {
            let list = line.get("NodeName").and_then(expand);
            list.is_none_or(|names| names.iter().any(|name| name == node))
                && line.get("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu"))
        });
        of_node.filter_map(|line| line.get("Type").map(str::to_owned)).collect()
    }

    /// Switches, in the order in which they are written; `None` where no topology.conf was given.
    #[must_use]
    pub fn switch_tree(&self) -> Option<Vec<Switch>> {
        let list = |text: Option<&str>| text.and_then(expand).unwrap_or_default();
        let read = |line: &crate::conf::Line| {
            let name = line.get("SwitchName")?.to_owned();
            Some(Switch {
                name,
                nodes: list(line.get("Nodes")),
                switches: list(line.get("Switches")),
            })
        };
        self.switches.as_ref().map(|lines| lines.iter().filter_map(read).collect())
    }

    /// Files that are included and were not given.
    #[must_use]
    pub fn not_given(&self) -> &[String] {
        &self.missing
    }
}
