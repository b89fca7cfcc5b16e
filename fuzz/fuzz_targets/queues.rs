//! Any text as a queue file: it is read, or every complaint about it can be drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_spec::{Colour, parse_queues};

fuzz_target!(|text: &str| {
    match parse_queues(text, None) {
        Ok(tree) => assert!(!tree.queues.is_empty() && !tree.default_queue.as_str().is_empty()),
        Err(complaints) => drop(complaints.render(Colour::Always)),
    }
});
