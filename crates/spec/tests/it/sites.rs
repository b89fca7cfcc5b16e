//! Site files: what is read, what is implied, and every mistake as people are told it.

use insta::assert_snapshot;
use muster_model::advice::{Fact, FactKind, Facts, Threshold};
use muster_spec::{Colour, parse_facts, parse_site};
use proptest::prelude::*;

use crate::support::summary;

/// A small site around what a row is about. `F` goes on with its fleet, `P` with its people; `N`
/// gives needs, `M` entries of the mix, `C` clusters, `S` needs and, behind a bar, a mix. Everything else is a
/// whole file.
fn site(row: &str) -> String {
    let base = "fleet: {nodes: 4, gpus: 32}\npeople: {users: 6}\n";
    match row.split_at(2.min(row.len())) {
        ("F,", rest) => format!("fleet: {{nodes: 4, gpus: 32,{rest}}}\npeople: {{users: 6}}\n"),
        ("P,", rest) => format!("fleet: {{nodes: 4, gpus: 32}}\npeople: {{users: 6,{rest}}}\n"),
        ("N ", rest) => format!("{base}needs: {{{rest}}}\n"),
        ("M ", rest) => format!("{base}mix: [{rest}]\n"),
        ("C ", rest) => format!("{base}clusters: {{{rest}}}\n"),
        ("S ", rest) => {
            let (needs, mix) = rest.split_once(" | ").unwrap();
            format!("{base}needs: {{{needs}}}\nmix: [{mix}]\n")
        }
        _ => row.to_owned(),
    }
}

/// Rows of a site and its complaints, each `line:column message | label | hint`.
fn refused(rows: &[(&str, &str)]) {
    for (row, expected) in rows {
        let error = parse_site(&site(row), Some("site.yaml")).expect_err(row);
        assert_eq!(summary(&error), *expected, "{row}");
    }
}

/// Facts of a site beyond its fleet of 4 nodes with 32 GPUs and its 6 users.
fn facts(row: &str) -> Vec<String> {
    let base =
        Facts::default().with(Fact::FleetNodes, 4).with(Fact::FleetGpus, 32).with(Fact::Users, 6);
    let read = parse_site(&site(row), None).unwrap_or_else(|error| panic!("{row}: {error}")).facts;
    let differs = |fact: &&Fact| read.get(**fact) != base.get(**fact);
    Fact::ALL.iter().filter(differs).map(|fact| format!("{fact}={}", read.value(*fact))).collect()
}

#[test]
fn what_is_written_is_read() {
    let text = "\
fleet: {nodes: 4, gpus: 32, models: [RTXPro6000, h100], fabric: roce, hosting: bare-metal, single-tenant: true}
people: {users: 6, teams: 2, talk: true, platform-fte: 0.25, operates: [slurm, k3s], works: true}
needs: {batch: true, strict_quotas: true, gitops: false}
mix:
  - {name: pretrain, share: 60, facts: {nodes: 4, tightly_coupled: true, bare_metal: true}}
  - {name: notebooks, facts: {}}
rules: {scheduler-gpus: 24, platform-fte: 0.5}
";
    let profile = parse_site(text, Some("site.yaml")).unwrap();
    let models: Vec<&str> = profile.models.iter().map(|model| model.as_str()).collect();
    assert_eq!(models, ["rtxpro6000", "h100"]);
    assert_eq!(profile.mix.len(), 2);
    assert_eq!((&*profile.mix[0].name, profile.mix[0].share_percent), ("pretrain", Some(60)));
    assert_eq!(profile.mix[0].facts.get(Fact::Nodes), 4);
    assert!(
        profile.mix[0].facts.is(Fact::TightlyCoupled) && profile.mix[0].facts.is(Fact::BareMetal)
    );
    assert_eq!((&*profile.mix[1].name, profile.mix[1].share_percent), ("notebooks", None));
    assert_eq!(profile.mix[1].facts, Facts::default());
    assert_eq!(profile.thresholds.get(Threshold::SchedulerGpus), 24);
    assert_eq!(profile.thresholds.get(Threshold::PlatformFte), 50);
    assert_eq!(profile.thresholds.overridden().count(), 2);
    assert_snapshot!(format!("{:?}", profile.facts), @r#"{"fleet.nodes": "4", "fleet.gpus": "32", "fleet.rdma": "true", "fleet.bare-metal": "true", "fleet.single-tenant": "true", "people.users": "6", "people.teams": "2", "people.talk": "true", "people.platform-fte": "0.25", "people.operates-slurm": "true", "people.operates-k3s": "true", "people.works": "true", "needs.training": "true", "needs.coupled-training": "true", "needs.mainly-coupled": "true", "needs.batch": "true", "needs.strict-quotas": "true"}"#);
}

#[test]
fn models_may_have_their_numbers_of_nodes() {
    let text =
        "fleet: {nodes: 4, gpus: 32, models: {RTXPro6000: 3, h100: 1}}\npeople: {users: 6}\n";
    let profile = parse_site(text, None).unwrap();
    let models: Vec<&str> = profile.models.iter().map(|model| model.as_str()).collect();
    assert_eq!(models, ["rtxpro6000", "h100"], "in the order of the file");
    let nodes: Vec<u32> =
        profile.models.iter().map(|model| profile.nodes_by_model[model]).collect();
    assert_eq!(nodes, [3, 1]);
}

#[test]
fn the_examples_and_the_page_are_read() {
    for (text, gpus, work) in [
        (include_str!("../../../../examples/site-two-people.yaml"), 8, 2),
        (include_str!("../../../../examples/site-research-lab.yaml"), 128, 4),
        (include_str!("../../../../examples/site-inference.yaml"), 40, 3),
        (include_str!("../../../../examples/site-mixed-platform.yaml"), 96, 4),
        (include_str!("../../../../examples/site-federated.yaml"), 400, 3),
        (include_str!("../../../../examples/site-edge.yaml"), 5, 1),
    ] {
        let profile = parse_site(text, None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((profile.facts.get(Fact::FleetGpus), profile.mix.len()), (gpus, work));
    }
    let page = include_str!("../../../../docs/site.md");
    let blocks: Vec<&str> =
        page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 2);
    assert!(parse_facts(blocks[0], None).is_ok() && parse_site(blocks[1], None).is_ok());
}

#[test]
fn words_stand_for_facts() {
    for (row, expected) in [
        ("F, fabric: ethernet, hosting: cloud", vec![]),
        ("F, fabric: roce", vec!["fleet.rdma=true"]),
        ("F, fabric: infiniband", vec!["fleet.rdma=true"]),
        ("F, hosting: bare-metal", vec!["fleet.bare-metal=true"]),
        ("P, operates: slurm", vec!["people.operates-slurm=true"]),
        (
            "P, operates: [ray, kubernetes]",
            vec!["people.operates-kubernetes=true", "people.operates-ray=true"],
        ),
        (
            "P, operates: [kuberay, kueue]",
            vec![
                "people.operates-kubernetes=true",
                "people.operates-ray=true",
                "people.operates-kuberay=true",
                "people.operates-kueue=true",
            ],
        ),
        ("P, operates: lsf, works: true", vec!["people.operates-lsf=true", "people.works=true"]),
        ("P, operates: []", vec![]),
        // Clusters are in operation.
        (
            "C gangs: slurm@login, services: kubernetes@prod",
            vec!["people.operates-slurm=true", "people.operates-kubernetes=true"],
        ),
        ("C batch: local", vec![]),
        ("P, platform-fte: 1000", vec!["people.platform-fte=1000.00"]),
    ] {
        assert_eq!(facts(row), expected, "{row}");
    }
}

#[test]
fn what_is_implied_need_not_be_written() {
    const TRAINS: [&str; 2] = ["needs.training=true", "needs.coupled-training=true"];
    let coupled = "{name: a, facts: {nodes: 4, tightly_coupled: true}}";
    for (row, expected) in [
        ("N coupled-training: true", TRAINS.to_vec()),
        ("N mainly-coupled: true", [&TRAINS[..], &["needs.mainly-coupled=true"]].concat()),
        ("N autoscaling: true", vec!["needs.services=true", "needs.autoscaling=true"]),
        ("N isolated-slices: true", vec!["needs.isolated-slices=true", "needs.shared-gpus=true"]),
        ("M {name: a, facts: {long_lived_services: true}}", vec!["needs.services=true"]),
        (
            "M {name: a, facts: {python_native_pipeline: true}}",
            vec!["needs.distributed-python=true"],
        ),
        ("S rl: true | {name: a, facts: {python_native_pipeline: true}}", vec!["needs.rl=true"]),
        (
            "S distributed-python: false | {name: a, facts: {python_native_pipeline: true}}",
            vec!["needs.rl=true"],
        ),
        // Coupling on one node asks nothing of a site.
        ("M {name: a, facts: {tightly_coupled: true}}", vec![]),
        (&format!("M {coupled}"), TRAINS.to_vec()),
        (&format!("S mpi: true | {coupled}"), vec!["needs.mpi=true"]),
        (&format!("S coupled-training: false | {coupled}"), vec!["needs.mpi=true"]),
        (
            "M {name: a, share: 51, facts: {nodes: 4, tightly_coupled: true}}",
            [&TRAINS[..], &["needs.mainly-coupled=true"]].concat(),
        ),
        ("M {name: a, share: 50, facts: {nodes: 4, tightly_coupled: true}}", TRAINS.to_vec()),
    ] {
        assert_eq!(facts(row), expected, "{row}");
    }
}

#[test]
fn what_is_unwise_is_not_refused() {
    for row in [
        "F, shared-nodes: true",
        "F, elastic: true, edge: true",
        "P, teams: 6",
        "P, operates: [slurm, kubernetes, k3s, ray], works: true, modernise: true",
        "P, talk: true, coordination-failing: true",
        "M {name: a, share: 100, facts: {nodes: 4}}",
        "M {name: a, facts: {multi_tenant: true}}",
        "fleet: {nodes: 2, gpus: 400, elastic: true}\npeople: {users: 1}\nmix: [{name: a, facts: {nodes: 50}}]",
        "fleet: {nodes: 1, gpus: 8}\npeople: {users: 3, teams: 1}\nneeds: {hostile-tenants: true}\nmix: [{name: a, facts: {multi_tenant: true}}]",
    ] {
        assert!(parse_site(&site(row), None).is_ok(), "{row}");
    }
}

#[test]
fn clusters_by_kind_of_job() {
    let text = site("C batch: slurm@login, services: kubernetes@prod, notebooks: local");
    let clusters = parse_site(&text, None).unwrap().clusters;
    let lines: Vec<String> =
        clusters.iter().map(|(kind, cluster)| format!("{kind}: {cluster}")).collect();
    assert_eq!(lines, ["batch: slurm@login", "services: kubernetes@prod", "notebooks: local"]);
    let planes = "expected local, slurm, slurm@HOST, kubernetes, kubernetes@CONTEXT";
    let kinds = "(list)";
    for (row, expected) in [
        (
            "C batch: k8s",
            format!(
                "3:19 `clusters.batch` cannot be `k8s` | {planes} | did you mean `kubernetes`?"
            ),
        ),
        (
            "C batch: slrum",
            format!("3:19 `clusters.batch` cannot be `slrum` | {planes} | did you mean `slurm`?"),
        ),
        (
            "C batch: slurm@-oProxyCommand=x",
            format!("3:19 `clusters.batch` cannot be `slurm@-oProxyCommand=x` | {planes}"),
        ),
        ("C batch: auto", format!("3:19 `clusters.batch` cannot be `auto` | {planes}")),
        (
            "C gang: slurm",
            format!("3:12 there is no field `gang` | did you mean `gangs`? | {kinds}"),
        ),
        (
            "C training: slurm",
            format!("3:12 there is no field `training` | did you mean `gangs`? | {kinds}"),
        ),
        (
            "C jobs: slurm",
            format!("3:12 there is no field `jobs` | did you mean `batch`? | {kinds}"),
        ),
    ] {
        refused(&[(row, &expected)]);
    }
    let error = parse_site(&site("C batch: [slurm, kubernetes]"), None).unwrap_err().to_string();
    assert!(error.contains("`clusters.batch` is not one of local"), "{error}");
    let text = "fleet: {nodes: 4, gpus: 32}\npeople: {users: 6, operates: [slurm]}\nclusters: {services: kubernetes}\n";
    refused(&[(
        text,
        "3:22 `clusters.services` contradicts `people.operates` | jobs are sent to kubernetes | add kubernetes to `operates`, or send them elsewhere",
    )]);
    // k3s is Kubernetes.
    assert!(parse_site(&text.replace("[slurm]", "k3s"), None).is_ok());
}

#[test]
fn fleets_that_are_refused() {
    refused(&[
        ("F, gpus: 0", "1:29 `gpus` is written twice | again here"),
        ("F, nodes: 1", "1:29 `nodes` is written twice | again here"),
        (
            "F, fabric: ib",
            "1:37 `fleet.fabric` cannot be `ib` | expected `ethernet`, `roce`, `infiniband` | did you mean `infiniband`?",
        ),
        (
            "F, fabric: nvlink",
            "1:37 `fleet.fabric` cannot be `nvlink` | expected `ethernet`, `roce`, `infiniband`",
        ),
        (
            "F, fabric: Infiniband",
            "1:37 `fleet.fabric` cannot be `Infiniband` | expected `ethernet`, `roce`, `infiniband` | did you mean `infiniband`?",
        ),
        (
            "F, fabric: [roce, ethernet]",
            "1:37 `fleet.fabric` is not one of ethernet, roce, infiniband | this is a list",
        ),
        (
            "F, fabric:",
            "1:35 `fleet.fabric` has no value | expected one of ethernet, roce, infiniband | to leave a field at its default, remove the line",
        ),
        (
            "F, hosting: vm",
            "1:38 `fleet.hosting` cannot be `vm` | expected `bare-metal` or `cloud` | did you mean `cloud`?",
        ),
        (
            "F, hosting: on-prem",
            "1:38 `fleet.hosting` cannot be `on-prem` | expected `bare-metal` or `cloud` | did you mean `bare-metal`?",
        ),
        (
            "F, hosting: bare_metal",
            "1:38 `fleet.hosting` cannot be `bare_metal` | expected `bare-metal` or `cloud` | did you mean `bare-metal`?",
        ),
        (
            "F, hosting: moon",
            "1:38 `fleet.hosting` cannot be `moon` | expected `bare-metal` or `cloud`",
        ),
        ("F, rdma: true", "1:29 there is no field `rdma` | did you mean `fabric`? | (list)"),
        (
            "F, bare-metal: true",
            "1:29 there is no field `bare-metal` | did you mean `hosting`? | (list)",
        ),
        ("F, mig: true", "1:29 there is no field `mig` | did you mean `models`? | (list)"),
        ("F, model: h100", "1:29 there is no field `model` | did you mean `models`? | (list)"),
        ("F, models: []", "1:37 `fleet.models` is empty | expected at least one entry"),
        ("F, models: [h100, H100]", "1:44 two models are named `h100` | again here"),
        ("F, models: {h100: 1, H100: 3}", "1:47 two models are named `h100` | again here"),
        (
            "F, models: {h100: 0}",
            "1:44 `fleet.models.h100` is not a whole number from 1 to 10000000 | the smallest is 1",
        ),
        (
            "F, models: {h100: 2, l40s: 7}",
            "1:37 `fleet.models` counts 9 nodes, and `fleet.nodes` is 4 | each node counts for one model",
        ),
        (
            "F, models: [h 100]",
            "1:38 `fleet.models` is not a GPU model | expected a word such as `h100`",
        ),
        ("F, users: 4", "1:29 there is no field `users` | `users` belongs under `people` | (list)"),
        ("F, elastic: yes", "1:38 `fleet.elastic` is not true or false | write `true`"),
        (
            "F, single_tenant: true, single-tenant: true",
            "1:50 `fleet.single-tenant` is written twice | again here",
        ),
        ("F, colour: red", "1:29 there is no field `colour` | not a field here | (list)"),
    ]);
}

#[test]
fn people_that_are_refused() {
    refused(&[
        ("P, users: 0", "2:20 `users` is written twice | again here"),
        (
            "P, platform-fte: 0.255",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | at most two decimals",
        ),
        (
            "P, platform-fte: 25%",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | not in percent; write `0.25`",
        ),
        (
            "P, platform-fte: 12.5%",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | not in percent; write a fraction such as `0.25`",
        ),
        (
            "P, platform-fte: .5",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | write `0.5`",
        ),
        ("P, platform-fte: 0,25", "2:36 there is no field `25` | not a field here | (list)"),
        (
            "P, platform-fte: -1",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | below 0",
        ),
        (
            "P, platform-fte: 1001",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | above 1000",
        ),
        (
            "P, platform-fte: \"0.25\"",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | this is text | write it without quotes: `0.25`",
        ),
        (
            "P, platform-fte: 1e-1",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | expected a number such as `0.25`",
        ),
        (
            "P, platform-fte: half",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | expected a number such as `0.25`",
        ),
        (
            "P, platform-fte: .inf",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | expected a number such as `0.25`",
        ),
        (
            "P, platform-fte: 1.",
            "2:34 `people.platform-fte` is not a number from 0 to 1000 with at most two decimals | expected a number such as `0.25`",
        ),
        (
            "P, platform-fte:",
            "2:32 `people.platform-fte` has no value | expected a number from 0 to 1000 with at most two decimals | to leave a field at its default, remove the line",
        ),
        ("P, fte: 1", "2:20 there is no field `fte` | did you mean `platform-fte`? | (list)"),
        (
            "P, operates: k8s",
            "2:30 `people.operates` cannot be `k8s` | expected `slurm`, `kubernetes`, `k3s`, `ray`, `slinky`, `soperator`, `sunk`, `kuberay`, `volcano`, `kueue`, `kai`, `runai`, `pbs`, `lsf` | did you mean `kubernetes`?",
        ),
        (
            "P, operates: none",
            "2:30 `people.operates` cannot be `none` | expected `slurm`, `kubernetes`, `k3s`, `ray`, `slinky`, `soperator`, `sunk`, `kuberay`, `volcano`, `kueue`, `kai`, `runai`, `pbs`, `lsf` | write `operates: []`",
        ),
        ("P, operates: [slurm, slurm]", "2:38 `slurm` is listed twice | again here"),
        (
            "P, operates: [slurm, eks, nomad]",
            "2:38 `people.operates` cannot be `eks` | expected `slurm`, `kubernetes`, `k3s`, `ray`, `slinky`, `soperator`, `sunk`, `kuberay`, `volcano`, `kueue`, `kai`, `runai`, `pbs`, `lsf` | did you mean `kubernetes`?\n2:43 `people.operates` cannot be `nomad` | expected `slurm`, `kubernetes`, `k3s`, `ray`, `slinky`, `soperator`, `sunk`, `kuberay`, `volcano`, `kueue`, `kai`, `runai`, `pbs`, `lsf`",
        ),
        (
            "P, operates: {slurm: true}",
            "2:30 `people.operates` is not one of slurm, kubernetes, k3s, ray, slinky, soperator, sunk, kuberay, volcano, kueue, kai, runai, pbs, lsf | this is a mapping",
        ),
        (
            "P, operates: [[slurm]]",
            "2:31 `people.operates` is not one of slurm, kubernetes, k3s, ray, slinky, soperator, sunk, kuberay, volcano, kueue, kai, runai, pbs, lsf | this is a list",
        ),
        (
            "P, operates-slurm: true",
            "2:20 there is no field `operates-slurm` | did you mean `operates`? | (list)",
        ),
        (
            "P, modernize: true",
            "2:20 there is no field `modernize` | did you mean `modernise`? | (list)",
        ),
        (
            "P, gitops: true",
            "2:20 there is no field `gitops` | `gitops` belongs under `needs` | (list)",
        ),
    ]);
}

#[test]
fn needs_and_rules_that_are_refused() {
    refused(&[
        (
            "N inference: true",
            "3:9 there is no field `inference` | did you mean `services`? | (list)",
        ),
        (
            "N quotas: true",
            "3:9 there is no field `quotas` | did you mean `strict-quotas`? | (list)",
        ),
        ("N users: 4", "3:9 there is no field `users` | `users` belongs under `people` | (list)"),
        ("N training: 3", "3:19 `needs.training` is not true or false | write `true` or `false`"),
        ("N swepes: true", "3:9 there is no field `swepes` | did you mean `sweeps`? | (list)"),
        (
            "rules: {scheduler-gpus: 0}",
            "1:25 `rules.scheduler-gpus` is not a whole number from 1 to 10000000 | the smallest is 1",
        ),
        (
            "rules: {scheduler_gpu: 24}",
            "1:9 there is no threshold `scheduler_gpu` | did you mean `scheduler-gpus`? | (list)",
        ),
        (
            "rules: {platform-fte: 0.125}",
            "1:23 `rules.platform-fte` is not a number from 0 to 1000 with at most two decimals | at most two decimals",
        ),
        (
            "rules: {scheduler-gpus: 24, scheduler_gpus: 25}",
            "1:29 `rules.scheduler-gpus` is written twice | again here",
        ),
    ]);
}

#[test]
fn mixes_that_are_refused() {
    refused(&[
        ("M {name: a}", "3:7 `facts` is missing | `mix` needs it"),
        ("M {facts: {}}", "3:7 `name` is missing | `mix` needs it"),
        (
            "M {name: a b, facts: {}}",
            "3:14 `name` is not a name | ` ` is not allowed; letters, digits, `.`, `_` and `-` are",
        ),
        (
            "M {name: a, facts: {nodes: 5}}",
            "3:32 `a` spans more nodes than the fleet has | at most 4 | if nodes come and go, write `elastic: true` under `fleet`",
        ),
        (
            "M {name: a, facts: {nodes: 0}}",
            "3:32 `nodes` is not a whole number from 1 to 10000000 | the smallest is 1",
        ),
        (
            "M {name: a, share: 0, facts: {}}",
            "3:24 `share` is not a whole number from 1 to 100 | the smallest is 1",
        ),
        (
            "M {name: a, share: 101, facts: {}}",
            "3:24 `share` is not a whole number from 1 to 100 | above 100",
        ),
        (
            "M {name: a, share: 60%, facts: {}}",
            "3:24 `share` is not a whole number from 1 to 100 | expected a whole number",
        ),
        (
            "M {name: a, share: 60, facts: {}}, {name: b, share: 41, facts: {}}",
            "3:57 the shares of the mix are more than 100% | 101% up to here | shares are parts of the fleet's GPU-hours; leave out unknown ones",
        ),
        (
            "M {name: a, facts: {}}, {name: a, facts: {}}",
            "3:36 two entries of the mix are named `a` | again here",
        ),
        (
            "M {name: a, facts: {tightly-coupeld: true}}",
            "3:25 there is no fact `tightly-coupeld` | did you mean `tightly_coupled`? | (list)",
        ),
        (
            "M {name: a, facts: {rules: {}}}",
            "3:25 there is no fact `rules` | thresholds belong at the top level of the file | (list)",
        ),
        (
            "M {name: a, percent: 4, facts: {}}",
            "3:17 there is no field `percent` | did you mean `share`? | (list)",
        ),
        ("M ", "3:6 `mix` is empty | expected at least one entry"),
        ("M {name: a, facts: {nodes: 2, nodes: 3}}", "3:35 `nodes` is written twice | again here"),
        ("mix: []", "1:6 `mix` is empty | expected at least one entry"),
    ]);
}

#[test]
fn contradictions() {
    refused(&[
        (
            "P, teams: 7",
            "2:27 `people.teams` contradicts `people.users` | there are more teams than users",
        ),
        (
            "P, works: true",
            "2:27 `people.works` contradicts `people.operates` | nothing is operated that could work | `people.operates` is not written; add it, or remove this",
        ),
        (
            "P, operates: [], works: true",
            "2:41 `people.works` contradicts `people.operates` | nothing is operated that could work",
        ),
        (
            "P, operates: [], modernise: true",
            "2:45 `people.modernise` contradicts `people.operates` | nothing is operated that could be replaced",
        ),
        (
            "fleet: {nodes: 1, gpus: 8}\npeople: {users: 1, coordination-failing: true}",
            "2:42 `people.coordination-failing` contradicts `people.users` | coordination cannot fail with a single user",
        ),
        (
            "fleet: {nodes: 1, gpus: 8}\npeople: {users: 2}\nneeds: {coupled-training: true}",
            "3:27 `needs.coupled-training` contradicts `fleet.nodes` | training cannot span nodes of a fleet of one",
        ),
        (
            "fleet: {nodes: 1, gpus: 129}\npeople: {users: 2}",
            "1:25 `fleet.gpus` is more than its nodes can hold | a node holds at most 128",
        ),
        (
            "N coupled-training: true, training: false",
            "3:27 `needs.coupled-training` contradicts `needs.training` | what spans nodes here is training",
        ),
        (
            "N autoscaling: true, services: false",
            "3:22 `needs.autoscaling` contradicts `needs.services` | what scales with its load is a service",
        ),
        (
            "N isolated-slices: true, shared-gpus: false",
            "3:26 `needs.isolated-slices` contradicts `needs.shared-gpus` | a slice is a part of a shared GPU",
        ),
        (
            "N mainly-coupled: true, coupled-training: false",
            "3:25 `needs.mainly-coupled` contradicts `needs.coupled-training` | training that does not span nodes cannot be the main part",
        ),
        (
            "S services: false | {name: chat, facts: {long_lived_services: true}}",
            "4:49 `needs.services: false` contradicts `chat` of the mix | this is a service",
        ),
        (
            "S coupled-training: false, mpi: false | {name: pre, facts: {nodes: 2, tightly_coupled: true}}",
            "4:54 `needs.coupled-training: false` contradicts `pre` of the mix | coupled nodes train together or run MPI",
        ),
        (
            "S rl: false, distributed-python: false, sweeps: false | {name: grpo, facts: {python_native_pipeline: true}}",
            "4:52 `needs.distributed-python: false` contradicts `grpo` of the mix | such a pipeline is distributed Python, RL or tuning",
        ),
        (
            "S training: false | {name: pre, facts: {nodes: 2, tightly_coupled: true}}",
            "4:54 `needs.coupled-training` contradicts `needs.training` | what spans nodes here is training",
        ),
        (
            "S mainly-coupled: true, coupled-training: true | {name: pre, share: 20, facts: {nodes: 2, tightly_coupled: true}}, {name: rest, share: 80, facts: {}}",
            "3:25 `needs.mainly-coupled` contradicts the shares of the mix | coupled work across nodes has 20%",
        ),
        (
            "S mainly-coupled: false, coupled-training: true | {name: pre, share: 60, facts: {nodes: 2, tightly_coupled: true}}, {name: rest, share: 40, facts: {}}",
            "3:25 `needs.mainly-coupled` contradicts the shares of the mix | coupled work across nodes has 60%",
        ),
        (
            "fleet: {nodes: 4, gpus: 32}\npeople: {users: 6, teams: 1}\nmix: [{name: a, facts: {multi_tenant: true}}]",
            "3:39 several teams share `a`, but there is one | several teams",
        ),
    ]);
}

#[test]
fn what_is_missing_and_other_files() {
    refused(&[
        (
            "",
            "0:0 site.yaml holds no site |  | the smallest is `{fleet: {nodes: 1, gpus: 8}, people: {users: 2}}`",
        ),
        (
            "fleet: {nodes: 4}",
            "1:1 `fleet.gpus` and `people.users` are missing | no rule can be evaluated without them | the smallest site is `{fleet: {nodes: 1, gpus: 8}, people: {users: 2}}`",
        ),
        (
            "people: {users: 4}",
            "1:1 `fleet.nodes` and `fleet.gpus` are missing | no rule can be evaluated without them | the smallest site is `{fleet: {nodes: 1, gpus: 8}, people: {users: 2}}`",
        ),
        (
            "needs: {}",
            "1:1 `fleet.nodes` and `fleet.gpus` and `people.users` are missing | no rule can be evaluated without them | the smallest site is `{fleet: {nodes: 1, gpus: 8}, people: {users: 2}}`",
        ),
        (
            "fleet:\npeople: {users: 1}",
            "1:6 `fleet` has no value | expected a mapping (`field: value`) | to leave a field at its default, remove the line",
        ),
        (
            "fleet: {nodes: 4, gpus: 32}\npeople: {teams: 2}",
            "2:1 `people.users` is missing | no rule can be evaluated without it | the smallest site is `{fleet: {nodes: 1, gpus: 8}, people: {users: 2}}`",
        ),
        ("fleet: 4", "1:8 `fleet` is not a mapping (`field: value`) | this is `4`"),
        ("- fleet", "1:1 the document is not a mapping (`field: value`) | this is a list"),
        (
            "nodes: [{name: a}]",
            "1:1 this looks like a cluster file, not like a site file | `nodes` is a field of a cluster file | `muster advise --site` takes `fleet`, `people`, `needs` and `mix`",
        ),
        (
            "levels: [leaf]",
            "1:1 this looks like a cluster file, not like a site file | `levels` is a field of a cluster file | `muster advise --site` takes `fleet`, `people`, `needs` and `mix`",
        ),
        (
            "queues: [{name: a}]",
            "1:1 this looks like a queue file, not like a site file | `queues` is a field of a queue file | `muster advise --site` takes `fleet`, `people`, `needs` and `mix`",
        ),
        (
            "run: a",
            "1:1 this looks like a job file, not like a site file | `run` is a field of a job file | `muster advise --site` takes `fleet`, `people`, `needs` and `mix`",
        ),
        (
            "nodes: 4\ntightly_coupled: true",
            "2:1 this looks like a facts file, not like a site file | `tightly_coupled` is a field of a facts file | `muster advise --facts` takes it",
        ),
        ("fleets: {}", "1:1 there is no field `fleets` | did you mean `fleet`? | (list)"),
        ("cluster: {nodes: 1}", "1:1 there is no field `cluster` | did you mean `fleet`? | (list)"),
    ]);
}

#[test]
fn mistakes_as_they_are_shown() {
    let shown =
        |row: &str| parse_site(&site(row), Some("site.yaml")).unwrap_err().render(Colour::Never);
    assert_snapshot!(shown("fleet:\n  nodes: 4\n  users: 6\n"), @r"
    error: there is no field `users`
     --> site.yaml:3:3
      |
    3 |   users: 6
      |   ^^^^^ `users` belongs under `people`
      |
    hint: the fields are nodes, gpus, elastic, edge, dev, single-tenant, places, shared-nodes, models, fabric, hosting
    ");
    assert_snapshot!(shown("fleet: {nodes: 4}\n"), @r"
    error: `fleet.gpus` and `people.users` are missing
     --> site.yaml:1:1
      |
    1 | fleet: {nodes: 4}
      | ^^^^^ no rule can be evaluated without them
      |
    hint: the smallest site is `{fleet: {nodes: 1, gpus: 8}, people: {users: 2}}`
    ");
    assert_snapshot!(shown("P, teams: 7"), @r"
    error: `people.teams` contradicts `people.users`
     --> site.yaml:2:27
      |
    2 | people: {users: 6, teams: 7}
      |                 -         ^ there are more teams than users
      |                 |
      |                 beside this
    ");
    assert_snapshot!(shown("P, works: true"), @r"
    error: `people.works` contradicts `people.operates`
     --> site.yaml:2:27
      |
    2 | people: {users: 6, works: true}
      |                           ^^^^ nothing is operated that could work
      |
    hint: `people.operates` is not written; add it, or remove this
    ");
    assert_snapshot!(shown("M {name: pretrain, facts: {nodes: 8, tightly_coupled: true}}"), @r"
    error: `pretrain` spans more nodes than the fleet has
     --> site.yaml:3:39
      |
    1 | fleet: {nodes: 4, gpus: 32}
      |                - the fleet
    2 | people: {users: 6}
    3 | mix: [{name: pretrain, facts: {nodes: 8, tightly_coupled: true}}]
      |                                       ^ at most 4
      |
    hint: if nodes come and go, write `elastic: true` under `fleet`
    ");
    assert_snapshot!(shown("S services: false | {name: chat, facts: {long_lived_services: true}}"), @r"
    error: `needs.services: false` contradicts `chat` of the mix
     --> site.yaml:4:49
      |
    3 | needs: {services: false}
      |                   ----- denied here
    4 | mix: [{name: chat, facts: {long_lived_services: true}}]
      |                                                 ^^^^ this is a service
    ");
    assert_snapshot!(shown("F, fabric: ib"), @r"
    error: `fleet.fabric` cannot be `ib`
     --> site.yaml:1:37
      |
    1 | fleet: {nodes: 4, gpus: 32, fabric: ib}
      |                                     ^^ expected `ethernet`, `roce`, `infiniband`
      |
    hint: did you mean `infiniband`?
    ");
    assert_snapshot!(shown("levels: [leaf]\nnodes: []\n"), @r"
    error: this looks like a cluster file, not like a site file
     --> site.yaml:1:1
      |
    1 | levels: [leaf]
      | ^^^^^^ `levels` is a field of a cluster file
      |
    hint: `muster advise --site` takes `fleet`, `people`, `needs` and `mix`
    ");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every single fact that a site file can say reads back as itself, with whatever it implies.
    #[test]
    fn any_fact_reads_back(index in 0..Fact::SITE.len(), seed in any::<u32>()) {
        let fact = Fact::SITE[index];
        let (section, key) = fact.name().split_once('.').unwrap();
        let stored = match fact.kind() {
            FactKind::Flag => seed % 2,
            FactKind::Count { min, max, .. } => min + seed % (max - min),
            FactKind::Hundredths { max } => seed % (max + 1),
        };
        let mut lines = vec![
            ("fleet", "nodes", "4".to_owned()),
            ("fleet", "gpus", "32".to_owned()),
            ("fleet", "elastic", "true".to_owned()),
            ("people", "users", "10000000".to_owned()),
            ("people", "operates", "[slurm]".to_owned()),
        ];
        lines.retain(|(other, name, _)| (*other, *name) != (section, key));
        lines.push((section, key, fact.value(stored).to_string()));
        let text: String = ["fleet", "people", "needs"].map(|section| {
            let fields: Vec<String> =
                lines.iter().filter(|line| line.0 == section).map(|(_, key, value)| format!("{key}: {value}")).collect();
            format!("{section}: {{{}}}\n", fields.join(", "))
        }).concat();
        let special = ["fleet.rdma", "fleet.bare-metal", "fleet.mig"].contains(&fact.name()) || key.starts_with("operates-");
        match parse_site(&text, None) {
            Ok(profile) => prop_assert!(!special && profile.facts.get(fact) == stored, "{}", text),
            // These are written as `fabric`, `hosting`, `models` and `operates`.
            Err(error) => {
                let message = error.to_string();
                prop_assert!(special || message.contains("contradicts") || message.contains("its nodes can hold"), "{}", message);
            }
        }
    }
}
