//! Runs probe jobs on the cluster as the calling user. `muster-doctor` defines the jobs and
//! evaluates their output.

use std::time::{Duration, Instant};

use muster_doctor::prove::{
    PROBES, check_gang, check_one_gpu, check_recorded, gang_size, job_of, one_gpu_script, probe,
};
use muster_model::check::{CheckProbe, ProbeOutcome};
use muster_slurm::conf::evidence::Evidence;

use super::ask::run_with_deadline;
use crate::app::App;

/// Option by which a probe that does not start within 30 seconds is cancelled, so that it does not
/// delay other jobs.
const IMMEDIATE: &str = "--immediate=30";
/// Deadline of a probe: allocation, prolog, and the job itself.
const PATIENCE: Duration = Duration::from_secs(180);
/// Deadline for an accounting record: slurmctld and slurmdbd both buffer records.
const RECORDED: Duration = Duration::from_secs(60);
/// Time between two queries of the accounting records.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Partition and account of the probe jobs; by default Slurm's defaults.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ProbePlacement {
    /// With --prove: partition of the probe jobs
    #[arg(long, value_name = "NAME", requires = "prove")]
    partition: Option<String>,
    /// With --prove: account of the probe jobs
    #[arg(long, value_name = "NAME", requires = "prove")]
    account: Option<String>,
}

/// Runs each probe to its end, one after the other.
pub async fn run(app: &App, evidence: &Evidence, place: &ProbePlacement) -> Vec<CheckProbe> {
    let mut probes = Vec::new();

    // 1. Run a job with one GPU, and check its accounting record.
    app.ui.status("probe: a job with one GPU");
    let script = one_gpu_script(evidence);
    match srun(place, &["--nodes=1", "--ntasks=1", "--gpus=1"], &script).await {
        Ok(output) => {
            probes.push(check_one_gpu(&output));
            probes.push(match job_of(&output) {
                Some(job) => recorded(job).await,
                None => probe(PROBES[1], ProbeOutcome::NotTested, "the number of the probe job"),
            });
        }
        Err(why) => probes
            .extend(PROBES[..2].iter().map(|id| probe(id, ProbeOutcome::NotTested, why.clone()))),
    }

    // 2. Run a job on several nodes.
    probes.push(match gang_size(evidence) {
        Err(needed) => probe(PROBES[2], ProbeOutcome::NotTested, needed),
        Ok(size) => {
            app.ui.status(&format!("probe: a job on {size} nodes"));
            let nodes = format!("--nodes={size}");
            let words = [nodes.as_str(), "--ntasks-per-node=1", "--gpus-per-node=1"];
            match srun(place, &words, "echo \"$SLURM_TOPOLOGY_ADDR\"").await {
                Ok(output) => check_gang(&output, size),
                Err(why) => probe(PROBES[2], ProbeOutcome::NotTested, why),
            }
        }
    });
    probes
}

/// Returns the output of a small job, or why it did not run.
async fn srun(place: &ProbePlacement, words: &[&str], script: &str) -> Result<String, String> {
    let mut all = vec![
        "srun",
        IMMEDIATE,
        "--time=2",
        "--cpus-per-task=1",
        "--mem=200M",
        "--job-name=muster-check",
    ];
    let of = |option: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!("--{option}={value}"))
    };
    let places: Vec<String> = [of("partition", &place.partition), of("account", &place.account)]
        .into_iter()
        .flatten()
        .collect();
    all.extend(places.iter().map(String::as_str));
    all.extend(words);
    all.extend(["sh", "-c", script]);
    // The error message quotes the command; the script in it is long and no help.
    let short = |failure: crate::exit::Failure| {
        let why = failure.message.rsplit("` ").next().unwrap_or_default().to_owned();
        format!("a probe job: srun {why}")
    };
    run_with_deadline(&all, PATIENCE).await.map_err(short)
}

/// Waits until the accounting database has the job, and checks its record.
async fn recorded(job: &str) -> CheckProbe {
    let start = Instant::now();
    loop {
        let words = ["sacct", "-X", "-n", "-P", "-j", job, "-o", "State,ElapsedRaw,AllocTRES"];
        match run_with_deadline(&words, RECORDED).await {
            Err(failure) => return probe(PROBES[1], ProbeOutcome::NotTested, failure.message),
            Ok(text) => {
                if let Some(found) = check_recorded(job, text.lines().next().unwrap_or_default()) {
                    return found;
                }
            }
        }
        if start.elapsed() > RECORDED {
            let says = format!("job {job} is not in sacct after {} s", RECORDED.as_secs());
            return probe(PROBES[1], ProbeOutcome::Failed, says);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
