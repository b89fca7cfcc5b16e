//! Facts of one workload as files and as lines: what is read, and every mistake as people are told
//! it.

use insta::assert_snapshot;
use muster_model::advice::{Fact, FactKind, Facts, Threshold, Thresholds};
use muster_spec::{Colour, FactsFile, parse_fact_value, parse_facts, parse_facts_line};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::summary;

/// Rows of a text and its complaints, each `line:column message | label | hint`.
fn refused(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let error = parse_facts(text, Some("facts.yaml")).expect_err(text);
        assert_eq!(summary(&error), *expected, "{text}");
    }
}

#[test]
fn what_is_written_is_read() {
    let text = "\
# the nightly run
nodes: 8
tightly-coupled: true      # NCCL
bare_metal: false
multi_tenant: True
rules: {multi_node: 4, k3s-nodes: 12}
";
    let expected = FactsFile {
        facts: Facts::default()
            .with(Fact::Nodes, 8)
            .with(Fact::TightlyCoupled, 1)
            .with(Fact::MultiTenant, 1),
        thresholds: {
            let mut thresholds = Thresholds::default();
            thresholds.set(Threshold::MultiNode, 4);
            thresholds.set(Threshold::K3sNodes, 12);
            thresholds
        },
        given: vec![Fact::Nodes, Fact::TightlyCoupled, Fact::BareMetal, Fact::MultiTenant],
    };
    assert_eq!(parse_facts(text, None).unwrap(), expected);
    let line = r#"{"multi_tenant": true, "bare_metal": false, "nodes": 8, "tightly_coupled": true,
        "rules": {"k3s-nodes": 12, "multi-node": 4}}"#;
    assert_eq!(parse_facts_line(line).unwrap(), expected);
}

#[test]
fn nothing_given_is_every_default() {
    for text in ["{}", "rules: {}", "--- {}\n"] {
        assert_eq!(parse_facts(text, None).unwrap(), FactsFile::default(), "{text}");
    }
    assert_eq!(parse_facts_line(" {} \r\n").unwrap(), FactsFile::default());
    // An explicit default is given, and says nothing new.
    let file = parse_facts("nodes: 1", None).unwrap();
    assert_eq!((file.facts, file.given), (Facts::default(), vec![Fact::Nodes]));
}

#[test]
fn the_examples_are_read() {
    let read = |text: &str| parse_facts(text, None).unwrap();
    let files = [
        read(include_str!("../../../../examples/facts-pretraining.yaml")),
        read(include_str!("../../../../examples/facts-endpoint.yaml")),
        read(include_str!("../../../../examples/facts-grpo.yaml")),
        read(include_str!("../../../../examples/facts-edge.yaml")),
    ];
    let lines = include_str!("../../../../examples/facts.jsonl").lines();
    let lines: Vec<Facts> = lines.map(|line| parse_facts_line(line).unwrap().facts).collect();
    assert_eq!(lines, files.iter().map(|file| file.facts).collect::<Vec<_>>());
    assert_eq!(files[3].thresholds.get(Threshold::K3sNodes), 12);
}

#[test]
fn numbers_that_are_none() {
    refused(&[
        ("nodes: 0", "1:8 `nodes` is not a whole number from 1 to 10000000 | the smallest is 1"),
        ("nodes: -3", "1:8 `nodes` is not a whole number from 1 to 10000000 | below 1"),
        ("nodes: 1.5", "1:8 `nodes` is not a whole number from 1 to 10000000 | not a fraction"),
        ("nodes: 1e3", "1:8 `nodes` is not a whole number from 1 to 10000000 | in digits: `1000`"),
        (
            "nodes: 1.5e3",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | expected digits only, such as `4`",
        ),
        ("nodes: 2E+1", "1:8 `nodes` is not a whole number from 1 to 10000000 | in digits: `20`"),
        (
            "nodes: 1e99",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | expected digits only, such as `4`",
        ),
        (
            "nodes: 100000000000000000000",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | above 10000000",
        ),
        (
            "nodes: -100000000000000000000",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | below 1",
        ),
        (
            "nodes: 10^20",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | expected digits only, such as `4`",
        ),
        (
            "nodes: 10000001",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | above 10000000",
        ),
        (
            "nodes: \"4\"",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | this is text | write it without quotes: `4`",
        ),
        ("nodes: '0'", "1:8 `nodes` is not a whole number from 1 to 10000000 | this is text"),
        (
            "nodes: |\n  4",
            "2:3 `nodes` is not a whole number from 1 to 10000000 | this is text | write it without quotes: `4`",
        ),
        ("nodes: 0x10", "1:8 `nodes` is not a whole number from 1 to 10000000 | in decimal: `16`"),
        ("nodes: 0b101", "1:8 `nodes` is not a whole number from 1 to 10000000 | in decimal: `5`"),
        ("nodes: 0o17", "1:8 `nodes` is not a whole number from 1 to 10000000 | in decimal: `15`"),
        (
            "nodes: 010",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | without leading zeros: `10`",
        ),
        ("nodes: 00", "1:8 `nodes` is not a whole number from 1 to 10000000 | the smallest is 1"),
        (
            "nodes: 1_000",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | without separators: `1000`",
        ),
        (
            "nodes: 1,000",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | without separators: `1000`",
        ),
        (
            "nodes: .inf",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | expected digits only, such as `4`",
        ),
        (
            "nodes: -.inf",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | expected digits only, such as `4`",
        ),
        (
            "nodes: .nan",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | expected digits only, such as `4`",
        ),
        (
            "nodes: null",
            "1:8 `nodes` has no value | expected a whole number from 1 to 10000000 | to leave a field at its default, remove the line",
        ),
        (
            "nodes: ~",
            "1:8 `nodes` has no value | expected a whole number from 1 to 10000000 | to leave a field at its default, remove the line",
        ),
        (
            "nodes:",
            "1:6 `nodes` has no value | expected a whole number from 1 to 10000000 | to leave a field at its default, remove the line",
        ),
        (
            "nodes: four",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | expected digits only, such as `4`",
        ),
        (
            "nodes: true",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | expected digits only, such as `4`",
        ),
        (
            "nodes: 4 nodes",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | expected digits only, such as `4`",
        ),
        ("nodes: [4]", "1:8 `nodes` is not a whole number from 1 to 10000000 | this is a list"),
        (
            "nodes: {min: 4}",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | this is a mapping",
        ),
        ("nodes: -0", "1:8 `nodes` is not a whole number from 1 to 10000000 | the smallest is 1"),
        (
            "nodes: 0\nmulti_tenant: yes\ngpsu: 4",
            "1:8 `nodes` is not a whole number from 1 to 10000000 | the smallest is 1\n2:15 `multi_tenant` is not true or false | write `true`\n3:1 there is no fact `gpsu` | not a fact here | (list)",
        ),
    ]);
}

#[test]
fn flags_that_are_none() {
    refused(&[
        ("multi_tenant: yes", "1:15 `multi_tenant` is not true or false | write `true`"),
        ("multi_tenant: No", "1:15 `multi_tenant` is not true or false | write `false`"),
        ("multi_tenant: on", "1:15 `multi_tenant` is not true or false | write `true`"),
        ("multi_tenant: off", "1:15 `multi_tenant` is not true or false | write `false`"),
        ("multi_tenant: y", "1:15 `multi_tenant` is not true or false | write `true`"),
        (
            "multi_tenant: \"true\"",
            "1:15 `multi_tenant` is not true or false | this is text | write it without quotes: `true`",
        ),
        (
            "multi_tenant: 'false'",
            "1:15 `multi_tenant` is not true or false | this is text | write it without quotes: `false`",
        ),
        ("multi_tenant: \"yes\"", "1:15 `multi_tenant` is not true or false | this is text"),
        ("multi_tenant: 1", "1:15 `multi_tenant` is not true or false | write `true`"),
        ("multi_tenant: 0", "1:15 `multi_tenant` is not true or false | write `false`"),
        ("multi_tenant: tru", "1:15 `multi_tenant` is not true or false | write `true`"),
        ("multi_tenant: tRue", "1:15 `multi_tenant` is not true or false | write `true`"),
        (
            "multi_tenant: maybe",
            "1:15 `multi_tenant` is not true or false | write `true` or `false`",
        ),
        ("multi_tenant: 2", "1:15 `multi_tenant` is not true or false | write `true` or `false`"),
        ("multi_tenant: [true]", "1:15 `multi_tenant` is not true or false | this is a list"),
        (
            "multi_tenant:",
            "1:13 `multi_tenant` has no value | expected true or false | to leave a field at its default, remove the line",
        ),
    ]);
}

#[test]
fn names_rules_and_other_files() {
    refused(&[
        (
            "nodes: !!int 4",
            "1:14 YAML tags (`!…`) are not supported | remove the tag before this value | quote a value to keep it text; its meaning comes from its field",
        ),
        (
            "tightly_coupeld: true",
            "1:1 there is no fact `tightly_coupeld` | did you mean `tightly_coupled`? | (list)",
        ),
        ("gang: true", "1:1 there is no fact `gang` | did you mean `tightly_coupled`? | (list)"),
        (
            "services: true",
            "1:1 there is no fact `services` | did you mean `long_lived_services`? | (list)",
        ),
        (
            "k8s: true",
            "1:1 there is no fact `k8s` | a control plane is the answer, not a fact | (list)",
        ),
        (
            "gpus: 8",
            "1:1 there is no fact `gpus` | GPUs are counted for a site; `nodes` is what a single job spans | (list)",
        ),
        (
            "users: 3",
            "1:1 there is no fact `users` | people are counted for a site; `multi_tenant` says that several teams share it | (list)",
        ),
        (
            "ray: true",
            "1:1 there is no fact `ray` | a control plane is the answer, not a fact; did you mean `python_native_pipeline`? | (list)",
        ),
        ("colour: red", "1:1 there is no fact `colour` | not a fact here | (list)"),
        ("Nodes: 4", "1:1 there is no fact `Nodes` | did you mean `nodes`? | (list)"),
        (
            "primary: slurm",
            "1:1 there is no fact `primary` | this is part of an answer, not a fact | (list)",
        ),
        ("nodes: 1\nnodes: 2", "2:1 `nodes` is written twice | again here"),
        (
            "tightly_coupled: true\ntightly-coupled: true",
            "2:1 `tightly_coupled` is written twice | again here",
        ),
        ("? [nodes]\n: 4", "1:3 a field name must be a word | this is a list or a mapping"),
        (
            "<<: {nodes: 1}",
            "1:1 merge keys (`<<`) are not supported | write the fields out, or use an alias for a whole value",
        ),
        (
            "fleet: {nodes: 1}",
            "1:1 this looks like a site file, not like a facts file | `fleet` is a field of a site file | `muster advise --site` takes it",
        ),
        (
            "levels: [leaf]\nnodes: []",
            "1:1 this looks like a cluster file, not like a facts file | `levels` is a field of a cluster file | facts are nodes, tightly_coupled, bare_metal, long_lived_services, multi_tenant, python_native_pipeline, edge_or_dev",
        ),
        (
            "nodes: [{name: a}]",
            "1:1 this looks like a cluster file, not like a facts file | `nodes` is a field of a cluster file | facts are nodes, tightly_coupled, bare_metal, long_lived_services, multi_tenant, python_native_pipeline, edge_or_dev",
        ),
        (
            "queues: []",
            "1:1 this looks like a queue file, not like a facts file | `queues` is a field of a queue file | facts are nodes, tightly_coupled, bare_metal, long_lived_services, multi_tenant, python_native_pipeline, edge_or_dev",
        ),
        (
            "run: a\nnodes: 2\ngpus: 8",
            "1:1 this looks like a job file, not like a facts file | `run` is a field of a job file | `muster advise --job` takes it",
        ),
        (
            "name: x\ngroups: []",
            "2:1 this looks like a job file, not like a facts file | `groups` is a field of a job file | `muster advise --job` takes it",
        ),
        ("- nodes: 1", "1:1 the document is not a mapping (`field: value`) | this is a list"),
        ("4", "1:1 the document is not a mapping (`field: value`) | this is `4`"),
        ("", "0:0 facts.yaml holds no facts |  | the smallest is `nodes: 4`"),
        ("# nothing", "0:0 facts.yaml holds no facts |  | the smallest is `nodes: 4`"),
        ("nodes: 1\n---\nnodes: 2", "3:1 more than one document of facts | the second"),
        ("{", "1:1 this is not valid YAML | unclosed bracket '{'"),
        (
            "nodes: 1\n  bare_metal: true",
            "2:13 this is not valid YAML | mapping values are not allowed in this context",
        ),
        (
            "rules: {multi-node: 0}",
            "1:21 `rules.multi-node` is not a whole number from 1 to 10000000 | the smallest is 1",
        ),
        (
            "rules: {multi_node: 3, multi-node: 4}",
            "1:24 `rules.multi-node` is written twice | again here",
        ),
        (
            "rules: {multi-nodes: 3}",
            "1:9 there is no threshold `multi-nodes` | did you mean `multi-node`? | (list)",
        ),
        (
            "rules: {scheduler-gpus: 4}",
            "1:9 `rules.scheduler-gpus` changes nothing here | it is compared with `fleet.gpus` | a site file can set it, for `muster advise --site`",
        ),
        (
            "rules: {colour: 4}",
            "1:9 there is no threshold `colour` | not a threshold here | (list)",
        ),
        ("rules: 4", "1:8 `rules` is not a mapping (`field: value`) | this is `4`"),
        (
            "rules:",
            "1:6 `rules` has no value | expected a mapping (`field: value`) | to leave a field at its default, remove the line",
        ),
        (
            "rules: {multi-node: '3'}",
            "1:21 `rules.multi-node` is not a whole number from 1 to 10000000 | this is text | write it without quotes: `3`",
        ),
    ]);
}

#[test]
fn hundredths_are_exact() {
    let kind = FactKind::Hundredths { max: 1_000 };
    for (text, expected) in [
        ("0", 0),
        ("0.25", 25),
        ("0.5", 50),
        ("0.50", 50),
        ("0.250", 25),
        ("1", 100),
        ("9.99", 999),
        ("10", 1_000),
    ] {
        assert_eq!(parse_fact_value(text, kind), Ok(expected), "{text}");
    }
    for (text, label) in [
        ("10.01", "above 10"),
        ("0.125", "at most two decimals"),
        ("-0.25", "below 0"),
        ("0,25", "write `0.25`"),
        (".25", "write `0.25`"),
        ("25%", "not in percent; write `0.25`"),
        ("1e-1", "expected a number such as `0.25`"),
        ("99999999999999999999", "this number is far too large"),
        ("", "expected a number such as `0.25`"),
    ] {
        assert_eq!(parse_fact_value(text, kind).unwrap_err().label, label, "{text}");
    }
}

#[test]
fn lines_that_are_refused() {
    let rows: &[(&str, &str)] = &[
        ("", "0 the line is empty"),
        ("  ", "0 the line is empty"),
        ("nodes: 4", "2 this is not JSON: expected ident"),
        ("{\"nodes\": 4", "11 this is not JSON: EOF while parsing an object"),
        ("{\"nodes\": 4,}", "13 this is not JSON: key must be a string"),
        ("{'nodes': 4}", "2 this is not JSON: key must be a string"),
        ("{\"nodes\": NaN}", "11 this is not JSON: expected value"),
        ("{\"nodes\": 01}", "12 this is not JSON: invalid number"),
        ("{\"nodes\": +1}", "11 this is not JSON: expected value"),
        ("{\"nodes\": True}", "11 this is not JSON: expected value"),
        ("{\"nodes\": 4} {\"nodes\": 5}", "14 this is not JSON: trailing characters"),
        ("{\"nodes\": 4} # four", "14 this is not JSON: trailing characters"),
        ("[{\"nodes\": 4}]", "1 this is JSON, but no object"),
        ("4", "1 this is JSON, but no object"),
        ("null", "1 this is JSON, but no object"),
        ("\"nodes\"", "1 this is JSON, but no object"),
        ("{\"nodes\": 4, \"nodes\": 4}", "14 `nodes` is written twice"),
        ("{\"bare_metal\": true, \"bare-metal\": true}", "22 `bare_metal` is written twice"),
        ("{\"nodes\": \"4\"}", "11 `nodes` is not a whole number from 1 to 10000000: this is text"),
        ("{\"nodes\": 4.0}", "11 `nodes` is not a whole number from 1 to 10000000: not a fraction"),
        (
            "{\"nodes\": 1e3}",
            "11 `nodes` is not a whole number from 1 to 10000000: in digits: `1000`",
        ),
        (
            "{\"nodes\": null}",
            "11 `nodes` has no value: expected a whole number from 1 to 10000000",
        ),
        ("{\"nodes\": [4]}", "11 `nodes` is not a whole number from 1 to 10000000: this is a list"),
        (
            "{\"nodes\": 100000000000000000000}",
            "11 `nodes` is not a whole number from 1 to 10000000: above 10000000",
        ),
        ("{\"nodes\": -3}", "11 `nodes` is not a whole number from 1 to 10000000: below 1"),
        ("{\"é\": 1}", "2 there is no fact `é`: not a fact here"),
        (
            "  {\"edge_or_dev\": 1, \"nodes\": 0}",
            "19 `edge_or_dev` is not true or false: write `true`",
        ),
        (
            "{\"rules\": {\"multi-node\": 0}}",
            "26 `rules.multi-node` is not a whole number from 1 to 10000000: the smallest is 1",
        ),
        (
            "{\"fleet\": {\"nodes\": 4}}",
            "2 this looks like a site file, not like a facts file: `fleet` is a field of a site file",
        ),
        (
            "{\"tightly_coupeld\": true}",
            "2 there is no fact `tightly_coupeld`: did you mean `tightly_coupled`?",
        ),
        ("{\"nodes\": 4, // four\n}", "14 this is not JSON: key must be a string"),
        ("\u{feff}{\"nodes\": 4}", "1 this is not JSON: expected value"),
        ("{\"nodes\": 4}\0", "13 this is not JSON: trailing characters"),
    ];
    for (line, expected) in rows {
        let error = parse_facts_line(line).expect_err(line);
        assert_eq!(format!("{} {}", error.column, error.message), *expected, "{line}");
    }
}

#[test]
fn a_line_has_a_length() {
    let line = |length: usize| format!("{{\"nodes\": 2{}}}", " ".repeat(length - 12));
    assert!(parse_facts_line(&line(64 << 10)).is_ok());
    assert_eq!(
        parse_facts_line(&line((64 << 10) + 1)).unwrap_err().message,
        "the line is too long: at most 64KiB"
    );
    let deep = format!("{{\"nodes\": {}{}}}", "[".repeat(30_000), "]".repeat(30_000));
    let error = parse_facts_line(&deep).unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.column),
        ("the text nests too deep: more than 64 levels", 74)
    );
}

#[test]
fn a_line_offers_the_next_step() {
    let hint = |line: &str| parse_facts_line(line).unwrap_err().hint.unwrap_or_default();
    assert_eq!(
        hint("nodes: 4"),
        r#"a line is one JSON object, such as `{"nodes": 4, "tightly_coupled": true}`"#
    );
    assert_eq!(hint(r#"{"nodes": "4"}"#), "write it without quotes: `4`");
    assert!(hint(r#"{"gpsu": 4}"#).starts_with("the facts are nodes, tightly_coupled, "));
}

#[test]
fn mistakes_as_they_are_shown() {
    let shown =
        |text: &str| parse_facts(text, Some("facts.yaml")).unwrap_err().render(Colour::Never);
    assert_snapshot!(shown("nodes: 4\ntightly_coupeld: yes\n"), @r"
    error: there is no fact `tightly_coupeld`
     --> facts.yaml:2:1
      |
    2 | tightly_coupeld: yes
      | ^^^^^^^^^^^^^^^ did you mean `tightly_coupled`?
      |
    hint: the facts are nodes, tightly_coupled, bare_metal, long_lived_services, multi_tenant, python_native_pipeline, edge_or_dev
    ");
    assert_snapshot!(shown("tightly_coupled: true\nnodes: 4\ntightly-coupled: false\n"), @r"
    error: `tightly_coupled` is written twice
     --> facts.yaml:3:1
      |
    1 | tightly_coupled: true
      | --------------- first here
    2 | nodes: 4
    3 | tightly-coupled: false
      | ^^^^^^^^^^^^^^^ again here
    ");
    assert_snapshot!(shown("gpus: 8\nnodes: 100000000000000000000\n"), @r"
    error: there is no fact `gpus`
     --> facts.yaml:1:1
      |
    1 | gpus: 8
      | ^^^^ GPUs are counted for a site; `nodes` is what a single job spans
      |
    hint: the facts are nodes, tightly_coupled, bare_metal, long_lived_services, multi_tenant, python_native_pipeline, edge_or_dev

    error: `nodes` is not a whole number from 1 to 10000000
     --> facts.yaml:2:8
      |
    2 | nodes: 100000000000000000000
      |        ^^^^^^^^^^^^^^^^^^^^^ above 10000000
    ");
    assert_snapshot!(shown("fleet: {nodes: 4, gpus: 32}\npeople: {users: 6}\n"), @r"
    error: this looks like a site file, not like a facts file
     --> facts.yaml:1:1
      |
    1 | fleet: {nodes: 4, gpus: 32}
      | ^^^^^ `fleet` is a field of a site file
      |
    hint: `muster advise --site` takes it
    ");
    assert_snapshot!(shown("nodes: 4\nrules: {multi-node: 1.5, scheduler-gpus: 24}\n"), @r"
    error: `rules.multi-node` is not a whole number from 1 to 10000000
     --> facts.yaml:2:21
      |
    2 | rules: {multi-node: 1.5, scheduler-gpus: 24}
      |                     ^^^ not a fraction

    error: `rules.scheduler-gpus` changes nothing here
     --> facts.yaml:2:26
      |
    2 | rules: {multi-node: 1.5, scheduler-gpus: 24}
      |                          ^^^^^^^^^^^^^^ it is compared with `fleet.gpus`
      |
    hint: a site file can set it, for `muster advise --site`
    ");
}

/// Any value of a fact, as it is stored.
fn stored(fact: Fact) -> BoxedStrategy<u32> {
    match fact.kind() {
        FactKind::Flag => (0..=1u32).boxed(),
        FactKind::Count { min, max, .. } => prop_oneof![min..=20, min..=max].boxed(),
        FactKind::Hundredths { max } => (0..=max).boxed(),
    }
}

/// Any subset of the facts of a workload and of the thresholds that matter to it, in any order.
fn any_facts() -> impl Strategy<Value = Vec<(Fact, u32)>> {
    let values: Vec<_> =
        Fact::WORKLOAD.iter().map(|fact| stored(*fact).prop_map(|value| (*fact, value))).collect();
    (values, any::<[bool; 7]>())
        .prop_map(|(values, kept)| {
            values.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(pair, _)| pair).collect()
        })
        .prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_facts_read_back_from_yaml_and_json(given in any_facts(), hyphens in any::<bool>(), multi in stored(Fact::Nodes)) {
        let mut expected = FactsFile::default();
        let mut object = Map::new();
        let mut yaml = String::new();
        for (fact, value) in &given {
            expected.facts.set(*fact, *value);
            expected.given.push(*fact);
            let name = if hyphens { fact.name().replace('_', "-") } else { fact.name().to_owned() };
            yaml += &format!("{name}: {}\n", fact.value(*value));
            object.insert(name, json!(fact.value(*value)));
        }
        expected.given.sort();
        expected.thresholds.set(Threshold::MultiNode, multi);
        yaml += &format!("rules: {{multi-node: {multi}}}\n");
        object.insert("rules".to_owned(), json!({ "multi-node": multi }));
        let line = Value::Object(object).to_string();
        prop_assert_eq!(&parse_facts(&yaml, None).unwrap(), &expected);
        prop_assert_eq!(&parse_facts_line(&line).unwrap(), &expected);
        // JSON is YAML, and what is printed of facts is what is read.
        prop_assert_eq!(&parse_facts(&line, None).unwrap(), &expected);
        let printed = serde_json::to_string(&expected.facts).unwrap();
        prop_assert_eq!(parse_facts_line(&printed).unwrap().facts, expected.facts);
    }

    #[test]
    fn no_line_makes_a_reader_panic(line in "\\PC{0,60}", value in "[-+0-9.eE_x\"'a-z\\[\\]{}]{0,12}") {
        let _ = parse_facts_line(&line);
        for line in [format!("{{\"nodes\": {value}}}"), format!("{{\"bare_metal\": {value}}}"), format!("{{{value}")] {
            // What JSON refuses is never read; what is read is within bounds.
            match parse_facts_line(&line) {
                Ok(file) => {
                    prop_assert!(serde_json::from_str::<Value>(&line).is_ok_and(|value| value.is_object()));
                    prop_assert!((1..=10_000_000).contains(&file.facts.get(Fact::Nodes)));
                }
                Err(error) => prop_assert!(!error.message.is_empty() && error.column as usize <= line.chars().count() + 1),
            }
        }
    }

    #[test]
    fn a_fact_is_read_as_json_reads_it_or_not_at_all(value in "-?[0-9]{1,9}(\\.[0-9]{1,3})?([eE][-+]?[0-9])?|true|false|null") {
        let line = format!("{{\"nodes\": {value}}}");
        if let Ok(file) = parse_facts_line(&line) {
            let read: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(read["nodes"].as_u64(), Some(u64::from(file.facts.get(Fact::Nodes))));
        }
    }
}
