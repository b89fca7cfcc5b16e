//! Files that were meant for another reader: a cluster file handed over as a site is told so once,
//! instead of once per field. What is in no other file either is for the reader to complain about.

use muster_model::advice::Fact;

use crate::advice::names::{same, sections};
use crate::diagnostic::{Problem, Problems};
use crate::yaml::{Entry, Node, Value};

/// The files that Muster reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Facts,
    Site,
    Cluster,
    Queues,
    Job,
}

impl Document {
    /// What it is called.
    const fn name(self) -> &'static str {
        match self {
            Document::Facts => "a facts file",
            Document::Site => "a site file",
            Document::Cluster => "a cluster file",
            Document::Queues => "a queue file",
            Document::Job => "a job file",
        }
    }

    /// Whether an entry stands in no other file.
    fn is_told_by(self, entry: &Entry) -> bool {
        let key = entry.key.as_str();
        match self {
            Document::Facts => {
                key != Fact::Nodes.name()
                    && Fact::WORKLOAD.iter().any(|fact| same(fact.name(), key))
            }
            Document::Site => sections().contains(&key) || key == "mix",
            Document::Cluster => {
                key == "levels" || (key == "nodes" && lists_mappings(&entry.node.value))
            }
            Document::Queues => matches!(key, "queues" | "half-life" | "default-queue"),
            Document::Job => matches!(key, "run" | "groups"),
        }
    }
}

/// Whether a value is a list of nodes rather than a mistyped number of them.
fn lists_mappings(value: &Value) -> bool {
    matches!(value, Value::List(items) if items.iter().any(|item| matches!(item.value, Value::Map(_))))
}

/// Complains when the fields are those of another document and of none of the one that is read.
pub(crate) fn refuse_other(node: &Node, reading: Document, problems: &mut Problems) -> Option<()> {
    let Value::Map(entries) = &node.value else { return Some(()) };
    let told = |document: Document| entries.iter().find(|entry| document.is_told_by(entry));
    if told(reading).is_some() {
        return Some(());
    }
    let others =
        [Document::Site, Document::Cluster, Document::Queues, Document::Job, Document::Facts];
    let found = others.into_iter().find_map(|other| told(other).map(|entry| (other, entry)));
    let Some((other, entry)) = found else { return Some(()) };
    let message = format!("this looks like {}, not like {}", other.name(), reading.name());
    let label = format!("`{}` is a field of {}", entry.key, other.name());
    problems.add(Problem::new(message).at(entry.key_place, label).hint(next_step(reading, other)));
    None
}

/// Who takes the file that was found, or what the file that is read holds.
fn next_step(reading: Document, found: Document) -> String {
    match (reading, found) {
        (_, Document::Site) => "`muster advise --site` takes it".to_owned(),
        (_, Document::Facts) => "`muster advise --facts` takes it".to_owned(),
        (Document::Facts, Document::Job) => "`muster advise --job` takes it".to_owned(),
        (Document::Cluster, _) => {
            "a cluster file lists `nodes`; `muster inventory` writes one".to_owned()
        }
        (Document::Site, _) => {
            "`muster advise --site` takes `fleet`, `people`, `needs` and `mix`".to_owned()
        }
        (Document::Job, _) => "a job has `run`, which says what to run".to_owned(),
        (Document::Facts | Document::Queues, _) => format!(
            "facts are {}",
            Fact::WORKLOAD.iter().map(|fact| fact.name()).collect::<Vec<_>>().join(", ")
        ),
    }
}
