//! The contention of examples/contention.yaml in small: two gangs of five compete for eight GPUs, beside a short job. A
//! scheduler that starts pods one by one gives each gang a part of its GPUs, and both wait for ever.

use super::target::{KubernetesTarget, submit};
use crate::conform::JobPlace;

/// Submits the jobs, and waits until all have ended. A rank of a gang ends when all five have started.
pub fn competing_gangs_run_whole(place: &KubernetesTarget, queue: &str) {
    let folder = place.folder();
    let folder = folder.display();
    let gang = |name: &str| {
        format!(
            "name: {name}\nqueue: {queue}\ntasks: 5\ngpus-per-task: 1\ntime: 5m\ngrace: 1s\nrun: |\n  \
             : > {folder}/{name}-of-five-$RANK\n  \
             until [ $(ls {folder} | grep -c {name}-of-five) = 5 ]; do usleep 50000; done\n"
        )
    };
    let quick =
        format!("name: quick\nqueue: {queue}\ngpus: 1\ntime: 1m\ngrace: 1s\nrun: sleep 1\n");
    submit(place, &[gang("left"), gang("right"), quick].join("---\n"));
    for name in ["left", "right", "quick"] {
        assert_eq!(place.call(&["wait", name]).0, 0, "{name}: {}", place.ok(&["ps", "-a"]));
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn gangs_that_compete_under_muster_run_whole() {
    competing_gangs_run_whole(&KubernetesTarget::new(), "default");
}
