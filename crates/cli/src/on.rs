//! `--on`: the cluster that jobs run on, and the client for it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use muster_api::Client;
use muster_daemon::Paths;
use muster_delegate::kubernetes::{KubernetesFrontConfig, KubernetesScheduler};
use muster_delegate::slurm::rest::RestClient;
use muster_delegate::slurm::tool::Tools;
use muster_delegate::slurm::{SlurmFrontConfig, SlurmScheduler};
use muster_model::ClusterName;

use crate::exit::Failure;
use crate::jobref;
use crate::ui::Ui;

/// Time between two polls of Slurm's queue while watching. Long, because one slurmctld serves all
/// users of a cluster.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Error of subcommands that need to know where.
const ONE_CLUSTER: &str =
    "this command works on one cluster; `muster ps` lists the jobs of several";

/// Image of jobs that name none, where $MUSTER_IMAGE does not either: it has a shell and Python, which
/// most small programs need, and no framework.
const IMAGE: &str = "python:3.13-slim";

/// Clusters that a subcommand uses, as `--on` names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// The cluster that the option names.
    Cluster(ClusterName),
    /// Several clusters, whose jobs are listed together.
    Several(Vec<ClusterName>),
    /// The cluster that the site file says for each job.
    Auto,
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            On::Cluster(cluster) => write!(f, "{cluster}"),
            On::Several(each) => {
                let each: Vec<String> = each.iter().map(ClusterName::to_string).collect();
                f.write_str(&each.join(","))
            }
            On::Auto => f.write_str("auto"),
        }
    }
}

/// Service that a subcommand sends its requests to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// All clusters that `--on` names.
    Clusters,
    /// The cluster that `--on` names, of any kind, or that the site file says for each job.
    ClusterOfJob,
    /// The cluster that `--on` names, of any kind.
    AnyCluster,
    /// The cluster that `--on` names, unless it is Kubernetes.
    Cluster,
    /// The Kubernetes cluster that `--on` names, else the one that kubectl would use.
    Kubernetes,
    /// Always the daemon of this machine.
    LocalDaemon,
    /// None; `--on` says which kind of cluster the files are for that the subcommand writes.
    FilesFor,
    /// None, or one that the subcommand has its own options for.
    None,
}

impl FromStr for On {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(On::Auto);
        }
        let Some(_) = text.find(',') else {
            let cluster = text.parse().map_err(|_| expected())?;
            return Ok(On::Cluster(cluster));
        };
        let each = text.split(',').map(|one| one.trim().parse::<ClusterName>());
        let each = each.collect::<Result<Vec<_>, _>>().map_err(|_| expected())?;
        if each.iter().any(|one| matches!(one, ClusterName::SlurmAt(_))) {
            return Err("slurm@HOST stands alone: the command runs on that host".to_owned());
        }
        Ok(On::Several(each))
    }
}

/// Returns the error text of another value.
fn expected() -> String {
    format!("expected {}, or auto", ClusterName::FORMS.join(", "))
}

impl On {
    /// Returns a client that runs in this process, without a daemon; `None` for the daemon.
    pub fn client(&self) -> Result<Option<Client>> {
        match self {
            On::Cluster(ClusterName::Local) => Ok(None),
            On::Cluster(ClusterName::Slurm) => slurm().map(Some),
            On::Cluster(ClusterName::Kubernetes(context)) => Ok(Some(kubernetes(context.clone()))),
            // Subcommands for one such cluster run on that host: `remote`.
            On::Cluster(ClusterName::SlurmAt(host)) => {
                Err(Failure::usage(format!("jobs of slurm@{host} are not listed beside others"))
                    .hint(format!("`muster ps --on slurm@{host}` lists them"))
                    .into())
            }
            On::Several(_) | On::Auto => Err(Failure::usage(ONE_CLUSTER).into()),
        }
    }

    /// Returns the context of Kubernetes, which is `None` for the current one; `None` for other clusters.
    pub fn kubernetes(&self) -> Option<Option<&str>> {
        match self {
            On::Cluster(ClusterName::Kubernetes(context)) => Some(context.as_deref()),
            _ => None,
        }
    }
}

/// Returns a client of the Kubernetes cluster of a context.
fn kubernetes(context: Option<String>) -> Client {
    let image = std::env::var("MUSTER_IMAGE").ok().filter(|image| !image.is_empty());
    let settings = KubernetesFrontConfig {
        context,
        user: jobref::own_name(),
        image: image.unwrap_or_else(|| IMAGE.to_owned()),
        warn,
    };
    Client::in_process(Arc::new(KubernetesScheduler::new(settings)))
}

/// Returns a client of the Slurm cluster whose programs are installed here.
fn slurm() -> Result<Client> {
    let root = Paths::external_scheduler("slurm")
        .map_err(|error| Failure::new(error.to_string()).hint(error.hint()))?;
    let tools = match std::env::var_os("MUSTER_SLURM_BIN") {
        Some(folder) => Tools::new().in_folder(folder.into()),
        None => Tools::new(),
    };
    let program = std::env::current_exe().context("cannot find this program")?;
    let user = jobref::own_name();
    let (tools, rest) = match std::env::var("MUSTER_SLURMRESTD") {
        Ok(address) if !address.is_empty() => {
            (tools.without_token(), rest(&address, user.as_str()))
        }
        _ => (tools, None),
    };
    let settings =
        SlurmFrontConfig { tools, rest, warn, program, user, root, poll_interval: POLL_INTERVAL };
    Ok(Client::in_process(Arc::new(SlurmScheduler::new(settings))))
}

/// Rejects `--on` for subcommands that it does not apply to, so that it is not ignored silently.
/// The variable `MUSTER_ON` is meant for all commands of a shell, so subcommands that use no
/// cluster ignore it.
pub fn check_applies(on: Option<&On>, asks: Endpoint) -> Result<()> {
    match (on, asks) {
        (Some(on), Endpoint::Kubernetes) if on.kubernetes().is_none() && is_typed() => {
            Err(Failure::usage(format!("this command is about a Kubernetes cluster, not {on}"))
                .hint("leave out --on, or name a context: `--on kubernetes@CONTEXT`")
                .hint("nodes of Slurm are compared with: `sinfo -hN -o %N | muster check kubernetes --slurm-nodes -`")
                .into())
        }
        (_, Endpoint::Kubernetes) => Ok(()),
        (None | Some(On::Cluster(ClusterName::Local)), _)
        | (_, Endpoint::Clusters | Endpoint::FilesFor) => Ok(()),
        (Some(On::Auto), Endpoint::AnyCluster | Endpoint::Cluster) => {
            Err(Failure::usage("--on auto chooses a cluster for the jobs of `muster run`; this command works on one")
                .hint("name the cluster of the job: `--on slurm`; `muster ps --on auto` lists the jobs of all")
                .into())
        }
        (
            Some(On::Several(_)),
            Endpoint::ClusterOfJob | Endpoint::AnyCluster | Endpoint::Cluster,
        ) => {
            Err(Failure::usage(ONE_CLUSTER)
                .hint("name the cluster of the job: `--on slurm`")
                .into())
        }
        (_, Endpoint::ClusterOfJob | Endpoint::AnyCluster) => Ok(()),
        (Some(On::Cluster(ClusterName::Kubernetes(_))), Endpoint::Cluster) => Err(Failure::usage(
            "this command does not work on Kubernetes yet",
        )
        .hint("docs/kubernetes.md lists what works there; this works on one machine and on Slurm")
        .into()),
        (_, Endpoint::Cluster) => Ok(()),
        (Some(On::Cluster(ClusterName::Kubernetes(_))), Endpoint::LocalDaemon) => {
            Err(Failure::usage("this command uses the daemon of this machine, not Kubernetes")
                .hint("run it as `muster`, without --on")
                .into())
        }
        (Some(_), Endpoint::LocalDaemon) => {
            Err(Failure::usage("this command uses the daemon of this machine only")
                .hint("leave out --on, or use `--on local`")
                .into())
        }
        (Some(_), Endpoint::None) if is_typed() => {
            Err(Failure::usage("--on does not apply to this command, which uses no cluster").into())
        }
        (Some(_), Endpoint::None) => Ok(()),
    }
}

/// Returns the option, with a blank before it, that a further command needs to reach the same cluster;
/// empty where that is the cluster of `MUSTER_ON`, or without the variable this machine.
pub fn option_for(on: Option<&On>) -> String {
    let usual = std::env::var("MUSTER_ON").ok().filter(|text| !text.is_empty());
    let usual = usual.unwrap_or_else(|| ClusterName::Local.to_string());
    let on = on.map(On::to_string).filter(|on| *on != usual);
    on.map_or_else(String::new, |on| format!(" --on {on}"))
}

/// Returns whether `--on` stands on the command line.
pub fn is_typed() -> bool {
    let words = std::env::args_os().take_while(|word| word != "--");
    words
        .map(|word| word.to_string_lossy().into_owned())
        .any(|word| word == "--on" || word.starts_with("--on="))
}

/// Returns a client for the slurmrestd at an address, with the token of the environment. An invalid
/// address or token is only a warning: Slurm's programs give the same information.
fn rest(address: &str, own: &str) -> Option<RestClient> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let asked = set("SLURM_USER_NAME");
    let token = set("SLURM_JWT");
    let rest = RestClient::new(address, own, asked.as_deref(), token.as_deref());
    rest.inspect_err(|error| {
        warn(&format!("MUSTER_SLURMRESTD: {error}; using Slurm's programs instead"))
    })
    .ok()
}

fn warn(text: &str) {
    Ui::detect().warning(text);
}
