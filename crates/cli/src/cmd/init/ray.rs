//! `muster init ray`: writes what makes Ray a workload of Slurm or Kubernetes, in place of a second control plane:
//! job files to begin with, and how they get a queue. `muster-ray`, `muster-slurm` and `muster-kubernetes` make
//! the texts.

use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_kubernetes::names;
use muster_kubernetes::ray_setup::{self, RayQueue};
use muster_kubernetes::render::{self, GangScheduler, JobForm};
use muster_model::advice::{ControlPlane, Label};
use muster_model::{ClusterName, QueueName, Span, UserName};
use muster_ray::setup::{self, RayNodes, RaySetup, SetupPlace};
use muster_spec::{SubmissionSite, parse_cluster};
use serde_json::Map;

use super::generated::{self, EarlierFiles, GeneratedFile, OtherFiles};
use crate::app::App;
use crate::cmd::export::kubernetes::{gang_scheduler, with_input};
use crate::cmd::inventory::summary;
use crate::exit::Failure;
use crate::on::On;
use crate::site_file::SiteFileArgs;
use crate::source;

const EXAMPLES: &str = "\
Examples:
  muster init ray --cluster cluster.yaml
  muster init ray --cluster cluster.yaml --on slurm --growth-qos idle --queue lab/rl
  muster init ray --cluster cluster.yaml --on kubernetes --scheduler kueue --queue rl -o kuberay
  muster init ray --cluster cluster.yaml --on auto --site site.yaml --diff
  muster check ray kuberay";

/// Write job files for Ray clusters, and the queue or QOS that governs them
///
/// Always program.yaml, a program on a Ray cluster of its own, and lab.yaml, a cluster for several
/// programs, sized for the nodes with the most GPUs in the cluster file. For Slurm also growth.sh,
/// the QOS of further nodes. For Kubernetes also kuberay-values.yaml, queue.yaml with the namespace,
/// rayjob.yaml, and install.sh, which applies them in order.
///
/// --on says what the files are for: local, slurm, kubernetes, or auto, which is what `muster advise`
/// recommends for the site file. Without it this is auto where there is a site file, else slurm. Read
/// the files; nothing is run. On a later run, files that were edited by hand are kept and named, and
/// all others are overwritten. See docs/ray.md.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct InitRayArgs {
    /// Cluster file; `muster inventory` writes one
    #[arg(long, value_name = "FILE")]
    cluster: PathBuf,
    #[command(flatten)]
    site: SiteFileArgs,
    /// Directory for the files; - prints them without writing
    #[arg(short = 'o', long, value_name = "DIR", default_value = "ray")]
    output: PathBuf,
    #[command(flatten)]
    earlier: EarlierFiles,
    /// Queue of the jobs [default: the usual one; on Kubernetes: ray]
    #[arg(long, value_name = "QUEUE", value_parser = word)]
    queue: Option<String>,
    /// Interpreter that has Ray, at the same path on every node [default: python3]
    #[arg(long, value_name = "PATH")]
    python: Option<String>,

    /// QOS of further nodes, which jobs of other QOS preempt; `muster init slurm` makes one named idle
    #[arg(long, value_name = "NAME", default_value = "ray-growth", value_parser = word, help_heading = "Slurm")]
    growth_qos: String,
    /// QOS whose jobs preempt further nodes
    #[arg(long, value_name = "NAME", default_value = "normal", value_parser = word, help_heading = "Slurm")]
    preempted_by: String,

    /// Scheduler that has the queue and starts the pods of a Ray cluster together
    #[arg(long, value_name = "SCHEDULER", value_parser = gang_scheduler(), default_value = GangScheduler::Muster.word(), help_heading = "Kubernetes")]
    scheduler: GangScheduler,
    /// Image with Ray; its tag should be a version
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = "rayproject/ray:2.60.0-py312-gpu",
        help_heading = "Kubernetes"
    )]
    image: String,
    /// Namespace of the jobs
    #[arg(long, value_name = "NAME", default_value = "ray", value_parser = word, help_heading = "Kubernetes")]
    namespace: String,
}

/// System that has the nodes, on which Ray runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RayHost {
    /// One machine, or machines without a control plane.
    Machine,
    /// Slurm, in an allocation for each cluster.
    Slurm,
    /// Kubernetes, where KubeRay's operator makes each cluster of pods.
    Kubernetes,
}

impl RayHost {
    /// Returns what an answer of `muster advise` has Ray run on. In a divided fleet that is the side of the jobs
    /// that end.
    pub fn advised(label: &Label) -> Self {
        match label.primary {
            ControlPlane::None => RayHost::Machine,
            ControlPlane::Slurm => RayHost::Slurm,
            ControlPlane::Kubernetes | ControlPlane::K3s => RayHost::Kubernetes,
            ControlPlane::Ray if label.addon.contains("KubeRay") => RayHost::Kubernetes,
            ControlPlane::Ray => RayHost::Machine,
        }
    }

    /// Returns the value of `--on`.
    pub fn on(self) -> &'static str {
        match self {
            RayHost::Machine => "local",
            RayHost::Slurm => "slurm",
            RayHost::Kubernetes => "kubernetes",
        }
    }

    fn title(self) -> &'static str {
        match self {
            RayHost::Machine => "one machine",
            RayHost::Slurm => "Slurm",
            RayHost::Kubernetes => "Kubernetes",
        }
    }
}

/// Slurm's GraceTime for preempted nodes: twice the default `grace` of a job (30 s), within which Ray leaves the node.
const GRACE: Span = Span::from_secs(60);

/// Accepts a name that shells and files need no quotes for.
fn word(text: &str) -> Result<String, String> {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    if is_word {
        Ok(text.to_owned())
    } else {
        Err("expected letters, digits, `-`, `_`, `.`; in a queue also `/`".to_owned())
    }
}

/// Runs `muster init ray`; returns its exit code.
pub fn run(app: &App, args: &InitRayArgs) -> Result<u8> {
    // 1. Read the cluster, and what the files are for.
    let given = source::read(&args.cluster)?;
    let cluster = parse_cluster(&given.source, given.file.as_deref()).map_err(Failure::from)?;
    let nodes = RayNodes::of(&cluster.nodes).ok_or_else(|| {
        Failure::usage(format!("no node of {} has a whole GPU", args.cluster.display()))
            .hint("a Ray node has whole GPUs; give the nodes theirs: `{name: node1, gpus: 8}`")
    })?;
    let host = host(app, args)?;

    // 2. Make the files.
    let made = match host {
        RayHost::Machine => job_files(args, &nodes.of_machine(), SetupPlace::Machine),
        RayHost::Slurm => {
            let mut files =
                job_files(args, &nodes, SetupPlace::Slurm { growth_qos: &args.growth_qos });
            if nodes.nodes > 1 {
                let text =
                    muster_slurm::ray_growth::script(&args.growth_qos, &args.preempted_by, GRACE);
                files.push(("growth.sh", text));
            }
            files
        }
        RayHost::Kubernetes => kubernetes(args, &nodes)?,
    };
    let files: Vec<GeneratedFile> =
        made.iter().map(|(name, text)| GeneratedFile::new("ray", name, text)).collect();

    // 3. Write them.
    let on = host.on();
    let of = format!("Ray on {}: {}", host.title(), summary(&cluster.nodes));
    if let Some(code) =
        generated::deliver(app, &args.output, &files, args.earlier, OtherFiles::Write, &of)?
    {
        return Ok(code);
    }
    if args.output != Path::new("-") {
        let dir = args.output.display();
        let first = match host {
            RayHost::Machine => "",
            RayHost::Slurm if nodes.nodes > 1 => "run growth.sh, ",
            RayHost::Slurm => "",
            RayHost::Kubernetes => "run install.sh, ",
        };
        app.ui.hint(&format!(
            "read them, {first}put your program into program.yaml, then: muster run --on {on} {dir}/program.yaml"
        ));
    }
    Ok(0)
}

/// Returns what the files are for: what the user says, or what is advised for the site.
fn host(app: &App, args: &InitRayArgs) -> Result<RayHost> {
    args.site.check_applies(&app.global)?;
    match &app.global.on {
        Some(On::Cluster(ClusterName::Local)) => Ok(RayHost::Machine),
        Some(On::Cluster(ClusterName::Slurm)) => Ok(RayHost::Slurm),
        Some(On::Cluster(ClusterName::SlurmAt(_))) => {
            Err(Failure::usage("the files are for any Slurm: no host is asked")
                .hint("write --on slurm")
                .into())
        }
        Some(On::Cluster(ClusterName::Kubernetes(_))) => Ok(RayHost::Kubernetes),
        Some(On::Several(_)) => Err(Failure::usage("the files are for one cluster")
            .hint("run it once for each, such as: --on slurm -o ray-slurm")
            .into()),
        None if !SiteFileArgs::is_there() => Ok(RayHost::Slurm),
        None | Some(On::Auto) => {
            let site = args.site.read()?;
            let advice = muster_advise::advise_site(&site.profile, Default::default());
            let host = RayHost::advised(&advice.advice.label);
            let headline = muster_report::advise::headline(&advice.advice.label);
            app.ui.status(&format!(
                "--on {}, since the advice for {} is {headline}",
                host.on(),
                site.name
            ));
            Ok(host)
        }
    }
}

fn job_files(
    args: &InitRayArgs,
    nodes: &RayNodes,
    place: SetupPlace<'_>,
) -> Vec<(&'static str, String)> {
    let queue = match place {
        SetupPlace::Kubernetes { .. } => Some(kubernetes_queue(args)),
        SetupPlace::Machine | SetupPlace::Slurm { .. } => args.queue.as_deref(),
    };
    let setup = RaySetup { nodes, place, queue, python: args.python.as_deref() };
    vec![("program.yaml", setup::program_job(&setup)), ("lab.yaml", setup::cluster_job(&setup))]
}

fn kubernetes_queue(args: &InitRayArgs) -> &str {
    args.queue.as_deref().unwrap_or("ray")
}

/// Returns the files for Kubernetes. The sample RayJob is what `muster export kuberay` makes of the job file.
fn kubernetes(args: &InitRayArgs, nodes: &RayNodes) -> Result<Vec<(&'static str, String)>> {
    let scheduler = args.scheduler;
    if matches!(scheduler, GangScheduler::PodGroups | GangScheduler::None) {
        return Err(Failure::usage(
            "this scheduler does not start the pods of a Ray cluster together",
        )
        .hint("use --scheduler muster, kueue, volcano or kai")
        .into());
    }
    let queue = kubernetes_queue(args);
    let namespace = ("--namespace", args.namespace.as_str());
    for (option, name) in queue.split('/').map(|part| ("--queue", part)).chain([namespace]) {
        if !names::is_label(name) {
            return Err(Failure::usage(format!(
                "`{option} {name}` is not a valid Kubernetes name"
            ))
            .hint("use at most 63 lower-case letters, digits and, between these, `-`")
            .into());
        }
    }
    let place = SetupPlace::Kubernetes {
        namespace: &args.namespace,
        image: &args.image,
        grows: scheduler != GangScheduler::Kueue,
    };
    let mut files = job_files(args, nodes, place);
    let count = u64::from(nodes.nodes);
    let of_queue = RayQueue {
        queue,
        namespace: &args.namespace,
        model: nodes.model.as_str(),
        gpus: nodes.all_gpus(),
        cpus: nodes.cpus.map(|cpus| u64::from(cpus) * count),
        memory_gib: nodes.memory_gib.map(|memory| memory * count),
        scheduler,
    };
    let sample = sample(&files[0].1, scheduler)?;
    files.push(("rayjob.yaml", sample));
    files.push(("kuberay-values.yaml", ray_setup::values(scheduler)));
    files.push(("queue.yaml", of_queue.manifest()));
    files.push(("install.sh", of_queue.steps(scheduler.word())));
    Ok(files)
}

/// Returns the objects of a job file, as `muster export kuberay` writes them.
fn sample(job: &str, scheduler: GangScheduler) -> Result<String> {
    let documents =
        muster_spec::parse(job, Some("program.yaml"), &Map::new()).map_err(Failure::from)?;
    let queue = QueueName::from("default");
    let site = SubmissionSite::unknown(UserName::from("nobody"), &queue);
    let jobs = muster_spec::check_all(&documents, &site).map_err(Failure::from)?;
    let render = |input: render::RenderInput<'_>| render::render(&input);
    let rendered =
        with_input(&jobs[0], &[], &[], scheduler, JobForm::RayJob, render).map_err(|unfit| {
            let what: Vec<String> = unfit.into_iter().map(|one| one.what).collect();
            Failure::new(format!("bug in muster: its own job is no RayJob: {}", what.join("; ")))
        })?;
    Ok(render::yaml(&rendered.objects))
}
