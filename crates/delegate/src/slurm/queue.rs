//! The rows of the queue: from the controller for what it still knows, from the accounting for what
//! has ended. The controller is asked through slurmrestd where there is one, else with squeue,
//! whose lines cost a small part of its JSON. Which devices a job holds squeue's lines do not say;
//! scontrol is asked for that where somebody wants to know. An answer that cannot be read is an
//! error, and never an empty queue.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use muster_backends::slurm::job::{self, NativeJob, SACCT_FIELDS, SEPARATOR};
use muster_backends::slurm::rest::{Jobs, Rest, RestError};
use muster_backends::slurm::squeue;
use muster_backends::slurm::tool::ToolError;

use super::{Refusal, Result, Slurm, view};

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

/// What the accounting says.
#[derive(Debug)]
pub(super) enum Accounting {
    /// Its rows.
    Knows(Vec<NativeJob>),
    /// There is none.
    Absent,
    /// It does not answer, and why.
    Silent(String),
}

impl Accounting {
    fn rows(self) -> Vec<NativeJob> {
        match self {
            Accounting::Knows(rows) => rows,
            Accounting::Absent | Accounting::Silent(_) => Vec::new(),
        }
    }
}

impl Slurm {
    /// What the controller knows, what ended a short while ago included.
    pub(super) async fn queue(&self, whose: Whose<'_>) -> Result<Vec<NativeJob>> {
        Ok(of(self.look(whose).await?.rows, whose))
    }

    /// The same with every index of its arrays: slurmrestd cuts long lists, as squeue does where it
    /// is not told otherwise.
    pub(super) async fn in_full(&self, whose: Whose<'_>) -> Result<Vec<NativeJob>> {
        Ok(of(rows(&self.squeue(whose).await?)?, whose))
    }

    /// The same with the devices that running jobs hold.
    pub(super) async fn with_devices(&self, whose: Whose<'_>) -> Result<Vec<NativeJob>> {
        let mut rows = self.queue(whose).await?;
        self.fill_devices(&mut rows).await;
        Ok(rows)
    }

    /// Fills in the devices that jobs hold, where Slurm says so; how many they are stands in the
    /// rows anyway.
    pub(super) async fn fill_devices(&self, rows: &mut [NativeJob]) {
        let lacks = |row: &&mut NativeJob| {
            !row.nodes.is_empty()
                && row.gres_by_node.is_empty()
                && !row.state.state(false).is_final()
                && NativeJob::gpus_of(&row.tres_held) > 0
        };
        let mut lacking: Vec<&mut NativeJob> = rows.iter_mut().filter(lacks).collect();
        let Some(first) = lacking.first().map(|row| row.job()) else { return };
        let mut asked = vec!["--oneliner", "--details", "show", "job"];
        let number = first.to_string();
        if lacking.iter().all(|row| row.job() == first) {
            asked.push(&number);
        }
        let Ok(text) = self.tools().output("scontrol", &asked).await else { return };
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

    /// The same for those who watch, as fresh as they look: all watchers of this user together ask
    /// once.
    pub(super) async fn watched(&self, whose: Whose<'_>) -> Result<Vec<NativeJob>> {
        let dir = self.settings.root.join(self.cluster().await?);
        let name = match whose {
            Whose::User(_) => "watch-own",
            Whose::All | Whose::Jobs(_) => "watch-all",
        };
        let (shared, fresh) = (dir.join(name), self.settings.look_again);
        let failed =
            |error: io::Error| Refusal::internal(format!("cannot share what squeue says: {error}"));
        if std::fs::create_dir_all(&dir).is_err() {
            return self.queue(whose).await;
        }
        // 1. One watcher at a time asks; the others wait for its answer.
        let lock = tokio::task::spawn_blocking({
            let path = dir.join(format!("{name}.lock"));
            move || -> io::Result<File> {
                let file = File::options().create(true).append(true).open(path)?;
                rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
                Ok(file)
            }
        });
        let Ok(_lock) = lock.await.map_err(|error| Refusal::internal(error.to_string()))? else {
            // Where nothing can be shared, everybody asks for himself.
            return self.queue(whose).await;
        };
        // 2. An answer that is young enough is everybody's.
        let age = std::fs::metadata(&shared)
            .and_then(|file| file.modified())
            .ok()
            .and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age < fresh)
            && let Ok(text) = std::fs::read_to_string(&shared)
        {
            return Ok(of(rows(&text)?, whose));
        }
        let look = self.look(whose).await?;
        let new = dir.join(format!("{name}.new"));
        std::fs::write(&new, &look.text)
            .and_then(|()| std::fs::rename(&new, &shared))
            .map_err(failed)?;
        Ok(of(look.rows, whose))
    }

    /// What the controller says, through slurmrestd or squeue; either may say more than was asked
    /// for.
    async fn look(&self, whose: Whose<'_>) -> Result<Jobs> {
        if let Some(jobs) = self.by_rest(whose).await {
            return Ok(jobs);
        }
        let text = self.squeue(whose).await?;
        Ok(Jobs { rows: rows(&text)?, text })
    }

    /// What slurmrestd says of the queue; `None` where there is none, or it does not say enough.
    async fn by_rest(&self, whose: Whose<'_>) -> Option<Jobs> {
        let (rest, cluster) = self.rest().await?;
        let job = match whose {
            Whose::Jobs([job]) => Some(*job),
            Whose::User(_) | Whose::Jobs(_) | Whose::All => None,
        };
        self.heard(rest.jobs(cluster, job).await)
    }

    /// The slurmrestd to ask, and the cluster that it must be of.
    pub(super) async fn rest(&self) -> Option<(&Rest, &str)> {
        let rest =
            self.settings.rest.as_ref().filter(|_| !self.rest_failed.load(Ordering::Relaxed))?;
        Some((rest, self.cluster().await.ok()?))
    }

    /// An answer of slurmrestd. One that fails is not asked again, so that nobody waits for it
    /// twice, and that is said once.
    pub(super) fn heard<T>(&self, answer: std::result::Result<Option<T>, RestError>) -> Option<T> {
        answer.unwrap_or_else(|error| {
            if !self.rest_failed.swap(true, Ordering::Relaxed) {
                (self.settings.warn)(&format!(
                    "slurmrestd: {error}; Slurm's programs are asked instead"
                ));
            }
            None
        })
    }

    /// What squeue prints.
    async fn squeue(&self, whose: Whose<'_>) -> Result<String> {
        let numbers = match whose {
            Whose::Jobs(jobs) => jobs.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
            Whose::User(_) | Whose::All => String::new(),
        };
        let only = match whose {
            Whose::User(user) => vec!["--user", user],
            Whose::Jobs(_) => vec!["--jobs", numbers.as_str()],
            Whose::All => Vec::new(),
        };
        let (new, old) = (squeue::format(), job::squeue_format());
        // What a version does not know is asked for in the words that all of them know.
        for (option, format) in [("--Format", &new), ("--format", &old)] {
            let asked = ["--noheader", "--states=all", option, format];
            match self.tools().output("squeue", &[&asked, only.as_slice()].concat()).await {
                Err(ToolError::Failed { message, .. }) if message.contains("Invalid job id") => {
                    return Ok(String::new());
                }
                Err(ToolError::Failed { message, .. })
                    if option == "--Format" && squeue::is_unknown_format(&message) => {}
                // Before 20.11 a suffix is no suffix, and cuts the field.
                Ok(text) if option == "--Format" && rows(&text).is_err() => {}
                answer => return Ok(answer?),
            }
        }
        Err(Refusal::internal("squeue knows neither --Format nor --format"))
    }

    /// What the accounting knows of the jobs with these numbers, or of the last days. What the
    /// controller says stands without it; that it does not answer is said.
    pub(super) async fn history(&self, whose: Whose<'_>, jobs: &[u64]) -> Vec<NativeJob> {
        let since = match whose {
            _ if !jobs.is_empty() => {
                return self.heard_accounting(self.accounted(jobs).await).rows();
            }
            Whose::User(user) => vec!["--starttime", HISTORY, "--user", user],
            Whose::All | Whose::Jobs(_) => vec!["--starttime", HISTORY, "--allusers"],
        };
        let answer = self.accounting(&since).await;
        self.heard_accounting(answer).rows()
    }

    /// The same of some numbers.
    pub(super) async fn accounted(&self, jobs: &[u64]) -> Accounting {
        let numbers = jobs.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        self.accounting(&["--jobs", &numbers]).await
    }

    /// Says once that the accounting does not answer.
    fn heard_accounting(&self, answer: Accounting) -> Accounting {
        if let Accounting::Silent(why) = &answer
            && !self.accounting_failed.swap(true, Ordering::Relaxed)
        {
            (self.settings.warn)(&format!(
                "Slurm's accounting does not answer ({why}): of jobs that its controller has forgotten nothing is shown"
            ));
        }
        answer
    }

    async fn accounting(&self, which: &[&str]) -> Accounting {
        match self.sacct(which).await {
            Ok(rows) => Accounting::Knows(rows),
            Err(error) if error.is_silence() => Accounting::Silent(error.to_string()),
            Err(_) => Accounting::Absent,
        }
    }

    /// Everybody's jobs that the accounting knows since then.
    pub(super) async fn used_since(&self, since: &str) -> Result<Vec<NativeJob>> {
        Ok(self.sacct(&["--allusers", "--starttime", since]).await?)
    }

    async fn sacct(&self, which: &[&str]) -> std::result::Result<Vec<NativeJob>, ToolError> {
        let (delimiter, format) =
            (format!("--delimiter={SEPARATOR}"), format!("--format={SACCT_FIELDS}"));
        let asked = ["--parsable2", "--noheader", "--allocations", &delimiter, &format];
        Ok(job::from_sacct(&self.tools().output("sacct", &[&asked, which].concat()).await?))
    }
}

/// The rows of an answer: JSON of slurmrestd, or lines of squeue in either form.
fn rows(text: &str) -> Result<Vec<NativeJob>> {
    if let Ok(value) = serde_json::from_str(text) {
        return job::from_json(&value).map_err(|error| Refusal::unavailable(error.to_string()));
    }
    match squeue::read(text) {
        Ok(rows) => Ok(rows),
        Err(unreadable) => match job::from_squeue(text) {
            rows if rows.len() == text.lines().count() => Ok(rows),
            _ => Err(Refusal::internal(unreadable.to_string())),
        },
    }
}

/// Those that were asked for: slurmrestd knows no filter and says the jobs of everybody in every
/// state.
fn of(mut rows: Vec<NativeJob>, whose: Whose<'_>) -> Vec<NativeJob> {
    match whose {
        Whose::User(user) => rows.retain(|row| row.user == user),
        Whose::Jobs(jobs) => rows.retain(|row| jobs.contains(&row.job()) || jobs.contains(&row.id)),
        Whose::All => {}
    }
    // Who is asked for one job says its elements in another order than who is asked for all.
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
