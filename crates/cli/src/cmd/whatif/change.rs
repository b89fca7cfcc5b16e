//! Options that describe a change to the site. `muster-sim` applies it.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use muster_model::{DeviceSet, GpuModel};
use muster_report::amount::grouped_count;
use muster_sim::whatif::{ChangeError, NodeKind, SiteChange, Situation};
use muster_spec::parse_queues;

use crate::exit::Failure;
use crate::source;

const HEADING: &str = "Change (several options are applied together)";

/// Change to the site.
#[derive(Debug, clap::Args)]
pub struct ChangeArgs {
    /// Add nodes, like the most common ones of the site, or with these GPUs each: 2xh100:8
    #[arg(long, value_name = "N[xMODEL:GPUS]", help_heading = HEADING)]
    add_nodes: Vec<NodesChange>,
    /// Remove nodes, those with the least running work; running jobs there keep running
    #[arg(long, value_name = "N[xMODEL:GPUS]", help_heading = HEADING)]
    remove_nodes: Vec<NodesChange>,
    /// Set the quota of a queue, in GPUs or in GPUs of a model; `none` removes it
    #[arg(long, value_name = "QUEUE=[MODEL:]N|none", help_heading = HEADING)]
    quota: Vec<QuotaChange>,
    /// Replace queues, quotas and policies by those of a queue file. With --trace and --cluster, the
    /// first file has the queues of the site as it is, and a second one replaces them
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    queues: Vec<PathBuf>,
}

/// Largest number of nodes that can be added or removed.
const MOST_NODES: u32 = 100_000;

/// Number of nodes of a kind, as typed.
#[derive(Clone, Debug)]
struct NodesChange {
    count: u32,
    kind: NodeKind,
}

impl FromStr for NodesChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected a number of nodes up to {MOST_NODES}, such as 2, or with up to {} GPUs each: 2xh100:8",
                DeviceSet::MAX_DEVICES
            )
        };
        let count = |text: &str| {
            text.parse().ok().filter(|count| (1..=MOST_NODES).contains(count)).ok_or_else(wrong)
        };
        let Some((nodes, gpus)) = text.split_once('x') else {
            return Ok(Self { count: count(text)?, kind: NodeKind { gpus: None } });
        };
        let (model, gpus) =
            gpus.rsplit_once(':').filter(|(model, _)| !model.is_empty()).ok_or_else(wrong)?;
        let gpus = gpus.parse().ok().filter(|gpus| *gpus as usize <= DeviceSet::MAX_DEVICES);
        let kind = NodeKind { gpus: Some((model.into(), gpus.ok_or_else(wrong)?)) };
        Ok(Self { count: count(nodes)?, kind })
    }
}

/// Quota of a queue, as typed.
#[derive(Clone, Debug)]
struct QuotaChange {
    queue: String,
    model: Option<GpuModel>,
    gpus: Option<u64>,
}

impl FromStr for QuotaChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "expected a queue and its GPUs: research=16, research=h100:16, research=none".to_owned()
        };
        let (queue, quota) =
            text.split_once('=').filter(|(queue, _)| !queue.is_empty()).ok_or_else(wrong)?;
        let (model, gpus) = match quota.rsplit_once(':') {
            Some((model, gpus)) => (Some(model.into()), gpus),
            None => (None, quota),
        };
        let gpus = if gpus == "none" { None } else { Some(gpus.parse().map_err(|_| wrong())?) };
        Ok(Self { queue: queue.to_owned(), model, gpus })
    }
}

impl ChangeArgs {
    /// Reads a change from the values of at most one option of each kind.
    ///
    /// # Errors
    /// The message for a value that cannot be read.
    pub fn of_texts(
        add_nodes: Option<&str>,
        remove_nodes: Option<&str>,
        quota: Option<&str>,
    ) -> Result<Self, String> {
        Ok(Self {
            add_nodes: add_nodes.map(str::parse).transpose()?.into_iter().collect(),
            remove_nodes: remove_nodes.map(str::parse).transpose()?.into_iter().collect(),
            quota: quota.map(str::parse).transpose()?.into_iter().collect(),
            queues: Vec::new(),
        })
    }

    /// Removes the first queue file, which has the queues of the site as it is.
    pub fn take_present_queues(&mut self) -> Option<PathBuf> {
        (!self.queues.is_empty()).then(|| self.queues.remove(0))
    }

    /// Returns whether no change is given.
    pub fn is_none(&self) -> bool {
        self.add_nodes.is_empty()
            && self.remove_nodes.is_empty()
            && self.quota.is_empty()
            && self.queues.is_empty()
    }

    /// Returns the change to a site, and a description of each part.
    pub fn apply_to(&self, situation: &Situation) -> Result<(SiteChange, Vec<String>)> {
        let mut change = SiteChange::default();
        let mut words = Vec::new();
        // 1. Add and remove nodes.
        for nodes in &self.add_nodes {
            let joined =
                situation.more(nodes.count, &nodes.kind).map_err(|error| change_failure(&error))?;
            let gpus = joined.first().map_or(0, |node| node.devices.len() as u64);
            let model = joined.first().and_then(|node| node.devices.first());
            let model = model.map_or_else(String::new, |device| format!(" ({})", device.model));
            words.push(format!(
                "add {}, each with {}{model}",
                grouped_count(u64::from(nodes.count), "node"),
                grouped_count(gpus, "GPU")
            ));
            change.join(joined);
        }
        for nodes in &self.remove_nodes {
            let gone = situation.fewer(nodes.count, &nodes.kind, &change.drained);
            change.drained.extend(gone.map_err(|error| change_failure(&error))?);
            words.push(format!("remove {}", grouped_count(u64::from(nodes.count), "node")));
        }
        // 2. Replace the queues, then set quotas.
        if let [_, another, ..] = self.queues.as_slice() {
            return Err(Failure::usage(format!(
                "`--queues {}` is one too many",
                another.display()
            ))
            .hint("the site has one queue file, and with `--trace` a first one as it is")
            .into());
        }
        if let Some(path) = self.queues.first() {
            let text = source::read(path)?;
            change.tree =
                Some(parse_queues(&text.source, text.file.as_deref()).map_err(Failure::from)?);
            words.push(format!("use the queues of {}", path.display()));
        }
        for QuotaChange { queue, model, gpus } in &self.quota {
            let tree = change.tree.take().unwrap_or_else(|| situation.engine().tree().clone());
            let tree = situation
                .with_quota(tree, &change.joined, queue, model.as_ref(), *gpus)
                .map_err(|error| change_failure(&error))?;
            change.tree = Some(tree);
            let model = model.as_ref().map_or_else(String::new, |model| format!("{model} "));
            words.push(match gpus {
                Some(gpus) => {
                    format!(
                        "set the quota of {queue} to {}",
                        grouped_count(*gpus, &format!("{model}GPU"))
                    )
                }
                None => format!("remove the {model}quota of {queue}"),
            });
        }
        Ok((change, words))
    }
}

fn change_failure(error: &ChangeError) -> Failure {
    Failure::usage(error.to_string())
}
