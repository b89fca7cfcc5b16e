//! `--on kubernetes`: options that say which cluster, and what its scheduler runs with.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use clap::Args;
use muster_operator::reader::{ClusterReader, ReaderSettings};
use muster_operator::{OperatorError, ReadError};
use muster_scheduler::Level;

use crate::args::Global;
use crate::exit::{Failure, UNAVAILABLE};
use crate::on::On;
use crate::source;
use crate::topology_label::TopologyLabel;

/// Lease of an installed scheduler.
pub const LEASE: &str = "muster-system/muster-scheduler";

/// Options of subcommands that work on Kubernetes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options with --on kubernetes")]
pub struct KubernetesArgs {
    /// kubeconfig file; by default $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; by default the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Topology levels, as given to `muster scheduler`; by default those that the active one published
    #[arg(long, value_name = "LEVEL=LABEL")]
    level: Vec<TopologyLabel>,
    /// Queue file of the scheduler; by default the queues that the active one uses
    #[arg(long, value_name = "FILE")]
    queues: Option<PathBuf>,
    /// Lease of the scheduler [default: muster-system/muster-scheduler]
    #[arg(long, value_name = "NAMESPACE/NAME")]
    lease: Option<LeaseName>,
}

/// Namespace and name of a lease.
#[derive(Clone, Debug)]
pub struct LeaseName(pub String, pub String);

impl FromStr for LeaseName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_word = |word: &str| {
            !word.is_empty()
                && word
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
        };
        match text.split_once('/') {
            Some((namespace, name)) if is_word(namespace) && is_word(name) => {
                Ok(Self(namespace.to_owned(), name.to_owned()))
            }
            _ => Err("expected a namespace and a name, such as muster-system/muster-scheduler"
                .to_owned()),
        }
    }
}

/// Returns topology levels as a scheduler takes them.
pub fn levels(given: &[TopologyLabel]) -> Vec<Level> {
    let level =
        |one: &TopologyLabel| Level { name: one.name.as_str().into(), label: one.label.clone() };
    given.iter().map(level).collect()
}

/// Returns the queue tree of a file.
pub fn queue_tree(path: Option<&PathBuf>) -> Result<Option<muster_model::QueueTree>> {
    let Some(path) = path else { return Ok(None) };
    let text = source::read(path)?;
    let tree = muster_spec::parse_queues(&text.source, text.file.as_deref());
    Ok(Some(tree.map_err(Failure::from)?))
}

impl KubernetesArgs {
    /// Returns true if any of these options is given.
    pub fn are_given(&self) -> bool {
        self.kubeconfig.is_some()
            || self.context.is_some()
            || !self.level.is_empty()
            || self.queues.is_some()
            || self.lease.is_some()
    }

    /// Returns a reader of the cluster with `--on kubernetes`; `None` on other clusters, where these
    /// options are refused.
    pub async fn reader(
        &self,
        global: &Global,
        namespace: Option<String>,
    ) -> Result<Option<ClusterReader>> {
        let Some(context) = global.on.as_ref().and_then(On::kubernetes) else {
            let is_given = namespace.is_some() || self.are_given();
            return if is_given {
                let text = "--namespace, --kubeconfig, --context, --level, --queues and --lease need --on kubernetes";
                Err(Failure::usage(text).hint("add --on kubernetes, or leave them out").into())
            } else {
                Ok(None)
            };
        };
        let LeaseName(lease_namespace, lease) = match &self.lease {
            Some(lease) => lease.clone(),
            None => LEASE.parse().expect("the default is a lease"),
        };
        let settings = ReaderSettings {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone().or_else(|| context.map(str::to_owned)),
            namespace,
            levels: levels(&self.level),
            queues: queue_tree(self.queues.as_ref())?,
            lease: (lease_namespace, lease),
        };
        Ok(Some(ClusterReader::new(settings).await.map_err(Failure::from)?))
    }
}

impl From<OperatorError> for Failure {
    fn from(error: OperatorError) -> Self {
        let hint = match &error {
            OperatorError::Config(_) => {
                Some("set KUBECONFIG, or --context for a context of ~/.kube/config")
            }
            OperatorError::Credentials(_) => {
                Some("`kubectl auth whoami` with the same kubeconfig shows whether they are valid")
            }
            OperatorError::Api(_) => {
                Some("`kubectl get nodes` with the same kubeconfig shows whether it is valid")
            }
            OperatorError::LeaseLost
            | OperatorError::ClockSetBack(_)
            | OperatorError::Queues(_)
            | OperatorError::Listen(..) => None,
        };
        let failure = Failure::new(error.to_string());
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let text = error.to_string();
        match error {
            ReadError::Cluster(error) => error.into(),
            ReadError::Credentials(_) => Failure::new(text)
                .hint("they may have expired; `kubectl auth whoami` shows whether they are valid"),
            ReadError::Silent(_) => Failure { code: UNAVAILABLE, ..Failure::new(text) }
                .hint("`kubectl cluster-info` shows which server the kubeconfig names; a proxy is that of its `proxy-url`, or HTTPS_PROXY"),
            ReadError::Forbidden(_) => Failure::new(text)
                .hint("an administrator can bind the ClusterRole muster-viewer to you"),
            ReadError::Published { options, .. } => Failure::new(text).hint(format!(
                "use the version of the scheduler, or name {options} as it has them"
            )),
            ReadError::NotFound { .. } => Failure::not_found(text)
                .hint("-n names another namespace; `kubectl get pods,jobs -A` lists all"),
            ReadError::Ambiguous { .. } => Failure::not_found(text).hint("name the kind, too"),
        }
    }
}
