//! Objects that a real API server has stored import to the same job as the file by hand: its defaults,
//! what controllers write, and the list in which kubectl prints several change nothing.

use serde_json::Value;

use crate::cluster::{KubernetesCluster, success, until};
use crate::definitions::Definition;
use crate::export::{definition, install_trainer, muster};

/// Objects of a job, and their names for `kubectl get`, in the order of the file.
struct Stored {
    names: &'static [&'static str],
    file: &'static str,
}

const ALL: [Stored; 11] = [
    Stored {
        names: &["job.v1.batch/gang"],
        file: "
apiVersion: batch/v1
kind: Job
metadata: {name: gang, namespace: import, labels: {kai.scheduler/queue: a}, annotations: {kai.scheduler/batch-min-member: \"2\"}}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  backoffLimit: 0
  template:
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      activeDeadlineSeconds: 60
      containers: [{name: main, image: r/train:1, command: [train], resources: {limits: {nvidia.com/gpu: 1}}}]
",
    },
    Stored {
        names: &["job.v1.batch/list"],
        file: "
apiVersion: batch/v1
kind: Job
metadata: {name: list, namespace: import}
spec:
  completions: 3
  parallelism: 2
  template:
    spec:
      schedulerName: nobody
      restartPolicy: OnFailure
      containers: [{name: main, image: r/train:1, command: [train], env: [{name: A, value: b}]}]
",
    },
    Stored {
        names: &["pod/train-0", "pod/train-1", "podgroup.scheduling.run.ai/train"],
        file: "
apiVersion: v1
kind: Pod
metadata: {name: train-0, namespace: import, labels: {kai.scheduler/queue: a}, annotations: {pod-group-name: train}}
spec:
  schedulerName: kai-scheduler
  restartPolicy: Never
  containers: [{name: main, image: r/train:1, command: [train], resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: train-1, namespace: import, labels: {kai.scheduler/queue: a}, annotations: {pod-group-name: train}}
spec:
  schedulerName: kai-scheduler
  restartPolicy: Never
  containers: [{name: main, image: r/train:1, command: [train], resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: train, namespace: import}
spec: {minMember: 2, queue: a}
",
    },
    Stored {
        names: &["jobset.jobset.x-k8s.io/roles"],
        file: "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: roles, namespace: import}
spec:
  failurePolicy: {maxRestarts: 2}
  replicatedJobs:
    - name: head
      replicas: 1
      template: {spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: a, image: r/a:1, command: [a]}]}}}}
    - name: work
      replicas: 2
      template: {spec: {backoffLimit: 0, parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: a, image: r/a:1, command: [b]}]}}}}
",
    },
    Stored {
        names: &["job.v1alpha1.batch.volcano.sh/vc"],
        file: "
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: vc, namespace: import}
spec:
  minAvailable: 3
  queue: research
  schedulerName: volcano
  policies: [{event: PodFailed, action: RestartJob}]
  tasks:
    - name: work
      replicas: 3
      template: {spec: {restartPolicy: Never, containers: [{name: a, image: r/a:1, command: [a]}]}}
",
    },
    Stored {
        names: &["trainjob.trainer.kubeflow.org/tune", "trainingruntime.trainer.kubeflow.org/torch"],
        file: "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tune, namespace: import, labels: {kueue.x-k8s.io/queue-name: a}}
spec:
  runtimeRef: {name: torch, kind: TrainingRuntime}
  trainer: {image: r/tune:2, command: [torchrun, a.py], numNodes: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: torch, namespace: import}
spec:
  mlPolicy: {torch: {}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec: {template: {spec: {nodeSelector: {pool: gpu}, containers: [{name: node, image: r/torch:1}]}}}
",
    },
    Stored {
        names: &["deployment.apps/chat", "service/chat", "horizontalpodautoscaler.v2.autoscaling/chat"],
        file: "
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: import}
spec:
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      schedulerName: nobody
      containers:
        - name: main
          image: r/chat:1
          command: [vllm, serve, llama, --tensor-parallel-size=2]
          ports: [{containerPort: 8000}]
          readinessProbe: {tcpSocket: {port: 8000}}
          resources: {limits: {nvidia.com/gpu: 2}, requests: {cpu: 2}}
---
apiVersion: v1
kind: Service
metadata: {name: chat, namespace: import}
spec: {selector: {app: chat}, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: import}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  minReplicas: 2
  maxReplicas: 6
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
",
    },
    Stored {
        names: &["statefulset.apps/lab"],
        file: "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: lab, namespace: import}
spec:
  serviceName: lab
  selector: {matchLabels: {app: lab}}
  template:
    metadata: {labels: {app: lab}}
    spec:
      schedulerName: nobody
      containers: [{name: main, image: r/lab:1, command: [jupyter, lab], resources: {limits: {nvidia.com/gpu: 1}}}]
",
    },
    Stored {
        names: &["leaderworkerset.leaderworkerset.x-k8s.io/split"],
        file: "
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: split, namespace: import}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 3
    workerTemplate: {spec: {containers: [{name: a, image: r/a:1, command: [a], resources: {limits: {nvidia.com/gpu: 1}}}]}}
",
    },
    Stored {
        names: &["mpijob.kubeflow.org/bench"],
        file: "
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: bench, namespace: import}
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: {spec: {containers: [{name: a, image: r/a:1, command: [mpirun, -np, \"4\", ./a]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: a, image: r/a:1, resources: {limits: {nvidia.com/gpu: 2}}}]}}}
",
    },
    Stored {
        names: &["pytorchjob.kubeflow.org/fit"],
        file: "
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: fit, namespace: import}
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: r/a:1, command: [a]}]}}}
    Worker: {replicas: 3, template: {spec: {containers: [{name: pytorch, image: r/a:1, command: [a]}]}}}
",
    },
];

fn install(cluster: &KubernetesCluster) {
    definition("jobset.x-k8s.io", "v1alpha2", "JobSet").install(cluster);
    definition("batch.volcano.sh", "v1alpha1", "Job").install(cluster);
    install_trainer(cluster);
    let others = [
        (
            "scheduling.run.ai",
            "v2alpha2",
            "PodGroup",
            "podgroups",
            Some("kai/scheduling.run.ai_podgroups.yaml"),
        ),
        ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets", None),
        ("kubeflow.org", "v2beta1", "MPIJob", "mpijobs", None),
        ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", None),
    ];
    for (group, version, kind, plural, published) in others {
        Definition { group, version, kind, plural, scope: "Namespaced", published }
            .install(cluster);
    }
}

fn imported(text: &str) -> Value {
    let words = ["import", "-", "--json"];
    serde_json::from_str(&success(&words, &muster(&words, text))).unwrap()
}

/// Returns rule and evidence of every finding, without their lines.
fn findings(report: &Value) -> Vec<(String, String)> {
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let all = report["findings"].as_array().unwrap().iter();
    let mut all: Vec<_> = all.map(|one| (text(one, "rule"), text(one, "evidence"))).collect();
    all.sort();
    all
}

/// Creates objects. The API server refuses a kind for a while after its definition is established, until
/// its admission policies know it, too.
fn create(cluster: &KubernetesCluster, file: &str) {
    let words = ["apply", "--server-side", "--filename=-"];
    until("the kinds are known", || {
        let output = cluster.kubectl_with(&words, file);
        let is_unknown =
            String::from_utf8_lossy(&output.stderr).contains("There can be a delay between");
        if !is_unknown {
            success(&words, &output);
        }
        !is_unknown
    });
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn imports_what_the_api_server_has_stored() {
    let cluster = KubernetesCluster::here();
    install(&cluster);
    let namespace = cluster.namespace("import");
    for Stored { names, file } in ALL {
        create(&cluster, file);
        for format in ["--output=yaml", "--output=json"] {
            let words =
                [&["get", "--namespace=import", "--show-managed-fields", format], names].concat();
            let stored = cluster.kubectl(&words);
            assert!(stored.contains("managedFields") && stored.contains("uid"), "{stored}");
            let by_hand = imported(file);
            let report = imported(&stored);
            assert_eq!(report["job"], by_hand["job"], "{stored}");
            assert_eq!(findings(&report), findings(&by_hand), "{stored}");
        }
    }
    namespace.end();
    // Other tests mean the Jobs of Kubernetes by `jobs`.
    cluster.kubectl(&["delete", "customresourcedefinition/jobs.batch.volcano.sh"]);
}
