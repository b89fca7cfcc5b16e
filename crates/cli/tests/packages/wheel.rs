//! The wheel, in a virtual environment.

use std::collections::BTreeSet;
use std::process::Command;

use crate::files;
use crate::first_command;

#[test]
#[ignore = "needs packages; `cargo xtask packages` makes them"]
fn pip_installs_the_program_which_runs_a_job_and_removes_it() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join(first_command::WORK);
    first_command::prepare(folder.path());
    let environment = folder.path().join("venv");
    // Debian's own Python makes environments only with a further package.
    let made = Command::new("python3").args(["-m", "venv"]).arg(&environment).output().unwrap();
    assert!(made.status.success(), "hint: apt-get install python3-venv");
    let list = || -> BTreeSet<_> {
        let bin = std::fs::read_dir(environment.join("bin")).unwrap();
        bin.map(|entry| entry.unwrap().file_name()).collect()
    };
    let before = list();
    let pip = |words: &[&str]| {
        let mut pip = Command::new(environment.join("bin/python3"));
        pip.args(["-m", "pip", "--disable-pip-version-check"]).args(words);
        pip
    };
    files::run(pip(&["install", "--no-index"]).arg(files::ending_in(".whl")));
    files::run(&mut pip(&["check"]));
    let program = environment.join("bin/muster");
    let version = files::run(Command::new(&program).arg("--version"));
    assert_eq!(version.trim(), format!("muster {}", files::VERSION));
    let script = first_command::alone(work.to_str().unwrap());
    let mut shell = Command::new("sh");
    let path = format!("{}/bin:/usr/bin:/bin", environment.display());
    first_command::check(&files::run(shell.args(["-ec", &script]).env("PATH", path)));
    files::run(&mut pip(&["uninstall", "--yes", "muster-scheduler"]));
    assert_eq!(list().difference(&before).collect::<Vec<_>>(), [""; 0]);
}
