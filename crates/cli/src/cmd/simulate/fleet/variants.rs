//! Variants of a site: each cluster file, as it is and with added nodes, under each queue file. The
//! nodes are added, and the load is shared, in `muster-sim`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use muster_model::simulation::{AddedNodes, SiteVariant};
use muster_model::{GpuModel, QueueTree};
use muster_report::amount::grouped_count;
use muster_sim::fleet::{FleetLoad, FleetSite, MoreNodes, more_nodes};
use muster_spec::RowError;

use super::super::cluster::{self, ClusterInput};
use crate::app::App;
use crate::exit::Failure;

/// Largest number of nodes that can be added.
const MOST_NODES: u32 = 100_000;

/// Nodes to add, as typed.
#[derive(Clone, Debug)]
pub struct AddNodes(MoreNodes);

impl FromStr for AddNodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected a number of nodes up to {MOST_NODES}, such as 4, or of a kind of nodes: 4xh100, 4xh100:8"
            )
        };
        let count = |text: &str| {
            text.parse().ok().filter(|count| (1..=MOST_NODES).contains(count)).ok_or_else(wrong)
        };
        let Some((nodes, kind)) = text.split_once('x') else {
            return Ok(Self(MoreNodes { count: count(text)?, model: None, gpus: None }));
        };
        let (model, gpus) = match kind.rsplit_once(':') {
            Some((model, gpus)) => (model, Some(gpus.parse().map_err(|_| wrong())?)),
            None => (kind, None),
        };
        if model.is_empty() {
            return Err(wrong());
        }
        let model = Some(GpuModel::from(model.to_ascii_lowercase().as_str()));
        Ok(Self(MoreNodes { count: count(nodes)?, model, gpus }))
    }
}

impl fmt::Display for AddNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MoreNodes { count, model, gpus } = &self.0;
        write!(f, "{count}")?;
        model.as_ref().map_or(Ok(()), |model| write!(f, "x{model}"))?;
        gpus.map_or(Ok(()), |gpus| write!(f, ":{gpus}"))
    }
}

/// A variant of the site, and its load.
pub struct VariantSetup {
    /// Name, files and counts.
    pub view: SiteVariant,
    /// The site before any arrival.
    pub site: FleetSite,
    /// Jobs, the same in all variants.
    pub load: FleetLoad,
}

/// All variants, without a load.
pub struct Variants {
    /// Variants in order: by cluster, as it is before those with added nodes; then by queues.
    pub all: Vec<VariantSetup>,
    /// Rows of node lists that could not be parsed.
    pub bad: Vec<RowError>,
}

/// Reads the files and combines them; warns of nodes whose kind was not named.
pub fn read(
    app: &App,
    clusters: &[PathBuf],
    queues: &[PathBuf],
    adds: &[AddNodes],
    strict: bool,
) -> Result<Variants> {
    let trees = queue_trees(queues)?;
    let has_several_clusters = clusters.len() > 1 || !adds.is_empty();
    let mut all = Vec::new();
    let mut bad = Vec::new();
    for path in clusters {
        let input = cluster::read(path, strict)?;
        let name = short_name(path, clusters);
        let mut named = vec![(name.clone(), None, input.nodes.clone())];
        for add in adds {
            let (nodes, added) = add_nodes(app, path, &input, add)?;
            named.push((format!("{name} + {add}"), Some(added), nodes));
        }
        for (cluster_name, added, nodes) in named {
            for (queue_path, tree) in &trees {
                let queue_name = queue_path.map(|path| short_name(path, queues));
                let name = match queue_name {
                    Some(queue_name) if queues.len() > 1 && has_several_clusters => {
                        format!("{cluster_name}, {queue_name}")
                    }
                    Some(queue_name) if queues.len() > 1 => queue_name,
                    _ => cluster_name.clone(),
                };
                let site = FleetSite {
                    nodes: nodes.clone(),
                    levels: input.levels.clone(),
                    tree: tree.clone(),
                };
                let view = view(name, path, *queue_path, added.clone(), &site);
                all.push(VariantSetup { view, site, load: FleetLoad::default() });
            }
        }
        bad.extend(input.bad);
    }
    check(&all)?;
    for VariantSetup { view, site, .. } in &all {
        warn_of_nodes_beyond_quotas(app, &view.name, site);
    }
    Ok(Variants { all, bad })
}

/// Warns of GPUs of a site that no queue may hold.
pub fn warn_of_nodes_beyond_quotas(app: &App, name: &str, site: &FleetSite) {
    for (model, owned, gpus) in beyond_quotas(site) {
        app.ui.warning(&format!(
            "{name}: the quotas sum up to {owned} of its {gpus} {model}; under muster the queues leave the rest idle"
        ));
    }
}

/// Returns the GPU models of which a site has more than its queues may hold together: the model, the sum of the
/// quotas, and the number of GPUs. A queue at the top level without a quota of the model may use all.
fn beyond_quotas(site: &FleetSite) -> Vec<(GpuModel, u64, u64)> {
    let mut gpus: BTreeMap<&GpuModel, u64> = BTreeMap::new();
    for device in site.nodes.iter().flat_map(|node| &node.devices) {
        *gpus.entry(&device.model).or_default() += 1;
    }
    let owned = |model: &GpuModel| {
        let quotas = site.tree.queues.iter().map(|queue| queue.quota.get(model).copied());
        quotas.sum::<Option<u64>>()
    };
    let beyond = gpus.into_iter().filter_map(|(model, gpus)| {
        let owned = owned(model).filter(|owned| *owned < gpus)?;
        Some((model.clone(), owned, gpus))
    });
    beyond.collect()
}

/// Reads the queue files; without any, there is one queue without limits.
fn queue_trees(paths: &[PathBuf]) -> Result<Vec<(Option<&Path>, QueueTree)>> {
    if paths.is_empty() {
        return Ok(vec![(None, QueueTree::single())]);
    }
    paths.iter().map(|path| Ok((Some(path.as_path()), cluster::queues(path)?))).collect()
}

/// Returns the name of a file without folder and extension, or its path if another of the files has
/// the same.
fn short_name(path: &Path, all: &[PathBuf]) -> String {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let own = stem(path)
        .filter(|own| all.iter().filter(|other| stem(other).as_ref() == Some(own)).count() == 1);
    own.unwrap_or_else(|| path.display().to_string())
}

/// Adds nodes to a cluster. Says which kind was taken if there are several and none is named.
fn add_nodes(
    app: &App,
    path: &Path,
    input: &ClusterInput,
    add: &AddNodes,
) -> Result<(Vec<muster_model::NodeSpec>, AddedNodes)> {
    let (nodes, like) = more_nodes(&input.nodes, &add.0).map_err(|error| {
        Failure::usage(format!("`--add-nodes {add}` for {}: {error}", path.display()))
            .hint("name a kind by its GPU model, and the GPUs of each node: 4xh100, 4xh100:8")
    })?;
    let model = like.devices.first().map(|device| device.model.to_string());
    let added = AddedNodes {
        nodes: u64::from(add.0.count),
        like: like.name.to_string(),
        gpus: like.devices.len() as u64,
        model,
    };
    let is_mixed = input.nodes.iter().any(|node| {
        (&node.devices, node.cpus, node.memory) != (&like.devices, like.cpus, like.memory)
    });
    if add.0.model.is_none() && is_mixed {
        let model = added.model.as_deref().map_or(String::new(), |model| format!(" ({model})"));
        app.ui.warning(&format!(
            "{} has several kinds of nodes: `--add-nodes {add}` adds nodes like {}, the last one, each with {}{model}",
            path.display(),
            added.like,
            grouped_count(added.gpus, "GPU"),
        ));
    }
    Ok((nodes, added))
}

fn view(
    name: String,
    cluster: &Path,
    queues: Option<&Path>,
    added: Option<AddedNodes>,
    site: &FleetSite,
) -> SiteVariant {
    SiteVariant {
        name,
        cluster: cluster.display().to_string(),
        queues: queues.map(|path| path.display().to_string()),
        added,
        nodes: site.nodes.len() as u64,
        size: site.size_milli() as f64 / 1000.0,
        too_large: 0,
        left_out: 0,
        left_out_share: 0.0,
        strangers: 0,
        capacity_hours: 0.0,
    }
}

/// Rejects variants that cannot be compared.
fn check(all: &[VariantSetup]) -> Result<(), Failure> {
    for (at, variant) in all.iter().enumerate() {
        let name = &variant.view.name;
        if all[..at].iter().any(|other| other.view.name == *name) {
            return Err(Failure::usage(format!("two variants are both `{name}`"))
                .hint("give each cluster, each queue file and each number of nodes once"));
        }
        if variant.site.has_gpus() != all[0].site.has_gpus() {
            return Err(Failure::usage(format!(
                "`{}` and `{name}` cannot be compared: one has GPUs, the other has none",
                all[0].view.name
            ))
            .hint("compare clusters with GPUs, or clusters without"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_nodes_are_a_number_and_perhaps_a_kind() {
        for good in ["4", "4xh100", "12xh100:8", "1xrtxpro6000:4"] {
            assert_eq!(good.parse::<AddNodes>().unwrap().to_string(), good);
        }
        for bad in ["", "0", "x", "4x", "4x:8", "4xh100:", "4xh100:x", "100001", "-1", "h100"] {
            assert!(bad.parse::<AddNodes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_is_named_without_its_folder_if_that_is_unambiguous() {
        let paths: Vec<PathBuf> = ["a/site.yaml", "b/site.yaml", "big.yaml"].map(Into::into).into();
        let names: Vec<String> = paths.iter().map(|path| short_name(path, &paths)).collect();
        assert_eq!(names, ["a/site.yaml", "b/site.yaml", "big"]);
    }
}
