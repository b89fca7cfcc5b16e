//! Access to the evidence for other uses than findings: settings, nodes, partitions and switches,
//! with includes, defaults and host lists resolved.

use muster_model::hostlist::expand;

use crate::evidence::{ConfRecord, Evidence};

/// Node or partition with its fields.
#[derive(Clone, Copy, Debug)]
pub struct ConfEntry<'a>(&'a ConfRecord);

impl<'a> ConfEntry<'a> {
    /// Returns the name of the entry.
    #[must_use]
    pub fn name(self) -> &'a str {
        &self.0.name
    }

    /// Returns a field, ignoring the case of its name; `None` where it is not set.
    #[must_use]
    pub fn get(self, key: &str) -> Option<&'a str> {
        self.0.get(key)
    }

    /// Returns where it is written, such as `slurm.conf:12`.
    #[must_use]
    pub fn place(self) -> String {
        match self.0.place.line {
            Some(line) => format!("{}:{line}", self.0.place.source),
            None => self.0.place.source.clone(),
        }
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

impl Evidence {
    /// Returns a setting of slurm.conf, from the running cluster or else the file.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<String> {
        self.conf_setting(key, Some(""))
            .ok()
            .map(|said| said.value)
            .filter(|value| !value.is_empty())
    }

    /// Returns the nodes, in the order of their definition.
    pub fn node_entries(&self) -> impl Iterator<Item = ConfEntry<'_>> {
        self.nodes.iter().map(ConfEntry)
    }

    /// Returns the partitions, in the order of their definition.
    pub fn partition_entries(&self) -> impl Iterator<Item = ConfEntry<'_>> {
        self.partitions.iter().map(ConfEntry)
    }

    /// Returns the names of a partition's nodes, in no order; `None` where the list cannot be read.
    #[must_use]
    pub fn partition_nodes(&self, partition: ConfEntry<'_>) -> Option<Vec<String>> {
        self.nodes_of(partition.0).map(|names| names.into_iter().collect())
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

    /// Returns the switches, in the order of the file; `None` where no topology.conf was given.
    #[must_use]
    pub fn switch_tree(&self) -> Option<Vec<TopologySwitch>> {
        let list = |text: Option<&str>| text.map(expand).and_then(Result::ok).unwrap_or_default();
        let read = |line: &crate::conf::ConfLine| {
            let name = line.get("SwitchName")?.to_owned();
            Some(TopologySwitch {
                name,
                nodes: list(line.get("Nodes")),
                switches: list(line.get("Switches")),
            })
        };
        self.switches.as_ref().map(|lines| lines.iter().filter_map(read).collect())
    }

    /// Returns included files that were not given.
    #[must_use]
    pub fn not_given(&self) -> &[String] {
        &self.missing
    }
}
