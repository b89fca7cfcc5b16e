//! Property test: no text makes a rule panic.

use std::collections::BTreeSet;

use muster_doctor::{check, known_in, kubernetes_nodes};
use muster_model::hostlist::expand;
use muster_slurm::conf::evidence::Evidence;
use muster_slurm::conf::source::{CheckSource, SourceKind};
use proptest::prelude::*;

const KINDS: [SourceKind; 10] = [
    SourceKind::SlurmConf,
    SourceKind::Included,
    SourceKind::GresConf,
    SourceKind::CgroupConf,
    SourceKind::TopologyConf,
    SourceKind::SlurmdbdConf,
    SourceKind::Config,
    SourceKind::Partitions,
    SourceKind::Nodes,
    SourceKind::Qos,
];

/// Generates fragments of such files in any order, between any text.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("NodeName=n[1-3] ".to_owned()),
        Just("Gres=gpu:h100:8(S:0),gpu:,gpu:x ".to_owned()),
        Just("PartitionName=DEFAULT ".to_owned()),
        Just("PartitionName=p Nodes=ALL ".to_owned()),
        Just("Include x\n".to_owned()),
        Just("SwitchName=s Nodes=n[1-2] Switches=s ".to_owned()),
        Just("Name=gpu File=/dev/n[0-7] Count=".to_owned()),
        Just("MaxTime=1-".to_owned()),
        Just("Name|GraceTime|Preempt\n".to_owned()),
        Just("SchedulerParameters=bf_window=99999999999999999999 ".to_owned()),
        Just("SelectTypeParameters=CR_Memory\n".to_owned()),
        Just("\\\n".to_owned()),
        Just(" = ".to_owned()),
        ".{0,12}",
        "[\\[\\]0-9,=|\"#-]{0,8}",
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_judged(texts in proptest::collection::vec((0..KINDS.len(), text()), 1..6)) {
        let sources: Vec<CheckSource> = texts
            .into_iter()
            .map(|(kind, text)| CheckSource { name: "x".to_owned(), kind: KINDS[kind], text })
            .collect();
        let report = check(&Evidence::of(&sources), &BTreeSet::new());
        let failed: BTreeSet<&str> = report.findings.iter().map(|finding| finding.rule).collect();
        let total = failed.len() + report.passed.len() + report.not_tested.len();
        prop_assert_eq!(total, muster_doctor::rule_texts().count());
    }

    #[test]
    fn any_list_is_expanded_or_refused(list in "[a-z0-9,\\[\\]-]{0,24}|.{0,24}") {
        let _ = expand(&list);
        let _ = kubernetes_nodes(&list);
        let _ = known_in(&list);
        let _ = SourceKind::of("x.txt", &list);
    }
}
