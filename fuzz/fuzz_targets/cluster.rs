//! Any text as a cluster file: it is read, or every complaint about it can be drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_spec::{Colour, parse_cluster};

fuzz_target!(|text: &str| {
    match parse_cluster(text, None) {
        Ok(cluster) => assert!(cluster.nodes.iter().all(|node| node.devices.len() <= 128)),
        Err(complaints) => drop(complaints.render(Colour::Always)),
    }
});
