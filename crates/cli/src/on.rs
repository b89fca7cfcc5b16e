//! Where jobs run: `--on`, and who answers there.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use muster_api::Client;
use muster_backends::slurm::rest::Rest;
use muster_backends::slurm::tool::Tools;
use muster_daemon::Paths;
use muster_delegate::slurm::{Settings, Slurm};

use crate::args::Asks;
use crate::exit::Failure;
use crate::jobref;
use crate::ui::Ui;

/// Between two looks at a queue of others for those who watch: kind to a controller that serves
/// thousands.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A place to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// The daemon of this machine.
    Local,
    /// Slurm, from a node that has its programs.
    Slurm,
    /// Slurm, from that host, over ssh.
    SlurmAt(String),
}

impl FromStr for On {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "local" => Ok(On::Local),
            "slurm" => Ok(On::Slurm),
            _ => match text.strip_prefix("slurm@") {
                // ssh takes a dash for an option.
                Some(host) if !host.is_empty() && !host.starts_with('-') => {
                    Ok(On::SlurmAt(host.to_owned()))
                }
                _ => Err("expected local, slurm, or slurm@HOST".to_owned()),
            },
        }
    }
}

impl On {
    /// Who answers there; `None` is the daemon.
    pub fn client(&self) -> Result<Option<Client>> {
        // Of a host, everything is done there: `remote`.
        if *self != On::Slurm {
            return Ok(None);
        }
        let root = Paths::delegated("slurm")
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
        let settings = Settings { tools, rest, warn, program, user, root, look_again: LOOK_AGAIN };
        Ok(Some(Client::here(Arc::new(Slurm::new(settings)))))
    }
}

/// Refuses a place that means nothing to a verb: nobody shall think that it was asked there. Verbs
/// that ask nobody leave what `MUSTER_ON` says to others.
pub fn agree(on: Option<&On>, asks: Asks) -> Result<()> {
    let is_typed = || {
        let words = std::env::args_os().take_while(|word| word != "--");
        words
            .map(|word| word.to_string_lossy().into_owned())
            .any(|word| word == "--on" || word.starts_with("--on="))
    };
    match (on, asks) {
        (None | Some(On::Local), _) | (_, Asks::Place) => Ok(()),
        (Some(_), Asks::Daemon) => Err(Failure::usage("this verb asks the daemon of this machine")
            .hint("with `--on local` it does")
            .into()),
        (Some(_), Asks::Nobody) if is_typed() => {
            Err(Failure::usage("--on means nothing to this verb: it asks nobody who runs jobs")
                .into())
        }
        (Some(_), Asks::Nobody) => Ok(()),
    }
}

/// The slurmrestd at an address, with the token of the environment. One that cannot be asked is no
/// reason to stop: Slurm's programs say the same.
fn rest(address: &str, own: &str) -> Option<Rest> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (asked, token) = (set("SLURM_USER_NAME"), set("SLURM_JWT"));
    let rest = Rest::new(address, own, asked.as_deref(), token.as_deref());
    rest.inspect_err(|error| {
        warn(&format!("MUSTER_SLURMRESTD: {error}; Slurm's programs are asked instead"))
    })
    .ok()
}

fn warn(text: &str) {
    Ui::detect().warning(text);
}
