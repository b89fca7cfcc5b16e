//! Job arguments on the command line: `3`, `3[7]`, `3_7`, `train`, `train[7]`; on Slurm also
//! Muster's own id, `muster:1f2e…`.

use std::str::FromStr;

use anyhow::Result;
use muster_api::Client;
use muster_api::query::JobFilter;
use muster_daemon::auth::{self, KernelPeers, Peer, Peers};
use muster_model::view::JobView;
use muster_model::{JobId, UserName};
use rustix::process::{getegid, geteuid};

use crate::exit::Failure;

/// Job as typed, not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRef {
    job: TypedJob,
    index: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TypedJob {
    Number(JobId),
    Name(String),
    /// Muster's own id of a job on Slurm, which may reuse job numbers.
    Id(String),
}

/// Prefix of an id.
const ID: &str = "muster:";

/// Job that was looked up, or one element of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobTarget {
    /// Number of the job.
    pub job: JobId,
    /// Index of one element of an array or service; `None` for the whole job.
    pub index: Option<u32>,
}

impl JobTarget {
    /// Returns the target as it is typed on the command line.
    pub fn text(self, client: &Client) -> String {
        let label = client.label(self.job);
        self.index.map_or(label.clone(), |index| format!("{label}[{index}]"))
    }
}

impl FromStr for JobRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("`{text}` is not a job; expected 3, 3[7] or a name");
        let number = |text: &str| text.parse::<u32>().map_err(|_| malformed());
        if let Some((job, rest)) = text.split_once('[') {
            let index = rest.strip_suffix(']').ok_or_else(malformed)?;
            return Ok(Self {
                job: TypedJob::parse(job).ok_or_else(malformed)?,
                index: Some(number(index)?),
            });
        }
        // As Slurm writes elements. Only after a number: names may hold underscores.
        if let Some((job, index)) = text.split_once('_')
            && let (Ok(job), Ok(index)) = (job.parse(), index.parse())
        {
            return Ok(Self { job: TypedJob::Number(JobId(job)), index: Some(index) });
        }
        Ok(Self { job: TypedJob::parse(text).ok_or_else(malformed)?, index: None })
    }
}

impl TypedJob {
    fn parse(text: &str) -> Option<Self> {
        match text.parse() {
            Ok(number) => Some(TypedJob::Number(JobId(number))),
            Err(_) if text.is_empty() || text.starts_with('-') => None,
            Err(_) if text.starts_with(ID) => Some(TypedJob::Id(text[ID.len()..].to_owned())),
            Err(_) => Some(TypedJob::Name(text.to_owned())),
        }
    }
}

impl JobRef {
    /// Looks a name up: among jobs that have not ended, then among all. A number is not looked up.
    /// On Slurm, where numbers are reused, a name is resolved to the job's id, and the client maps
    /// the number to that id from then on.
    pub async fn resolve(&self, client: &Client) -> Result<JobTarget> {
        let (name, is_id) = match &self.job {
            TypedJob::Number(job) => return Ok(JobTarget { job: *job, index: self.index }),
            TypedJob::Name(name) => (name, false),
            TypedJob::Id(id) => (id, true),
        };
        let found = if is_id {
            by_id(client, name).await?
        } else {
            by_name(client, name, JobOwner::Any).await?
        };
        let prefix = if is_id { ID } else { "" };
        let job = found.ok_or_else(|| {
            Failure::not_found(format!("there is no job `{prefix}{name}`"))
                .hint("`muster ps -a` lists all jobs")
        })?;
        Ok(JobTarget { job, index: self.index })
    }
}

/// Jobs among which a name is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOwner {
    /// Jobs of this user.
    Own,
    /// Jobs of all users.
    Any,
}

/// Returns the job of a name: the one that has not ended, else the newest that has. Jobs of this
/// user take precedence over those of others.
///
/// # Errors
/// When several jobs that have not ended have the name.
pub async fn by_name(client: &Client, name: &str, owner: JobOwner) -> Result<Option<JobId>> {
    // The pattern is only a filter: a name may contain wildcards, so it is compared exactly, too.
    look_up(client, Some(name), owner, name, |job| job.name == name || job.label() == name).await
}

async fn by_id(client: &Client, id: &str) -> Result<Option<JobId>> {
    look_up(client, None, JobOwner::Any, id, |job| own_id(job) == Some(id)).await
}

async fn look_up(
    client: &Client,
    pattern: Option<&str>,
    owner: JobOwner,
    said: &str,
    is_meant: impl Fn(&JobView) -> bool,
) -> Result<Option<JobId>> {
    let own = own_name();
    for all in [false, true] {
        let user = (owner == JobOwner::Own).then(|| own.to_string());
        let filter =
            JobFilter { all, user, name: pattern.map(str::to_owned), ..JobFilter::default() };
        let list = client.jobs(filter).await.map_err(Failure::from)?;
        let mut found: Vec<&JobView> = list.jobs.iter().filter(|job| is_meant(job)).collect();
        // The name of an object is meant before that in a job file.
        if found.iter().any(|job| job.label() == said) {
            found.retain(|job| job.label() == said);
        }
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
            // On Slurm, where numbers are reused, map the number to this job from here on.
            if let Some(id) = own_id(one) {
                client.bind_job_id(one.job, id);
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
    let has_twin =
        |job: &JobView| several.iter().filter(|other| other.label() == job.label()).count() > 1;
    let word = |job: &&JobView| match own_id(job) {
        Some(id) if !is_alone(job) => format!("{ID}{id}"),
        // Objects of two kinds may have one name.
        _ if has_twin(job) => job.job.to_string(),
        _ => job.label(),
    };
    let words: Vec<String> = several.iter().map(word).collect();
    Failure::not_found(format!("`{said}` names several jobs: {}", words.join(", ")))
        .hint("use one of these")
}

/// Returns the name of this user, as the daemon would resolve it.
pub fn own_name() -> UserName {
    auth::user_name(geteuid().as_raw())
}

/// Returns whether the shared daemon would accept this user as an administrator. Checked before
/// irreversible actions; the daemon checks again.
pub fn is_admin() -> bool {
    let own = Peer { uid: geteuid().as_raw(), gid: getegid().as_raw() };
    KernelPeers.resolve(own).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_elements_and_names() {
        let number = |job, index| JobRef { job: TypedJob::Number(JobId(job)), index };
        let name = |text: &str, index| JobRef { job: TypedJob::Name(text.to_owned()), index };
        for (text, expected) in [
            ("3", number(3, None)),
            ("3[7]", number(3, Some(7))),
            ("3_7", number(3, Some(7))),
            ("train", name("train", None)),
            ("train_7", name("train_7", None)),
            ("train[7]", name("train", Some(7))),
            ("muster:1f2e", JobRef { job: TypedJob::Id("1f2e".to_owned()), index: None }),
            ("muster:1f2e[7]", JobRef { job: TypedJob::Id("1f2e".to_owned()), index: Some(7) }),
        ] {
            assert_eq!(text.parse::<JobRef>(), Ok(expected));
        }
        for wrong in ["", "3[", "3[x]", "[7]", "3[7", "-x", "3[-1]", "3[99999999999]"] {
            assert!(wrong.parse::<JobRef>().is_err(), "{wrong}");
        }
    }
}
