//! How jobs are named on the command line: `3`, `3[7]`, `3_7`, `train`, `train[7]`.

use std::str::FromStr;

use anyhow::Result;
use muster_api::Client;
use muster_api::query::JobFilter;
use muster_daemon::auth::{KernelPeers, Peer, Peers};
use muster_model::view::JobView;
use muster_model::{ElementId, JobId, UserName};
use rustix::process::{getegid, geteuid};

use crate::exit::Failure;

/// A job as typed, not looked up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRef {
    job: Named,
    index: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Number(JobId),
    Name(String),
}

/// A job that was looked up; `index` when one element of an array is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The job.
    pub job: JobId,
    /// One element of it.
    pub index: Option<u32>,
}

impl Target {
    /// As it is typed.
    pub fn text(self) -> String {
        match self.index {
            Some(index) => ElementId { job: self.job, index }.to_string(),
            None => self.job.to_string(),
        }
    }
}

impl FromStr for JobRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("`{text}` is no job; expected 3, 3[7] or a name");
        let number = |text: &str| text.parse::<u32>().map_err(|_| malformed());
        if let Some((job, rest)) = text.split_once('[') {
            let index = rest.strip_suffix(']').ok_or_else(malformed)?;
            return Ok(Self { job: Named::parse(job).ok_or_else(malformed)?, index: Some(number(index)?) });
        }
        // As Slurm writes elements. Only after a number: names may hold underscores.
        if let Some((job, index)) = text.split_once('_')
            && let (Ok(job), Ok(index)) = (job.parse(), index.parse())
        {
            return Ok(Self { job: Named::Number(JobId(job)), index: Some(index) });
        }
        Ok(Self { job: Named::parse(text).ok_or_else(malformed)?, index: None })
    }
}

impl Named {
    fn parse(text: &str) -> Option<Self> {
        match text.parse() {
            Ok(number) => Some(Named::Number(JobId(number))),
            Err(_) if text.is_empty() || text.starts_with('-') => None,
            Err(_) => Some(Named::Name(text.to_owned())),
        }
    }
}

impl JobRef {
    /// Looks a name up: among jobs that have not ended, then among all. A number is taken at its word.
    pub async fn resolve(&self, client: &Client) -> Result<Target> {
        let name = match &self.job {
            Named::Number(job) => return Ok(Target { job: *job, index: self.index }),
            Named::Name(name) => name,
        };
        for all in [false, true] {
            let list = client.jobs(JobFilter { all, ..JobFilter::default() }).await.map_err(Failure::from)?;
            let mut found: Vec<&JobView> = list.jobs.iter().filter(|job| job.name == *name).collect();
            // Others of the machine may use the same name; one means one's own.
            let own = own_name();
            if found.iter().any(|job| job.user == own) {
                found.retain(|job| job.user == own);
            }
            match found.as_slice() {
                [] => {}
                [one] => return Ok(Target { job: one.job, index: self.index }),
                several => {
                    let numbers: Vec<String> = several.iter().map(|job| job.job.to_string()).collect();
                    return Err(Failure::not_found(format!(
                        "`{name}` names several jobs: {}",
                        numbers.join(", ")
                    ))
                    .hint("use the number")
                    .into());
                }
            }
        }
        Err(Failure::not_found(format!("there is no job `{name}`"))
            .hint("`muster ps -a` lists all jobs")
            .into())
    }
}

/// This user's name, as the daemon would know it.
pub fn own_name() -> UserName {
    KernelPeers.resolve(own_peer()).0
}

/// Whether a daemon of the machine would take this user for an admin. Asked before what cannot be undone; the daemon
/// judges by itself.
pub fn is_admin() -> bool {
    KernelPeers.resolve(own_peer()).1
}

fn own_peer() -> Peer {
    Peer { uid: geteuid().as_raw(), gid: getegid().as_raw() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_elements_and_names() {
        let number = |job, index| JobRef { job: Named::Number(JobId(job)), index };
        let name = |text: &str, index| JobRef { job: Named::Name(text.to_owned()), index };
        for (text, expected) in [
            ("3", number(3, None)),
            ("3[7]", number(3, Some(7))),
            ("3_7", number(3, Some(7))),
            ("train", name("train", None)),
            ("train_7", name("train_7", None)),
            ("train[7]", name("train", Some(7))),
        ] {
            assert_eq!(text.parse::<JobRef>(), Ok(expected));
        }
        for wrong in ["", "3[", "3[x]", "[7]", "3[7", "-x", "3[-1]", "3[99999999999]"] {
            assert!(wrong.parse::<JobRef>().is_err(), "{wrong}");
        }
    }
}
