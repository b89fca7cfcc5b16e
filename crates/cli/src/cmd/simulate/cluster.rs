//! Reads the cluster of a simulation, a cluster file or an openb node list, and its queues.
//! `muster-spec` parses the files.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use muster_model::{NodeSpec, QueueTree};
use muster_spec::{RowError, openb, parse_cluster, parse_queues};

use crate::app::App;
use crate::exit::Failure;
use crate::source;
use crate::trace_file;

/// Nodes with their topology, and rows that could not be parsed.
#[derive(Debug)]
pub struct ClusterInput {
    /// Nodes, in order of the file.
    pub nodes: Vec<NodeSpec>,
    /// Topology levels, widest first.
    pub levels: Vec<Arc<str>>,
    /// Rows of a node list that could not be parsed.
    pub bad: Vec<RowError>,
}

/// Reads a cluster file or a node list, which is recognised by its columns. With `strict`, a row
/// that cannot be parsed is an error.
pub fn read(path: &Path, strict: bool) -> Result<ClusterInput> {
    let mut lines = Vec::new();
    trace_file::lines(path, &mut |line| {
        lines.push(line.to_owned());
        Ok(())
    })?;
    let head = lines.iter().find(|line| !line.trim().is_empty());
    if head.is_some_and(|line| line.contains("sn,") || line.contains(",gpu")) {
        let (nodes, bad) = node_list(path, &lines, strict)?;
        return Ok(ClusterInput { nodes, levels: Vec::new(), bad });
    }
    let file = path.display().to_string();
    let cluster = parse_cluster(&lines.join("\n"), Some(&file)).map_err(Failure::from)?;
    Ok(ClusterInput { nodes: cluster.nodes, levels: cluster.levels, bad: Vec::new() })
}

/// Reads a queue file.
pub fn queues(path: &Path) -> Result<QueueTree> {
    let text = source::read(path)?;
    Ok(parse_queues(&text.source, text.file.as_deref()).map_err(Failure::from)?)
}

/// Warns that nodes were skipped.
pub fn warn_of_bad_nodes(app: &App, bad: &[RowError]) {
    if let Some(first) = bad.first() {
        app.ui.warning(&format!("skipped nodes that cannot be parsed; the first is {first}"));
    }
}

/// Parses a node list. Returns the nodes and the rows that could not be parsed.
fn node_list(
    path: &Path,
    lines: &[String],
    strict: bool,
) -> Result<(Vec<NodeSpec>, Vec<RowError>), Failure> {
    let mut reader = openb::NodeReader::new();
    let mut nodes = Vec::new();
    let mut bad = Vec::new();
    for line in lines {
        match reader.read(line) {
            Ok(node) => nodes.extend(node),
            Err(error) if strict => {
                return Err(Failure::usage(format!("{}: {error}", path.display()))
                    .hint("without `--strict` such rows are skipped with a warning"));
            }
            Err(error) => bad.push(error),
        }
    }
    match (nodes.is_empty(), bad.first()) {
        (true, first) => {
            let first = first.map_or_else(String::new, |error| format!("; {error}"));
            Err(Failure::usage(format!("{} has no nodes{first}", path.display()))
                .hint("a node list has the columns sn,cpu_milli,memory_mib,gpu,model"))
        }
        (false, _) => Ok((nodes, bad)),
    }
}
