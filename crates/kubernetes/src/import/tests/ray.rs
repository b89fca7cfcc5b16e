//! Objects of KubeRay: what they become, and what is found in them.

use muster_model::payload::TaskCommand;

use super::*;

/// Returns a RayJob with a head and two workers of 8 GPUs, in which nothing is wrong.
fn ray_job() -> String {
    "\
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: tune, labels: {kueue.x-k8s.io/queue-name: vision}}
spec:
  entrypoint: python train.py --lr=1e-3
  shutdownAfterJobFinishes: true
  ttlSecondsAfterFinished: 10
  activeDeadlineSeconds: 7200
  backoffLimit: 2
  suspend: true
  runtimeEnvYAML: |
    env_vars: {A: \"1\"}
  rayClusterSpec:
    rayVersion: '2.60.0'
    authOptions: {mode: token}
    headGroupSpec:
      rayStartParams: {dashboard-host: 0.0.0.0}
      template:
        spec:
          containers:
            - name: ray-head
              image: rayproject/ray:2.60.0
              ports: [{containerPort: 6379, name: gcs-server}]
              resources: {limits: {cpu: 4, memory: 16Gi}}
    workerGroupSpecs:
      - groupName: gpu
        replicas: 2
        minReplicas: 2
        maxReplicas: 2
        rayStartParams: {}
        template:
          spec:
            containers:
              - name: ray-worker
                image: rayproject/ray:2.60.0
                lifecycle: {preStop: {exec: {command: [/bin/sh, -c, ray stop]}}}
                resources: {limits: {nvidia.com/gpu: 8, cpu: 16, memory: 64Gi}}
"
    .to_owned()
}

/// Checks the findings in that RayJob after texts of it were replaced.
fn check_changed(changes: &[(&str, &str)], expected: &[(&str, u32)]) {
    let text = changes.iter().fold(ray_job(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    check(&text, expected);
}

#[test]
fn a_ray_job_becomes_a_job_of_kind_ray() {
    check(&ray_job(), &[]);
    let expected = "\
name: tune
kind: ray
queue: vision
time: 2h
restart: 2
run: python train.py --lr=1e-3
groups:
- name: head
  cpus: 4
  memory: 16GiB
- name: gpu
  tasks: 2
  gpus-per-task: 8
  cpus: 16
  memory: 64GiB
ray:
  version: \"2.60.0\"
  runtime-env:
    env_vars:
      A: \"1\"
kubernetes:
  image: rayproject/ray:2.60.0
";
    assert_eq!(imported(&ray_job()).job, expected);
    assert_eq!(imported(&ray_job()).asks["gpus"], "16");
}

#[test]
fn the_autoscaler_of_kuberay_becomes_a_range() {
    let scaled = ray_job()
        .replace("    headGroup", "    enableInTreeAutoscaling: true\n    headGroup")
        .replace("minReplicas: 2\n        maxReplicas: 2", "minReplicas: 0\n        maxReplicas: 4")
        .replace("metadata: {name: tune, labels: {kueue", "metadata: {name: tune, annotations: {kueue.x-k8s.io/elastic-job: 'true'}, labels: {kueue");
    let job = imported(&scaled).job;
    assert!(job.contains("- name: gpu\n  tasks: \"1..4\"\n  gpus-per-task: 8\n"), "{job}");
    check(&scaled, &[]);
}

#[test]
fn schema_valid_and_wrong_ray_jobs_are_found() {
    check_changed(
        &[
            ("labels: {kueue.x-k8s.io/queue-name: vision}", "labels: {a: b}"),
            ("  suspend: true\n", ""),
        ],
        &[("ray-starts-in-part", 3)],
    );
    check_changed(
        &[("  shutdownAfterJobFinishes: true\n", "")],
        &[("ray-job-keeps-cluster", 4), ("kueue-rejects-ray", 4)],
    );
    check_changed(
        &[("ttlSecondsAfterFinished: 10", "ttlSecondsAfterFinished: 3600")],
        &[("ray-job-keeps-cluster", 7)],
    );
    check_changed(&[("  activeDeadlineSeconds: 7200\n", "")], &[("no-time-limit", 4)]);
    check_changed(&[("groupName: gpu", "groupName: head")], &[("kueue-rejects-ray", 26)]);
    check_changed(
        &[("maxReplicas: 2", "maxReplicas: 4")],
        &[("ray-bounds-without-autoscaler", 29)],
    );
    check_changed(&[("replicas: 2", "replicas: 3")], &[("ray-replicas-out-of-bounds", 27)]);
    check_changed(&[("        minReplicas: 2\n", "")], &[("ray-bounds-without-autoscaler", 28)]);
    check_changed(&[("        minReplicas: 2\n        maxReplicas: 2\n", "")], &[]);
    check_changed(
        &[(
            "replicas: 2\n        minReplicas: 2\n        maxReplicas: 2",
            "replicas: 0\n        minReplicas: 0\n        maxReplicas: 0",
        )],
        &[("ray-never-has-workers", 27)],
    );
    check_changed(
        &[
            ("rayVersion: '2.60.0'", "enableInTreeAutoscaling: true\n    rayVersion: '2.60.0'"),
            ("        maxReplicas: 2\n", ""),
        ],
        &[("kueue-rejects-ray", 14), ("ray-scales-without-bound", 27)],
    );
    check_changed(
        &[("rayStartParams: {}", "rayStartParams: {num-gpus: '16'}")],
        &[("ray-gpus-differ", 30)],
    );
    check_changed(
        &[(
            "rayStartParams: {}",
            "rayStartParams: {object-store-memory: '70000000000', memory: '10'}",
        )],
        &[("ray-offers-more-memory", 30)],
    );
    check_changed(
        &[("resources: {limits: {cpu: 4, memory: 16Gi}}", "resources: {}")],
        &[("ray-offers-the-machine", 21)],
    );
    check_changed(
        &[("ray:2.60.0\n                lifecycle", "ray:2.58.0\n                lifecycle")],
        &[("ray-version-differs", 35), ("field-lost", 35)],
    );
    check_changed(
        &[("authOptions: {mode: token}", "headServiceAnnotations: {a: b}")],
        &[("ray-without-token", 13)],
    );
    check_changed(
        &[("rayVersion: '2.60.0'", "rayVersion: '2.40.0'")],
        &[("ray-token-rejected", 15), ("ray-version-differs", 22), ("ray-version-differs", 35)],
    );
    check_changed(
        &[
            ("  suspend: true", "  submissionMode: SidecarMode"),
            ("          containers:", "          restartPolicy: Always\n          containers:"),
        ],
        &[("ray-restart-rejected", 20)],
    );
    check_changed(
        &[("kueue.x-k8s.io/queue-name", "kai.scheduler/queue"), ("  suspend: true\n", "")],
        &[("kai-rejects-ray-job", 4)],
    );
    check_changed(&[("  suspend: true", "  entrypointNumGpus: 1")], &[("field-lost", 10)]);
    // Its user submits programs.
    let interactive = ray_job().replacen("  entrypoint: python train.py --lr=1e-3\n", "", 1);
    assert!(!imported(&interactive).job.contains("run:"));
}

#[test]
fn a_ray_job_on_another_cluster_is_outside_of_every_gang() {
    let text = "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: eval}\nspec:\n  entrypoint: python eval.py\n  activeDeadlineSeconds: 60\n  clusterSelector: {ray.io/cluster: shared}\n";
    check(text, &[("ray-job-outside-gang", 7), ("field-lost", 7)]);
    let job = imported(text).job;
    assert!(job.starts_with("name: eval\nkind: ray\ntime: 1m\nrun: python eval.py\n"), "{job}");
}

#[test]
fn a_ray_cluster_has_no_program_and_no_end() {
    let text = ray_job();
    let (_, spec) = text.split_once("  rayClusterSpec:\n").unwrap();
    let head = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: shared, labels: {kueue.x-k8s.io/queue-name: vision}}\nspec:\n";
    let cluster = format!(
        "{head}{}",
        spec.replace("\n  ", "\n").trim_start_matches(' ').replacen("rayV", "  rayV", 1)
    );
    check(&cluster, &[("ray-cluster-never-ends", 4)]);
    let job = imported(&cluster).job;
    assert!(job.contains("kind: ray\n") && !job.contains("run:"), "{job}");
}

#[test]
fn a_ray_service_deploys_its_applications() {
    let text = ray_job()
        .replace("kind: RayJob", "kind: RayService")
        .replace("rayClusterSpec:", "rayClusterConfig:");
    let (head, rest) = text.split_once("  entrypoint").unwrap();
    let (_, cluster) = rest.split_once("  rayClusterConfig").unwrap();
    let config = "  serveConfigV2: |\n    applications:\n      - {name: a, import_path: a.app}\n";
    let text = format!("{head}{config}  rayClusterConfig{cluster}");
    check(&text, &[("ray-service-becomes-job", 4), ("ray-service-needs-twice", 4)]);
    let job = imported(&text).job;
    assert!(job.contains("exec serve run \"$applications\""), "{job}");
    assert!(job.contains("import_path: a.app"), "{job}");
}

/// Clusters without a program, and nodes that join one, come back from what export writes.
#[test]
fn clusters_without_a_program_come_back() {
    for ray in ["{idle: 30m}", "{join: \"node1:6379\", idle: 5m}"] {
        let file = format!(
            "name: lab\nkind: ray\ntasks: 2\ngpus-per-task: 1\ntime: 2h\nray: {ray}\nkubernetes: {{image: r/ray:1}}\n"
        );
        let job = round_trip::checked(&file).remove(0);
        let objects = round_trip::rendered(&job, crate::render::JobForm::Simplest);
        let report = import(&objects, "objects.yaml", None).unwrap();
        let again = round_trip::checked(&report.job).remove(0);
        assert_eq!(again.spec, job.spec, "{}", report.job);
        assert_eq!(again.commands, job.commands, "{}", report.job);
    }
}

/// A range, and when its nodes leave, pass through a RayJob; so does one that the API server has filled in.
#[test]
fn a_growing_cluster_comes_back() {
    let file = "name: tune\nkind: ray\ngroups:\n- name: head\n- name: worker\n  tasks: 2..4\n  gpus-per-task: 8\nrun: python train.py\ntime: 2h\nray: {version: 2.60.0, idle: 5m, runtime-env: {pip: [pandas], env_vars: {A: on, B: 1}}}\nkubernetes: {image: r/ray:1}\n";
    let job = round_trip::checked(file).remove(0);
    let objects = round_trip::rendered(&job, crate::render::JobForm::RayJob);
    let filled = objects.replace("groupName: worker", "priority: 0\n      groupName: worker");
    assert_ne!(objects, filled);
    let report = import(&filled, "objects.yaml", None).unwrap();
    let again = round_trip::checked(&report.job).remove(0);
    assert_eq!(again.spec, job.spec, "{}", report.job);
    assert!(report.job.contains("idle: 5m"), "{}", report.job);
    assert!(report.job.contains("tasks: \"2..4\""), "{}", report.job);
    let lost =
        |one: &muster_model::imported::ImportedOption| one.becomes == ImportOutcome::NotMapped;
    assert!(!report.options.iter().any(lost), "{:?}", report.options);
}

#[test]
fn what_ray_ignores_of_a_runtime_environment_is_told() {
    let report = imported(&ray_job().replace("{A: \"1\"}", "{A: \"1\"}\n    bogus: [a]"));
    assert!(report.job.contains("env_vars") && !report.job.contains("bogus"), "{}", report.job);
    let lost = report.options.iter().find(|one| one.becomes == ImportOutcome::NotMapped).unwrap();
    assert_eq!(lost.text, "Ray ignores bogus; the rest is in the job");
}

/// `kubectl get rayjob,raycluster -o yaml` lists a RayJob with the RayCluster that it made.
#[test]
fn the_cluster_of_a_ray_job_is_a_part_of_it() {
    let made = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata:\n  name: tune-x7k2p\n  ownerReferences: [{apiVersion: ray.io/v1, kind: RayJob, name: tune, uid: u, controller: true}]\nspec: {headGroupSpec: {template: {spec: {containers: [{name: a}]}}}}\n";
    let report = imported(&format!("{}---\n{made}", ray_job()));
    assert_eq!(report.job, imported(&ray_job()).job);
}

/// A launcher in a Job is not a program of its own.
#[test]
fn an_exported_launcher_is_a_job_of_kind_ray() {
    let file = "name: tune\nkind: ray\ngroups:\n- name: head\n  cpus: 4\n- name: worker\n  tasks: 4\n  gpus-per-task: 8\nrun: |\n  cd /data\n  python train.py\ntime: 2h\nray: {wait: 3, version: 2.60.0, object-store-percent: 40, dashboard: false}\nkubernetes: {image: r/ray:1}\n";
    let job = round_trip::checked(file).remove(0);
    for form in [crate::render::JobForm::Simplest, crate::render::JobForm::RayJob] {
        let objects = round_trip::rendered(&job, form);
        let report = import(&objects, "objects.yaml", None).unwrap();
        let lost = |option: &&muster_model::imported::ImportedOption| {
            option.becomes == ImportOutcome::NotMapped
        };
        assert_eq!(report.options.iter().find(lost), None, "{objects}");
        let again = round_trip::checked(&report.job).remove(0);
        assert_eq!(again.spec, job.spec, "{}", report.job);
        let terms = |commands: &std::collections::BTreeMap<std::sync::Arc<str>, TaskCommand>| {
            match &commands["worker"] {
                TaskCommand::Ray(task) => (**task).clone(),
                other => panic!("{other:?}"),
            }
        };
        let found = terms(&again.commands);
        let expected = terms(&job.commands);
        assert_eq!(
            (found.driver, found.nodes, found.gpus, found.version),
            (expected.driver, 3, 8, expected.version)
        );
        assert!(
            report.findings.iter().all(|one| one.severity < muster_model::check::Severity::High),
            "{:#?}",
            report.findings
        );
    }
}
