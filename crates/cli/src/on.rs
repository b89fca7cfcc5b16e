//! `--on`: the cluster that jobs run on, and the client for it.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use muster_api::Client;
use muster_daemon::Paths;
use muster_delegate::slurm::rest::RestClient;
use muster_delegate::slurm::tool::Tools;
use muster_delegate::slurm::{SlurmFrontConfig, SlurmScheduler};

use crate::exit::Failure;
use crate::jobref;
use crate::ui::Ui;

/// Time between two polls of Slurm's queue while watching. Long, because one slurmctld serves all
/// users of a cluster.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Cluster that jobs run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// Nodes of the daemon of this machine.
    Local,
    /// Slurm, by its programs on this machine.
    Slurm,
    /// Slurm, by its programs on that host, over ssh.
    SlurmAt(String),
    /// Kubernetes, by the API server of the kubeconfig.
    Kubernetes,
}

/// Service that a subcommand sends its requests to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The cluster that `--on` names, of any kind.
    AnyCluster,
    /// The cluster that `--on` names, unless it is Kubernetes.
    Cluster,
    /// Always the daemon of this machine.
    LocalDaemon,
    /// None, or one that the subcommand has its own options for.
    None,
}

impl FromStr for On {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "local" => Ok(On::Local),
            "slurm" => Ok(On::Slurm),
            "kubernetes" => Ok(On::Kubernetes),
            _ => match text.strip_prefix("slurm@") {
                // ssh would parse a leading dash as an option.
                Some(host) if !host.is_empty() && !host.starts_with('-') => {
                    Ok(On::SlurmAt(host.to_owned()))
                }
                _ => Err("expected local, slurm, slurm@HOST, or kubernetes".to_owned()),
            },
        }
    }
}

impl On {
    /// Returns a client that runs in this process, without a daemon; `None` for the daemon.
    pub fn client(&self) -> Result<Option<Client>> {
        // For `SlurmAt` the whole subcommand runs on the other host: `remote`.
        if *self != On::Slurm {
            return Ok(None);
        }
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
        let settings = SlurmFrontConfig {
            tools,
            rest,
            warn,
            program,
            user,
            root,
            poll_interval: POLL_INTERVAL,
        };
        Ok(Some(Client::in_process(Arc::new(SlurmScheduler::new(settings)))))
    }
}

/// Rejects `--on` for subcommands that it does not apply to, so that it is not ignored silently.
/// The variable `MUSTER_ON` is meant for all commands of a shell, so subcommands that use no
/// cluster ignore it.
pub fn check_applies(on: Option<&On>, asks: Endpoint) -> Result<()> {
    match (on, asks) {
        (None | Some(On::Local), _) | (_, Endpoint::AnyCluster) => Ok(()),
        (Some(On::Kubernetes), Endpoint::Cluster) => {
            Err(Failure::usage("this command does not work on Kubernetes yet")
                .hint("`explain`, `queues` and `nodes` do; use kubectl for the rest")
                .into())
        }
        (_, Endpoint::Cluster) => Ok(()),
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
