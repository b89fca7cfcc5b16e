//! Objects whose pods run until they are deleted: what they become, and what is found in them.

use super::*;

/// Returns a Deployment with its Service and its autoscaler, in which nothing is wrong.
fn deployment() -> String {
    "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      volumes: [{name: shm, emptyDir: {medium: Memory}}]
      containers:
        - name: main
          image: registry.example.com/vllm:1
          command: [vllm, serve, llama, --tensor-parallel-size=2]
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
          resources: {limits: {nvidia.com/gpu: 2}, requests: {cpu: 8}}
---
apiVersion: v1
kind: Service
metadata: {name: chat}
spec:
  selector: {app: chat}
  ports: [{port: 80, targetPort: 8000}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  minReplicas: 2
  maxReplicas: 6
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
"
    .to_owned()
}

fn check_changed(from: &str, to: &str, expected: &[(&str, u32)]) {
    let text = deployment();
    assert!(text.contains(from), "{from}");
    check(&text.replacen(from, to, 1), expected);
}

#[test]
fn a_deployment_becomes_a_service() {
    check(&deployment(), &[]);
    let report = imported(&deployment());
    let expected = "\
name: chat
kind: service
replicas: \"2..6\"
port: 8000
gpus: 2
cpus: 8
run: [vllm, serve, llama, --tensor-parallel-size=2]
kubernetes:
  image: registry.example.com/vllm:1
";
    assert_eq!(report.job, expected);
    assert_eq!((&report.asks["pods"], &report.asks["gpus"]), (&"2".to_owned(), &"4".to_owned()));
}

#[test]
fn a_wrong_autoscaler_is_found() {
    check_changed("maxReplicas: 6", "maxReplicas: 1", &[("autoscaler-bounds", 29)]);
    check_changed("maxReplicas: 6", "maxReplicas: 2", &[("autoscaler-without-effect", 30)]);
    check_changed("requests: {cpu: 8}", "requests: {}", &[("autoscaler-without-effect", 31)]);
    check_changed(
        "spec:\n  selector: {matchLabels",
        "spec:\n  replicas: 3\n  selector: {matchLabels",
        &[("autoscaler-and-replicas", 5)],
    );
    check_changed("parallel-size=2", "parallel-size=4", &[("model-parallel-differs", 13)]);
    check_changed("parallel-size=2", "parallel-size=1", &[("model-parallel-differs", 13)]);
    check_changed("parallel-size=2", "parallel-size=1, --data-parallel-size=2", &[]);
    check_changed("vllm:1", "vllm:latest", &[("image-not-pinned", 12)]);
    let job = gang() + "---\n" + deployment().rsplit("---\n").next().unwrap();
    let job = job.replace("kind: Deployment, name: chat", "kind: Job, name: train");
    check(&job, &[("field-lost", 26), ("autoscaler-without-effect", 26), ("field-lost", 29)]);
}

#[test]
fn a_gang_in_a_stateful_set_is_found() {
    let text = deployment().replace("kind: Deployment\n", "kind: StatefulSet\n");
    let text = text.split("---\n").next().unwrap().to_owned();
    let text = text.replace(
        "[vllm, serve, llama, --tensor-parallel-size=2]",
        "[torchrun, --nnodes=4, --nproc-per-node=2, --rdzv-endpoint=chat-0.chat:1, a.py]",
    );
    check(&text, &[("gang-in-replicas", 11)]);
}

#[test]
fn a_service_without_replicas_is_held() {
    let text = deployment().split("---\n").next().unwrap().to_owned();
    let text = text.replace("spec:\n  selector", "spec:\n  replicas: 0\n  selector");
    let report = imported(&text);
    assert!(
        report.job.contains("replicas: 1\n") && report.job.contains("hold: true\n"),
        "{}",
        report.job
    );
    check(&text, &[]);
}

#[test]
fn one_pod_with_a_notebook_server_is_a_notebook() {
    let text = deployment().split("---\n").next().unwrap().to_owned();
    let text = text
        .replace("[vllm, serve, llama, --tensor-parallel-size=2]", "[jupyter, lab, --ip=0.0.0.0]");
    check(&text.replace("kind: Deployment\n", "kind: StatefulSet\n"), &[("no-time-limit", 4)]);
    let report = imported(&text);
    assert!(report.job.starts_with("name: chat\nkind: notebook\ngpus: 2\n"), "{}", report.job);
    let several = text.replace("spec:\n  selector", "spec:\n  replicas: 2\n  selector");
    assert!(imported(&several).job.contains("kind: service\nreplicas: 2\n"));
    let kubeflow = text.replace("apps/v1\nkind: Deployment", "kubeflow.org/v1\nkind: Notebook");
    assert!(imported(&kubeflow).job.contains("kind: notebook\n"));
}

/// Returns a LeaderWorkerSet whose replicas are gangs of four pods, in which nothing is wrong.
fn leader_worker_set() -> String {
    let pod = |indent: &str, command: &str| {
        let text = format!(
            "spec:\n  volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}]\n  containers:\n    - name: main\n      image: r/sglang:1\n      command: [{command}]\n      ports: [{{containerPort: 30000}}]\n      volumeMounts: [{{name: shm, mountPath: /dev/shm}}]\n      resources: {{limits: {{nvidia.com/gpu: 8}}}}\n"
        );
        text.lines().map(|line| format!("{indent}{line}\n")).collect::<String>()
    };
    let command =
        "python, -m, sglang.launch_server, --tp=32, --nnodes=4, --dist-init-addr=$(MASTER_ADDR):1";
    format!(
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {{name: chat}}\nspec:\n  replicas: 3\n  leaderWorkerTemplate:\n    size: 4\n    restartPolicy: RecreateGroupOnPodRestart\n    leaderTemplate:\n{}    workerTemplate:\n{}",
        pod("      ", command),
        pod("      ", command)
    )
}

#[test]
fn a_leader_worker_set_becomes_a_service_of_gangs() {
    let text = leader_worker_set();
    check(&text, &[]);
    let job = imported(&text).job;
    let start = "name: chat\nkind: service\nreplicas: 3\nport: 30000\ntasks: 4\ngpus-per-task: 8\n";
    assert!(job.starts_with(start), "{job}");
    check(
        &text.replace("size: 4", "size: 2"),
        &[("nnodes-differ", 15), ("model-parallel-differs", 15)],
    );
    check(&text.replace("--tp=32", "--tp=8"), &[("model-parallel-differs", 15)]);
    check(
        &text.replace("gpu: 8", "gpu: 16"),
        &[("cluster-too-small", 4), ("model-parallel-differs", 15), ("no-node-has-it", 18)],
    );
    check(&text.replace("RecreateGroupOnPodRestart", "None"), &[("gang-restarts-in-part", 8)]);
    check(&text.replace("MASTER_ADDR", "LWS_LEADER_ADDRESS"), &[("variable-of-operator", 15)]);
    let different = text.replacen("--nnodes=4", "--nnodes=4, --leader", 1);
    assert!(imported(&different).job.contains("groups:\n- name: leader\n  gpus: 8\n"));
}
