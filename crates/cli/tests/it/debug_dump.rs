//! `muster debug-dump`: complete enough to look into, and without names.

use std::io::Read;

use muster_model::view::JobState;

use crate::home::Home;

fn unpacked(home: &Home, file: &str) -> String {
    let packed = std::fs::File::open(home.path(file)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_report_has_the_state_and_no_names() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    let held = home
        .sh("--gpus 2 --name secretname --env TOKEN=secretvalue", &format!(": secretword; {gate}"));
    home.until_state(held, JobState::Running);
    home.words("run --gpus 1 --time 1h --name secretname --notify secretuser@example.org -- true")
        .ok();
    let told = home.words("debug-dump report.json.gz").ok();
    assert!(told.stderr.contains("look at it before you attach it"), "{}", told.stderr);
    let text = unpacked(&home, "report.json.gz");
    let dump: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(dump["daemon"]["counters"]["starts"], 1);
    assert!(dump["system"]["kernel"].is_string(), "{}", dump["system"]);
    assert_eq!(dump["errors"], serde_json::json!([]));
    let place = text.find("secret").map(|at| &text[at.saturating_sub(200)..at + 6]);
    assert_eq!(place, None);
    // The state in it can be looked into.
    home.write("snapshot.json", &dump["snapshot"].to_string());
    home.words("whatif --snapshot snapshot.json --add-nodes 1 --json").ok();
    home.words("debug-dump report.json.gz").code(1);
    home.open("go");
}

#[test]
fn a_report_is_written_without_a_daemon() {
    let home = Home::new();
    home.words("debug-dump").ok();
    let dump: serde_json::Value =
        serde_json::from_str(&unpacked(&home, "muster-debug.json.gz")).unwrap();
    assert_eq!(dump["daemon"], serde_json::Value::Null);
    assert_eq!(dump["errors"].as_array().unwrap().len(), 1);
}
