//! Any text as a site file: it is read and holds no contradiction, or every complaint about it can
//! be drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_model::advice::Fact;
use muster_spec::{Colour, parse_site};

fuzz_target!(|text: &str| {
    match parse_site(text, Some("site.yaml")) {
        Ok(site) => {
            assert_eq!(site.facts.contradiction(), None);
            assert!(site.facts.get(Fact::FleetNodes) >= 1 && site.facts.get(Fact::Users) >= 1);
            assert!(site.mix.iter().filter_map(|entry| entry.share_percent).sum::<u32>() <= 100);
        }
        Err(complaints) => {
            assert!(complaints.count() > 0);
            let _ = complaints.render(Colour::Always);
        }
    }
});
