//! The rows of the queue: from the controller for what it still knows, from the accounting for what has ended. The controller is
//! asked through slurmrestd where there is one, else with squeue: JSON where it has that, since it alone tells which devices a job
//! holds, and lines where it has not.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use muster_backends::slurm::job::{self, NativeJob, SACCT_FIELDS, SEPARATOR};
use muster_backends::slurm::rest::{Jobs, Rest, RestError};
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

impl Slurm {
    /// What the controller knows, what ended a short while ago included.
    pub(super) async fn queue(&self, whose: Whose<'_>) -> Result<Vec<NativeJob>> {
        Ok(of(self.look(whose).await?.rows, whose))
    }

    /// The same with every index of its arrays: slurmrestd cuts long lists, as squeue does where it is not told otherwise.
    pub(super) async fn in_full(&self, whose: Whose<'_>) -> Result<Vec<NativeJob>> {
        Ok(of(rows(&self.squeue(whose).await?), whose))
    }

    /// The same for those who watch, as fresh as they look: all watchers of this user together ask once.
    pub(super) async fn watched(&self, whose: Whose<'_>) -> Result<Vec<NativeJob>> {
        let dir = self.settings.root.join(self.cluster().await?);
        let name = match whose {
            Whose::User(_) => "watch-own",
            Whose::All | Whose::Jobs(_) => "watch-all",
        };
        let (shared, fresh) = (dir.join(name), self.settings.look_again);
        let failed = |error: io::Error| Refusal::internal(format!("cannot share what squeue says: {error}"));
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
        let age =
            std::fs::metadata(&shared).and_then(|file| file.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age < fresh)
            && let Ok(text) = std::fs::read_to_string(&shared)
        {
            return Ok(of(rows(&text), whose));
        }
        let look = self.look(whose).await?;
        let new = dir.join(format!("{name}.new"));
        std::fs::write(&new, &look.text).and_then(|()| std::fs::rename(&new, &shared)).map_err(failed)?;
        Ok(of(look.rows, whose))
    }

    /// What the controller says, through slurmrestd or squeue; either may say more than was asked for.
    async fn look(&self, whose: Whose<'_>) -> Result<Jobs> {
        if let Some(jobs) = self.by_rest(whose).await {
            return Ok(jobs);
        }
        let text = self.squeue(whose).await?;
        Ok(Jobs { rows: rows(&text), text })
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
        let rest = self.settings.rest.as_ref().filter(|_| !self.rest_failed.load(Ordering::Relaxed))?;
        Some((rest, self.cluster().await.ok()?))
    }

    /// An answer of slurmrestd. One that fails is not asked again, so that nobody waits for it twice, and that is said once.
    pub(super) fn heard<T>(&self, answer: std::result::Result<Option<T>, RestError>) -> Option<T> {
        answer.unwrap_or_else(|error| {
            if !self.rest_failed.swap(true, Ordering::Relaxed) {
                (self.settings.warn)(&format!("slurmrestd: {error}; Slurm's programs are asked instead"));
            }
            None
        })
    }

    /// What squeue says: JSON where it has that, else lines.
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
        match self.tools().output("squeue", &[&["--json"], only.as_slice()].concat()).await {
            Ok(text) => return Ok(text),
            Err(ToolError::Failed { message, .. }) if message.contains("Invalid job id") => {
                return Ok(String::new());
            }
            Err(ToolError::Failed { message, .. }) if is_unknown_option(&message) => {}
            Err(error) => return Err(error.into()),
        }
        let format = job::squeue_format();
        let asked = ["--noheader", "--states=all", "--format", &format];
        match self.tools().output("squeue", &[&asked, only.as_slice()].concat()).await {
            Err(ToolError::Failed { message, .. }) if message.contains("Invalid job id") => Ok(String::new()),
            answer => Ok(answer?),
        }
    }

    /// What the accounting knows of the jobs with these numbers, or of the last days. Empty where it does not answer: what the
    /// controller says stands without it.
    pub(super) async fn history(&self, whose: Whose<'_>, jobs: &[u64]) -> Vec<NativeJob> {
        if !jobs.is_empty() {
            return self.accounted(jobs).await.unwrap_or_default();
        }
        let since = match whose {
            Whose::User(user) => vec!["--starttime", HISTORY, "--user", user],
            Whose::All | Whose::Jobs(_) => vec!["--starttime", HISTORY, "--allusers"],
        };
        self.sacct(&since).await.unwrap_or_default()
    }

    /// The same of some numbers; `None` where there is no accounting, or it does not answer.
    pub(super) async fn accounted(&self, jobs: &[u64]) -> Option<Vec<NativeJob>> {
        let numbers = jobs.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        self.sacct(&["--jobs", &numbers]).await.ok()
    }

    /// Everybody's jobs that the accounting knows since then.
    pub(super) async fn used_since(&self, since: &str) -> Result<Vec<NativeJob>> {
        Ok(self.sacct(&["--allusers", "--starttime", since]).await?)
    }

    async fn sacct(&self, which: &[&str]) -> std::result::Result<Vec<NativeJob>, ToolError> {
        let (delimiter, format) = (format!("--delimiter={SEPARATOR}"), format!("--format={SACCT_FIELDS}"));
        let asked = ["--parsable2", "--noheader", "--allocations", &delimiter, &format];
        Ok(job::from_sacct(&self.tools().output("sacct", &[&asked, which].concat()).await?))
    }
}

/// The rows of an answer.
fn rows(text: &str) -> Vec<NativeJob> {
    let json = serde_json::from_str(text).ok().and_then(|value| job::from_json(&value));
    json.unwrap_or_else(|| job::from_squeue(text))
}

/// Those that were asked for. slurmrestd, and up to 22.05 `squeue --json`, know no filter and say the jobs of everybody in every state.
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

fn is_unknown_option(message: &str) -> bool {
    ["unrecognized option", "invalid option", "Invalid option"].iter().any(|word| message.contains(word))
}
