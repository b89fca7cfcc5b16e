//! Slurm passes the same conformance suite as the daemon of one machine.

use std::path::PathBuf;

use crate::cluster::{SlurmCluster, User};
use crate::conform::{JobPlace, conformance};
use crate::muster::Muster;

/// User of the cluster, with a directory of this test alone.
struct SlurmTarget {
    cluster: &'static SlurmCluster,
    folder: PathBuf,
}

impl SlurmTarget {
    fn new() -> Self {
        let cluster: &'static SlurmCluster = Box::leak(Box::new(SlurmCluster::here()));
        let name = std::thread::current().name().unwrap_or("conforms").replace("::", "-");
        let folder = cluster.work().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        cluster.output(&["chmod", "1777", folder.to_str().unwrap()]);
        Self { cluster, folder }
    }

    fn muster(&self) -> Muster<'static> {
        Muster::of(self.cluster, User::Mail)
    }
}

impl JobPlace for SlurmTarget {
    fn call(&self, words: &[&str]) -> (i32, String, String) {
        let said = self.muster().call(words);
        (said.code, said.stdout, said.stderr)
    }

    fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    fn all_of_it(&self) -> &'static str {
        "nodes: 8\ngpus: 8"
    }

    fn until(&self, what: &str, holds: &mut dyn FnMut() -> bool) {
        self.cluster.until(what, holds);
    }
}

conformance!(SlurmTarget::new(), ignore = "needs a Slurm cluster: cargo xtask slurm test");
