//! Any text as facts, as a file and as a line: both agree where both read it, and every complaint
//! can be drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_model::advice::{Fact, FactKind};
use muster_spec::{Colour, parse_facts, parse_facts_line};

fuzz_target!(|text: &str| {
    let line = parse_facts_line(text);
    match parse_facts(text, Some("facts.yaml")) {
        Ok(file) => {
            for fact in Fact::WORKLOAD {
                match fact.kind() {
                    FactKind::Flag => assert!(file.facts.get(*fact) <= 1),
                    FactKind::Count { min, max, .. } => assert!((min..=max).contains(&file.facts.get(*fact))),
                    FactKind::Hundredths { max } => assert!(file.facts.get(*fact) <= max),
                }
            }
            if let Ok(line) = line {
                assert_eq!(line, file);
            }
        }
        Err(complaints) => {
            assert!(complaints.count() > 0);
            let _ = complaints.render(Colour::Always);
        }
    }
});
