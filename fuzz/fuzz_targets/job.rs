//! Any text as a job document: it is read and checked, or every complaint about it can be drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_model::QueueTree;
use muster_spec::{Colour, Site, check_all, parse, parse_cluster};

const CLUSTER: &str = "nodes: [{name: 'n[1-2]', gpus: 8, gpu: h100, cpus: 64, memory: 512GiB, labels: {pool: train}}]";

fuzz_target!(|text: &str| {
    let cluster = parse_cluster(CLUSTER, None).expect("the cluster of this target is well-formed");
    let queues = QueueTree::single();
    let site = Site::new("fuzz".into(), &cluster.nodes, &queues);
    let checked = parse(text, Some("job.yaml"), &serde_json::Map::new())
        .and_then(|documents| check_all(&documents, &site));
    match checked {
        Ok(jobs) => {
            for job in jobs {
                assert!(!job.spec.groups.is_empty());
                assert!((1..=10_000).contains(&job.spec.min_tasks()));
                assert!((1..=100_000).contains(&job.spec.element_count()));
                assert!(job.spec.min_gpus() <= 16_000);
                assert!(job.spec.groups.iter().all(|group| job.commands.contains_key(&group.name)));
            }
        }
        Err(complaints) => {
            assert!(complaints.count() > 0);
            let _ = complaints.render(Colour::Always);
        }
    }
});
