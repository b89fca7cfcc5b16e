//! A real sbatch accepts the output of `muster export slurm`: every script of the import's corpus,
//! imported and exported again.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::{SlurmCluster, User};
use crate::muster::Muster;

/// Messages of a controller for valid scripts that request what this cluster lacks.
const DOES_NOT_FIT: [&str; 14] = [
    "Invalid account",
    "Invalid node name",
    "Invalid partition",
    "Invalid qos",
    "Job dependency problem",
    "More processors requested",
    "Requested node configuration is not available",
    "Requested partition configuration not available",
    "Requested reservation is invalid",
    "Invalid license",
    "Invalid feature",
    "Invalid generic resource",
    "Requested topology",
    "Memory specification can not be satisfied",
];

/// Scripts with options that Slurm 22.05 lacks, was built without, or accepts from operators only.
const NEWER: [&str; 3] = ["segment", "others", "node-features"];

/// Scripts with small requests, which must be accepted.
const FIT: [&str; 12] = [
    "smallest",
    "gpus-in-all",
    "quotes-and-comments",
    "array-of-one",
    "array-steps",
    "environment",
    "het-alike",
    "in-a-loop",
    "several-steps",
    "signal-to-the-shell",
    "shell-options",
    "when",
];

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn exported_scripts_are_taken_by_sbatch() {
    let cluster = SlurmCluster::here();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../slurm/tests/data/scripts");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut taken = Vec::new();
    let mut refused = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let script = cluster.work().join(format!("export-{name}.sbatch"));
        let line = format!(
            "'{muster}' import '{}' -o - 2> /dev/null | '{muster}' export slurm - -o '{}' --force 2> /dev/null",
            path.display(),
            script.display(),
            muster = env!("CARGO_BIN_EXE_muster"),
        );
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{name}");
        let mut sbatch = cluster.command_of(User::Mail);
        let output = sbatch.args(["sbatch", "--test-only"]).arg(&script).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            taken.push(name);
        } else {
            let fits = !DOES_NOT_FIT.iter().any(|reason| said.contains(reason));
            refused.push((name, fits, said));
        }
    }
    let wrong: Vec<_> =
        refused.iter().filter(|(name, fits, _)| *fits && !NEWER.contains(&name.as_str())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for name in FIT {
        assert!(taken.iter().any(|one| one == name), "{name}: {refused:#?}");
    }
}

/// Returns the lines that a script writes, sorted, and whether it succeeded. Without those of srun,
/// which says so where a step had to wait for the end of the one before.
fn written(cluster: &SlurmCluster, script: &Path, arguments: &[&str]) -> (bool, Vec<String>) {
    let output = script.with_extension("out");
    let mut sbatch = cluster.command_of(User::Mail);
    sbatch
        .args(["sbatch", "--wait", "--chdir=/tmp", "--output"])
        .arg(&output)
        .arg(script)
        .args(arguments);
    let is_done = sbatch.output().unwrap().status.success();
    let text = std::fs::read_to_string(&output).unwrap_or_default();
    let own = text.lines().filter(|line| !line.starts_with("srun: "));
    let mut lines: Vec<String> = own.map(str::to_owned).collect();
    lines.sort();
    (is_done, lines)
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn what_runs_on_the_first_node_is_the_same_there_and_back() {
    let cluster = SlurmCluster::here();
    let head = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=2 --time=5";
    for (name, text) in [
        // Once, with all of the job's resources on the node.
        ("once", format!("#!/bin/bash\n{head}\necho \"$1 $CUDA_VISIBLE_DEVICES $SLURM_NTASKS\"\n")),
        // Steps inside the step of the first task.
        (
            "steps",
            format!(
                "#!/bin/bash\n{head}\nsrun sh -c 'echo $SLURM_PROCID' || exit 1\nsrun -n 2 echo \"$2\"\n"
            ),
        ),
        (
            "perl",
            format!(
                "#!/usr/bin/perl -w\n{head}\nprint \"@ARGV\\n\";\nsystem('srun -n 8 echo step') == 0 or exit 1;\n"
            ),
        ),
    ] {
        let script = cluster.work().join(format!("first-{name}.sbatch"));
        std::fs::write(&script, text).unwrap();
        let again = cluster.work().join(format!("first-{name}-again.sbatch"));
        let line = format!(
            "'{muster}' import '{}' -- \"it's\" 7 2> /dev/null | '{muster}' export slurm - -o '{}' --force 2> /dev/null",
            script.display(),
            again.display(),
            muster = env!("CARGO_BIN_EXE_muster"),
        );
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{name}");
        let before = written(&cluster, &script, &["it's", "7"]);
        assert!(before.0 && !before.1.is_empty(), "{name}: {before:?}");
        assert_eq!(written(&cluster, &again, &[]), before, "{name}");
    }
}

/// Eight concurrent steps, each of which waits for all others: they run at the same time, each on
/// its own GPU. Where the script requests memory per CPU, a step without options gets that of its
/// own CPUs, not of its whole node.
#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_farm_of_steps_spreads_over_the_nodes_and_gpus_of_its_job() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    for (name, head, step, on_nodes) in [
        ("tasks", "--nodes=2 --ntasks-per-node=4 --gpus-per-task=1", "--gpus-per-task=1", 2),
        (
            "memory",
            "--nodes=2 --ntasks-per-node=4 --gpus-per-task=1 --mem-per-cpu=20M",
            "--gpus-per-task=1",
            2,
        ),
        (
            "one",
            "--ntasks=1 --gpus=8 --cpus-per-task=8 --mem-per-cpu=20M",
            "--gpus=1 --cpus-per-task=1",
            1,
        ),
    ] {
        let folder = cluster.work().join(format!("farm-{name}-{}", std::process::id()));
        cluster.output_as(User::Mail, &["mkdir", "-p", folder.to_str().unwrap()]);
        let script = cluster.work().join("farm.sh");
        let text = format!(
            "#!/bin/bash\n#SBATCH --time=5 {head}\n\
             for i in $(seq 8); do\n  srun -N1 -n1 --exact {step} bash -c 'echo \"$SLURMD_NODENAME $SLURM_STEP_GPUS\" \
             > {0}/'$i'; until [ $(ls {0} | wc -l) = 8 ]; do sleep 0.2; done' &\ndone\nwait\n",
            folder.display()
        );
        std::fs::write(&script, text).unwrap();
        let job = muster.output(&["import", script.to_str().unwrap()]);
        let jobs = muster.submit(&job);
        muster.reaches(jobs[0], "done");
        let places: std::collections::BTreeSet<String> = (1..=8)
            .map(|at| std::fs::read_to_string(folder.join(at.to_string())).unwrap())
            .collect();
        assert_eq!(places.len(), 8, "{name}: {places:?}");
        let nodes: std::collections::BTreeSet<&str> =
            places.iter().filter_map(|place| place.split(' ').next()).collect();
        assert_eq!(nodes.len(), on_nodes, "{name}: {places:?}");
    }
}
