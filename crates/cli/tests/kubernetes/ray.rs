//! RayJobs of KubeRay on a real API server, with its published definitions: what is exported and submitted
//! passes strict validation, and what its controller says is shown. The controller itself is not there: the
//! tests write the status in its place.

use serde_json::{Value, json};

use crate::admission::opted_in;
use crate::cluster::{KubernetesCluster, pod_spec, success, until};
use crate::definitions::Definition;
use crate::explain::muster_as;
use crate::export::muster;
use crate::scheduler_process::SchedulerProcess;

const TUNE: &str = "\
name: Tune_1
kind: ray
queue: research/vision
groups:
  - {name: head, gpus-per-task: 0, cpus: 4, memory: 16GB}
  - {name: worker, tasks: 4, gpus-per-task: 8}
time: 2h
restart: 2
ray: {version: 2.60.0}
run: |
  cd /data
  python train.py
kubernetes: {image: 'rayproject/ray:2.60.0-gpu', volumes: 'data:/data', priority-class: high}
";

const GROWS: &str = "\
name: grows
kind: ray
tasks: 1..8
gpus-per-task: 1
run: python train.py
kubernetes: {image: 'rayproject/ray:2.60.0-gpu'}
";

const ALONE: &str = "\
name: alone
kind: ray
gpus: 1
hold: true
run: [python, 'a b.py']
kubernetes: {image: 'r/train:1'}
";

fn install(cluster: &KubernetesCluster) {
    for (kind, plural, published) in [
        ("RayJob", "rayjobs", "kuberay/ray.io_rayjobs.yaml"),
        ("RayCluster", "rayclusters", "kuberay/ray.io_rayclusters.yaml"),
    ] {
        let published = Some(published);
        let definition = Definition {
            group: "ray.io",
            version: "v1",
            kind,
            plural,
            scope: "Namespaced",
            published,
        };
        definition.install(cluster);
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn exported_ray_jobs_pass_strict_validation() {
    let cluster = KubernetesCluster::here();
    install(&cluster);
    let namespace = cluster.namespace("export-ray");
    let words =
        ["create", "--dry-run=server", "--validate=strict", "--filename=-", "-n", namespace.name()];
    for scheduler in ["muster", "kueue", "volcano", "kai", "none"] {
        for (name, job) in [("tune", TUNE), ("grows", GROWS), ("alone", ALONE)] {
            let exported = muster(&["export", "kuberay", "-", "--scheduler", scheduler], job);
            // A gang needs a scheduler; Kueue starts what it admits, whatever its user holds.
            let is_refused = scheduler == "none" && name == "tune"
                || matches!(scheduler, "kueue" | "volcano") && name == "alone";
            if is_refused {
                assert_eq!(exported.status.code(), Some(2), "{name} {scheduler}");
                continue;
            }
            let objects = success(&["export", "kuberay", name, scheduler], &exported);
            success(&[name, scheduler], &cluster.kubectl_with(&words, &objects));
        }
    }
}

/// Installs the definitions of the queues that `muster init ray` writes.
fn install_queues(cluster: &KubernetesCluster) {
    let definition = |group, version, kind, plural, scope, published| {
        let published = Some(published);
        Definition { group, version, kind, plural, scope, published }.install(cluster);
    };
    let kueue = |kind, plural, scope, published| {
        definition("kueue.x-k8s.io", "v1beta2", kind, plural, scope, published);
    };
    kueue("Topology", "topologies", "Cluster", "kueue/kueue.x-k8s.io_topologies.yaml");
    let file = "kueue/kueue.x-k8s.io_resourceflavors.yaml";
    kueue("ResourceFlavor", "resourceflavors", "Cluster", file);
    kueue("ClusterQueue", "clusterqueues", "Cluster", "kueue/kueue.x-k8s.io_clusterqueues.yaml");
    kueue("LocalQueue", "localqueues", "Namespaced", "kueue/kueue.x-k8s.io_localqueues.yaml");
    let file = "volcano/scheduling.volcano.sh_queues.yaml";
    definition("scheduling.volcano.sh", "v1beta1", "Queue", "queues", "Cluster", file);
    let file = "kai/scheduling.run.ai_queues.yaml";
    definition("scheduling.run.ai", "v2", "Queue", "queues", "Cluster", file);
    let own = ["init", "kubernetes", "--image", "m/muster:1"];
    let manifest = success(&own, &muster(&own, ""));
    let is_definition = |document: &&str| document.contains("CustomResourceDefinition");
    let definitions: Vec<&str> = manifest.split("---\n").filter(is_definition).collect();
    let words = ["apply", "--filename=-"];
    success(&words, &cluster.kubectl_with(&words, &definitions.join("---\n")));
    cluster.wait("customresourcedefinition/queues.muster.run", "condition=Established");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn files_of_init_ray_pass_strict_validation() {
    let cluster = KubernetesCluster::here();
    install(&cluster);
    install_queues(&cluster);
    let namespace = cluster.namespace("init-ray");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let nodes = "nodes: [{name: 'node[1-4]', gpus: 8, gpu: h100, cpus: 64, memory: 1000GiB}]\n";
    std::fs::write(file("cluster.yaml"), nodes).unwrap();
    for scheduler in ["muster", "kueue", "volcano", "kai"] {
        let output = file(scheduler);
        let nodes = file("cluster.yaml");
        let name = namespace.name();
        let words = ["init", "ray", "--cluster", &nodes, "--on", "kubernetes", "-o", &output];
        let words = [&words[..], &["--scheduler", scheduler, "--namespace", name]].concat();
        success(&words, &muster(&words, ""));
        for made in ["queue.yaml", "rayjob.yaml"] {
            let text = std::fs::read_to_string(folder.path().join(scheduler).join(made)).unwrap();
            let words = ["apply", "--dry-run=server", "--validate=strict", "--filename=-"];
            success(&[made, scheduler], &cluster.kubectl_with(&words, &text));
        }
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn ray_jobs_are_submitted_shown_and_cancelled() {
    let cluster = KubernetesCluster::here();
    install(&cluster);
    let namespace = cluster.namespace("ray-jobs");
    let kubeconfig = cluster.kubeconfig();
    // 1. The job file asks for KubeRay; without, it is a Job, and its secret a Secret that belongs to it.
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, options: &str| {
        let path = folder.path().join(name);
        let image = format!("image: 'rayproject/ray:2.60.0', namespace: {}", namespace.name());
        let text = format!(
            "name: {name}\nkind: ray\ngpus: 1\nrun: python train.py\nkubernetes: {{{image}{options}}}\n"
        );
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let run = |path: &str| {
        let words = ["run", path];
        success(&words, &muster_as(&kubeconfig, &words));
    };
    run(&file("tune", ", kuberay: true"));
    run(&file("plain", ""));
    let [ray_job] = &namespace.objects("rayjobs", "")[..] else { panic!("one RayJob") };
    let name = ray_job["metadata"]["name"].as_str().unwrap().to_owned();
    // A later end would keep its cluster, and the GPUs.
    assert_eq!(ray_job["spec"]["ttlSecondsAfterFinished"].as_u64().unwrap_or(0), 0, "{ray_job}");
    let [secret] = &namespace.objects("secrets", "muster.run/job")[..] else { panic!("one") };
    let owner = &secret["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "Job");
    let jobs = namespace.objects("jobs.batch", "muster.run/job");
    assert!(!jobs[0].to_string().contains("RAY_AUTH_TOKEN\",\"value\""), "{}", jobs[0]);
    // 2. What KubeRay says of it is its state.
    let label = format!("{}/{name}", namespace.name());
    let shown = || -> Value {
        let words = ["show", &label, "--json"];
        let text = success(&words, &muster_as(&kubeconfig, &words));
        serde_json::from_str::<Value>(&text).unwrap()["job"].clone()
    };
    assert_eq!(shown()["state"], "pending");
    let explain = muster_as(&kubeconfig, &["explain", &label]);
    let said = String::from_utf8_lossy(&explain.stderr).into_owned();
    assert!(said.contains("KubeRay has not made its cluster yet"), "{said}");
    let says = |status: Value| {
        let patch = json!({"status": status}).to_string();
        let object = format!("rayjob/{name}");
        let words = [
            "patch",
            &object,
            "-n",
            namespace.name(),
            "--subresource=status",
            "--type=merge",
            "-p",
        ];
        cluster.kubectl(&[&words[..], &[&patch]].concat());
    };
    let mut spec = pod_spec("default-scheduler", 1);
    spec["containers"][0]["name"] = json!("ray-head");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "head",
            "labels": {"ray.io/cluster": format!("{name}-x7k2p"), "ray.io/group": "headgroup"},
        },
        "spec": spec,
    });
    namespace.create_object(&pod);
    says(json!({
        "jobDeploymentStatus": "Running",
        "jobStatus": "RUNNING",
        "rayClusterName": format!("{name}-x7k2p"),
    }));
    until("its pod runs", || shown()["elements"][0]["tasks"][0]["stage"] == "running");
    assert_eq!(shown()["state"], "running");
    let message = "Job entrypoint command failed with exit code 7, last available logs:\nTraceback";
    says(json!({
        "jobDeploymentStatus": "Failed",
        "jobStatus": "FAILED",
        "reason": "AppFailed",
        "message": message,
    }));
    assert_eq!(shown()["elements"][0]["outcome"]["code"], 7, "{}", shown());
    // 3. A job that has not ended is cancelled by the deletion of its object.
    says(json!({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}));
    let words = ["cancel", &label];
    success(&words, &muster_as(&kubeconfig, &words));
    until("it is gone", || namespace.objects("rayjobs", "").is_empty());
}

/// KubeRay fails a RayJob for good that is suspended and keeps its cluster, and leaves one running that waits for its user.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn new_ray_jobs_are_suspended_where_kuberay_can_suspend_them() {
    let cluster = KubernetesCluster::here();
    install(&cluster);
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = opted_in(&cluster, "opted-ray");
    let template = json!({"spec": pod_spec("default-scheduler", 1)});
    let group = json!({"rayStartParams": {}, "template": template});
    let mut workers = group.clone();
    workers["groupName"] = json!("gpu");
    let of_its_own = json!({"headGroupSpec": group, "workerGroupSpecs": [workers]});
    let object = |shuts_down: bool, mode: &str| {
        json!({
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": "a", "namespace": namespace.name()},
            "spec": {
                "entrypoint": "true", "rayClusterSpec": of_its_own,
                "shutdownAfterJobFinishes": shuts_down, "submissionMode": mode,
            },
        })
    };
    let made = |shuts_down: bool, mode: &str| -> Value {
        let object = object(shuts_down, mode);
        let words = ["create", "--filename=-", "--dry-run=server", "--output=json"];
        let made = success(&words, &cluster.kubectl_with(&words, &object.to_string()));
        serde_json::from_str(&made).unwrap()
    };
    for (shuts_down, mode, is_suspended) in [
        (true, "SidecarMode", true),
        (false, "SidecarMode", false),
        (true, "InteractiveMode", false),
    ] {
        let object = made(shuts_down, mode);
        assert_eq!(object["spec"]["suspend"] == true, is_suspended, "{object}");
        assert_eq!(object["metadata"]["labels"]["muster.run/queue"], "default");
        let spec = &object["spec"]["rayClusterSpec"];
        for path in ["/headGroupSpec", "/workerGroupSpecs/0"] {
            let pods = spec.pointer(&format!("{path}/template/spec")).unwrap();
            assert_eq!(pods["schedulerName"], "muster", "{path}: {object}");
        }
    }
    // The scheduler starts one that fits, with the rights of its manifests.
    namespace.create_object(&object(true, "SidecarMode"));
    until("it is started", || {
        let jobs = namespace.objects("rayjobs", "");
        let said = &jobs[0]["metadata"]["annotations"]["muster.run/Admitted"];
        jobs[0]["spec"]["suspend"] == false && said.is_string()
    });
}
