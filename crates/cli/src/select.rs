//! Which jobs a verb acts on: numbers, ranges and names, or all of a user that match a filter. One
//! selection for every verb that acts on many jobs. It must not act: what it finds can be shown
//! first.

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
use crate::jobref::{self, JobRef, Target};

/// As `--user`: jobs of every user, as far as one may act on them.
const EVERY_USER: &str = "all";

/// States as they are typed.
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
    /// Returns the state as the API has it.
    pub fn word(self) -> String {
        self.to_possible_value().as_ref().map_or("", PossibleValue::get_name).to_owned()
    }
}

/// A job as typed, or a range of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// One job.
    One(JobRef),
    /// Numbers from the first to the last, both included.
    Range(JobId, JobId),
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |text: &str| text.parse().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()));
        if let Some((first, last)) = text.split_once('-')
            && let (Some(first), Some(last)) = (number(first), number(last))
            && first <= last
        {
            return Ok(Named::Range(JobId(first), JobId(last)));
        }
        text.parse().map(Named::One)
    }
}

/// Which jobs. At least one of its fields is given; several narrow it.
#[derive(Clone, Debug, Args)]
#[group(id = "selection", required = true, multiple = true)]
pub struct Selection {
    /// Jobs, as 3, 12-40, 3[7] for one element of an array, or by name
    #[arg(value_name = "JOB")]
    jobs: Vec<Named>,
    /// Jobs of this user; your own by default, with `all` everybody's
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    /// Jobs of this queue, or of the queues below it
    #[arg(short, long, value_name = "QUEUE", alias = "partition")]
    queue: Option<String>,
    /// Jobs in this state
    #[arg(short, long, value_enum, value_name = "STATE")]
    state: Option<StateArg>,
    /// Jobs with such a name; * stands for any characters, ? for one
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// All of your jobs that have not ended
    #[arg(short, long)]
    all: bool,
}

/// A job that was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// What is acted on.
    pub target: Target,
    /// Its row, where it was found in a list.
    pub row: Option<JobView>,
}

impl Selection {
    /// Returns whether every job was named one by one: then nothing is acted on that was not typed.
    pub fn is_explicit(&self) -> bool {
        !self.has_filter() && self.jobs.iter().all(|job| matches!(job, Named::One(_)))
    }

    fn has_filter(&self) -> bool {
        let Self { jobs: _, user, queue, state, name, all } = self;
        *all || state.is_some() || [user, queue, name].iter().any(|field| field.is_some())
    }

    /// Looks the jobs up, each once: those that are named in the order given, the others by number.
    pub async fn find(&self, client: &Client) -> Result<Vec<Selected>> {
        let mut found: Vec<Selected> = Vec::new();
        let ranges = self.jobs.iter().any(|job| matches!(job, Named::Range(..)));
        let rows = match self.has_filter() || ranges {
            true => self.matching(client).await?,
            false => Vec::new(),
        };
        let by_number: BTreeMap<JobId, &JobView> = rows.iter().map(|row| (row.job, row)).collect();
        for job in &self.jobs {
            match job {
                Named::One(job) => {
                    let target = job.resolve(client).await?;
                    let row = by_number.get(&target.job).copied();
                    // With a filter beside it, a job that does not match is not meant.
                    if row.is_some() || !self.has_filter() {
                        found.push(Selected { target, row: row.cloned() });
                    }
                }
                Named::Range(first, last) => {
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

    /// Returns the jobs that the filters match: of this user where no other is named, and not ended
    /// unless a final state is asked for.
    async fn matching(&self, client: &Client) -> Result<Vec<JobView>> {
        let user = match (self.user.as_deref(), client.socket()) {
            // Slurm's side has the same word for everybody.
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
        Self { target: Target { job: row.job, index: None }, row: Some(row.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ranges_and_names_are_told_apart() {
        let range = |first, last| Ok(Named::Range(JobId(first), JobId(last)));
        for (text, expected) in [
            ("12-40", range(12, 40)),
            ("7-7", range(7, 7)),
            // Names: a range that goes down, a date, words.
            ("40-12", "40-12".parse().map(Named::One)),
            ("2024-11-02", "2024-11-02".parse().map(Named::One)),
            ("sweep-12", "sweep-12".parse().map(Named::One)),
            ("12-", "12-".parse().map(Named::One)),
            ("3[7]", "3[7]".parse().map(Named::One)),
        ] {
            assert_eq!(text.parse::<Named>(), expected, "{text}");
        }
        for wrong in ["-12", "--all", ""] {
            assert!(wrong.parse::<Named>().is_err(), "{wrong}");
        }
    }
}
