//! `clusters` of a site file: kinds of jobs, and the clusters that `muster run --on auto` sends them to.

use std::collections::BTreeMap;

use muster_model::ClusterName;
use muster_model::advice::WorkKind;
use schemars::Schema;

use crate::advice::names;
use crate::advice::word::meant;
use crate::advice::written::Spot;
use crate::diagnostic::{Problem, Problems, show};
use crate::field::{entries, object_schema, scalar};
use crate::yaml::Node;

/// Name of the field.
pub(super) const CLUSTERS: &str = "clusters";
/// Description of the field.
pub(super) const ABOUT: &str =
    "Clusters that `muster run --on auto` sends jobs to, by kind of job.";
/// Regular expression for the names of clusters, in the schema.
const PATTERN: &str = "^(local|slurm|slurm@[^-].*|kubernetes|kubernetes@.+)$";

/// Clusters by kind of job, with their places in the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Clusters(pub(super) BTreeMap<WorkKind, (ClusterName, Spot)>);

impl Clusters {
    /// Reads the mapping; entries with problems are left out.
    pub(super) fn read(node: &Node, problems: &mut Problems) -> Self {
        let known = WorkKind::ALL.map(WorkKind::name);
        let mut clusters = Self::default();
        for entry in entries(node, CLUSTERS, problems).unwrap_or_default() {
            let Some(kind) = WorkKind::ALL.into_iter().find(|kind| kind.name() == entry.key) else {
                problems.add(names::unknown_field(CLUSTERS, entry, &known));
                continue;
            };
            let name = format!("{CLUSTERS}.{kind}");
            if let Some(cluster) = cluster(&entry.node, &name, problems) {
                let spot = Spot { key: entry.key_place, value: entry.node.place };
                clusters.0.insert(kind, (cluster, spot));
            }
        }
        clusters
    }

    /// Returns the JSON Schema of the mapping.
    pub(super) fn schema() -> Schema {
        let field = |kind: WorkKind| {
            let text = match kind {
                WorkKind::Batch => {
                    "Jobs of one task; also arrays and gangs, unless they have a line of their own."
                }
                WorkKind::Arrays => "Arrays whose elements have one task each.",
                WorkKind::Gangs => "Jobs of several tasks that start together.",
                WorkKind::Services => "Jobs with `kind: service`.",
                WorkKind::Notebooks => "Jobs with `kind: notebook`.",
            };
            let schema = schemars::json_schema!({ "type": "string", "pattern": PATTERN });
            (kind.name(), text.to_owned(), schema)
        };
        object_schema(ABOUT, WorkKind::ALL.map(field), &[])
    }
}

/// Reads the name of a cluster.
fn cluster(node: &Node, name: &str, problems: &mut Problems) -> Option<ClusterName> {
    let forms = ClusterName::FORMS.join(", ");
    let text = scalar(node, name, &format!("one of {forms}"), problems)?;
    match text.parse() {
        Ok(cluster) => Some(cluster),
        Err(error) => {
            let hint = meant(text, &["local", "slurm", "kubernetes"])
                .map(|meant| format!("did you mean `{meant}`?"));
            let message = format!("`{name}` cannot be {}", show(text));
            problems.add(Problem::new(message).at(node.place, error.to_string()).hint(hint));
            None
        }
    }
}
