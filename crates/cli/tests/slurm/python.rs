//! The Python client on a login node: it calls the binary, whose JSON must be that of the daemon.

use std::path::Path;

use crate::cluster::{SlurmCluster, User};
use crate::muster::{CommandOutput, Muster};

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn the_python_client_runs_waits_explains_and_cancels_on_slurm() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    // Users may have no access to the checkout.
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = cluster.work().join("python-client");
    let copied = [
        ("python/src", folder.join("src")),
        ("crates/cli/tests/slurm/on_slurm.py", folder.join("on_slurm.py")),
    ];
    std::fs::create_dir(&folder).unwrap();
    for (from, to) in copied {
        cluster.output(&["cp", "-r", checkout.join(from).to_str().unwrap(), to.to_str().unwrap()]);
    }
    cluster.output(&["chmod", "-R", "a+rX", folder.to_str().unwrap()]);
    let packages = format!("PYTHONPATH={}", folder.join("src").display());
    let mut program = muster.program(&[&packages, "python3", "-B"]);
    program.arg(folder.join("on_slurm.py")).arg(cluster.work().join("muster"));
    let said = CommandOutput::of(&program.output().unwrap());
    assert!(said.code == 0 && said.stdout == "all of it works\n", "{said:?}");
}
