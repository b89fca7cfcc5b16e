//! Selects the jobs that a subcommand acts on: numbers, ranges and names, or all jobs of a user
//! that match a filter. Selecting has no side effects, so that the jobs can be shown first.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use anyhow::Result;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use muster_api::Client;
use muster_api::query::JobFilter;
use muster_model::JobId;
use muster_model::view::JobView;

use crate::exit::Failure;
use crate::jobref::{self, JobRef, JobTarget};

/// Value of `--user` for the jobs of all users.
const EVERY_USER: &str = "all";

/// Job states as they are typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateArg {
    Held,
    Pending,
    Starting,
    Running,
    Stopping,
    Done,
    Failed,
    Cancelled,
    Suspended,
    Preempted,
    Unknown,
}

impl StateArg {
    /// Returns the name of the state in the API.
    pub fn word(self) -> String {
        self.to_possible_value().as_ref().map_or("", PossibleValue::get_name).to_owned()
    }
}

/// Job as typed, or a range of job numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOrRange {
    /// A single job, or one element of it.
    One(JobRef),
    /// Numbers from the first to the last, inclusive.
    Range(JobId, JobId),
}

impl FromStr for JobOrRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |text: &str| text.parse().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()));
        if let Some((first, last)) = text.split_once('-')
            && let (Some(first), Some(last)) = (number(first), number(last))
            && first <= last
        {
            return Ok(JobOrRange::Range(JobId(first), JobId(last)));
        }
        text.parse().map(JobOrRange::One)
    }
}

/// Selection of jobs. At least one field is given; a job must match all that are given.
#[derive(Clone, Debug, Args)]
#[group(id = "selection", required = true, multiple = true)]
pub struct Selection {
    /// Jobs: 3, a range 12-40, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    jobs: Vec<JobOrRange>,
    /// Jobs of this user, by default your own; `all` selects jobs of all users
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    /// Jobs of this queue and the queues below it
    #[arg(short, long, value_name = "QUEUE", alias = "partition")]
    queue: Option<String>,
    /// Jobs in this state
    #[arg(short, long, value_enum, value_name = "STATE")]
    state: Option<StateArg>,
    /// Jobs whose name matches; * matches any characters, ? matches one
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// All of your jobs that have not ended
    #[arg(short, long)]
    all: bool,
}

/// Job that a [`Selection`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Job or element that is acted on.
    pub target: JobTarget,
    /// Its view; `None` if the job was named and not found by a filter.
    pub row: Option<JobView>,
}

impl Selection {
    /// Returns whether every job was named individually, without a filter or range.
    pub fn is_explicit(&self) -> bool {
        !self.has_filter() && self.jobs.iter().all(|job| matches!(job, JobOrRange::One(_)))
    }

    fn has_filter(&self) -> bool {
        let Self { jobs: _, user, queue, state, name, all } = self;
        *all || state.is_some() || [user, queue, name].iter().any(|field| field.is_some())
    }

    /// Looks the jobs up, each once: named ones in the order given, the others by number.
    pub async fn find(&self, client: &Client) -> Result<Vec<Selected>> {
        let mut found: Vec<Selected> = Vec::new();
        let ranges = self.jobs.iter().any(|job| matches!(job, JobOrRange::Range(..)));
        let rows =
            if self.has_filter() || ranges { self.matching(client).await? } else { Vec::new() };
        let by_number: BTreeMap<JobId, &JobView> = rows.iter().map(|row| (row.job, row)).collect();
        for job in &self.jobs {
            match job {
                JobOrRange::One(job) => {
                    let target = job.resolve(client).await?;
                    let row = by_number.get(&target.job).copied();
                    // With a filter, a named job must match it, too.
                    if row.is_some() || !self.has_filter() {
                        found.push(Selected { target, row: row.cloned() });
                    }
                }
                JobOrRange::Range(first, last) => {
                    found.extend(by_number.range(*first..=*last).map(|(_, row)| Selected::of(row)));
                }
            }
        }
        if self.jobs.is_empty() {
            found.extend(rows.iter().map(Selected::of));
        }
        let mut seen = BTreeSet::new();
        found.retain(|selected| seen.insert(selected.target));
        Ok(found)
    }

    /// Returns the jobs that match the filters: by default those of this user, and only jobs that
    /// have not ended unless a final state is requested.
    async fn matching(&self, client: &Client) -> Result<Vec<JobView>> {
        let user = match (self.user.as_deref(), client.socket()) {
            // The Slurm client uses the same word for all users.
            (Some(EVERY_USER), None) => Some(EVERY_USER.to_owned()),
            (Some(EVERY_USER), Some(_)) => None,
            (Some(user), _) => Some(user.to_owned()),
            (None, _) => Some(jobref::own_name().to_string()),
        };
        let filter = JobFilter {
            user,
            queue: self.queue.clone(),
            state: self.state.map(StateArg::word),
            name: self.name.clone(),
            ..JobFilter::default()
        };
        Ok(client.jobs(filter).await.map_err(Failure::from)?.jobs)
    }
}

impl Selected {
    fn of(row: &JobView) -> Self {
        Self { target: JobTarget { job: row.job, index: None }, row: Some(row.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ranges_and_names_are_told_apart() {
        let range = |first, last| Ok(JobOrRange::Range(JobId(first), JobId(last)));
        for (text, expected) in [
            ("12-40", range(12, 40)),
            ("7-7", range(7, 7)),
            // Names: a range that goes down, a date, words.
            ("40-12", "40-12".parse().map(JobOrRange::One)),
            ("2024-11-02", "2024-11-02".parse().map(JobOrRange::One)),
            ("sweep-12", "sweep-12".parse().map(JobOrRange::One)),
            ("12-", "12-".parse().map(JobOrRange::One)),
            ("3[7]", "3[7]".parse().map(JobOrRange::One)),
        ] {
            assert_eq!(text.parse::<JobOrRange>(), expected, "{text}");
        }
        for wrong in ["-12", "--all", ""] {
            assert!(wrong.parse::<JobOrRange>().is_err(), "{wrong}");
        }
    }
}
