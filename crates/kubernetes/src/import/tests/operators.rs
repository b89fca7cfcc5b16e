//! Objects of MPI, and of KAI: what they become, and what is found in them.

use super::*;

/// Returns an MPIJob with two workers of 8 GPUs, in which nothing is wrong.
fn mpi_job() -> String {
    "\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: bench}
spec:
  slotsPerWorker: 8
  runPolicy: {cleanPodPolicy: Running, activeDeadlineSeconds: 3600, schedulingPolicy: {minAvailable: 3}}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: launcher
              image: r/nccl:1
              command: [mpirun, --allow-run-as-root, -np, \"16\", -x, NCCL_DEBUG=INFO, ./all_reduce, -g, \"1\"]
    Worker:
      replicas: 2
      template:
        spec:
          volumes: [{name: shm, emptyDir: {medium: Memory}}]
          containers:
            - name: worker
              image: r/nccl:1
              volumeMounts: [{name: shm, mountPath: /dev/shm}]
              resources: {limits: {nvidia.com/gpu: 8, memory: 64Gi}}
"
    .to_owned()
}

fn check_changed(from: &str, to: &str, expected: &[(&str, u32)]) {
    let text = mpi_job();
    assert!(text.contains(from), "{from}");
    check(&text.replacen(from, to, 1), expected);
}

#[test]
fn ranks_of_an_mpi_job_become_tasks() {
    check(&mpi_job(), &[]);
    let expected = "\
name: bench
nodes: 2
tasks-per-node: 8
gpus: 8
memory: 8GiB
time: 1h
env: {NCCL_DEBUG: INFO}
run: [./all_reduce, -g, \"1\"]
kubernetes:
  image: r/nccl:1
";
    assert_eq!(imported(&mpi_job()).job, expected);
}

#[test]
fn schema_valid_and_wrong_mpi_jobs_are_found() {
    check_changed(
        "slotsPerWorker: 8",
        "cleanPodPolicy: None",
        &[("mpi-slots-differ", 4), ("mpi-ranks-differ", 16), ("field-lost", 5)],
    );
    check_changed("\"16\"", "\"8\"", &[("mpi-ranks-differ", 16)]);
    check_changed("minAvailable: 3", "minAvailable: 2", &[("least-pods-differ", 6)]);
    check_changed(
        "./all_reduce, -g, \"1\"]\n",
        "./all_reduce]\n              resources: {limits: {nvidia.com/gpu: 1}}\n",
        &[("launcher-holds-gpus", 17)],
    );
    check_changed(
        "replicas: 2\n",
        "replicas: 2\n      restartPolicy: OnFailure\n",
        &[("gang-restarts-in-part", 19)],
    );
    // What cannot be read stays a launcher with its workers, which do not find each other.
    check_changed(
        "[mpirun, --allow",
        "[mpirun, --strange, --allow",
        &[("needs-mpi-operator", 7), ("field-lost", 5)],
    );
    let job = imported(&mpi_job().replacen("[mpirun,", "[mpirun, --strange,", 1)).job;
    assert!(job.contains("- name: worker\n  tasks: 2\n"), "{job}");
    assert!(job.contains("run: [/usr/sbin/sshd, -De]\n"), "{job}");
}

#[test]
fn kai_takes_the_size_of_a_gang_from_an_annotation() {
    let text = gang().replace("schedulerName: muster", "schedulerName: kai-scheduler");
    let queue = "{name: train, labels: {kai.scheduler/queue: team-a}";
    let with = |metadata: &str| text.replace("{name: train}", metadata);
    check(&with(&format!("{queue}}}")), &[("kai-starts-in-part", 3)]);
    let annotated = |count: u32| {
        with(&format!("{queue}, annotations: {{kai.scheduler/batch-min-member: \"{count}\"}}}}"))
    };
    check(&annotated(4), &[]);
    check(&annotated(2), &[("least-pods-differ", 3)]);
    assert!(imported(&annotated(4)).job.starts_with("name: train\nqueue: team-a\ntasks: 4\n"));
    let shared = with("{name: train}").replace(
        "    spec:\n      restart",
        "    metadata: {annotations: {gpu-fraction: \"0.5\"}}\n    spec:\n      restart",
    );
    let report = imported(&shared);
    assert!(report.options.iter().any(|one| one.text.contains("gpus: 0.5")));
}

#[test]
fn pods_of_one_group_are_one_job() {
    let pod = |name: &str, command: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {{kai.scheduler/queue: team-a}}\n  annotations: {{pod-group-name: train}}\nspec:\n  schedulerName: kai-scheduler\n  restartPolicy: Never\n  activeDeadlineSeconds: 60\n  containers:\n    - name: main\n      image: r/train:1\n      command: [{command}]\n      env: [{{name: RANK, value: \"{}\"}}, {{name: A, value: b}}]\n      resources: {{limits: {{nvidia.com/gpu: 1}}}}\n---\n",
            name.trim_start_matches("train-")
        )
    };
    let group = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: train}\nspec: {minMember: 2, queue: team-a}\n";
    let same = format!("{}{}{group}", pod("train-0", "train"), pod("train-1", "train"));
    check(&same, &[("field-lost", 15), ("field-lost", 32)]);
    let job = imported(&same).job;
    let start = "name: train\nqueue: team-a\ntasks: 2\ngpus-per-task: 1\ntime: 1m\nenv: {A: b}\n";
    assert!(job.starts_with(start), "{job}");
    let different = format!("{}{}{group}", pod("train-0", "lead"), pod("train-1", "follow"));
    check(&different, &[("gang-becomes-several-jobs", 38)]);
}
