//! The option `--level`: a topology level, and the Kubernetes label with a node's domain.

use std::str::FromStr;

/// Topology level and its label, as in `leaf=network.topology.nvidia.com/leaf`.
#[derive(Clone, Debug)]
pub struct TopologyLabel {
    /// Name of the level, for users.
    pub name: String,
    /// Label of the nodes.
    pub label: String,
}

impl FromStr for TopologyLabel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, label) = text
            .split_once('=')
            .filter(|(name, label)| !name.is_empty() && !label.is_empty())
            .ok_or_else(|| {
                "expected a level and a label, such as leaf=network.topology.nvidia.com/leaf"
                    .to_owned()
            })?;
        Ok(Self { name: name.to_owned(), label: label.to_owned() })
    }
}
