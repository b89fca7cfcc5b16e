//! The documentation of the language names every verb.

use std::fs;

use muster_testkit::scenario::VERBS;

#[test]
fn every_command_is_documented_in_the_readme() {
    let page = fs::read_to_string(super::root().join("README.md")).unwrap();
    for (verb, _) in VERBS {
        assert!(
            page.contains(&format!("`{verb}")),
            "scenarios/README.md does not say what `{verb}` does"
        );
    }
}
