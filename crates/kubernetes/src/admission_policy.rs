//! Admission policies of the API server that suspend new workloads in namespaces that opt in, and
//! have their pods ask for Muster's scheduler. The API server evaluates them itself: nothing of ours
//! must run for a Job to be created.

use serde_json::json;

use crate::mutating_policy::MutatingPolicy;
use crate::names;

/// Name of all objects.
const NAME: &str = "muster-admission";

/// Object that is not made by another object, which would undo a change.
const IS_ON_TOP: &str = "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(owner, !has(owner.controller) || !owner.controller || owner.kind == \"CronJob\")";

/// JobSet of a TrainJob, which suspends it.
const IS_OF_TRAIN_JOB: &str = "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, has(owner.controller) && owner.controller && owner.kind == \"TrainJob\")";

/// RayJob with a cluster of its own.
const HAS_CLUSTER: &str = "has(object.spec.rayClusterSpec)";

/// RayJob that KubeRay may suspend: it fails others for good.
const CAN_BE_SUSPENDED: &str = "has(object.spec.shutdownAfterJobFinishes) && object.spec.shutdownAfterJobFinishes && (!has(object.spec.submissionMode) || object.spec.submissionMode != \"InteractiveMode\")";

/// Patch that suspends an object.
const SUSPEND: &str = "[JSONPatch{op: \"add\", path: \"/spec/suspend\", value: true}]";

/// Patch that adds empty `metadata.labels` if there are none.
const LABELS: &str = "(has(object.metadata.labels) ? [] : [JSONPatch{op: \"add\", path: \"/metadata/labels\", value: Object.metadata.labels{}}])";

/// Patch that gives an object the queue of its namespace.
const QUEUE: &str = "[JSONPatch{op: \"add\", path: \"/metadata/labels/muster.run~1queue\", value: namespaceObject.metadata.labels[\"muster.run/queue\"]}]";

/// Returns the patches that suspend an object and give it a queue, unless it names one: where Kueue's
/// queues are read, also with Kueue's label.
fn suspends(reads_kueue: bool) -> Vec<String> {
    let labels =
        if reads_kueue { &[names::QUEUE, names::KUEUE_QUEUE][..] } else { &[names::QUEUE] };
    // An empty label names none.
    let is_named = |label: &&str| {
        format!("(\"{label}\" in variables.labels && variables.labels[\"{label}\"] != \"\")")
    };
    let named: Vec<String> = labels.iter().map(is_named).collect();
    let queue = format!("({} ? [] : {QUEUE})", named.join(" || "));
    vec![SUSPEND.to_owned(), LABELS.to_owned(), queue]
}

/// Policy for new objects of a kind.
struct Policy {
    /// Last part of its name.
    name: &'static str,
    /// API group and resource.
    api: (&'static str, &'static str),
    /// Condition on the owners of the object, and on what it is.
    owners: String,
    /// Expression that is true if no pod asks for a scheduler other than the default or Muster.
    is_unclaimed: String,
    /// Expressions for lists of patches.
    patches: Vec<String>,
}

fn policies(reads_kueue: bool) -> Vec<Policy> {
    let suspends = || suspends(reads_kueue);
    let job = Pods { list: "", pods: "template.spec" };
    let replicated = Pods { list: "replicatedJobs", pods: "template.spec.template.spec" };
    let head = Pods { list: "", pods: "headGroupSpec.template.spec" };
    let workers = Pods { list: "workerGroupSpecs", pods: "template.spec" };
    let ray_head = Pods { list: "", pods: "rayClusterSpec.headGroupSpec.template.spec" };
    let ray_workers = Pods { list: "rayClusterSpec.workerGroupSpecs", pods: "template.spec" };
    let of_ray_jobs = [format!("({CAN_BE_SUSPENDED} ? {SUSPEND} : [])")];
    let of_ray_jobs = of_ray_jobs.into_iter().chain(suspends().into_iter().skip(1)).collect();
    let with_cluster = format!("({IS_ON_TOP}) && {HAS_CLUSTER}");
    let policy = |name, api, owners: &str, pods: &[&Pods], suspends: Vec<String>| Policy {
        name,
        api,
        owners: owners.to_owned(),
        is_unclaimed: [
            vec!["true".to_owned()],
            pods.iter().map(|one| one.is_unclaimed()).collect(),
        ]
        .concat()
        .join(" && "),
        patches: suspends.into_iter().chain(pods.iter().map(|one| one.patches())).collect(),
    };
    let job_sets = ("jobset.x-k8s.io", "jobsets");
    vec![
        policy("jobs", ("batch", "jobs"), IS_ON_TOP, &[&job], suspends()),
        policy("jobsets", job_sets, IS_ON_TOP, &[&replicated], suspends()),
        policy("jobsets-of-trainjobs", job_sets, IS_OF_TRAIN_JOB, &[&replicated], Vec::new()),
        policy("trainjobs", ("trainer.kubeflow.org", "trainjobs"), IS_ON_TOP, &[], suspends()),
        policy("rayclusters", ("ray.io", "rayclusters"), IS_ON_TOP, &[&head, &workers], suspends()),
        policy(
            "rayjobs",
            ("ray.io", "rayjobs"),
            &with_cluster,
            &[&ray_head, &ray_workers],
            of_ray_jobs,
        ),
    ]
}

/// Pod specifications within `spec`: one, or one in each member of a list.
struct Pods {
    /// List of `spec`; empty for a single pod specification.
    list: &'static str,
    /// Path to the pod's specification.
    pods: &'static str,
}

impl Pods {
    fn is_unclaimed(&self) -> String {
        let schedulers = json!(["default-scheduler", names::SCHEDULER]);
        let (list, pods) = (self.list, self.pods);
        let holds = |object: &str| {
            format!(
                "(!has({object}.{pods}.schedulerName) || {object}.{pods}.schedulerName in {schedulers})"
            )
        };
        if list.is_empty() {
            return holds("object.spec");
        }
        format!("(!has(object.spec.{list}) || object.spec.{list}.all(one, {}))", holds("one"))
    }

    fn patches(&self) -> String {
        let list = self.list;
        let of_list = list.replace('.', "/");
        let path = self.pods.replace('.', "/");
        let value = names::SCHEDULER;
        if list.is_empty() {
            return format!(
                "[JSONPatch{{op: \"add\", path: \"/spec/{path}/schedulerName\", value: \"{value}\"}}]"
            );
        }
        format!(
            "(has(object.spec.{list}) ? lists.range(size(object.spec.{list})).map(at, JSONPatch{{op: \"add\", path: \"/spec/{of_list}/\" + string(at) + \"/{path}/schedulerName\", value: \"{value}\"}}) : [])"
        )
    }
}

/// Returns the policies as YAML documents.
pub(crate) fn render(reads_kueue: bool) -> Vec<String> {
    policies(reads_kueue).iter().flat_map(Policy::render).collect()
}

impl Policy {
    /// Returns the policy, for namespaces with a queue label, and its binding. `Fail`: a Job that is created
    /// although it cannot be suspended would pass the queue.
    fn render(&self) -> [String; 2] {
        let (group, resource) = self.api;
        let policy = MutatingPolicy {
            name: &format!("{NAME}-{}", self.name),
            failure_policy: "Fail",
            api: [group, "*", resource],
            conditions: &[("owners", &self.owners), ("unclaimed", &self.is_unclaimed)],
            variables: &[("labels", "has(object.metadata.labels) ? object.metadata.labels : {}")],
            patches: &self.patches.join(" + "),
            namespace_label: Some(names::QUEUE),
        };
        policy.render()
    }
}
