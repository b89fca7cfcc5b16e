//! `--on slurm@HOST` through a fake ssh to another home on this machine: the binary is copied once,
//! jobs are sent as text, and exit codes are returned.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::home::HomeRun;

/// A laptop, and a login node with Slurm's programs.
struct Far {
    dir: tempfile::TempDir,
}

impl Far {
    fn new() -> Self {
        let far = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(far.dir.path().join("far")).unwrap();
        fs::create_dir(far.dir.path().join("bin")).unwrap();
        far.program(
            "ssh",
            "[ \"$1\" = -t ] && shift\necho \"$2\" >> \"$FAR/lines\"\n[ \"$1\" = login ] || exit 255\n\
             HOME=$FAR; export HOME; cd \"$HOME\" && exec sh -c \"$2\"",
        );
        far.program("scontrol", "echo 'ClusterName             = lab'");
        far.program("squeue", "echo '{\"jobs\": []}'");
        far.program("sacct", "true");
        far.program("sbatch", "for last; do :; done; cat \"$last\" > \"$FAR/handed-on\"; echo 41");
        far
    }

    fn program(&self, name: &str, body: &str) {
        let path = self.dir.path().join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn muster(&self, words: &[&str]) -> HomeRun {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(words).current_dir(self.dir.path()).stdin(Stdio::null());
        command
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("HOME", self.dir.path());
        command.env("MUSTER_SSH", self.path("bin/ssh")).env("MUSTER_SLURM_BIN", self.path("bin"));
        command.env("FAR", self.path("far"));
        HomeRun::of(command.output().unwrap())
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_job_of_this_machine_is_handed_on_there() {
    let far = Far::new();
    fs::write(far.path("it's mine.yaml"), "name: far\nnodes: 2\ngpus: 8\nrun: torchrun train.py\n")
        .unwrap();

    // 1. The binary is copied once; another build that was not used for months is removed.
    let bin = far.path("far/.local/share/muster/bin");
    fs::create_dir_all(&bin).unwrap();
    let months_ago = SystemTime::now() - Duration::from_secs(100 * 86_400);
    for (name, modified) in [("muster-old", months_ago), ("muster-other", SystemTime::now())] {
        File::create(bin.join(name)).unwrap().set_modified(modified).unwrap();
    }
    let first = far.muster(&["run", "--on", "slurm@login", "it's mine.yaml", "--time", "2h"]).ok();
    assert_eq!(first.stdout, "job 41: far\n");
    assert!(first.stderr.contains("copying muster to login:"), "{}", first.stderr);
    let script = read(&far.path("far/handed-on"));
    assert!(
        script.contains("#SBATCH --nodes=2\n") && script.contains("#SBATCH --time=02:00:00\n"),
        "{script}"
    );
    assert!(!bin.join("muster-old").exists());
    assert_eq!(fs::read_dir(&bin).unwrap().count(), 2, "this one and the other");
    let second = far.muster(&["--on=slurm@login", "ps"]).ok();
    assert!(!second.stderr.contains("copying muster"), "{}", second.stderr);

    // 2. Its state is stored on the host.
    assert!(far.path("far/.local/state/muster/slurm/lab").is_dir());
    assert!(!far.path(".local/state/muster").exists());

    // 3. Exit codes and messages are passed on.
    assert!(far.muster(&["show", "99", "--on", "slurm@login"]).code(4).stderr.contains("99"));
    let wrong = far.muster(&["run", "--on", "slurm@login", "--nodes", "0", "--", "x"]).code(2);
    assert!(wrong.stderr.contains("nodes"), "{}", wrong.stderr);
}

#[test]
fn a_host_that_cannot_be_reached_or_is_another_machine_is_named() {
    let far = Far::new();
    let away = far.muster(&["ps", "--on", "slurm@nowhere"]).code(1);
    assert!(away.stderr.contains("cannot reach nowhere over ssh"), "{}", away.stderr);
    assert!(far.muster(&["ps", "--on", "slurm@"]).code(2).stderr.contains("slurm@HOST"));
    assert!(
        far.muster(&["ps", "--on", "slurm@-oProxyCommand=x"]).code(2).stderr.contains("slurm@HOST")
    );

    far.program("ssh", "echo Welcome; echo muster-asks; echo 'Darwin arm64'");
    let other = far.muster(&["ps", "--on", "slurm@login"]).code(1);
    assert!(other.stderr.contains("login is `Darwin arm64`"), "{}", other.stderr);
}

#[test]
fn the_site_file_may_name_the_host() {
    let far = Far::new();
    let site = "fleet: {nodes: 4, gpus: 32}\npeople: {users: 6}\nclusters: {gangs: slurm@login, services: local}\n";
    fs::write(far.path("site.yaml"), site).unwrap();
    fs::write(far.path("gang.yaml"), "name: far\nnodes: 2\ngpus: 8\nrun: torchrun train.py\n")
        .unwrap();
    fs::write(far.path("api.yaml"), "name: api\nkind: service\nrun: serve\n").unwrap();
    let words = ["run", "--on", "auto", "--site", "site.yaml", "gang.yaml", "--time", "2h"];
    let run = far.muster(&words).ok();
    assert_eq!(run.stdout, "job 41: far\n");
    assert!(
        run.stderr.contains("far goes to slurm@login: site.yaml says `gangs: slurm@login`"),
        "{}",
        run.stderr
    );
    let script = read(&far.path("far/handed-on"));
    assert!(script.contains("#SBATCH --time=02:00:00\n"), "{script}");
    // Only the text that belongs there is sent, the other one is submitted here.
    far.muster(&["run", "--virtual-gpus", "1", "--", "true"]).ok();
    let words = ["run", "--on", "auto", "--site", "site.yaml", "api.yaml", "gang.yaml"];
    let run = far.muster(&words).ok();
    assert!(run.stdout.ends_with(": api\njob 41: far\n"), "{}", run.stdout);
    let script = read(&far.path("far/handed-on"));
    assert!(script.contains("torchrun") && !script.contains("serve"), "{script}");
    // The list of several clusters has no jobs of another host, and says so.
    let listed = far.muster(&["ps", "--on", "auto", "--site", "site.yaml"]);
    assert!(
        listed.stderr.contains("warning: slurm@login: ") && listed.code != 0,
        "{}",
        listed.stderr
    );
    far.muster(&["stop-daemon", "--cancel"]).ok();
}
