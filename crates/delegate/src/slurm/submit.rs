//! Submission of a job file: all documents of a request are submitted, or none. Each becomes one
//! native job, submitted as the caller, with Muster's id in its comment, so that an acknowledged
//! and lost job can be distinguished from one that never arrived.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::{Duration, Instant};

use crate::slurm::tool::ToolError;
use muster_api::types::{SubmitRequest, SubmitResponse, Submitted};
use muster_model::kubernetes::KubernetesOptions;
use muster_model::payload::TaskCommand;
use muster_model::{Dependency, JobId, JobSpec, QueueName, Time, WorkloadKind};
use muster_slurm::script::{self, GeneratedScript, JobDirectory, ScriptInput};
use muster_slurm::variables::overruling;
use muster_spec::{CheckedJob, SubmissionSite};

use super::queue::JobSelection;
use super::record::SubmissionRecord;
use super::{RequestError, Result, SlurmScheduler};
use crate::route::now;

/// Time for which a submission waits for a controller that does not answer.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(120);

/// Time for a call in progress to finish after the user withdrew the submission: a controller that
/// is up answers sooner.
const WITHDRAWAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of characters of the request's key in a job id, enough to be unique; the document's index
/// follows.
const KEY_CHARACTERS: usize = 24;

/// Document ready for submission, except for the numbers of its dependencies.
struct PreparedJob {
    id: String,
    checked: CheckedJob,
    spec: JobSpec,
    workdir: String,
}

impl SlurmScheduler {
    /// Submits every document of a request.
    pub(super) async fn submit(&self, request: SubmitRequest) -> Result<SubmitResponse> {
        // 1. Parse and check the documents.
        let nowhere = QueueName::from("default");
        let documents = muster_spec::parse_with_notices(
            &request.source,
            request.file.as_deref(),
            &request.overrides,
            request.notices(),
        )?;
        let site = SubmissionSite::unknown(self.settings.user.clone(), &nowhere);
        let mut checked = muster_spec::check_all(&documents, &site)?;
        checked.iter_mut().try_for_each(|one| add_env_files(one, &request))?;
        if request.interactive {
            return Err(RequestError::refused("sbatch jobs cannot have a terminal").hint(
                "submit without -it and use `muster attach JOB` once it runs, or use `srun --pty`",
            ));
        }
        let now = now();
        let mut ready: Vec<PreparedJob> = checked
            .into_iter()
            .enumerate()
            .map(|(nth, checked)| ready(&request, nth, checked, now))
            .collect();
        for one in &mut ready {
            one.spec.after = self.open_dependencies(&one.spec.after).await?;
        }
        // 2. Generate all scripts first: one that Slurm cannot run rejects the whole request.
        let scripts = ready.iter().map(|one| self.script(one, &[], now));
        let mut scripts = futures_util::future::try_join_all(scripts).await?;
        let warnings = warnings(&ready, &scripts);
        if request.dry_run {
            return Ok(response(&ready, &vec![0; ready.len()], warnings, Some(&scripts)));
        }
        // 3. Submit in order, since later documents may depend on earlier ones.
        self.name_cluster().await?;
        let mut numbers: Vec<u64> = Vec::new();
        for (one, script) in ready.iter().zip(&mut scripts) {
            if !one.checked.after_documents.is_empty() {
                *script = self.script(one, &numbers, now).await?;
            }
            match self.submit_script(one, script, now).await {
                Ok(number) => numbers.push(number),
                Err(refusal) => return Err(self.cancel_submitted(&numbers, refusal).await),
            }
        }
        // A failure here is repeated by the next submission.
        let _ = self.tidy_records().await;
        Ok(response(&ready, &numbers, warnings, None))
    }

    /// Generates the script of a document; `numbers` are those of the documents before it.
    async fn script(
        &self,
        one: &PreparedJob,
        numbers: &[u64],
        now: Time,
    ) -> Result<GeneratedScript> {
        let mut spec = one.spec.clone();
        spec.after.extend(one.checked.after_documents.iter().map(|(kind, nth)| Dependency {
            kind: *kind,
            job: JobId(numbers.get(*nth).copied().unwrap_or_default()),
        }));
        let dir = self.records().await?.dir(&one.id);
        let program = self.settings.program.to_string_lossy();
        let source = ScriptInput {
            spec: &spec,
            commands: &one.checked.commands,
            env: &one.checked.env,
            workdir: Some(&one.workdir),
            sweep: one.checked.sweep.as_ref(),
            notices: &one.checked.notices,
            files: &one.checked.files,
            slurm: &one.checked.environment.for_slurm(&one.checked.slurm),
            secrets: &one.checked.environment.secrets,
            directory: Some(JobDirectory { id: &one.id, dir: &dir.to_string_lossy() }),
            program: Some(&*program),
            verify: one.checked.verify,
            now,
        };
        script::render(&source).map_err(|unfit| {
            let what: Vec<&str> = unfit.iter().map(|one| one.what.as_str()).collect();
            let refusal = RequestError::refused(format!(
                "Slurm cannot run `{}` as written: {}",
                spec.name,
                what.join("; ")
            ));
            unfit.iter().fold(refusal, |refusal, one| refusal.hint(one.hint.clone()))
        })
    }

    /// Submits a script with sbatch, unless the same request has submitted it before.
    async fn submit_script(
        &self,
        one: &PreparedJob,
        script: &GeneratedScript,
        now: Time,
    ) -> Result<u64> {
        let records = self.records().await?;
        // 1. The same key is the same submission.
        let before = records.get(&one.id);
        if let Some(number) = before.as_ref().and_then(|record| record.number) {
            return Ok(number);
        }
        if before.is_some()
            && let Some(number) = self.find(&one.id).await?
        {
            return self.note(&one.id, number).await;
        }
        if self.is_withdrawn() {
            return Err(RequestError::interrupted("withdrawn: nothing was submitted"));
        }
        // 2. Record it first, so that an unanswered submission can be found.
        let record = SubmissionRecord {
            id: one.id.clone(),
            number: None,
            before: Vec::new(),
            name: one.spec.name.to_string(),
            elements: elements(&one.spec),
            roles: one
                .spec
                .groups
                .iter()
                .map(|group| (group.name.to_string(), group.min_tasks))
                .collect(),
            submitted: now,
            commands: commands(&one.checked.commands),
            has_ray: one.checked.commands.values().any(muster_ray::begins_cluster),
            workdir: one.workdir.clone(),
            files: one
                .checked
                .files
                .map(|file| Path::new(&one.workdir).join(file).display().to_string()),
            environment: one.checked.environment.clone(),
            without: overruling(&script.options).into_iter().map(str::to_owned).collect(),
            is_plain: one.spec.after.is_empty()
                && one.checked.after_documents.is_empty()
                && one.spec.begin.is_none(),
            checkpoint: one.spec.checkpoint,
            sweep: one.checked.sweep.clone(),
        };
        let kept = |error: std::io::Error| {
            RequestError::internal(format!(
                "cannot write into {}: {error}",
                records.dir(&one.id).display()
            ))
            .hint("set $MUSTER_HOME to a directory that every node sees")
        };
        records.keep(&record, &script.text).map_err(kept)?;
        // 3. Run sbatch. An unacknowledged submission is withdrawn, so that none of it starts
        // later.
        match self.sbatch(&one.id).await {
            Ok(number) if self.is_withdrawn() => Err(self.cancel_withdrawn(&one.id, number).await),
            Ok(number) => self.note(&one.id, number).await,
            Err(refusal) => {
                records.withdraw(&one.id).map_err(kept)?;
                Err(refusal)
            }
        }
    }

    /// Cancels a job that was submitted while its user withdrew it.
    async fn cancel_withdrawn(&self, id: &str, number: u64) -> RequestError {
        let withdrawn = match self.records().await {
            Ok(records) => records.withdraw(id).is_ok(),
            Err(_) => false,
        };
        let cancelled = self.tools().output("scancel", &[&number.to_string()]).await;
        match (cancelled, withdrawn) {
            (Ok(_), _) => RequestError::interrupted(format!("withdrawn: job {number} was cancelled, and nothing was submitted")),
            (Err(_), true) => RequestError::interrupted(format!(
                "withdrawn: Slurm accepted it as job {number} and does not answer; the job will run nothing when it starts"
            ))
            .hint(format!("`scancel {number}` removes it from the queue")),
            (Err(error), false) => RequestError::interrupted(format!("job {number} was submitted and could not be withdrawn: {error}"))
                .hint(format!("cancel it with `muster cancel {number}`")),
        }
    }

    /// Submits a recorded script with sbatch, and retries while the controller is down. An
    /// unanswered submission may have arrived, so the queue is searched for it first.
    pub(super) async fn sbatch(&self, id: &str) -> Result<u64> {
        let records = self.records().await?;
        // One submission at a time: the second finds the number that the first received.
        let _one = records.lock(id).await;
        let is_first = records
            .get(id)
            .is_none_or(|record| record.number.is_none() && record.before.is_empty());
        if !is_first && let Some(number) = self.find(id).await? {
            return Ok(number);
        }
        let path = records.script(id);
        let path = path.to_string_lossy();
        // The options are in the script: variables of this environment, or of a job that this runs
        // in, must not override them.
        let record = records.get(id);
        let set = record.iter().flat_map(|record| &record.without).cloned();
        let own = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let own = own.filter(|name| name.starts_with("SLURM_") && name != "SLURM_CONF");
        let without: Vec<String> = set.chain(own).collect();
        let deadline = Instant::now() + SUBMIT_TIMEOUT;
        let mut has_said = false;
        loop {
            let args = ["--parsable", &*path];
            let attempt = self.tools().detached(&without, "sbatch", &args);
            let error = match self.unless_withdrawn(attempt).await {
                Some(Ok(answer)) => {
                    let number =
                        answer.trim().split(';').next().and_then(|number| number.parse().ok());
                    return number.ok_or_else(|| {
                        RequestError::internal(format!(
                            "sbatch answered `{}`, which is not a job number",
                            answer.trim()
                        ))
                    });
                }
                Some(Err(error)) if error.is_silence() => error,
                Some(Err(ToolError::Failed { message, .. })) => {
                    return match self.find(id).await {
                        Ok(Some(number)) => Ok(number),
                        _ => Err(sbatch_error(&message)),
                    };
                }
                Some(Err(error)) => return Err(error.into()),
                None => return Err(RequestError::interrupted("withdrawn: nothing was submitted")),
            };
            if self.is_withdrawn() {
                return Err(RequestError::interrupted(
                    "withdrawn: Slurm does not answer, and nothing was submitted",
                ));
            }
            if !has_said {
                has_said = true;
                let secs = SUBMIT_TIMEOUT.as_secs();
                (self.settings.warn)(&format!(
                    "Slurm does not answer ({error}); trying for {secs}s, Ctrl-C withdraws it"
                ));
            }
            if let Some(Ok(Some(number))) = self.unless_withdrawn(self.find(id)).await {
                return Ok(number);
            }
            if Instant::now() >= deadline {
                return Err(RequestError::from(error)
                    .hint("nothing was submitted; retry once Slurm answers"));
            }
            tokio::select! {
                () = tokio::time::sleep(self.settings.poll_interval) => {}
                () = self.wait_for_withdrawal() => {}
            }
        }
    }

    /// Returns the result of an attempt; `None` where the user withdrew the submission and the
    /// attempt did not finish soon after.
    async fn unless_withdrawn<T>(&self, attempt: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(attempt);
        tokio::select! {
            answer = &mut attempt => return Some(answer),
            () = self.wait_for_withdrawal() => {}
        }
        // The call in progress is given time to finish, so that the job can be cancelled by number.
        tokio::time::timeout(WITHDRAWAL_TIMEOUT, attempt).await.ok()
    }

    /// Records the number that Slurm gave.
    pub(super) async fn note(&self, id: &str, number: u64) -> Result<u64> {
        let records = self.records().await?;
        if let Some(mut record) = records.get(id) {
            record.before.extend(record.number.filter(|before| *before != number));
            let noted = records.save(&SubmissionRecord {
                number: Some(number),
                submitted: now(),
                ..record
            });
            noted.map_err(|error| {
                RequestError::internal(format!("cannot record job {number}: {error}"))
            })?;
        }
        Ok(number)
    }

    /// Returns the number of the job with this id in its comment.
    async fn find(&self, id: &str) -> Result<Option<u64>> {
        let rows = self.queue(JobSelection::User(self.settings.user.as_str())).await?;
        Ok(rows.iter().find(|row| row.muster_id() == Some(id)).map(|row| row.job()))
    }

    /// Cancels the documents submitted before one was rejected.
    async fn cancel_submitted(&self, numbers: &[u64], refusal: RequestError) -> RequestError {
        if numbers.is_empty() {
            return refusal;
        }
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let list = words.join(" ");
        // A job that cannot be cancelled now runs nothing when it starts.
        if let Ok(records) = self.records().await {
            let ids = numbers.iter().filter_map(|number| records.of_number(*number));
            ids.for_each(|record| {
                let _ = records.withdraw(&record.id);
            });
        }
        match self.tools().output("scancel", &args).await {
            Ok(_) => {
                refusal.hint(format!("{list} of the same job file had been submitted before and were cancelled"))
            }
            Err(error) => refusal.hint(format!(
                "{list} of the same job file had been submitted before and could not be cancelled: {error}; they will run nothing when they start"
            )),
        }
    }
}

/// Adds the variables of the files that a job names.
fn add_env_files(checked: &mut CheckedJob, request: &SubmitRequest) -> Result<()> {
    checked.add_env_files(&request.env_files).map_err(|file| {
        RequestError::refused(format!(
            "the variables of `{file}`, which the job names in `env-file`, are missing"
        ))
    })
}

fn ready(request: &SubmitRequest, nth: usize, checked: CheckedJob, now: Time) -> PreparedJob {
    let key: String =
        request.key.chars().filter(char::is_ascii_alphanumeric).take(KEY_CHARACTERS).collect();
    let begin = checked.begin.map(|begin| begin.at(now)).or(checked.spec.begin);
    let base = Path::new(&request.workdir);
    let workdir = checked.workdir.as_ref().map_or_else(|| base.to_owned(), |dir| base.join(dir));
    let workdir: std::path::PathBuf =
        workdir.components().filter(|part| *part != Component::CurDir).collect();
    PreparedJob {
        id: format!("{key}{nth}"),
        spec: JobSpec { begin, ..checked.spec.clone() },
        workdir: workdir.to_string_lossy().into_owned(),
        checked,
    }
}

fn commands(commands: &BTreeMap<std::sync::Arc<str>, TaskCommand>) -> BTreeMap<String, String> {
    commands.iter().map(|(name, command)| (name.to_string(), command.text())).collect()
}

fn warnings(ready: &[PreparedJob], scripts: &[GeneratedScript]) -> Vec<String> {
    let own = ready.iter().flat_map(|one| one.checked.warnings.iter().cloned());
    let of_scripts = scripts.iter().flat_map(|script| script.warnings.iter().cloned());
    let is_foreign = |one: &&PreparedJob| one.checked.kubernetes != KubernetesOptions::default();
    let foreign = ready.iter().filter(is_foreign).map(|one| {
        format!("`{}` has a section `kubernetes`, which Slurm ignores", one.checked.spec.name)
    });
    own.chain(of_scripts).chain(foreign).collect()
}

fn response(
    ready: &[PreparedJob],
    numbers: &[u64],
    warnings: Vec<String>,
    scripts: Option<&[GeneratedScript]>,
) -> SubmitResponse {
    let jobs = ready.iter().zip(numbers).enumerate().map(|(nth, (one, number))| Submitted {
        job: JobId(*number),
        name: one.spec.name.to_string(),
        elements: elements(&one.spec),
        explanation: None,
        resolved: None,
        native: scripts.and_then(|scripts| Some(scripts.get(nth)?.text.clone())),
    });
    SubmitResponse { jobs: jobs.collect(), warnings }
}

/// Returns the number of elements to submit: of a service only the guaranteed replicas.
fn elements(spec: &JobSpec) -> u32 {
    match &spec.kind {
        WorkloadKind::Service(service) => service.replicas.guaranteed.max(1),
        _ => spec.element_count(),
    }
}

/// Turns a message of sbatch into an error with a next step.
fn sbatch_error(message: &str) -> RequestError {
    let message = message.strip_prefix("Batch job submission failed: ").unwrap_or(message);
    let refusal = RequestError::refused(format!("Slurm rejected the job: {message}"));
    let hint = match message {
        _ if message.contains("Invalid account") => {
            "`sacctmgr show assoc user=$USER` lists your accounts and partitions; `slurm: {account: …}` names one"
        }
        _ if message.contains("Invalid qos") => {
            "`sacctmgr show assoc user=$USER format=account,qos` lists the QOS that you may use; `slurm: {qos: …}` names one"
        }
        _ if message.contains("invalid partition") => {
            "`sinfo -s` lists partitions; `slurm: {partition: …}` names one"
        }
        _ if message.contains("Requested time limit is invalid")
            || message.contains("time limit") =>
        {
            "`sinfo -o '%P %l'` lists the limits of partitions; `time: …` sets the job's"
        }
        _ if message.contains("Requested node configuration is not available") => {
            "no node has the resources requested per node, `gpus` included; `muster nodes` lists what nodes have"
        }
        _ if message.contains("Invalid license specification") => {
            "`scontrol show licenses` lists the licences of the cluster and their totals"
        }
        _ if message.contains("Invalid generic resource") => {
            "`sinfo -o '%N %G'` lists the GPU types; `gpu: …` names one, without it any type is used"
        }
        _ => return refusal,
    };
    refusal.hint(hint)
}
