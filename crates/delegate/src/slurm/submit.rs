//! Submission: text in, numbers of Slurm out; all documents of a request or none. Each becomes one
//! native job, submitted as the caller, with Muster's id in its comment: what was acknowledged and
//! lost can be told from what never arrived.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::{Duration, Instant};

use muster_api::types::{SubmitRequest, SubmitResponse, Submitted};
use muster_backends::slurm::script::{self, Kept, Script, Source};
use muster_backends::slurm::tool::ToolError;
use muster_backends::slurm::variables::overruling;
use muster_model::payload::Command;
use muster_model::{Dependency, JobId, JobSpec, Kind, QueueName, Time};
use muster_spec::{Checked, Site};

use super::queue::Whose;
use super::record::Record;
use super::{Refusal, Result, Slurm};

/// How long a submission waits for a controller that does not answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a call that is under way may take after its user withdrew the submission: a controller
/// that is there answers sooner.
const AFTER_WITHDRAWAL: Duration = Duration::from_secs(5);

/// Characters of an id: enough of the request's key to be the only one, and the document's place.
const KEY_CHARACTERS: usize = 24;

/// A document that is ready to be handed on, but for the numbers of those that it waits for.
struct Ready {
    id: String,
    checked: Checked,
    spec: JobSpec,
    workdir: String,
}

impl Slurm {
    /// Submits every document of a request.
    pub(super) async fn submit(&self, request: SubmitRequest) -> Result<SubmitResponse> {
        // 1. Text to checked jobs.
        let nowhere = QueueName::from("default");
        let documents =
            muster_spec::parse(&request.source, request.file.as_deref(), &request.overrides)?;
        let site = Site::unknown(self.settings.user.clone(), &nowhere);
        let checked = muster_spec::check_all(&documents, &site)?;
        if request.interactive {
            return Err(Refusal::refused("a terminal from its start on is not had through sbatch")
                .hint(
                    "submit it without -it, and `muster attach JOB` once it runs; or `srun --pty`",
                ));
        }
        let now = self.now();
        let mut ready: Vec<Ready> = checked
            .into_iter()
            .enumerate()
            .map(|(nth, checked)| ready(&request, nth, checked, now))
            .collect();
        for one in &mut ready {
            one.spec.after = self.still_open(&one.spec.after).await?;
        }
        // 2. Scripts: what one of them cannot have refuses them all, before any is handed on.
        let scripts = ready.iter().map(|one| self.script(one, &[], now));
        let mut scripts = futures_util::future::try_join_all(scripts).await?;
        let warnings = warnings(&ready, &scripts);
        if request.dry_run {
            return Ok(response(&ready, &vec![0; ready.len()], warnings, Some(&scripts)));
        }
        // 3. Handed on in order, since later ones may wait for earlier ones.
        self.name_cluster().await?;
        let mut numbers: Vec<u64> = Vec::new();
        for (one, script) in ready.iter().zip(&mut scripts) {
            if !one.checked.after_documents.is_empty() {
                *script = self.script(one, &numbers, now).await?;
            }
            match self.hand_on(one, script, now).await {
                Ok(number) => numbers.push(number),
                Err(refusal) => return Err(self.take_back(&numbers, refusal).await),
            }
        }
        // What fails here is done by the next submission.
        let _ = self.tidy_records().await;
        Ok(response(&ready, &numbers, warnings, None))
    }

    /// The script of a document; `numbers` are those of the documents before it.
    async fn script(&self, one: &Ready, numbers: &[u64], now: Time) -> Result<Script> {
        let mut spec = one.spec.clone();
        spec.after.extend(one.checked.after_documents.iter().map(|(kind, nth)| Dependency {
            kind: *kind,
            job: JobId(numbers.get(*nth).copied().unwrap_or_default()),
        }));
        let dir = self.records().await?.dir(&one.id);
        let program = self.settings.program.to_string_lossy();
        let source = Source {
            spec: &spec,
            commands: &one.checked.commands,
            env: &one.checked.env,
            workdir: Some(&one.workdir),
            files: &one.checked.files,
            slurm: &one.checked.slurm,
            kept: Some(Kept { id: &one.id, dir: &dir.to_string_lossy() }),
            verify: one.checked.verify.then_some(&*program),
            now,
        };
        script::render(&source).map_err(|unfit| {
            let what: Vec<&str> = unfit.iter().map(|one| one.what.as_str()).collect();
            let refusal = Refusal::refused(format!(
                "Slurm cannot have `{}` as it is: {}",
                spec.name,
                what.join("; ")
            ));
            unfit.iter().fold(refusal, |refusal, one| refusal.hint(one.hint.clone()))
        })
    }

    /// Gives a script to sbatch, unless this very submission has been given to it before.
    async fn hand_on(&self, one: &Ready, script: &Script, now: Time) -> Result<u64> {
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
            return Err(Refusal::interrupted("withdrawn: nothing was submitted"));
        }
        // 2. Kept first: what was handed on and not answered can be looked for.
        let record = Record {
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
            workdir: one.workdir.clone(),
            files: one
                .checked
                .files
                .map(|file| Path::new(&one.workdir).join(file).display().to_string()),
            without: overruling(&script.options).into_iter().map(str::to_owned).collect(),
            is_plain: one.spec.after.is_empty()
                && one.checked.after_documents.is_empty()
                && one.spec.begin.is_none(),
            checkpoint: one.spec.checkpoint,
        };
        let kept = |error: std::io::Error| {
            Refusal::internal(format!(
                "cannot write into {}: {error}",
                records.dir(&one.id).display()
            ))
            .hint("$MUSTER_HOME names another folder; every node must see it")
        };
        records.keep(&record, &script.text).map_err(kept)?;
        // 3. sbatch. What is not acknowledged is withdrawn: nothing of it starts later.
        match self.sbatch(&one.id).await {
            Ok(number) if self.is_withdrawn() => Err(self.undo(&one.id, number).await),
            Ok(number) => self.note(&one.id, number).await,
            Err(refusal) => {
                records.withdraw(&one.id).map_err(kept)?;
                Err(refusal)
            }
        }
    }

    /// Cancels what was handed on while its user withdrew it.
    async fn undo(&self, id: &str, number: u64) -> Refusal {
        let withdrawn = match self.records().await {
            Ok(records) => records.withdraw(id).is_ok(),
            Err(_) => false,
        };
        let cancelled = self.tools().output("scancel", &[&number.to_string()]).await;
        match (cancelled, withdrawn) {
            (Ok(_), _) => Refusal::interrupted(format!("withdrawn: job {number} was cancelled again, and nothing was submitted")),
            (Err(_), true) => Refusal::interrupted(format!(
                "withdrawn: Slurm has taken it as job {number} and does not answer; when that starts it runs nothing"
            ))
            .hint(format!("`scancel {number}` takes it out of the queue")),
            (Err(error), false) => Refusal::interrupted(format!("job {number} was submitted, and could not be withdrawn: {error}"))
                .hint(format!("`muster cancel {number}` ends it")),
        }
    }

    /// Gives a kept script to sbatch until Slurm has answered: while no controller is there, it is
    /// asked again. What was not answered may have arrived all the same, and is looked for first.
    pub(super) async fn sbatch(&self, id: &str) -> Result<u64> {
        let records = self.records().await?;
        // One at a time, and who comes second finds what the first has got.
        let _one = records.lock(id).await;
        let is_first = records
            .get(id)
            .is_none_or(|record| record.number.is_none() && record.before.is_empty());
        if !is_first && let Some(number) = self.find(id).await? {
            return Ok(number);
        }
        let path = records.script(id);
        let path = path.to_string_lossy();
        // Options stand in the script: variables of this environment must not overrule them, nor
        // those of a job that this runs in.
        let record = records.get(id);
        let set = record.iter().flat_map(|record| &record.without).cloned();
        let own = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let own = own.filter(|name| name.starts_with("SLURM_") && name != "SLURM_CONF");
        let without: Vec<String> = set.chain(own).collect();
        let (deadline, mut has_said) = (Instant::now() + PATIENCE, false);
        loop {
            let args = ["--parsable", &*path];
            let attempt = self.tools().detached(&without, "sbatch", &args);
            let error = match self.unless_withdrawn(attempt).await {
                Some(Ok(answer)) => {
                    let number =
                        answer.trim().split(';').next().and_then(|number| number.parse().ok());
                    return number.ok_or_else(|| {
                        Refusal::internal(format!(
                            "sbatch answered `{}`, which is no number",
                            answer.trim()
                        ))
                    });
                }
                Some(Err(error)) if error.is_silence() => error,
                Some(Err(ToolError::Failed { message, .. })) => {
                    return match self.find(id).await {
                        Ok(Some(number)) => Ok(number),
                        _ => Err(refused(&message)),
                    };
                }
                Some(Err(error)) => return Err(error.into()),
                None => return Err(Refusal::interrupted("withdrawn: nothing was submitted")),
            };
            if self.is_withdrawn() {
                return Err(Refusal::interrupted(
                    "withdrawn: Slurm does not answer, and nothing was submitted",
                ));
            }
            if !has_said {
                has_said = true;
                let secs = PATIENCE.as_secs();
                (self.settings.warn)(&format!(
                    "Slurm does not answer ({error}); trying for {secs}s, Ctrl-C withdraws it"
                ));
            }
            if let Some(Ok(Some(number))) = self.unless_withdrawn(self.find(id)).await {
                return Ok(number);
            }
            if Instant::now() >= deadline {
                return Err(Refusal::from(error)
                    .hint("nothing was submitted; submit it again once Slurm answers"));
            }
            tokio::select! {
                () = tokio::time::sleep(self.settings.look_again) => {}
                () = self.withdrawal() => {}
            }
        }
    }

    /// What comes of it; `None` where its user withdrew the submission, and it did not end in time
    /// after that.
    async fn unless_withdrawn<T>(&self, attempt: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(attempt);
        tokio::select! {
            answer = &mut attempt => return Some(answer),
            () = self.withdrawal() => {}
        }
        // What is under way is let arrive, so that it can be cancelled by its number.
        tokio::time::timeout(AFTER_WITHDRAWAL, attempt).await.ok()
    }

    /// Writes down the number that Slurm gave.
    pub(super) async fn note(&self, id: &str, number: u64) -> Result<u64> {
        let records = self.records().await?;
        if let Some(mut record) = records.get(id) {
            record.before.extend(record.number.filter(|before| *before != number));
            let noted =
                records.save(&Record { number: Some(number), submitted: self.now(), ..record });
            noted.map_err(|error| {
                Refusal::internal(format!("job {number} is not noted: {error}"))
            })?;
        }
        Ok(number)
    }

    /// The number of the job that carries this id.
    async fn find(&self, id: &str) -> Result<Option<u64>> {
        let rows = self.queue(Whose::User(self.settings.user.as_str())).await?;
        Ok(rows.iter().find(|row| row.muster_id() == Some(id)).map(|row| row.job()))
    }

    /// All documents or none: what was handed on before one was refused is cancelled.
    async fn take_back(&self, numbers: &[u64], refusal: Refusal) -> Refusal {
        if numbers.is_empty() {
            return refusal;
        }
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let list = words.join(" ");
        // What cannot be cancelled now runs nothing when it starts.
        if let Ok(records) = self.records().await {
            let ids = numbers.iter().filter_map(|number| records.of_number(*number));
            ids.for_each(|record| {
                let _ = records.withdraw(&record.id);
            });
        }
        match self.tools().output("scancel", &args).await {
            Ok(_) => {
                refusal.hint(format!("of the same text, {list} were submitted before it and cancelled again"))
            }
            Err(error) => refusal.hint(format!(
                "of the same text, {list} were submitted before it; they could not be cancelled and run nothing when they start: {error}"
            )),
        }
    }
}

fn ready(request: &SubmitRequest, nth: usize, checked: Checked, now: Time) -> Ready {
    let key: String =
        request.key.chars().filter(char::is_ascii_alphanumeric).take(KEY_CHARACTERS).collect();
    let begin = checked.begin.map(|begin| begin.at(now)).or(checked.spec.begin);
    let base = Path::new(&request.workdir);
    let workdir = checked.workdir.as_ref().map_or_else(|| base.to_owned(), |dir| base.join(dir));
    let workdir: std::path::PathBuf =
        workdir.components().filter(|part| *part != Component::CurDir).collect();
    Ready {
        id: format!("{key}{nth}"),
        spec: JobSpec { begin, ..checked.spec.clone() },
        workdir: workdir.to_string_lossy().into_owned(),
        checked,
    }
}

fn commands(commands: &BTreeMap<std::sync::Arc<str>, Command>) -> BTreeMap<String, String> {
    let text = |command: &Command| match command {
        Command::Argv(words) => {
            words.iter().map(|word| script::quote::word(word)).collect::<Vec<_>>().join(" ")
        }
        Command::Script(text) => text.clone(),
    };
    commands.iter().map(|(name, command)| (name.to_string(), text(command))).collect()
}

fn warnings(ready: &[Ready], scripts: &[Script]) -> Vec<String> {
    let own = ready.iter().flat_map(|one| one.checked.warnings.iter().cloned());
    own.chain(scripts.iter().flat_map(|script| script.warnings.iter().cloned())).collect()
}

fn response(
    ready: &[Ready],
    numbers: &[u64],
    warnings: Vec<String>,
    scripts: Option<&[Script]>,
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

/// Elements that are handed on: of a service the replicas that are always there.
fn elements(spec: &JobSpec) -> u32 {
    match &spec.kind {
        Kind::Service(service) => service.replicas.floor.max(1),
        _ => spec.element_count(),
    }
}

/// What sbatch says, with what to do.
fn refused(message: &str) -> Refusal {
    let message = message.strip_prefix("Batch job submission failed: ").unwrap_or(message);
    let refusal = Refusal::refused(format!("Slurm refused it: {message}"));
    let hint = match message {
        _ if message.contains("Invalid account") => {
            "`sacctmgr show assoc user=$USER` lists your accounts and partitions; `slurm: {account: …}` names one"
        }
        _ if message.contains("Invalid qos") => {
            "`sacctmgr show assoc user=$USER format=account,qos` lists what you may use; `slurm: {qos: …}` names one"
        }
        _ if message.contains("invalid partition") => {
            "`sinfo -s` lists partitions; `slurm: {partition: …}` names one"
        }
        _ if message.contains("Requested time limit is invalid")
            || message.contains("time limit") =>
        {
            "`sinfo -o '%P %l'` has the limits of partitions; `time: …` is the job's"
        }
        _ if message.contains("Requested node configuration is not available") => {
            "`muster nodes` lists what nodes have; no node has what this asks of one: `gpus` counts per node"
        }
        _ if message.contains("Invalid license specification") => {
            "`scontrol show licenses` lists those that the cluster counts, and how many there are of each"
        }
        _ if message.contains("Invalid generic resource") => {
            "`sinfo -o '%N %G'` has the names of GPU types here; `gpu: …` names one, without it any will do"
        }
        _ => return refusal,
    };
    refusal.hint(hint)
}
