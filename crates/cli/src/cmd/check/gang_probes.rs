//! Runs the probe gangs of `muster check kubernetes --prove`: creates their objects, watches their
//! pods, and removes both, also after an error or Ctrl-C. `muster-doctor` plans and judges them.

use std::time::{Duration, Instant};

use anyhow::Result;
use muster_api::ClientError;
use muster_api::types::ErrorBody;
use muster_delegate::kubernetes::CheckedCluster;
use muster_doctor::kubernetes::Snapshot;
use muster_doctor::kubernetes::prove::{
    LABEL, PROBES, ProbeObject, ProbePlan, ProbeTerms, ProbedGang, probe,
};
use muster_kubernetes::job::kueue;
use muster_model::Span;
use muster_model::check::{CheckProbe, ProbeOutcome};
use serde_json::Value;

use crate::app::App;
use crate::exit::{Failure, INTERRUPTED};

/// Time between two looks at the pods.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Longest wait until the pods are gone: those of a node that does not answer stay.
const REMOVAL: Duration = Duration::from_secs(60);

/// Pods, as addresses name them, and the objects that Kueue makes for Jobs.
const PODS: (&str, &str) = ("", "pods");
const WORKLOADS: (&str, &str) = (kueue::GROUP, kueue::WORKLOADS);

/// Terms of the probe gangs.
#[derive(Clone, Debug, clap::Args)]
pub struct GangProbeArgs {
    /// With --prove: scheduler of the probe gangs as pods name it, kueue, or pod-groups for those of
    /// Kubernetes; by default the one that runs in the cluster
    #[arg(long, value_name = "NAME", requires = "prove")]
    scheduler: Option<String>,
    /// With --prove: namespace of the probe gangs; by default that of the context
    #[arg(short, long, value_name = "NAME", requires = "prove")]
    namespace: Option<String>,
    /// With --prove: queue of the probe gangs, as a label of the scheduler; Kueue needs one
    #[arg(long, value_name = "QUEUE", requires = "prove")]
    queue: Option<String>,
    /// With --prove: image of the probe pods, with a program that waits
    #[arg(
        long,
        value_name = "IMAGE",
        requires = "prove",
        default_value = "registry.k8s.io/pause:3.10"
    )]
    image: String,
}

/// Runs both probes, one after the other.
pub async fn run(
    app: &App,
    cluster: &CheckedCluster,
    snapshot: &Snapshot,
    args: &GangProbeArgs,
) -> Result<Vec<CheckProbe>> {
    let plan = match ProbePlan::of(snapshot, args.scheduler.as_deref()) {
        Ok(plan) => plan,
        Err(needed) => return Ok(not_tested(&PROBES, &needed)),
    };
    let terms = ProbeTerms {
        namespace: args.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned()),
        queue: args.queue.clone(),
        image: args.image.clone(),
    };
    if plan.waits_in_kueue() && !cluster.serves(WORKLOADS) {
        return Ok(not_tested(&PROBES, "Kueue: the cluster serves no workloads"));
    }
    // A name of its own for each run: two people may probe at once.
    let run = std::process::id();
    let mut probes = Vec::new();
    for (id, pods) in [(PROBES[0], plan.too_large()), (PROBES[1], plan.small())] {
        let gang = format!("muster-{id}-{run}");
        let objects = match plan.objects(&gang, pods, &terms) {
            Ok(objects) => objects,
            Err(needed) => return Ok(not_tested(&PROBES, &needed)),
        };
        app.ui.status(&format!(
            "probe: a gang of {pods} pods with {} for {}, in namespace {}",
            plan.request(),
            plan.scheduler,
            terms.namespace
        ));
        let in_kueue = plan.waits_in_kueue();
        let probed =
            Probed { cluster, gang: &gang, namespace: &terms.namespace, objects, in_kueue };
        let result = tokio::select! {
            result = probed.watch(|found, watched| plan.judge(id, found, watched)) => result,
            _ = tokio::signal::ctrl_c() => {
                probed.remove(app).await;
                let text = "interrupted; the pods of the probe are removed";
                return Err(Failure { code: INTERRUPTED, ..Failure::new(text) }.into());
            }
        };
        probed.remove(app).await;
        probes.push(match result {
            Ok(result) => result,
            Err(body) if body.code == "forbidden" => {
                let needed = format!("the right to run the probe: {}", body.message);
                probe(id, ProbeOutcome::NotTested, needed)
            }
            Err(body) => return Err(Failure::from(ClientError::Api(body)).into()),
        });
    }
    Ok(probes)
}

fn not_tested(ids: &[&'static str], needed: &str) -> Vec<CheckProbe> {
    ids.iter().map(|id| probe(id, ProbeOutcome::NotTested, needed)).collect()
}

/// Gang that is in the cluster, in whole or in part.
struct Probed<'a> {
    cluster: &'a CheckedCluster,
    gang: &'a str,
    namespace: &'a str,
    objects: Vec<ProbeObject>,
    in_kueue: bool,
}

impl Probed<'_> {
    /// Creates the gang, and looks at its pods until they are judged.
    async fn watch(
        &self,
        judge: impl Fn(&ProbedGang, Span) -> Option<CheckProbe>,
    ) -> Result<CheckProbe, ErrorBody> {
        for one in &self.objects {
            self.cluster
                .create((one.group, one.plural), self.namespace, one.object.clone())
                .await?;
        }
        let start = Instant::now();
        loop {
            let found = self.found().await?;
            let watched = Span(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
            if let Some(verdict) = judge(&found, watched) {
                return Ok(verdict);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn found(&self) -> Result<ProbedGang, ErrorBody> {
        let pods = self.pods().await?;
        if !self.in_kueue {
            return Ok(ProbedGang { pods, refusal: None });
        }
        let workloads = self.cluster.labelled(WORKLOADS, self.namespace, "").await?;
        Ok(ProbedGang::in_kueue(pods, self.gang, &workloads))
    }

    async fn pods(&self) -> Result<Vec<Value>, ErrorBody> {
        let label = format!("{LABEL}={}", self.gang);
        self.cluster.labelled(PODS, self.namespace, &label).await
    }

    /// Deletes all that was created, and waits until the pods are gone, so that their GPUs are free.
    async fn remove(&self, app: &App) {
        let mut failed = None;
        // The group last: without it a scheduler could place the pods one by one.
        for one in self.objects.iter().rev() {
            let name = one.object["metadata"]["name"].as_str().unwrap_or_default();
            let kind = (one.group, one.plural);
            if let Err(body) = self.cluster.delete(kind, self.namespace, name).await {
                failed = Some(body.message);
            }
        }
        let start = Instant::now();
        while start.elapsed() < REMOVAL && failed.is_none() {
            match self.pods().await {
                Ok(pods) if pods.is_empty() => return,
                Ok(_) => tokio::time::sleep(POLL_INTERVAL).await,
                Err(body) => failed = Some(body.message),
            }
        }
        let why = failed.unwrap_or_else(|| "they still exist".to_owned());
        app.ui.warning(&format!(
            "probe pods may be left ({why}): kubectl delete pods,podgroups,jobs -n {} -l {LABEL}={}",
            self.namespace, self.gang
        ));
    }
}
