//! How jobs are named on the command line: `3`, `3[7]`, `3_7`, `train`, `train[7]`; on Slurm also
//! by Muster's own id, `muster:1f2e…`.

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
    /// Muster's id of a job that was handed on to a place that gives numbers away again.
    Id(String),
}

/// Stands before an id.
const ID: &str = "muster:";

/// A job that was looked up; `index` when one element of an array is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
            return Ok(Self {
                job: Named::parse(job).ok_or_else(malformed)?,
                index: Some(number(index)?),
            });
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
            Err(_) if text.starts_with(ID) => Some(Named::Id(text[ID.len()..].to_owned())),
            Err(_) => Some(Named::Name(text.to_owned())),
        }
    }
}

impl JobRef {
    /// Looks a name up: among jobs that have not ended, then among all. A number is taken at its
    /// word. Where numbers are given away again, a name is resolved to the job's id, and the number
    /// means that job from then on.
    pub async fn resolve(&self, client: &Client) -> Result<Target> {
        let (name, is_id) = match &self.job {
            Named::Number(job) => return Ok(Target { job: *job, index: self.index }),
            Named::Name(name) => (name, false),
            Named::Id(id) => (id, true),
        };
        let found = match is_id {
            true => by_id(client, name).await?,
            false => by_name(client, name, Owner::Any).await?,
        };
        let prefix = if is_id { ID } else { "" };
        let job = found.ok_or_else(|| {
            Failure::not_found(format!("there is no job `{prefix}{name}`"))
                .hint("`muster ps -a` lists all jobs")
        })?;
        Ok(Target { job, index: self.index })
    }
}

/// Whose jobs a name is looked for among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Of this user.
    Own,
    /// Of any user.
    Any,
}

/// Returns the job of a name: the one that has not ended, else the newest that has. One's own go
/// before those of others.
///
/// # Errors
/// When several that have not ended have the name.
pub async fn by_name(client: &Client, name: &str, owner: Owner) -> Result<Option<JobId>> {
    // A name may hold what stands for other characters in a pattern.
    look_up(client, Some(name), owner, name, |job| job.name == name).await
}

async fn by_id(client: &Client, id: &str) -> Result<Option<JobId>> {
    look_up(client, None, Owner::Any, id, |job| own_id(job) == Some(id)).await
}

async fn look_up(
    client: &Client,
    pattern: Option<&str>,
    owner: Owner,
    said: &str,
    is_meant: impl Fn(&JobView) -> bool,
) -> Result<Option<JobId>> {
    let own = own_name();
    for all in [false, true] {
        let user = (owner == Owner::Own).then(|| own.to_string());
        let filter =
            JobFilter { all, user, name: pattern.map(str::to_owned), ..JobFilter::default() };
        let list = client.jobs(filter).await.map_err(Failure::from)?;
        let mut found: Vec<&JobView> = list.jobs.iter().filter(|job| is_meant(job)).collect();
        if found.iter().any(|job| job.user == own) {
            found.retain(|job| job.user == own);
        }
        let live: Vec<&JobView> =
            found.iter().copied().filter(|job| !job.state.is_final()).collect();
        let one = match live.as_slice() {
            [] => found.iter().copied().max_by_key(|job| (job.submitted, job.job)),
            [one] => Some(*one),
            several => return Err(ambiguous(said, several).into()),
        };
        if let Some(one) = one {
            // Where numbers are given away again, this one means that job from here on.
            if let Some(id) = own_id(one) {
                client.mean(one.job, id);
            }
            return Ok(Some(one.job));
        }
    }
    Ok(None)
}

fn own_id(job: &JobView) -> Option<&str> {
    job.native.as_ref().and_then(|native| native.id.as_deref())
}

fn ambiguous(said: &str, several: &[&JobView]) -> Failure {
    let is_alone = |job: &JobView| several.iter().filter(|other| other.job == job.job).count() == 1;
    let word = |job: &&JobView| match own_id(job) {
        Some(id) if !is_alone(job) => format!("{ID}{id}"),
        _ => job.job.to_string(),
    };
    let numbers: Vec<String> = several.iter().map(word).collect();
    Failure::not_found(format!("`{said}` names several jobs: {}", numbers.join(", ")))
        .hint("use the number")
}

/// This user's name, as the daemon would know it.
pub fn own_name() -> UserName {
    KernelPeers.resolve(own_peer()).0
}

/// Whether a daemon of the machine would take this user for an admin. Asked before what cannot be
/// undone; the daemon judges by itself.
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
            ("muster:1f2e", JobRef { job: Named::Id("1f2e".to_owned()), index: None }),
            ("muster:1f2e[7]", JobRef { job: Named::Id("1f2e".to_owned()), index: Some(7) }),
        ] {
            assert_eq!(text.parse::<JobRef>(), Ok(expected));
        }
        for wrong in ["", "3[", "3[x]", "[7]", "3[7", "-x", "3[-1]", "3[99999999999]"] {
            assert!(wrong.parse::<JobRef>().is_err(), "{wrong}");
        }
    }
}
