//! Submits job texts with the environment, working directory and umask of this process, and prints
//! the response.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use muster_api::types::{SubmitRequest, SubmitResponse};
use muster_api::{Client, ClientError};
use muster_backends::env::SECRETS_VARIABLE;
use muster_backends::environment::Variables;
use muster_model::{ClusterName, QueueName, UserName};
use muster_report::explain::dry_run;
use muster_spec::{ParsedJob, SubmissionSite};
use rustix::fs::Mode;
use rustix::process::umask;
use serde_json::{Map, Value};

use crate::app::App;
use crate::environment::{self, EnvFiles, RunsOn};
use crate::exit::Failure;
use crate::notify_file;
use crate::on::{self, On};
use crate::source::SourceText;
use crate::withdraw::or_withdraw;

/// Options that apply to all texts of a submission.
pub struct SubmitOptions {
    /// Fields that override those of every document.
    pub fields: Map<String, Value>,
    /// True if rank 0 gets a terminal.
    pub interactive: bool,
    /// True to return what would happen, without submitting.
    pub dry_run: bool,
}

/// Variables and directory of this process, which jobs get, and the variables of the files that each text names.
pub struct Submitter {
    env: Variables,
    workdir: String,
    env_files: Vec<EnvFiles>,
}

impl Submitter {
    /// Reads the variables and files for texts, and checks the environments of their jobs where they will run.
    ///
    /// # Errors
    /// What cannot be read, and on this machine what an environment lacks.
    pub fn of(app: &App, texts: &[SourceText], fields: &Map<String, Value>) -> Result<Self> {
        let workdir =
            std::env::current_dir().context("the working directory does not exist any more")?;
        let workdir = workdir
            .into_os_string()
            .into_string()
            .map_err(|_| Failure::usage("the path of the working directory is not UTF-8 text"))?;
        let mut submitter = Self { env: variables(app), workdir, env_files: Vec::new() };
        let place = match &app.global.on {
            None | Some(On::Cluster(ClusterName::Local)) => Some(RunsOn::ThisMachine),
            Some(On::Cluster(ClusterName::Slurm)) => Some(RunsOn::Slurm),
            Some(On::Cluster(ClusterName::SlurmAt(_) | ClusterName::Kubernetes(_)))
            | Some(On::Several(_) | On::Auto) => None,
        };
        // Names of jobs to wait for are not resolved yet.
        let mut fields = fields.clone();
        fields.remove("after");
        for text in texts {
            let file = text.file.as_deref();
            let documents =
                muster_spec::parse(&text.source, file, &fields).map_err(Failure::from)?;
            let files = environment::read_env_files(&documents, file)?;
            if let Some(place) = place {
                submitter.check(app, &documents, &files, place)?;
            }
            submitter.env_files.push(files);
        }
        Ok(submitter)
    }

    fn check(
        &self,
        app: &App,
        documents: &[ParsedJob],
        files: &EnvFiles,
        place: RunsOn,
    ) -> Result<()> {
        let queue = QueueName::from("default");
        let site = SubmissionSite::unknown(UserName::from("nobody"), &queue);
        // What else is wrong with a job is told by the cluster, which knows its site.
        let Ok(mut jobs) = muster_spec::check_all(documents, &site) else { return Ok(()) };
        for job in &mut jobs {
            job.add_env_files(files).expect("every file that the jobs name was read");
        }
        for warning in environment::check(&jobs, &self.env, &self.workdir, place)? {
            app.ui.warning(&warning);
        }
        Ok(())
    }
}

/// Submits every text, in order. The jobs of one text are accepted all or none.
pub async fn submit(
    app: &App,
    client: &Client,
    texts: &[SourceText],
    submitter: Submitter,
    order: &SubmitOptions,
) -> Result<Vec<SubmitResponse>> {
    let Submitter { env, workdir, env_files } = submitter;
    let notify_file = notify_file::read()?;
    let mut responses: Vec<SubmitResponse> = Vec::new();
    for (text, env_files) in texts.iter().zip(env_files) {
        let request = SubmitRequest {
            key: random_key()?,
            source: text.source.clone(),
            file: text.file.clone(),
            overrides: order.fields.clone(),
            notify_file: notify_file.clone(),
            env: env.clone(),
            env_files,
            workdir: workdir.clone(),
            umask: mask(),
            interactive: order.interactive,
            dry_run: order.dry_run,
        };
        match send(client, &request).await {
            Ok(response) => {
                for warning in &response.warnings {
                    app.ui.warning(warning);
                }
                responses.push(response);
            }
            Err(error) => {
                let before = responses.iter().flat_map(|response| &response.jobs);
                let before: Vec<String> = before.map(|job| client.label(job.job)).collect();
                let failure = Failure::from(error);
                return Err(if before.is_empty() {
                    failure
                } else {
                    failure.hint(format!(
                        "jobs {} of the preceding files were submitted",
                        before.join(" ")
                    ))
                }
                .into());
            }
        }
    }
    Ok(responses)
}

/// Sends a submission, and once more if the connection breaks: both have the same idempotency key.
async fn send(client: &Client, request: &SubmitRequest) -> Result<SubmitResponse, ClientError> {
    match or_withdraw(client, client.submit(request)).await {
        Err(ClientError::Io(_)) if client.socket().is_some() => client.submit(request).await,
        answer => answer,
    }
}

/// Returns the environment variables that are UTF-8, and warns of the others. Secrets of the job from inside of which
/// this runs are left out: they would be stored with the new one.
fn variables(app: &App) -> Variables {
    let mut env = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => drop(env.insert(name, value)),
            (Ok(name), Err(_)) => {
                app.ui.warning(&format!("{name} is not UTF-8 text; the job does not get it"))
            }
            (Err(name), _) => {
                app.ui.warning(&format!(
                    "{} is not UTF-8 text; the job does not get it",
                    name.to_string_lossy()
                ));
            }
        }
    }
    let secrets = env.get(SECRETS_VARIABLE).cloned().unwrap_or_default();
    for secret in secrets.split(',') {
        env.remove(secret);
    }
    env
}

/// Returns the file mode creation mask. It can only be read by setting it; no other thread runs
/// here that could create a file meanwhile.
fn mask() -> u32 {
    let mask = umask(Mode::from_raw_mode(0o077));
    umask(mask);
    mask.as_raw_mode()
}

/// Returns 128 random bits in hexadecimal, a key that no other submission has.
fn random_key() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(format!("cannot get random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Lists the submitted jobs.
pub fn print(
    app: &App,
    client: &Client,
    responses: &[SubmitResponse],
    is_json: bool,
    hint: bool,
) -> Result<()> {
    if is_json {
        return json(app, responses);
    }
    let jobs: Vec<_> = responses.iter().flat_map(|response| &response.jobs).collect();
    for job in &jobs {
        let elements =
            if job.elements > 1 { format!(", {} elements", job.elements) } else { String::new() };
        app.ui.data(&format!(
            "job {}: {}{elements}\n",
            client.label(job.job),
            muster_report::style::clean(&job.name)
        ))?;
    }
    if let Some(job) = jobs.first().filter(|_| hint && app.ui.status_is_terminal()) {
        let on = on::option_for(app.global.on.as_ref());
        app.ui.hint(&format!(
            "`muster ps{on}` lists jobs, `muster logs{on} -f {}` shows output",
            client.label(job.job)
        ));
    }
    Ok(())
}

/// Prints what a submission would do.
pub async fn print_dry_run(
    app: &App,
    client: &Client,
    responses: &[SubmitResponse],
    is_json: bool,
) -> Result<u8> {
    if is_json {
        json(app, responses)?;
        return Ok(0);
    }
    let jobs: Vec<_> = responses.iter().flat_map(|response| &response.jobs).collect();
    if jobs.iter().any(|job| job.native.is_some()) {
        let scripts: Vec<&str> = jobs.iter().filter_map(|job| job.native.as_deref()).collect();
        app.ui.bytes(scripts.join("\n").as_bytes())?;
        app.ui.status("nothing was submitted");
        return Ok(0);
    }
    let now = client.info().await.map_err(Failure::from)?.now;
    for job in jobs {
        if let Some(explanation) = &job.explanation {
            app.ui.data(&dry_run(explanation, app.ui.context().at(now)))?;
        }
    }
    app.ui.status("nothing was submitted");
    Ok(0)
}

fn json(app: &App, responses: &[SubmitResponse]) -> Result<()> {
    match responses {
        [one] => app.ui.json(one),
        several => app.ui.json(&several),
    }
}
