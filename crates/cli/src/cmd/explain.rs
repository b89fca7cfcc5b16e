//! `muster explain`.

use anyhow::Result;
use muster_api::types::ExplainResponse;
use muster_model::view::JobState;
use muster_operator::reader::ClusterReader;
use muster_operator::{ObjectName, ReadError};
use muster_report::explain::{explain, gang};
use serde::Serialize;

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::{Failure, NOT_FOUND};
use crate::jobref::JobRef;
use crate::kubernetes::KubernetesArgs;
use crate::ray_cluster::RayReport;

/// Explain why a job is pending, when it starts and what would start it now; or where it runs and
/// how good its placement is
///
/// A change is suggested only if the job would start when cancelled and resubmitted with it. With
/// `--on kubernetes` the job is a pod or gang object, and nothing is written to the cluster: see
/// docs/kubernetes.md. Of a running job of kind `ray` it also says which parts of the program wait, and why, as
/// `muster ray status` does. JSON: an `ExplainResponse`; with the latter as `ray`.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// Job: 3, an array element 3[7], or a name; on Kubernetes pod/NAME, job/NAME, jobset/NAME, …,
    /// or a name
    #[arg(value_name = "JOB")]
    job: String,
    #[command(flatten)]
    output: OutputArgs,
    /// Namespace of the pod or object; by default that of the context
    #[arg(short, long, value_name = "NAME", help_heading = "Options with --on kubernetes")]
    namespace: Option<String>,
    #[command(flatten)]
    kubernetes: KubernetesArgs,
}

/// Runs `muster explain`; returns its exit code.
pub async fn run(app: &App, args: ExplainArgs) -> Result<u8> {
    let explained = match args.kubernetes.reader(&app.global, args.namespace.clone()).await? {
        Some(reader) => explain_object(app, &reader, &args).await?,
        None => explain_job(app, &args.job).await?,
    };
    let ray = match explained.gang {
        Some(_) => None,
        None => ray_state(app, &args.job, &explained).await?,
    };
    if args.output.json() {
        let ray = ray.and_then(Result::ok);
        app.ui.json(&WithRay { explained: &explained, ray })?;
        return Ok(0);
    }
    let context = app.ui.context().at(explained.now);
    app.ui.data(&match &explained.gang {
        Some(pods) => gang(&explained.explanation, pods, context),
        None => explain(&explained.explanation, context),
    })?;
    match ray {
        Some(Ok(report)) => app.ui.data(&report.text("Ray"))?,
        Some(Err(error)) => app.ui.data(&format!("Ray: {error}\n"))?,
        None => {}
    }
    Ok(0)
}

/// Explanation of a job, with the state of its Ray cluster.
#[derive(Serialize)]
struct WithRay<'a> {
    #[serde(flatten)]
    explained: &'a ExplainResponse,
    #[serde(skip_serializing_if = "Option::is_none")]
    ray: Option<RayReport>,
}

/// Reads the state of the Ray cluster of a running job; `None` for other jobs.
async fn ray_state(
    app: &App,
    job: &str,
    explained: &ExplainResponse,
) -> Result<Option<Result<RayReport>>> {
    if explained.explanation.state != JobState::Running {
        return Ok(None);
    }
    let client = connect::find(&app.global)?;
    let element = explained.explanation.element;
    let detail = client.job(element.job, None).await.map_err(Failure::from)?;
    let job = match detail.job.array {
        Some(_) => format!("{}[{}]", element.job, element.index),
        None => job.to_owned(),
    };
    Ok(detail.has_ray.then(|| RayReport::read(app, &job)))
}

async fn explain_job(app: &App, job: &str) -> Result<ExplainResponse> {
    let job: JobRef = job.parse().map_err(Failure::usage)?;
    let client = connect::find(&app.global)?;
    let target = job.resolve(&client).await?;
    Ok(client.explain(target.job, target.index).await.map_err(Failure::from)?)
}

/// Explains the job of that name, as all commands for jobs find it, or else the object. Options for the
/// scheduler or the namespace mean an object.
async fn explain_object(
    app: &App,
    reader: &ClusterReader,
    args: &ExplainArgs,
) -> Result<ExplainResponse> {
    // 1. A list of jobs is small beside all that the plan of an object needs.
    let object = args.job.parse::<ObjectName>();
    let has_kind = object.is_ok() && args.job.contains('/');
    let has_options = args.kubernetes.are_given() || args.namespace.is_some();
    let no_job = if has_kind || has_options {
        None
    } else {
        match explain_job(app, &args.job).await {
            Ok(explained) => return Ok(explained),
            Err(error) => Some(error).filter(|error| !is_not_found(error)),
        }
    };
    // 2. What is no job, or may not be read as one.
    let missing = match object {
        Ok(name) => match reader.explain(&name).await {
            Ok((now, explanation, gang)) => {
                return Ok(ExplainResponse { now, explanation, gang: Some(gang) });
            }
            Err(error @ ReadError::NotFound { .. }) => Failure::from(error),
            Err(error) => return Err(Failure::from(error).into()),
        },
        Err(malformed) => Failure::usage(malformed),
    };
    Err(no_job.unwrap_or_else(|| missing.into()))
}

fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.code == NOT_FOUND)
}
