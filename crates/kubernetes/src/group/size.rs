//! How many pods of a gang object must start together, per kind of object.

use serde_json::Value;

use crate::group::{GroupKind, GroupSize};
use crate::pod::Wishes;

/// Reads the size from the specification of an object.
pub(super) fn of(kind: GroupKind, spec: &Value) -> GroupSize {
    let pods = match kind {
        GroupKind::Native => return native(spec),
        GroupKind::Volcano => return volcano(spec),
        GroupKind::Kai => return kai(spec),
        GroupKind::Coscheduling => number(spec, "/minMember"),
        GroupKind::LeaderWorkerSet => number(spec, "/leaderWorkerTemplate/size"),
        GroupKind::JobSet => Some(job_set(spec)),
        GroupKind::PyTorchJob => {
            number(spec, "/runPolicy/schedulingPolicy/minAvailable").or_else(|| {
                Some(replicas(
                    spec,
                    "/pytorchReplicaSpecs",
                    number(spec, "/elasticPolicy/minReplicas"),
                ))
            })
        }
        GroupKind::MpiJob => number(spec, "/runPolicy/schedulingPolicy/minAvailable")
            .or_else(|| Some(replicas(spec, "/mpiReplicaSpecs", None))),
        GroupKind::RayCluster => Some(ray_cluster(spec)),
        GroupKind::RayJob => spec.pointer("/rayClusterSpec").map(ray_cluster),
        GroupKind::Job => return job(spec),
        // Its pods are those of its JobSet.
        GroupKind::TrainJob => return GroupSize::Independent,
        GroupKind::Annotated => None,
    };
    GroupSize::Gang(pods.unwrap_or(1).max(1))
}

/// Adds the queue and topology that the specification of an object names.
pub(super) fn add_wishes(kind: GroupKind, spec: &Value, wishes: &mut Wishes) {
    let text = |path: &str| {
        let text = spec.pointer(path)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    };
    let from_spec = match kind {
        GroupKind::Native => Wishes {
            required_topology: text("/schedulingConstraints/topology/0/key"),
            ..Wishes::default()
        },
        GroupKind::Volcano => Wishes { queue: text("/queue"), ..Wishes::default() },
        GroupKind::Kai => Wishes {
            queue: text("/queue"),
            required_topology: text("/topologyConstraint/requiredTopologyLevel"),
            preferred_topology: text("/topologyConstraint/preferredTopologyLevel"),
            ..Wishes::default()
        },
        _ => return,
    };
    *wishes = wishes.or(&from_spec);
}

fn number(spec: &Value, path: &str) -> Option<u32> {
    u32::try_from(spec.pointer(path)?.as_u64()?).ok()
}

/// Returns true for a list or mapping with entries.
fn has_entries(spec: &Value, path: &str) -> bool {
    match spec.pointer(path) {
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        _ => false,
    }
}

fn native(spec: &Value) -> GroupSize {
    if spec.pointer("/schedulingConstraints/topology/1").is_some() {
        return GroupSize::NotUnderstood("a second topology constraint".to_owned());
    }
    let gang = number(spec, "/schedulingPolicy/gang/minCount");
    match (gang, spec.pointer("/schedulingPolicy/basic")) {
        (Some(pods), _) => GroupSize::Gang(pods.max(1)),
        (None, Some(_)) => GroupSize::Independent,
        (None, None) => {
            GroupSize::NotUnderstood("a scheduling policy other than gang and basic".to_owned())
        }
    }
}

fn volcano(spec: &Value) -> GroupSize {
    if spec.pointer("/networkTopology/mode").and_then(Value::as_str) == Some("hard") {
        return GroupSize::NotUnderstood("a hard network topology".to_owned());
    }
    if has_entries(spec, "/subGroupPolicy") {
        return GroupSize::NotUnderstood("`subGroupPolicy`".to_owned());
    }
    // Volcano's controller writes the minimum of each task, which together may need more.
    let tasks = spec.pointer("/minTaskMember").and_then(Value::as_object).into_iter().flatten();
    let of_tasks = tasks.filter_map(|(_, pods)| u32::try_from(pods.as_u64()?).ok());
    let of_tasks = of_tasks.fold(0, u32::saturating_add);
    GroupSize::Gang(number(spec, "/minMember").unwrap_or(1).max(of_tasks).max(1))
}

fn kai(spec: &Value) -> GroupSize {
    if has_entries(spec, "/subGroups") {
        return GroupSize::NotUnderstood("`subGroups`".to_owned());
    }
    match spec.pointer("/preemptibility").and_then(Value::as_str) {
        Some("non-preemptible") => {
            GroupSize::NotUnderstood("`preemptibility: non-preemptible`".to_owned())
        }
        _ => GroupSize::Gang(number(spec, "/minMember").unwrap_or(1).max(1)),
    }
}

/// Sums the pods of all replicated jobs: replicas × parallelism, each 1 by default.
fn job_set(spec: &Value) -> u32 {
    let jobs = spec.pointer("/replicatedJobs").and_then(Value::as_array).into_iter().flatten();
    jobs.map(|job| {
        let parallelism = number(job, "/template/spec/parallelism").unwrap_or(1);
        number(job, "/replicas").unwrap_or(1).saturating_mul(parallelism)
    })
    .fold(0, u32::saturating_add)
}

/// Sums the replicas of all roles; an elastic job needs `elastic_workers` workers.
fn replicas(spec: &Value, path: &str, elastic_workers: Option<u32>) -> u32 {
    let roles = spec.pointer(path).and_then(Value::as_object).into_iter().flatten();
    roles
        .map(|(role, one)| match elastic_workers {
            Some(workers) if role == "Worker" => workers,
            _ => number(one, "/replicas").unwrap_or(1),
        })
        .fold(0, u32::saturating_add)
}

/// Head and workers; with the autoscaler, the workers that it keeps at least.
fn ray_cluster(spec: &Value) -> u32 {
    let scales = spec.pointer("/enableInTreeAutoscaling").and_then(Value::as_bool) == Some(true);
    let groups = spec.pointer("/workerGroupSpecs").and_then(Value::as_array).into_iter().flatten();
    let workers = groups.map(|group| {
        let path = if scales { "/minReplicas" } else { "/replicas" };
        let replicas = number(group, path).unwrap_or(0);
        replicas.saturating_mul(number(group, "/numOfHosts").unwrap_or(1).max(1))
    });
    workers.fold(1, u32::saturating_add)
}

/// An Indexed Job whose pods all run at once is a gang. One with more completions than parallel pods
/// is a list of independent tasks, as is a Job that is not Indexed.
fn job(spec: &Value) -> GroupSize {
    let is_indexed = spec.pointer("/completionMode").and_then(Value::as_str) == Some("Indexed");
    let parallelism = number(spec, "/parallelism").unwrap_or(1);
    let completions = number(spec, "/completions").unwrap_or(parallelism);
    if is_indexed && completions <= parallelism {
        GroupSize::Gang(completions.max(1))
    } else {
        GroupSize::Independent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(kind: GroupKind, spec: Value, expected: &GroupSize) {
        assert_eq!(of(kind, &spec), *expected, "{kind}: {spec}");
    }

    #[test]
    fn sizes_are_read_from_every_kind() {
        let gang = GroupSize::Gang;
        check(GroupKind::Native, json!({"schedulingPolicy": {"gang": {"minCount": 5}}}), &gang(5));
        check(
            GroupKind::Native,
            json!({"schedulingPolicy": {"basic": {}}}),
            &GroupSize::Independent,
        );
        check(GroupKind::Coscheduling, json!({"minMember": 3}), &gang(3));
        check(GroupKind::Volcano, json!({"minMember": 3, "queue": "a"}), &gang(3));
        check(GroupKind::Volcano, json!({}), &gang(1));
        check(
            GroupKind::Volcano,
            json!({"minMember": 3, "minTaskMember": {"head": 1, "worker": 4}}),
            &gang(5),
        );
        check(GroupKind::Kai, json!({"minMember": 4}), &gang(4));
        check(
            GroupKind::LeaderWorkerSet,
            json!({"replicas": 2, "leaderWorkerTemplate": {"size": 4}}),
            &gang(4),
        );
        let replicated = json!([
            {"replicas": 2, "template": {"spec": {"parallelism": 3}}},
            {"template": {"spec": {}}},
        ]);
        check(GroupKind::JobSet, json!({"replicatedJobs": replicated}), &gang(7));
        let roles = json!({"Master": {"replicas": 1}, "Worker": {"replicas": 7}});
        check(GroupKind::PyTorchJob, json!({"pytorchReplicaSpecs": roles}), &gang(8));
        check(
            GroupKind::PyTorchJob,
            json!({"pytorchReplicaSpecs": roles, "elasticPolicy": {"minReplicas": 2}}),
            &gang(3),
        );
        check(
            GroupKind::PyTorchJob,
            json!({"pytorchReplicaSpecs": roles, "runPolicy": {"schedulingPolicy": {"minAvailable": 6}}}),
            &gang(6),
        );
        let roles = json!({"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}});
        check(GroupKind::MpiJob, json!({"mpiReplicaSpecs": roles}), &gang(3));
        let workers = json!([{"replicas": 4, "minReplicas": 1, "numOfHosts": 2}]);
        check(GroupKind::RayCluster, json!({"workerGroupSpecs": workers}), &gang(9));
        check(
            GroupKind::RayCluster,
            json!({"workerGroupSpecs": workers, "enableInTreeAutoscaling": true}),
            &gang(3),
        );
        let spec = json!({"rayClusterSpec": {"workerGroupSpecs": workers}});
        check(GroupKind::RayJob, spec, &gang(9));
    }

    #[test]
    fn objects_name_a_queue_and_a_topology() {
        let wished = |kind, spec: Value| {
            let mut wishes = Wishes::default();
            add_wishes(kind, &spec, &mut wishes);
            [wishes.queue, wishes.required_topology, wishes.preferred_topology]
        };
        let text = |name: &str| Some(name.to_owned());
        let rack = json!({"schedulingConstraints": {"topology": [{"key": "rack"}]}});
        assert_eq!(wished(GroupKind::Native, rack), [None, text("rack"), None]);
        let kai = json!({"queue": "a", "topologyConstraint": {
            "requiredTopologyLevel": "block", "preferredTopologyLevel": "rack",
        }});
        assert_eq!(wished(GroupKind::Kai, kai), [text("a"), text("block"), text("rack")]);
        assert_eq!(wished(GroupKind::Volcano, json!({"queue": "b"})), [text("b"), None, None]);
    }

    #[test]
    fn jobs_are_gangs_when_all_their_pods_run_at_once() {
        let indexed = |parallelism, completions| json!({"completionMode": "Indexed", "parallelism": parallelism, "completions": completions});
        check(GroupKind::Job, indexed(4, 4), &GroupSize::Gang(4));
        check(GroupKind::Job, indexed(8, 4), &GroupSize::Gang(4));
        check(GroupKind::Job, indexed(4, 100), &GroupSize::Independent);
        check(GroupKind::Job, json!({"parallelism": 4}), &GroupSize::Independent);
    }

    #[test]
    fn unknown_policies_are_named() {
        for (kind, spec) in [
            (GroupKind::Native, json!({"schedulingPolicy": {"other": {}}})),
            (
                GroupKind::Native,
                json!({
                    "schedulingPolicy": {"gang": {"minCount": 2}},
                    "schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "row"}]},
                }),
            ),
            (GroupKind::Volcano, json!({"networkTopology": {"mode": "hard"}})),
            (GroupKind::Volcano, json!({"minMember": 2, "subGroupPolicy": [{"name": "a"}]})),
            (GroupKind::Kai, json!({"minMember": 2, "subGroups": [{"name": "a"}]})),
            (GroupKind::Kai, json!({"minMember": 2, "preemptibility": "non-preemptible"})),
        ] {
            assert!(matches!(of(kind, &spec), GroupSize::NotUnderstood(_)), "{spec}");
        }
    }
}
