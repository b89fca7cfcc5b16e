//! A scheduler that takes over preempts the same pods as the one before it would have.

use muster_model::Time;
use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{PodBuilder, job, node, pod};

/// GPUs of the only node; the items fill it.
const GPUS: u32 = 8;

/// Pods that run before the restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Single,
    /// Two pods that start together, and need each other.
    Pair,
    /// Three pods that need two.
    Elastic,
    /// Job of two pods that was suspended.
    Job,
}

const ITEMS: [Item; 4] = [Item::Single, Item::Pair, Item::Elastic, Item::Job];

impl Item {
    fn pods(self) -> u32 {
        match self {
            Self::Single => 1,
            Self::Pair | Self::Job => 2,
            Self::Elastic => 3,
        }
    }

    fn create(self, cluster: &mut Cluster, name: &str) {
        let pods = |size| {
            let one = |at| pod(&format!("{name}-{at}"), 1);
            let pods = (0..self.pods()).map(one);
            pods.map(move |pod| pod.gang(name, size)).collect::<Vec<PodBuilder>>()
        };
        match self {
            Self::Single => drop(cluster.create(&pod(&format!("{name}-0"), 1))),
            Self::Pair | Self::Elastic => cluster.create_all(pods(2)),
            Self::Job => drop(cluster.create_job(&job(name, 2))),
        }
    }
}

/// Returns how many pods of each item still run after a pod of higher priority came.
fn left(items: &[Item], urgent: u32, is_restarted: bool) -> Vec<usize> {
    let mut cluster = Cluster::new([node("n", GPUS)]);
    let name = |at: usize| format!("item{at}");
    for (at, item) in items.iter().enumerate() {
        item.create(&mut cluster, &name(at));
        cluster.settle();
        cluster.now = Time(cluster.now.0 + 60_000);
    }
    if is_restarted {
        cluster.restart_scheduler();
        cluster.settle();
    }
    cluster.create(&pod("urgent", urgent).spec("priority", json!(1000)));
    cluster.settle();
    assert_eq!(cluster.bound("urgent"), 1, "{items:?}, urgent {urgent}, {is_restarted}");
    (0..items.len()).map(|at| cluster.bound(&format!("{}-", name(at)))).collect()
}

#[test]
fn a_restart_changes_nobodys_preemption() {
    let mut differences = Vec::new();
    for a in ITEMS {
        for b in ITEMS {
            for c in ITEMS {
                let items = [a, b, c];
                differences.extend((1..=4).filter_map(|urgent| difference(&items, urgent)));
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// Returns the pods that keep running without and with a restart, if they differ.
fn difference(items: &[Item], urgent: u32) -> Option<String> {
    let without = left(items, urgent, false);
    let with = left(items, urgent, true);
    (without != with).then(|| format!("{items:?}, urgent {urgent}: {without:?} {with:?}"))
}
