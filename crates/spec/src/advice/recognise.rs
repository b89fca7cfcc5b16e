//! Recognition of files meant for another reader: a cluster file passed as a site file is reported
//! once, instead of once per field. Fields of no known file are left to the reader.

use muster_model::advice::Fact;

use crate::advice::clusters::CLUSTERS;
use crate::advice::names::{same, sections};
use crate::diagnostic::{Problem, Problems};
use crate::yaml::{Node, Value, YamlEntry};

/// A kind of file that Muster reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Facts,
    Site,
    Cluster,
    Queues,
    Job,
}

impl FileKind {
    /// Returns its name in messages.
    const fn name(self) -> &'static str {
        match self {
            FileKind::Facts => "a facts file",
            FileKind::Site => "a site file",
            FileKind::Cluster => "a cluster file",
            FileKind::Queues => "a queue file",
            FileKind::Job => "a job file",
        }
    }

    /// Returns true if an entry occurs in this kind of file only.
    fn is_told_by(self, entry: &YamlEntry) -> bool {
        let key = entry.key.as_str();
        match self {
            FileKind::Facts => {
                key != Fact::Nodes.name()
                    && Fact::WORKLOAD.iter().any(|fact| same(fact.name(), key))
            }
            FileKind::Site => sections().contains(&key) || key == "mix" || key == CLUSTERS,
            FileKind::Cluster => {
                key == "levels" || (key == "nodes" && lists_mappings(&entry.node.value))
            }
            FileKind::Queues => matches!(key, "queues" | "half-life" | "default-queue"),
            FileKind::Job => matches!(key, "run" | "groups"),
        }
    }
}

/// Returns true if a value is a list of nodes rather than a mistyped number of them.
fn lists_mappings(value: &Value) -> bool {
    matches!(value, Value::List(items) if items.iter().any(|item| matches!(item.value, Value::Map(_))))
}

/// Reports a file that has fields of another kind of file, and none of the kind that is read.
pub(crate) fn refuse_other(node: &Node, reading: FileKind, problems: &mut Problems) -> Option<()> {
    let Value::Map(entries) = &node.value else { return Some(()) };
    let reported = |document: FileKind| entries.iter().find(|entry| document.is_told_by(entry));
    if reported(reading).is_some() {
        return Some(());
    }
    let others =
        [FileKind::Site, FileKind::Cluster, FileKind::Queues, FileKind::Job, FileKind::Facts];
    let found = others.into_iter().find_map(|other| reported(other).map(|entry| (other, entry)));
    let Some((other, entry)) = found else { return Some(()) };
    let message = format!("this looks like {}, not like {}", other.name(), reading.name());
    let label = format!("`{}` is a field of {}", entry.key, other.name());
    problems.add(Problem::new(message).at(entry.key_place, label).hint(next_step(reading, other)));
    None
}

/// Returns the command that takes the file that was found, or the contents of the expected file.
fn next_step(reading: FileKind, found: FileKind) -> String {
    match (reading, found) {
        (_, FileKind::Site) => "`muster advise --site` takes it".to_owned(),
        (_, FileKind::Facts) => "`muster advise --facts` takes it".to_owned(),
        (FileKind::Facts, FileKind::Job) => "`muster advise --job` takes it".to_owned(),
        (FileKind::Cluster, _) => {
            "a cluster file lists `nodes`; `muster inventory` writes one".to_owned()
        }
        (FileKind::Site, _) => {
            "`muster advise --site` takes `fleet`, `people`, `needs` and `mix`".to_owned()
        }
        (FileKind::Job, _) => "a job has `run`, which says what to run".to_owned(),
        (FileKind::Facts | FileKind::Queues, _) => format!(
            "facts are {}",
            Fact::WORKLOAD.iter().map(|fact| fact.name()).collect::<Vec<_>>().join(", ")
        ),
    }
}
