//! Generates the queue objects and settings of another scheduler from nodes and a queue tree: of Kueue,
//! Volcano or KAI, in the versions of [`Plane::version`]. Pure functions. Settings that it cannot express
//! are listed, never dropped silently.

mod flavor;
mod kai;
mod kueue;
mod labels;
mod shares;
#[cfg(test)]
mod tests;
mod unsupported;
mod volcano;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{NodeSpec, QueueTree};
use serde_json::{Value, json};

use crate::queue::object_name;
use shares::{PlannedQueue, Shares};

/// Scheduler that the files are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// Kueue: admits whole workloads; kube-scheduler chooses the nodes.
    Kueue,
    /// Volcano: a scheduler with gangs of its own.
    Volcano,
    /// KAI: a scheduler with gangs of its own.
    Kai,
}

impl Plane {
    /// Returns its name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kueue => "Kueue",
            Self::Volcano => "Volcano",
            Self::Kai => "KAI",
        }
    }

    /// Returns the version whose objects are written.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Kueue => "0.19",
            Self::Volcano => "1.15",
            Self::Kai => "0.12",
        }
    }
}

/// Site that the files are for.
#[derive(Clone, Copy, Debug)]
pub struct QueueFilesInput<'a> {
    /// Nodes of the cluster.
    pub nodes: &'a [NodeSpec],
    /// Topology levels of the nodes, widest first.
    pub levels: &'a [Arc<str>],
    /// Queues that become objects.
    pub queues: &'a QueueTree,
    /// Namespace of the leaf queues that no queue grants to `users`.
    pub namespace: &'a str,
}

/// Generated files with notes for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueFiles {
    /// Names and texts, in the order in which they are applied.
    pub files: Vec<(&'static str, String)>,
    /// Settings of the queue file that the scheduler cannot express, or handles differently.
    pub unsupported: Vec<String>,
}

/// Reason why no files can be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueFilesError {
    /// The CPUs or the memory of some nodes are unknown.
    #[error("`{field}` is missing for {count} of {of} nodes, such as {first}")]
    Unmeasured {
        /// Field of the cluster file.
        field: &'static str,
        /// Number of nodes without it.
        count: usize,
        /// Number of all nodes.
        of: usize,
        /// Name of the first of them.
        first: String,
    },
    /// A node, queue or namespace is no name of an object.
    #[error("{what} `{name}` cannot be the name of an object of Kubernetes")]
    Name {
        /// Kind of the name: `node`, `queue`, `level`, `topology domain` or `namespace`.
        what: &'static str,
        /// Name as the user gave it.
        name: String,
    },
    /// Two queues have one name in a namespace.
    #[error("queues `{0}` and `{1}` would both be the LocalQueue `{2}` of the namespace {3}")]
    SameLocalQueue(String, String, String, String),
    /// Two topology domains have one name in Volcano.
    #[error("{0} and {1} would both be the HyperNode `{2}`")]
    SameHyperNode(String, String, String),
    /// No node has a GPU.
    #[error("no node has a GPU")]
    NoGpus,
}

impl QueueFilesError {
    /// Returns the next step.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unmeasured { .. } => {
                "add it to the cluster file; `kubectl get nodes -o json | muster inventory --from -` writes one"
            }
            Self::Name { .. } => {
                "names have lower-case letters, digits, `-` and `.`, and begin and end with a letter or digit"
            }
            Self::SameLocalQueue(..) => {
                "`muster run` names the LocalQueue by the last part of the queue's path; rename one, or give them other `users`"
            }
            Self::SameHyperNode(..) => "rename one of them: names of objects have no capitals",
            Self::NoGpus => "the queues divide GPUs; add `gpus` to the nodes of the cluster file",
        }
    }
}

/// Name of the script that labels the nodes.
pub const NODE_LABELS: &str = "node-labels.sh";
/// Name of the file with the scheduler's own settings.
pub const CONFIG: &str = "config.yaml";
/// Name of the file with the queues.
pub const QUEUES: &str = "queues.yaml";
/// Name of the file with the topology.
pub const TOPOLOGY: &str = "topology.yaml";

/// Generates all files.
///
/// # Errors
///
/// See [`QueueFilesError`].
pub fn render(plane: Plane, input: &QueueFilesInput<'_>) -> Result<QueueFiles, QueueFilesError> {
    check_names(plane, input)?;
    // KAI's queues divide GPUs only.
    if plane != Plane::Kai {
        shares::check_measured(input.nodes)?;
    }
    let shares = Shares::of(input)?;
    let mut unsupported = shares.notes.clone();
    unsupported.extend(own_labels(plane, &shares));
    unsupported.extend(unsupported::of(plane, input));
    let files = match plane {
        Plane::Kueue => kueue::files(input, &shares)?,
        Plane::Volcano => volcano::files(input, &shares),
        Plane::Kai => kai::files(input, &shares),
    };
    Ok(QueueFiles { files, unsupported })
}

/// Returns a note on the flavors whose nodes have no common label of others.
fn own_labels(plane: Plane, shares: &Shares<'_>) -> Option<String> {
    let own = shares.flavors.iter().filter(|flavor| flavor.model.is_some());
    let own: Vec<&str> =
        own.filter(|flavor| flavor.has_own_label()).map(|flavor| flavor.name.as_str()).collect();
    // Which flavor a job with a choice of models gets, is decided by labels.
    let is_open = plane == Plane::Kueue && own.len() > 1;
    is_open.then(|| {
        format!(
            "{}: jobs that name a model of GPU select nvidia.com/gpu.product, which is not in the cluster file; `muster inventory --from nodes.json --keep-label nvidia.com/gpu.product` writes it",
            own.join(", ")
        )
    })
}

fn check_names(plane: Plane, input: &QueueFilesInput<'_>) -> Result<(), QueueFilesError> {
    let named = |is_valid: bool, what: &'static str, name: &str| {
        let error = || QueueFilesError::Name { what, name: name.to_owned() };
        is_valid.then_some(()).ok_or_else(error)
    };
    let check = |what: &'static str, name: &str| named(is_object_name(name), what, name);
    check("namespace", input.namespace)?;
    input.nodes.iter().try_for_each(|node| check("node", node.name.as_str()))?;
    input.levels.iter().try_for_each(|level| check("level", level))?;
    let domains = input.nodes.iter().flat_map(|node| input.levels.iter().zip(&node.domains));
    let mut named_as = BTreeMap::new();
    for (level, domain) in domains {
        // The value of a label, and in Volcano a part of the name of an object, which has no capitals.
        let name = volcano::hyper_node_name(level, domain);
        let is_valid = is_object_name(&match plane {
            Plane::Volcano => name.clone(),
            Plane::Kueue | Plane::Kai => domain.to_ascii_lowercase().replace('_', "-"),
        });
        named(is_valid, "topology domain", domain)?;
        let first = named_as.entry(name.clone()).or_insert((level, domain));
        if plane == Plane::Volcano && *first != (level, domain) {
            let of = |(level, domain): (&Arc<str>, &Arc<str>)| format!("{level} {domain}");
            return Err(QueueFilesError::SameHyperNode(of(*first), of((level, domain)), name));
        }
    }
    for queue in PlannedQueue::all(input.queues) {
        check("queue", &object_name(&queue.path))?;
        queue.namespaces.iter().try_for_each(|namespace| check("namespace", namespace))?;
    }
    Ok(())
}

/// Returns true for a name that objects may have: a DNS subdomain.
fn is_object_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_inner =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty()
            && part.bytes().all(is_inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= 63 && name.split('.').all(is_part)
}

/// Returns an object of the whole cluster.
fn object(version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Returns a file: lines of comment, then the objects.
fn file(comment: &str, objects: &[Value]) -> String {
    let comment: String = comment.lines().map(|line| format!("# {line}\n")).collect();
    format!("{comment}{}", crate::render::yaml(objects))
}

/// Amounts by resource, with the keys and values that objects have.
type Amounts = BTreeMap<&'static str, String>;
