//! Slurm keeps to what every place keeps to: the suite that the daemon of one machine passes.

use std::path::PathBuf;

use crate::cluster::{Cluster, User};
use crate::conform::{Place, conformance};
use crate::muster::Muster;

/// A user of the cluster, with a folder of this test alone.
struct There {
    cluster: &'static Cluster,
    folder: PathBuf,
}

impl There {
    fn new() -> Self {
        let cluster: &'static Cluster = Box::leak(Box::new(Cluster::here()));
        let name = std::thread::current().name().unwrap_or("conforms").replace("::", "-");
        let folder = cluster.work().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        cluster.said(&["chmod", "1777", folder.to_str().unwrap()]);
        Self { cluster, folder }
    }

    fn muster(&self) -> Muster<'static> {
        Muster::of(self.cluster, User::Mail)
    }
}

impl Place for There {
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

conformance!(There::new(), ignore = "needs a Slurm cluster: cargo xtask slurm test");
