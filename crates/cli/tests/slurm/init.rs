//! A second cluster beside that of the other tests: it starts from the files that `muster init
//! slurm` generated, and behaves as the queue file requires.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::cluster::SlurmCluster;

const CLUSTER: &str = "\
levels: [leaf]
nodes:
  - {name: 'node[1-2]', gpus: 8, gpu: h100, cpus: 64, memory: 1000000MiB, domain: {leaf: l1}}
  - {name: 'node[3-4]', gpus: 8, gpu: h100, cpus: 64, memory: 1000000MiB, domain: {leaf: l2}}
";

const QUEUES: &str = "\
preemption: reclaim
queues:
  - name: lab
    queues:
      - {name: vision, weight: 3, quota: {h100: 16}, borrow: 8, limits: {running-jobs: 20}}
      - {name: language, quota: {h100: 16}, limits: {time: 2d, borrowed-time: 4h}}
  - {name: guest, limits: {gpus-per-user: 24}}
";

/// The second cluster, which is stopped when the test is over.
struct GeneratedCluster {
    dir: PathBuf,
}

impl GeneratedCluster {
    fn up(files: &Path) -> Self {
        // The test command ends clusters in such directories whose process has ended.
        let dir = std::env::temp_dir().join(format!("muster-slurm-{}", std::process::id()));
        let cluster = Self { dir };
        let words = ["slurm", "up", cluster.text(), "--config", files.to_str().unwrap()];
        finish(xtask().args(words));
        cluster
    }

    fn text(&self) -> &str {
        self.dir.to_str().unwrap()
    }

    /// Runs a command as root in the cluster and returns its output.
    fn output(&self, words: &[&str]) -> String {
        finish(xtask().args(["slurm", "shell", self.text(), "--", "timeout", "60"]).args(words))
    }

    /// Runs a command as the user games and returns its output.
    fn output_as_games(&self, words: &[&str]) -> String {
        self.output(
            &[&["setpriv", "--clear-groups", "--reuid", "games", "--regid", "games"], words]
                .concat(),
        )
    }

    /// Returns one field of a job.
    fn field(&self, job: &str, name: &str) -> String {
        let said = self.output(&["scontrol", "show", "job", "-o", job]);
        let value =
            said.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name} in {said}")).to_owned()
    }
}

impl Drop for GeneratedCluster {
    fn drop(&mut self) {
        let _ = xtask().args(["slurm", "down", self.text()]).output();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn xtask() -> Command {
    Command::new(std::env::var_os("MUSTER_XTASK").expect("run by cargo xtask slurm test"))
}

fn muster() -> Command {
    Command::new(env!("CARGO_BIN_EXE_muster"))
}

fn finish(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&stdout);
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_cluster_starts_from_generated_files_runs_a_gang_and_gives_back_what_was_lent() {
    let patience = SlurmCluster::here();
    let work = tempfile::tempdir().unwrap();
    let file = |name: &str| work.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("cluster.yaml"), CLUSTER).unwrap();
    fs::write(file("queues.yaml"), QUEUES).unwrap();
    let files = file("slurm");
    let users = ["--user", "games=lab/vision,lab/language,guest"];
    let words = ["init", "slurm", "--controller", "head1", "--grace", "2s", "-o", &files];
    finish(muster().args(words).args(users).args([
        "--cluster",
        &file("cluster.yaml"),
        "--queues",
        &file("queues.yaml"),
    ]));
    let cluster = GeneratedCluster::up(Path::new(&files));
    let shared = cluster.dir.join("work");
    let output = shared.join("gang.out");

    // 1. A gang starts whole, on one leaf switch, with its own devices, and is billed by GPUs.
    let script = r#"srun sh -c 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"'"#;
    let words = [
        "sbatch",
        "--parsable",
        "-W",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--gpus-per-node=h100:8",
        "--switches=1",
    ];
    let words = [
        &words[..],
        &["--time=5", "--account=vision", "-o", output.to_str().unwrap(), "--wrap", script],
    ]
    .concat();
    let gang = cluster.output_as_games(&words);
    let printed = fs::read_to_string(&output).unwrap();
    let nodes: BTreeSet<&str> =
        printed.lines().filter_map(|line| line.strip_suffix(" 0,1,2,3,4,5,6,7")).collect();
    assert!(nodes == ["node1", "node2"].into() || nodes == ["node3", "node4"].into(), "{printed}");
    assert!(
        cluster
            .output(&["scontrol", "show", "job", gang.trim()])
            .contains("billing=16,gres/gpu=16")
    );

    // 2. A job beyond its account's limit never runs, and is rejected with the reason.
    let beyond = ["sbatch", "--account=vision", "--nodes=4", "--gpus-per-node=8", "--wrap", "true"];
    let refused = xtask()
        .args([
            "slurm",
            "shell",
            cluster.text(),
            "--",
            "setpriv",
            "--clear-groups",
            "--reuid",
            "games",
            "--regid",
            "games",
        ])
        .args(beyond)
        .output()
        .unwrap();
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("limit"),
        "{refused:?}"
    );

    // 3. Language borrows all idle GPUs; vision reclaims its own, and the borrowing job is
    // requeued.
    let holding = |words: &[&str]| {
        let all = [
            &["sbatch", "--parsable", "--time=30", "-o", "/dev/null", "--gpus-per-node=8"],
            words,
            &["--wrap", "sleep 600"],
        ];
        cluster.output_as_games(&all.concat()).trim().to_owned()
    };
    let borrowed = holding(&["--account=language", "--qos=language-idle", "--nodes=4"]);
    patience.until("the borrower runs", || cluster.field(&borrowed, "JobState") == "RUNNING");
    let owned = holding(&["--account=vision", "--nodes=2"]);
    patience.until("the owner runs", || cluster.field(&owned, "JobState") == "RUNNING");
    // The clean-up of the borrowing job may still be running.
    patience.until("the borrower is queued again", || {
        cluster.field(&borrowed, "JobState") == "PENDING"
    });
    assert_eq!(cluster.field(&borrowed, "Restarts"), "1");

    // 4. A second run of accounts.sh changes nothing.
    let dump = || {
        let path = shared.join("dump.cfg");
        cluster.output(&["sacctmgr", "dump", "cluster", &format!("file={}", path.display())]);
        fs::read_to_string(path).unwrap()
    };
    let before = dump();
    cluster.output(&["sh", &file("slurm/accounts.sh")]);
    assert_eq!(dump(), before);
}
