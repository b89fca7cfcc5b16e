//! Published schemas, and validation of answers against them.

use std::path::Path;

use serde_json::{Value, json};

use super::{GRPO, HYBRID, SITE, SMALL_SITE};
use crate::home::Home;

fn published(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_program_prints_what_is_published() {
    let home = Home::new();
    for name in [
        "check-report",
        "facts",
        "site",
        "advice",
        "site-advice",
        "comparison",
        "gang-proof",
        "gang-orders",
        "gang-sweep",
        "trace-recipe",
    ] {
        let printed: Value = home.words(&format!("schema {name}")).json();
        assert_eq!(printed, published(&format!("{name}.schema.json")), "{name}: cargo xtask gen");
    }
}

#[test]
fn answers_keep_to_the_schema() {
    let home = Home::new();
    home.write("site.yaml", SITE);
    home.write("small.yaml", SMALL_SITE);
    let advice = jsonschema::validator_for(&published("advice.schema.json")).unwrap();
    let site = jsonschema::validator_for(&published("site-advice.schema.json")).unwrap();
    let check = |validator: &jsonschema::Validator, options: &str| {
        let answer: Value = home.words(&format!("advise {options} --json")).json();
        let wrong: Vec<String> =
            validator.iter_errors(&answer).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{options}");
    };
    for options in
        [GRPO, HYBRID, "--nodes 1", "--edge-or-dev", "--nodes 20 --edge-or-dev --rule k3s-nodes=4"]
    {
        check(&advice, options);
    }
    check(&site, "--site site.yaml");
    check(&site, "--site small.yaml");
    check(&site, "--site small.yaml --prove --gpu-hour-price 2.5");

    // The schemas must reject wrong documents, too.
    let good: Value = home.words(&format!("advise {GRPO} --json")).json();
    let breaks: [(&str, Value); 4] = [
        ("primary", json!("nomad")),
        ("rules", json!([{"id": "a"}])),
        ("hybrid", json!(4)),
        ("flips", json!([{"change": {"nodes": "4"}, "primary": "ray"}])),
    ];
    for (key, value) in breaks {
        let mut bad = good.clone();
        bad[key] = value;
        assert!(!advice.is_valid(&bad), "{key}");
    }
    let mut bad = good;
    bad.as_object_mut().unwrap().remove("primary");
    assert!(!advice.is_valid(&bad));
}

#[test]
fn what_else_needs_no_daemon_keeps_to_its_schema() {
    let home = Home::new();
    for (name, words) in [
        ("comparison", "compare slurm kubernetes"),
        ("comparison", "compare none ray --nodes 4 --tightly-coupled"),
        ("gang-proof", "prove gang --order abaab"),
        ("gang-proof", "prove gang --need 9,2"),
        ("gang-orders", "prove gang --all-orders --need 3,2,2"),
        ("gang-sweep", "prove gang --sweep --pools 1..4 --sizes 1..3"),
    ] {
        let schema = jsonschema::validator_for(&published(&format!("{name}.schema.json"))).unwrap();
        let answer: Value = home.words(&format!("{words} --json")).json();
        let wrong: Vec<String> =
            schema.iter_errors(&answer).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{words}");
        for key in answer
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| !["facts", "verdict"].contains(&key.as_str()))
        {
            let mut less = answer.clone();
            less.as_object_mut().unwrap().remove(key);
            assert!(!schema.is_valid(&less), "{words} without {key}");
        }
    }
}

#[test]
fn lines_of_a_batch_keep_to_the_schema_of_facts() {
    let facts = jsonschema::validator_for(&published("facts.schema.json")).unwrap();
    let home = Home::new();
    for (line, good) in [
        (json!({"nodes": 4, "tightly_coupled": true}), true),
        (json!({}), true),
        (json!({"nodes": 0}), false),
        (json!({"nodes": "4"}), false),
        (json!({"gpus": 4}), false),
        (json!({"rules": {"multi-node": 3}}), true),
    ] {
        let run =
            home.with_stdin(&["advise", "--batch", "--fields", "primary"], &format!("{line}\n"));
        assert_eq!((facts.is_valid(&line), run.code == 0), (good, good), "{line}");
    }
}
