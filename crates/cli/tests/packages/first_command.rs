//! The first job and the first command of the README, with a stand-in for Python and simulated GPUs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::files;

/// Folder below a root for all that a test itself writes.
pub const WORK: &str = "srv";

/// Stand-in for the program of the job.
const PYTHON: &str = "#!/bin/sh\necho \"$* sees GPUs $CUDA_VISIBLE_DEVICES\"\n";

/// Output of the job.
const EXPECTED: &str = "train.py sees GPUs 0,1";

/// Writes the job and the stand-in to the folder [`WORK`] of a root.
pub fn prepare(root: &Path) {
    let readme = files::of_repository("README.md");
    let (_, job) =
        readme.split_once("```yaml\n# train.yaml\n").expect("the README has a first job");
    let (job, _) = job.split_once("```").unwrap();
    let work = root.join(WORK);
    fs::create_dir_all(work.join("bin")).unwrap();
    fs::write(work.join("train.yaml"), job).unwrap();
    write_program(&work.join("bin/python"), PYTHON);
}

/// Writes a file that can be executed.
pub fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the first command of the README, which submits the job.
fn command() -> String {
    let readme = files::of_repository("README.md");
    let line = readme.lines().find(|line| line.starts_with("muster run ")).unwrap();
    let command = line.split('#').next().unwrap().trim().to_owned();
    assert_eq!(command, "muster run train.yaml");
    command
}

/// Returns a script that runs the first command with a daemon of its own, in this folder.
pub fn alone(work: &str) -> String {
    format!(
        "export MUSTER_HOME={work}/home PATH={work}/bin:$PATH; cd {work}\n\
         {} --virtual-gpus 8 --wait\nmuster logs train\nmuster stop-daemon",
        command()
    )
}

/// Returns a script that runs it under the shared daemon, as the unit starts that.
pub fn shared(work: &str) -> String {
    format!(
        "export PATH={work}/bin:$PATH; cd {work}\n\
         muster serve --system --virtual-gpus 8 >{work}/daemon.log 2>&1 &\n\
         for try in $(seq 200); do ! muster info >/dev/null 2>&1 || break; sleep 0.1; done\n\
         {} --wait || {{ cat {work}/daemon.log; exit 1; }}\nmuster logs train\nmuster stop-daemon",
        command()
    )
}

/// Checks the output of one of these scripts.
pub fn check(output: &str) {
    assert!(output.contains(EXPECTED), "{output}");
}
