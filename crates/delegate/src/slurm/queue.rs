//! Rows of the queue, from the controller for current jobs and the accounting for ended ones. The
//! controller is asked through slurmrestd where configured, else with squeue, whose lines cost a
//! fraction of its JSON. Devices of jobs come from scontrol, on request. An unreadable answer is an
//! error, never an empty queue.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use crate::slurm::rest::{JobsReply, RestClient, RestError};
use crate::slurm::tool::ToolError;
use muster_slurm::job::{self, NativeJob, SACCT_FIELDS, SEPARATOR};
use muster_slurm::squeue;

use super::{RequestError, Result, SlurmScheduler, view};

/// Period for which ended jobs are requested where no job is named.
const HISTORY: &str = "now-7days";

/// Selection of jobs in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobSelection<'a> {
    /// Jobs of one user.
    User(&'a str),
    /// Jobs with these numbers.
    Jobs(&'a [u64]),
    /// All jobs that Slurm shows to the caller.
    All,
}

/// Answer of the accounting.
#[derive(Debug)]
pub(super) enum AccountingReply {
    /// Rows of the jobs.
    Rows(Vec<NativeJob>),
    /// The cluster has no accounting.
    Absent,
    /// The accounting does not answer, for this reason.
    Silent(String),
}

impl AccountingReply {
    fn rows(self) -> Vec<NativeJob> {
        match self {
            AccountingReply::Rows(rows) => rows,
            AccountingReply::Absent | AccountingReply::Silent(_) => Vec::new(),
        }
    }
}

impl SlurmScheduler {
    /// Returns the controller's jobs, including those that ended some minutes ago.
    pub(super) async fn queue(&self, selection: JobSelection<'_>) -> Result<Vec<NativeJob>> {
        Ok(select(self.query_controller(selection).await?.rows, selection))
    }

    /// Returns the same with every index of arrays: slurmrestd truncates long lists, as squeue does
    /// by default.
    pub(super) async fn queue_with_all_indices(
        &self,
        selection: JobSelection<'_>,
    ) -> Result<Vec<NativeJob>> {
        Ok(select(rows(&self.squeue(selection).await?)?, selection))
    }

    /// Returns the same with the devices that running jobs hold.
    pub(super) async fn with_devices(&self, selection: JobSelection<'_>) -> Result<Vec<NativeJob>> {
        let mut rows = self.queue(selection).await?;
        self.fill_devices(&mut rows).await;
        Ok(rows)
    }

    /// Fills in the devices that jobs hold, where Slurm reports them; their number is in the rows
    /// already.
    pub(super) async fn fill_devices(&self, rows: &mut [NativeJob]) {
        let lacks = |row: &&mut NativeJob| {
            !row.nodes.is_empty()
                && row.gres_by_node.is_empty()
                && !row.state.state(false).is_final()
                && muster_slurm::tres::gpus(&row.tres_allocated) > 0
        };
        let mut lacking: Vec<&mut NativeJob> = rows.iter_mut().filter(lacks).collect();
        let Some(first) = lacking.first().map(|row| row.job()) else { return };
        let mut arguments = vec!["--oneliner", "--details", "show", "job"];
        let number = first.to_string();
        if lacking.iter().all(|row| row.job() == first) {
            arguments.push(&number);
        }
        let Ok(text) = self.tools().output("scontrol", &arguments).await else { return };
        for (job, held) in squeue::devices(&text) {
            let Some(row) = lacking.iter_mut().find(|row| row.id == job) else { continue };
            let expand = |list: &str| muster_spec::expand_names(list).unwrap_or_default();
            let held: Vec<(Vec<String>, String)> =
                held.iter().map(|(nodes, gres)| (expand(nodes), gres.clone())).collect();
            let of_node = |node: &String| {
                let found = held.iter().find(|(nodes, _)| nodes.contains(node));
                found.map_or(String::new(), |(_, gres)| gres.clone())
            };
            row.gres_by_node = expand(&row.nodes).iter().map(of_node).collect();
        }
    }

    /// Returns the same for watchers, at most as old as their refresh interval: all watchers of
    /// this user share one query.
    pub(super) async fn queue_for_watcher(
        &self,
        selection: JobSelection<'_>,
    ) -> Result<Vec<NativeJob>> {
        let dir = self.settings.root.join(self.cluster().await?);
        let name = match selection {
            JobSelection::User(_) => "watch-own",
            JobSelection::All | JobSelection::Jobs(_) => "watch-all",
        };
        let shared = dir.join(name);
        let fresh = self.settings.poll_interval;
        let failed = |error: io::Error| {
            RequestError::internal(format!("cannot share the answer of squeue: {error}"))
        };
        if std::fs::create_dir_all(&dir).is_err() {
            return self.queue(selection).await;
        }
        // 1. One watcher at a time queries; the others wait for its answer.
        let lock = tokio::task::spawn_blocking({
            let path = dir.join(format!("{name}.lock"));
            move || -> io::Result<File> {
                let file = File::options().create(true).append(true).open(path)?;
                rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
                Ok(file)
            }
        });
        let Ok(_lock) = lock.await.map_err(|error| RequestError::internal(error.to_string()))?
        else {
            // Without a place to share answers every watcher queries for itself.
            return self.queue(selection).await;
        };
        // 2. Use a shared answer that is recent enough.
        let age = std::fs::metadata(&shared)
            .and_then(|file| file.modified())
            .ok()
            .and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age < fresh)
            && let Ok(text) = std::fs::read_to_string(&shared)
        {
            return Ok(select(rows(&text)?, selection));
        }
        let look = self.query_controller(selection).await?;
        let new = dir.join(format!("{name}.new"));
        std::fs::write(&new, &look.text)
            .and_then(|()| std::fs::rename(&new, &shared))
            .map_err(failed)?;
        Ok(select(look.rows, selection))
    }

    /// Queries the controller through slurmrestd or squeue; either may return more than was
    /// requested.
    async fn query_controller(&self, selection: JobSelection<'_>) -> Result<JobsReply> {
        if let Some(jobs) = self.by_rest(selection).await {
            return Ok(jobs);
        }
        let text = self.squeue(selection).await?;
        Ok(JobsReply { rows: rows(&text)?, text })
    }

    /// Queries slurmrestd; `None` where none is configured or its answer is incomplete.
    async fn by_rest(&self, selection: JobSelection<'_>) -> Option<JobsReply> {
        let (rest, cluster) = self.rest().await?;
        let job = match selection {
            JobSelection::Jobs([job]) => Some(*job),
            JobSelection::User(_) | JobSelection::Jobs(_) | JobSelection::All => None,
        };
        self.take_rest_answer(rest.jobs(cluster, job).await)
    }

    /// Returns the client of slurmrestd, and the cluster that it must serve.
    pub(super) async fn rest(&self) -> Option<(&RestClient, &str)> {
        let rest =
            self.settings.rest.as_ref().filter(|_| !self.rest_failed.load(Ordering::Relaxed))?;
        Some((rest, self.cluster().await.ok()?))
    }

    /// Takes an answer of slurmrestd. After an error slurmrestd is not asked again, so that its
    /// timeout is paid once, and the user is warned once.
    pub(super) fn take_rest_answer<T>(
        &self,
        answer: std::result::Result<Option<T>, RestError>,
    ) -> Option<T> {
        answer.unwrap_or_else(|error| {
            if !self.rest_failed.swap(true, Ordering::Relaxed) {
                (self.settings.warn)(&format!(
                    "slurmrestd: {error}; using Slurm's programs instead"
                ));
            }
            None
        })
    }

    /// Returns the output of squeue.
    async fn squeue(&self, selection: JobSelection<'_>) -> Result<String> {
        let numbers = match selection {
            JobSelection::Jobs(jobs) => {
                jobs.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
            }
            JobSelection::User(_) | JobSelection::All => String::new(),
        };
        let only = match selection {
            JobSelection::User(user) => vec!["--user", user],
            JobSelection::Jobs(_) => vec!["--jobs", numbers.as_str()],
            JobSelection::All => Vec::new(),
        };
        let new = squeue::format();
        let old = job::squeue_format();
        // Older versions that lack a field are asked in the older format.
        for (option, format) in [("--Format", &new), ("--format", &old)] {
            let arguments = ["--noheader", "--states=all", option, format];
            match self.tools().output("squeue", &[&arguments, only.as_slice()].concat()).await {
                Err(ToolError::Failed { message, .. }) if message.contains("Invalid job id") => {
                    return Ok(String::new());
                }
                Err(ToolError::Failed { message, .. })
                    if option == "--Format" && squeue::is_unknown_format(&message) => {}
                // Before 20.11 a suffix without width truncates the field.
                Ok(text) if option == "--Format" && rows(&text).is_err() => {}
                answer => return Ok(answer?),
            }
        }
        Err(RequestError::internal("squeue supports neither --Format nor --format"))
    }

    /// Returns the accounting's rows of the jobs with these numbers, or of the last days. The
    /// controller's rows do not depend on it; an accounting that does not answer causes a warning.
    pub(super) async fn history(
        &self,
        selection: JobSelection<'_>,
        jobs: &[u64],
    ) -> Vec<NativeJob> {
        let since = match selection {
            _ if !jobs.is_empty() => {
                return self.warn_if_silent(self.accounted(jobs).await).rows();
            }
            JobSelection::User(user) => vec!["--starttime", HISTORY, "--user", user],
            JobSelection::All | JobSelection::Jobs(_) => vec!["--starttime", HISTORY, "--allusers"],
        };
        let answer = self.accounting(&since).await;
        self.warn_if_silent(answer).rows()
    }

    /// Returns the accounting's answer on the jobs with these numbers.
    pub(super) async fn accounted(&self, jobs: &[u64]) -> AccountingReply {
        let numbers = jobs.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        self.accounting(&["--jobs", &numbers]).await
    }

    /// Warns once that the accounting does not answer.
    fn warn_if_silent(&self, answer: AccountingReply) -> AccountingReply {
        if let AccountingReply::Silent(why) = &answer
            && !self.accounting_failed.swap(true, Ordering::Relaxed)
        {
            (self.settings.warn)(&format!(
                "Slurm's accounting does not answer ({why}): ended jobs that the controller has forgotten are not shown"
            ));
        }
        answer
    }

    async fn accounting(&self, which: &[&str]) -> AccountingReply {
        match self.sacct(which).await {
            Ok(rows) => AccountingReply::Rows(rows),
            Err(error) if error.is_silence() => AccountingReply::Silent(error.to_string()),
            Err(_) => AccountingReply::Absent,
        }
    }

    /// Returns the jobs of all users in the accounting since this time.
    pub(super) async fn used_since(&self, since: &str, with: &[&str]) -> Result<Vec<NativeJob>> {
        let words = [&["--allusers", "--starttime", since], with].concat();
        Ok(self.sacct(&words).await?)
    }

    async fn sacct(&self, which: &[&str]) -> std::result::Result<Vec<NativeJob>, ToolError> {
        let delimiter = format!("--delimiter={SEPARATOR}");
        let format = format!("--format={SACCT_FIELDS}");
        let arguments = ["--parsable2", "--noheader", "--allocations", &delimiter, &format];
        Ok(job::from_sacct(&self.tools().output("sacct", &[&arguments, which].concat()).await?))
    }
}

/// Parses an answer: JSON of slurmrestd, or lines of squeue in either format.
fn rows(text: &str) -> Result<Vec<NativeJob>> {
    if let Ok(value) = serde_json::from_str(text) {
        return job::from_json(&value)
            .map_err(|error| RequestError::unavailable(error.to_string()));
    }
    match squeue::read(text) {
        Ok(rows) => Ok(rows),
        Err(unreadable) => match job::from_squeue(text) {
            rows if rows.len() == text.lines().count() => Ok(rows),
            _ => Err(RequestError::internal(unreadable.to_string())),
        },
    }
}

/// Keeps the selected rows: slurmrestd has no filter and returns the jobs of all users in every
/// state.
fn select(mut rows: Vec<NativeJob>, selection: JobSelection<'_>) -> Vec<NativeJob> {
    match selection {
        JobSelection::User(user) => rows.retain(|row| row.user == user),
        JobSelection::Jobs(jobs) => {
            rows.retain(|row| jobs.contains(&row.job()) || jobs.contains(&row.id))
        }
        JobSelection::All => {}
    }
    // squeue orders the elements of one job differently from those in a list of all jobs.
    rows.sort_by_key(|row| (row.job(), row.component, view::index(row), row.id));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_says_that_slurm_failed_is_no_empty_queue() {
        let down = r#"{"errors": [{"error_number": -1, "error": "Unspecified error", "source": "slurm_load_jobs"}], "jobs": []}"#;
        assert!(rows(down).unwrap_err().is_unavailable());
        assert!(rows("slurm_load_jobs error: Unable to contact slurm controller\n").is_err());
        assert_eq!(rows(r#"{"errors": [], "jobs": []}"#).unwrap(), []);
        assert_eq!(rows("").unwrap(), []);
    }
}
