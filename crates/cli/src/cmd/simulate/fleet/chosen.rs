//! Schedulers as they are named on the command line: those of `muster-sim`, and commands of users.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use muster_model::Span;
use muster_sim::fleet::{FleetSite, Scheduler, SchedulerKind};
use muster_sim::peers::external::External;
use muster_sim::peers::slurm::SlurmSettings;

use super::child_policy::ChildPolicy;

/// Prefix of a command that decides.
const COMMAND: &str = "exec:";

/// A scheduler to run.
#[derive(Clone, Debug)]
pub struct ChosenScheduler {
    /// Scheduler of the simulation; `External` for a command.
    pub kind: SchedulerKind,
    /// Name that users see.
    pub name: String,
}

impl ChosenScheduler {
    /// Returns the scheduler with this name, or of this command.
    pub fn named(name: &str) -> Option<Self> {
        let kind = if name.starts_with(COMMAND) {
            SchedulerKind::External
        } else {
            SchedulerKind::named(name)?
        };
        Some(Self { kind, name: name.to_owned() })
    }

    /// Creates the scheduler. A command starts anew for each run, and has this long for an answer,
    /// unless the run is stopped before.
    pub fn begin(
        &self,
        site: &FleetSite,
        seed: u64,
        slurm: SlurmSettings,
        (timeout, stop): (Span, Arc<AtomicBool>),
    ) -> Result<Box<dyn Scheduler>> {
        match self.name.strip_prefix(COMMAND) {
            Some(command) => {
                let policy = ChildPolicy::start(command, seed, timeout, stop)?;
                Ok(Box::new(External::new(site, Box::new(policy))))
            }
            None => Ok(self.kind.begin_as(site, seed, slurm)?),
        }
    }
}

/// Parser of scheduler names, which also accepts commands.
#[derive(Clone, Debug)]
pub struct NameParser(pub PossibleValuesParser);

impl TypedValueParser for NameParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        match value.to_str() {
            Some(name) if name.starts_with(COMMAND) && name.len() > COMMAND.len() => {
                Ok(name.to_owned())
            }
            _ => self.0.parse_ref(command, argument, value),
        }
    }

    fn possible_values(
        &self,
    ) -> Option<Box<dyn Iterator<Item = clap::builder::PossibleValue> + '_>> {
        self.0.possible_values()
    }
}
