//! A second cluster, beside the one of the other tests: it starts from nothing but what `muster
//! init slurm` wrote, and does what the queue file says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::cluster::Cluster;

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

/// The other cluster; it is stopped when the test is over.
struct Generated {
    dir: PathBuf,
}

impl Generated {
    fn up(files: &Path) -> Self {
        // The test command ends clusters of such folders whose process is gone.
        let dir = std::env::temp_dir().join(format!("muster-slurm-{}", std::process::id()));
        let cluster = Self { dir };
        let words = ["slurm", "up", cluster.text(), "--config", files.to_str().unwrap()];
        said(xtask().args(words));
        cluster
    }

    fn text(&self) -> &str {
        self.dir.to_str().unwrap()
    }

    /// What root's command says inside.
    fn said(&self, words: &[&str]) -> String {
        said(xtask().args(["slurm", "shell", self.text(), "--", "timeout", "60"]).args(words))
    }

    /// What a command of the user games says.
    fn said_to_games(&self, words: &[&str]) -> String {
        self.said(
            &[&["setpriv", "--clear-groups", "--reuid", "games", "--regid", "games"], words]
                .concat(),
        )
    }

    /// One field of a job.
    fn field(&self, job: &str, name: &str) -> String {
        let said = self.said(&["scontrol", "show", "job", "-o", job]);
        let value =
            said.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name} in {said}")).to_owned()
    }
}

impl Drop for Generated {
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

fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_cluster_starts_from_generated_files_runs_a_gang_and_gives_back_what_was_lent() {
    let patience = Cluster::here();
    let work = tempfile::tempdir().unwrap();
    let file = |name: &str| work.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("cluster.yaml"), CLUSTER).unwrap();
    fs::write(file("queues.yaml"), QUEUES).unwrap();
    let files = file("slurm");
    let users = ["--user", "games=lab/vision,lab/language,guest"];
    let words = ["init", "slurm", "--controller", "head1", "--grace", "2s", "-o", &files];
    said(muster().args(words).args(users).args([
        "--cluster",
        &file("cluster.yaml"),
        "--queues",
        &file("queues.yaml"),
    ]));
    let cluster = Generated::up(Path::new(&files));
    let shared = cluster.dir.join("work");
    let output = shared.join("gang.out");

    // 1. A gang: whole, on one leaf, its own devices, and billed by its GPUs.
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
    let gang = cluster.said_to_games(&words);
    let printed = fs::read_to_string(&output).unwrap();
    let nodes: BTreeSet<&str> =
        printed.lines().filter_map(|line| line.strip_suffix(" 0,1,2,3,4,5,6,7")).collect();
    assert!(nodes == ["node1", "node2"].into() || nodes == ["node3", "node4"].into(), "{printed}");
    assert!(
        cluster.said(&["scontrol", "show", "job", gang.trim()]).contains("billing=16,gres/gpu=16")
    );

    // 2. What is beyond its account's cap never runs, and is refused with the reason.
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

    // 3. Language borrows all that is idle; vision takes its own back, and what had borrowed is
    //    queued again.
    let holding = |words: &[&str]| {
        let all = [
            &["sbatch", "--parsable", "--time=30", "-o", "/dev/null", "--gpus-per-node=8"],
            words,
            &["--wrap", "sleep 600"],
        ];
        cluster.said_to_games(&all.concat()).trim().to_owned()
    };
    let borrowed = holding(&["--account=language", "--qos=language-idle", "--nodes=4"]);
    patience.until("the borrower runs", || cluster.field(&borrowed, "JobState") == "RUNNING");
    let owned = holding(&["--account=vision", "--nodes=2"]);
    patience.until("the owner runs", || cluster.field(&owned, "JobState") == "RUNNING");
    // What had borrowed may still be cleaned up after.
    patience.until("the borrower is queued again", || {
        cluster.field(&borrowed, "JobState") == "PENDING"
    });
    assert_eq!(cluster.field(&borrowed, "Restarts"), "1");

    // 4. A second run of the accounts changes nothing.
    let dump = || {
        let path = shared.join("dump.cfg");
        cluster.said(&["sacctmgr", "dump", "cluster", &format!("file={}", path.display())]);
        fs::read_to_string(path).unwrap()
    };
    let before = dump();
    cluster.said(&["sh", &file("slurm/accounts.sh")]);
    assert_eq!(dump(), before);
}
