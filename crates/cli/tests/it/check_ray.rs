//! `muster check ray` on manifests, and on a machine. The rules are tested in `muster-doctor`, the real Ray
//! in `tests/recipes/check_ray.rs`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::home::{Home, HomeRun};

const CLUSTER: &str = "\
# Two workers with GPUs, of which nothing says that they start together.
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: shared, namespace: ml}
spec:
  headGroupSpec:
    serviceType: NodePort
    template: {spec: {containers: [{name: head, image: 'rayproject/ray:latest'}]}}
  workerGroupSpecs:
    - groupName: gpus
      replicas: 2
      template:
        spec:
          containers:
            - {name: worker, image: 'rayproject/ray:2.60.0', resources: {limits: {nvidia.com/gpu: 4}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kuberay-operator, namespace: kuberay}
spec: {template: {spec: {containers: [{name: kuberay-operator, image: 'quay.io/kuberay/operator:v1.6.2'}]}}}
";

fn rules(run: &HomeRun, list: &str) -> Vec<String> {
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout));
    let outcomes = report[list].as_array().unwrap();
    outcomes.iter().map(|one| one["rule"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn manifests_are_judged_and_what_is_not_in_them_is_not_tested() {
    let home = Home::new();
    std::fs::create_dir(home.path("manifests")).unwrap();
    home.write("manifests/cluster.yaml", CLUSTER);
    // Values of a chart are no manifest.
    home.write("manifests/values.yaml", "replicas: 2\n");
    let run = home.words("check ray manifests --json").code(1);
    assert_eq!(rules(&run, "findings"), ["ray-not-a-gang", "ray-exposed", "ray-image-moves"]);
    assert_eq!(rules(&run, "not_tested"), ["ray-outside-quota"]);
    let all = home.words("check kubernetes manifests --json").ok();
    assert!(rules(&all, "not_tested").contains(&"ray-not-a-gang".to_owned()), "{}", all.stdout);
    home.words("check ray manifests --write-baseline accepted.txt").ok();
    home.words("check ray manifests --baseline accepted.txt").ok();
    let log: Value =
        serde_json::from_str(&home.words("check ray manifests --format sarif").code(1).stdout)
            .unwrap();
    assert_eq!(log["runs"][0]["tool"]["driver"]["name"], "muster check ray");
}

#[test]
fn the_machine_is_read_without_changing_it() {
    let home = Home::new();
    let run = home.words("check ray --json --fail-on high");
    let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    assert_eq!(report["subject"], "ray");
    let count: usize = ["passed", "not_tested"].iter().map(|list| rules(&run, list).len()).sum();
    let failed: std::collections::BTreeSet<String> = rules(&run, "findings").into_iter().collect();
    assert_eq!(count + failed.len(), 11);
    let rule = home.words("check ray --explain ray-outside-jobs").ok().stdout;
    assert!(rule.starts_with("ray-outside-jobs (high)\n"), "{rule}");
}

#[test]
fn mistakes_have_a_next_step() {
    let home = Home::new();
    home.write("words.yaml", "kind: [\n");
    let broken = home.words("check ray words.yaml").code(2).stderr;
    assert!(broken.contains("words.yaml is neither JSON nor YAML: "), "{broken}");
    home.write("values.yaml", "replicas: 2\n");
    let none = home.words("check ray values.yaml").code(2).stderr;
    assert!(none.contains("values.yaml holds no object of Kubernetes"), "{none}");
    let mut command = home.command(&["check", "ray", "--on", "slurm"]);
    let slurm = HomeRun::of(command.env("PATH", home.path("none")).output().unwrap());
    let slurm = slurm.code(1).stderr;
    assert!(slurm.contains("squeue is not installed here"), "{slurm}");
}

/// Two jobs run: one starts Ray by hand, the script of the other is somebody else's.
#[test]
fn scripts_of_running_jobs_are_linted() {
    let home = Home::new();
    std::fs::create_dir(home.path("bin")).unwrap();
    let script = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=4\n\
        srun -N1 -n1 -w n1 ray start --head --port=6379 --block &\n\
        srun -N1 -n1 -w n2 ray start --address=n1:6379 --block &\nsleep 30\npython train.py\n";
    home.write("job.sbatch", script);
    let programs = [
        ("squeue", "printf '12\\n12\\n13\\n'".to_owned()),
        (
            "scontrol",
            format!("[ \"$3\" = 12 ] && exec cat {}; exit 1", home.path("job.sbatch").display()),
        ),
    ];
    for (name, text) in programs {
        let path = home.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", home.path("bin").display());
    let mut command = home.command(&["check", "ray", "--on", "slurm", "--json"]);
    let run = HomeRun::of(command.env("PATH", path).output().unwrap()).code(1);
    let found = rules(&run, "findings");
    assert!(found.contains(&"ray-nodes-not-awaited".to_owned()), "{found:?}");
    assert!(found.iter().all(|rule| rule.starts_with("ray-")), "{found:?}");
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["findings"][0]["place"]["source"], "job 12");
    assert_eq!(report["not_tested"][0]["says"], "the script of job 13");
}
