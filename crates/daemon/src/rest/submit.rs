//! Handler for submissions: text in, job numbers out; all documents of a request or none.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use muster_api::types::{ErrorDiagnostic, SubmitRequest, SubmitResponse, Submitted};
use muster_model::kubernetes::KubernetesOptions;
use muster_model::payload::TaskCommand;
use muster_model::slurm::SlurmOptions;
use muster_model::sweep::Param;
use muster_model::{JobSpec, Payload, UserName};
use muster_runtime::{JobDraft, JobSubmission, Receipt};
use muster_spec::{CheckedJob, Colour, Diagnostics, SubmissionSite, access};

use super::{ApiState, JsonBody};
use crate::auth::Caller;
use crate::failure::ApiFailure;

/// Longest idempotency key in bytes.
const MAX_KEY_BYTES: usize = 128;
/// Variable by which clients find a daemon.
const SOCKET_VARIABLE: &str = "MUSTER_SOCKET";

pub(super) async fn submit(
    State(app): State<ApiState>,
    caller: Caller,
    JsonBody(request): JsonBody<SubmitRequest>,
) -> Result<Json<SubmitResponse>, ApiFailure> {
    check_request(&request)?;
    let user = caller.identity.user.clone();

    // 1. The same key is the same submission, even if the site has changed since.
    if !request.dry_run
        && let Some(receipt) = app.handle.receipt(user.clone(), request.key.clone()).await?
    {
        return Ok(Json(response(receipt, Vec::new(), Vec::new())));
    }

    // 2. Parse and check on a blocking thread: a large text takes time.
    let advance_reservations: Vec<_> =
        app.handle.advance_reservations().await?.into_iter().map(|view| view.name).collect();
    let dry_run = request.dry_run;
    let site = app.site.borrow().clone();
    let clock = app.clock.now();
    let known = Arc::clone(&site);
    let work = move || {
        let documents = muster_spec::parse_with_notices(
            &request.source,
            request.file.as_deref(),
            &request.overrides,
            request.notices(),
        )?;
        let surroundings =
            SubmissionSite::new(caller.identity.user.clone(), &site.nodes, &site.queues)
                .with_windows(advance_reservations);
        let checked = muster_spec::check_all(&documents, &surroundings)?;
        Ok((checked, request, caller))
    };
    let (checked, request, caller) = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ApiFailure::Internal(error.to_string()))?
        .map_err(|diagnostics| invalid_spec(&diagnostics))?;
    if !caller.admin {
        let check = |job: &CheckedJob| access::check(&known.queues, caller.submitter(), &job.spec);
        checked.iter().try_for_each(check)?;
    }
    let mut submission = submission(checked, request, &caller, user, clock)?;
    let payloads = submission.drafts.iter_mut().map(|draft| &mut draft.payload);
    for payload in payloads.filter(|one| one.commands.values().any(muster_ray::grows)) {
        // The further nodes of a Ray cluster must be jobs of this daemon.
        let socket = app.about.socket.as_ref().map(|socket| socket.display().to_string());
        payload.env.extend(socket.map(|socket| (SOCKET_VARIABLE.to_owned(), socket)));
    }

    // 3. Judge for a dry run, submit otherwise.
    if !dry_run {
        let receipt = app.handle.submit(submission).await?;
        return Ok(Json(response(receipt, Vec::new(), Vec::new())));
    }
    let specs: Vec<JobSpec> = submission.drafts.iter().map(|draft| draft.spec.clone()).collect();
    let (receipt, mut explanations) = app.handle.dry_run(submission).await?;
    for used in explanations.iter_mut().flat_map(|explanation| &mut explanation.used_outside) {
        caller.hide_processes_of_others(&mut used.processes);
    }
    Ok(Json(response(receipt, explanations, specs)))
}

/// Converts the diagnostics of `spec` into an API error.
pub(super) fn invalid_spec(diagnostics: &Diagnostics) -> ApiFailure {
    let list = diagnostics.iter().map(|one| ErrorDiagnostic {
        message: one.message.clone(),
        line: one.line,
        column: one.column,
        rendered: diagnostics.render_one(one, Colour::Never),
    });
    let message = match diagnostics.count() {
        1 => "the text has an error".to_owned(),
        count => format!("the text has {count} errors"),
    };
    ApiFailure::InvalidSpec { message, diagnostics: list.collect() }
}

/// Rejects values that the kernel would not accept later.
fn check_request(request: &SubmitRequest) -> Result<(), ApiFailure> {
    if request.key.is_empty() || request.key.len() > MAX_KEY_BYTES {
        return Err(ApiFailure::bad_request(format!("`key` must have 1 to {MAX_KEY_BYTES} bytes")));
    }
    if !Path::new(&request.workdir).is_absolute() || request.workdir.contains('\0') {
        return Err(ApiFailure::bad_request("`workdir` must be an absolute path"));
    }
    if request.umask > 0o777 {
        return Err(ApiFailure::bad_request("`umask` must be at most 0777"));
    }
    let bad_name = |name: &str| name.is_empty() || name.contains(['=', '\0']);
    match request.env.iter().find(|(name, value)| bad_name(name) || value.contains('\0')) {
        Some((name, _)) => Err(ApiFailure::bad_request(format!(
            "`env` contains `{}`, which no process environment can hold",
            name.escape_debug()
        ))),
        None => Ok(()),
    }
}

fn submission(
    checked: Vec<CheckedJob>,
    request: SubmitRequest,
    caller: &Caller,
    user: UserName,
    now: muster_model::Time,
) -> Result<JobSubmission, ApiFailure> {
    let unverified = checked.iter().filter(|job| job.verify).map(|job| {
        let name = &job.spec.name;
        format!("`{name}` is not verified before its start on this machine; run `muster verify` while it runs")
    });
    let unread = checked.iter().filter(|job| job.slurm != SlurmOptions::default()).map(|job| {
        let name = &job.spec.name;
        let uncounted = match job.slurm.licenses.join(", ") {
            none if none.is_empty() => String::new(),
            some => format!(": its licences are not counted here ({some}), and it starts without them"),
        };
        format!(
            "`{name}` has a section `slurm`, which this machine ignores{uncounted}; `--on slurm` submits to Slurm"
        )
    });
    let is_foreign = |job: &&CheckedJob| job.kubernetes != KubernetesOptions::default();
    let foreign = checked.iter().filter(is_foreign).map(|job| {
        let name = &job.spec.name;
        format!(
            "`{name}` has a section `kubernetes`, which this machine ignores; `muster export kubernetes` writes its objects"
        )
    });
    let own = checked.iter().flat_map(|job| job.warnings.iter().cloned());
    let warnings = own.chain(unverified).chain(unread).chain(foreign).collect();
    let drafts: Result<Vec<_>, _> =
        checked.into_iter().map(|job| draft(job, &request, caller, &user, now)).collect();
    Ok(JobSubmission { user, key: request.key, drafts: drafts?, warnings })
}

fn draft(
    mut checked: CheckedJob,
    request: &SubmitRequest,
    caller: &Caller,
    user: &UserName,
    now: muster_model::Time,
) -> Result<JobDraft, ApiFailure> {
    let mut env: BTreeMap<String, String> = request.env.clone();
    // Those of the sweep from inside of which it is submitted.
    env.retain(|name, _| !name.starts_with(Param::VARIABLE));
    // A cluster has a secret of its own, not that of the Ray job from inside of which it is submitted.
    if checked.commands.values().any(muster_ray::begins_cluster) {
        env.remove(muster_ray::TOKEN);
    }
    checked.add_env_files(&request.env_files).map_err(|file| {
        ApiFailure::bad_request(format!(
            "`env_files` lacks the variables of `{file}`, which the job names in `env-file`; the client reads them"
        ))
    })?;
    env.extend(checked.env);
    muster_ray::set_token(&mut env, &checked.commands, getrandom::fill)
        .map_err(|error| ApiFailure::Internal(format!("no random number: {error}")))?;
    let workdir = checked.workdir.map_or_else(
        || PathBuf::from(&request.workdir),
        |dir| Path::new(&request.workdir).join(dir),
    );
    check_strings(&checked.commands, &env, &workdir)?;
    if request.interactive && !checked.files.is_empty() {
        return Err(ApiFailure::bad_request(
            "a job on a terminal writes to that terminal: leave out `output` and `error`, or -it",
        ));
    }
    let begin = checked.begin.map(|begin| begin.at(now)).or(checked.spec.begin);
    Ok(JobDraft {
        spec: JobSpec { user: user.clone(), uid: Some(caller.identity.uid), begin, ..checked.spec },
        payload: Payload {
            commands: checked.commands,
            env,
            workdir: normal(&workdir),
            umask: request.umask,
            identity: caller.identity.clone(),
            interactive: request.interactive,
            files: checked.files,
            sweep: checked.sweep.map(Box::new),
            notices: checked.notices,
            environment: checked.environment,
        },
        after: checked.after_documents,
    })
}

/// Rejects zero bytes: a zero byte ends a string for the kernel, so the rest would be lost
/// silently.
fn check_strings(
    commands: &BTreeMap<std::sync::Arc<str>, TaskCommand>,
    env: &BTreeMap<String, String>,
    workdir: &Path,
) -> Result<(), ApiFailure> {
    let in_command = |command: &TaskCommand| command.parts().iter().any(|part| part.contains('\0'));
    let in_env = env.iter().any(|(name, value)| name.contains('\0') || value.contains('\0'));
    let found =
        commands.values().any(in_command) || in_env || workdir.to_string_lossy().contains('\0');
    if found {
        return Err(ApiFailure::bad_request(
            "a command, variable or directory contains a zero byte",
        ));
    }
    Ok(())
}

/// Removes `.` components; `..` stays, since a link may precede it.
fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

fn response(
    receipt: Receipt,
    explanations: Vec<muster_model::view::Explanation>,
    specs: Vec<JobSpec>,
) -> SubmitResponse {
    let mut explanations = explanations.into_iter();
    let mut specs = specs.into_iter();
    let jobs = receipt.jobs.into_iter().map(|job| Submitted {
        job: job.job,
        name: job.name,
        elements: job.elements,
        explanation: explanations.next(),
        resolved: specs.next().and_then(|spec| serde_json::to_value(spec).ok()),
        native: None,
    });
    SubmitResponse { jobs: jobs.collect(), warnings: receipt.warnings }
}
