//! The rows of the queue: from the controller for what it still knows, from the accounting for what has ended. JSON where squeue
//! has it, since it alone tells which devices a job holds; lines where it has not.

use muster_backends::slurm::job::{self, NativeJob, SACCT_FIELDS, SEPARATOR};
use muster_backends::slurm::tool::ToolError;

use super::{Result, Slurm};

/// How far back the accounting is asked for what has ended, where no job is named.
const HISTORY: &str = "now-7days";

/// Whose rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose<'a> {
    /// Of one user.
    User(&'a str),
    /// Of these numbers.
    Jobs(&'a [u64]),
    /// Of all that Slurm lets one see.
    All,
}

impl Slurm {
    /// What the controller knows, what ended a short while ago included.
    pub(super) async fn queue(&self, whose: Whose<'_>) -> Result<Vec<NativeJob>> {
        let numbers = match whose {
            Whose::Jobs(jobs) => jobs.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
            Whose::User(_) | Whose::All => String::new(),
        };
        let user = match whose {
            Whose::User(user) => vec!["--user", user],
            Whose::Jobs(_) => vec!["--jobs", numbers.as_str()],
            Whose::All => Vec::new(),
        };
        // 1. JSON. Up to 22.05 it knows no filter and prints the jobs of everybody in every state.
        let asked = [&["--json"], user.as_slice()].concat();
        let rows = match self.tools().output("squeue", &asked).await {
            Ok(text) => serde_json::from_str(&text).ok().and_then(|value| job::from_json(&value)),
            Err(ToolError::Failed { message, .. }) if message.contains("Invalid job id") => {
                return Ok(Vec::new());
            }
            Err(ToolError::Failed { message, .. }) if is_unknown_option(&message) => None,
            Err(error) => return Err(error.into()),
        };
        // 2. Lines.
        let mut rows = match rows {
            Some(rows) => rows,
            None => {
                let format = job::squeue_format();
                let asked = ["--noheader", "--states=all", "--format", &format];
                job::from_squeue(&self.tools().output("squeue", &[&asked, user.as_slice()].concat()).await?)
            }
        };
        if let Whose::User(user) = whose {
            rows.retain(|row| row.user == user);
        }
        Ok(rows)
    }

    /// What the accounting knows of the jobs with these numbers, or of the last days. Empty where there is no accounting.
    pub(super) async fn history(&self, whose: Whose<'_>, jobs: &[u64]) -> Result<Vec<NativeJob>> {
        let delimiter = format!("--delimiter={SEPARATOR}");
        let format = format!("--format={SACCT_FIELDS}");
        let numbers = jobs.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let mut asked = vec!["--parsable2", "--noheader", "--allocations", &delimiter, &format];
        match (jobs, whose) {
            ([_, ..], _) => asked.extend(["--jobs", &numbers]),
            ([], Whose::User(user)) => asked.extend(["--starttime", HISTORY, "--user", user]),
            ([], Whose::All | Whose::Jobs(_)) => asked.extend(["--starttime", HISTORY, "--allusers"]),
        }
        self.sacct(&asked).await
    }

    /// Everybody's jobs that the accounting knows since then.
    pub(super) async fn used_since(&self, since: &str) -> Result<Vec<NativeJob>> {
        let (delimiter, format) = (format!("--delimiter={SEPARATOR}"), format!("--format={SACCT_FIELDS}"));
        let asked = [
            "--parsable2",
            "--noheader",
            "--allocations",
            &delimiter,
            &format,
            "--allusers",
            "--starttime",
            since,
        ];
        self.sacct(&asked).await
    }

    async fn sacct(&self, asked: &[&str]) -> Result<Vec<NativeJob>> {
        match self.tools().output("sacct", asked).await {
            Ok(text) => Ok(job::from_sacct(&text)),
            // A site without slurmdbd: what the controller has forgotten is gone.
            Err(ToolError::Failed { message, .. }) if message.contains("accounting storage is disabled") => {
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn is_unknown_option(message: &str) -> bool {
    ["unrecognized option", "invalid option", "Invalid option"].iter().any(|word| message.contains(word))
}
