//! Two pools out of one cluster: never the same node in both, none lost, and as few domains broken
//! as possible.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::NodeSpec;
use muster_spec::{Cluster, ClusterPartition, PartitionError, ServiceNodes, partition};
use proptest::prelude::*;

/// Nodes `n0, n1, ...` in the given domains.
fn cluster(levels: &[&str], nodes: &[Vec<String>]) -> Cluster {
    let node = |(index, domains): (usize, &Vec<String>)| NodeSpec {
        domains: domains.iter().map(|domain| Arc::from(domain.as_str())).collect(),
        ..crate::support::node(&format!("n{index}"), &[("h100", 8)])
    };
    let levels = levels.iter().map(|level| Arc::from(*level)).collect();
    Cluster { levels, nodes: nodes.iter().enumerate().map(node).collect() }
}

/// Blocks of leaves of so many nodes.
fn blocks(sizes: &[&[usize]]) -> Cluster {
    let mut nodes = Vec::new();
    for (block, leaves) in sizes.iter().enumerate() {
        for (leaf, size) in leaves.iter().enumerate() {
            nodes.extend(vec![vec![format!("b{block}"), format!("b{block}l{leaf}")]; *size]);
        }
    }
    cluster(&["block", "leaf"], &nodes)
}

fn names(pool: &Cluster) -> Vec<&str> {
    pool.nodes.iter().map(|node| node.name.as_str()).collect()
}

fn broken(partition: &ClusterPartition) -> Vec<String> {
    partition.broken.iter().map(|(level, domain)| format!("{level} {domain}")).collect()
}

fn check(cluster: Cluster, count: usize, services: &str, expected: &[&str]) {
    let parts = partition(cluster, &ServiceNodes::Count(count)).unwrap();
    assert_eq!(names(&parts.services).join(" "), services);
    assert_eq!(broken(&parts), expected);
}

#[test]
fn whole_domains_are_taken_first() {
    check(cluster(&[], &vec![Vec::new(); 4]), 1, "n3", &[]);
    check(blocks(&[&[2, 2], &[3, 1]]), 1, "n7", &["block b1"]);
    check(blocks(&[&[2, 2], &[3, 1]]), 2, "n2 n3", &["block b0"]);
    check(blocks(&[&[2, 2], &[3, 1]]), 4, "n4 n5 n6 n7", &[]);
    check(blocks(&[&[2], &[3], &[4]]), 5, "n0 n1 n2 n3 n4", &[]);
    check(blocks(&[&[4], &[4]]), 1, "n7", &["block b1", "leaf b1l0"]);
    // Two breaks either way: leaves are spared rather than blocks.
    check(blocks(&[&[3, 3], &[2, 2]]), 5, "n3 n4 n5 n8 n9", &["block b0", "block b1"]);
    check(blocks(&[&[3, 2], &[3, 2]]), 4, "n3 n4 n8 n9", &["block b0", "block b1"]);
}

#[test]
fn a_node_without_a_domain_breaks_none() {
    let mut nodes = vec![vec!["b0".to_owned()]; 3];
    nodes.push(Vec::new());
    check(cluster(&["block"], &nodes), 1, "n3", &[]);
}

#[test]
fn bounds_names_and_labels_are_told_with_their_numbers() {
    let refused = |choice| partition(blocks(&[&[2, 2]]), &choice).unwrap_err().to_string();
    let count = |count| refused(ServiceNodes::Count(count));
    assert_eq!(
        count(0),
        "0 of 4 nodes are for services; at least 1 is needed, else there is nothing to partition"
    );
    assert_eq!(
        count(4),
        "4 of 4 nodes for services leaves none for batch; at most 3 can be chosen"
    );
    assert_eq!(
        count(usize::MAX),
        format!(
            "{} of 4 nodes for services leaves none for batch; at most 3 can be chosen",
            usize::MAX
        )
    );
    let list = |list: &str| refused(ServiceNodes::Names(list.to_owned()));
    assert_eq!(
        list("n[0-3]"),
        "4 of 4 nodes for services leaves none for batch; at most 3 can be chosen"
    );
    assert_eq!(list("n[0-4]"), "the cluster has no node `n4`; did you mean `n0`?");
    assert_eq!(
        list("n[0"),
        "`n[0` is not a list of nodes: expected a name such as `node07`, or a range such as `node[01-04]`"
    );
    let label = |name: &str, value: &str| {
        refused(ServiceNodes::Label { name: name.to_owned(), value: value.to_owned() })
    };
    assert_eq!(
        label("pool", "train"),
        "4 of 4 nodes for services leaves none for batch; at most 3 can be chosen"
    );
    assert_eq!(
        label("pool", "services"),
        "none of 4 nodes has the label `pool: services`; they have `pool: train` (4)"
    );
    assert_eq!(
        label("role", "services"),
        "none of 4 nodes has the label `role: services`; they have the labels `pool`"
    );
    let parts =
        partition(blocks(&[&[2, 2]]), &ServiceNodes::Names("n2,n[2-3]".to_owned())).unwrap();
    assert_eq!(names(&parts.services), ["n2", "n3"]);
    assert!(matches!(
        partition(Cluster { levels: Vec::new(), nodes: Vec::new() }, &ServiceNodes::Count(0)),
        Err(PartitionError::NoServices { nodes: 0 })
    ));
}

/// Domains that a set of nodes breaks, counted from the definition.
fn breaks(cluster: &Cluster, chosen: &BTreeSet<usize>) -> usize {
    let mut count = 0;
    for level in 0..cluster.levels.len() {
        let domains: BTreeSet<&str> = cluster
            .nodes
            .iter()
            .filter_map(|node| node.domains.get(level).map(AsRef::as_ref))
            .collect();
        for domain in domains {
            let of = |index: &usize| {
                cluster.nodes[*index].domains.get(level).is_some_and(|found| **found == *domain)
            };
            let inside: Vec<usize> = (0..cluster.nodes.len()).filter(of).collect();
            let taken = inside.iter().filter(|index| chosen.contains(index)).count();
            count += usize::from(taken > 0 && taken < inside.len());
        }
    }
    count
}

/// The fewest domains that any choice of so many nodes breaks, by trying all.
fn fewest(cluster: &Cluster, count: usize) -> usize {
    let subsets =
        (0u32..1 << cluster.nodes.len()).filter(|bits| bits.count_ones() as usize == count);
    let set = |bits: u32| (0..cluster.nodes.len()).filter(|index| bits >> index & 1 == 1).collect();
    subsets.map(|bits| breaks(cluster, &set(bits))).min().unwrap()
}

/// A tree of two levels by numbers: some nodes stand in none.
fn random_cluster(most: usize) -> impl Strategy<Value = Cluster> {
    prop::collection::vec((0..3u8, 0..3u8, 0..8u8), 2..=most).prop_map(|nodes| {
        let domains = |(block, leaf, none): (u8, u8, u8)| match none {
            0 => Vec::new(),
            _ => vec![format!("b{block}"), format!("b{block}l{leaf}")],
        };
        cluster(&["block", "leaf"], &nodes.into_iter().map(domains).collect::<Vec<_>>())
    })
}

fn is_a_partition(whole: &Cluster, parts: &ClusterPartition) -> Result<(), TestCaseError> {
    let batch = names(&parts.batch);
    let services = names(&parts.services);
    prop_assert!(!batch.is_empty() && !services.is_empty());
    let both: Vec<_> = batch.iter().filter(|name| services.contains(name)).collect();
    prop_assert!(both.is_empty(), "in both: {:?}", both);
    let union: BTreeSet<&str> = batch.iter().chain(&services).copied().collect();
    prop_assert_eq!(union.len(), batch.len() + services.len());
    prop_assert_eq!(union, names(whole).into_iter().collect::<BTreeSet<_>>());
    for node in parts.batch.nodes.iter().chain(&parts.services.nodes) {
        prop_assert!(whole.nodes.contains(node));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fewest_domains_are_broken(cluster in random_cluster(9), count in 1..9usize) {
        let count = count.min(cluster.nodes.len() - 1);
        let parts = partition(cluster.clone(), &ServiceNodes::Count(count)).unwrap();
        is_a_partition(&cluster, &parts)?;
        prop_assert_eq!(parts.services.nodes.len(), count);
        prop_assert_eq!(parts.broken.len(), fewest(&cluster, count));
    }

    #[test]
    fn every_choice_gives_all_nodes_to_one_pool_each(cluster in random_cluster(60), picks in prop::collection::vec(any::<prop::sample::Index>(), 1..20)) {
        let picked: BTreeSet<usize> = picks.iter().map(|pick| pick.index(cluster.nodes.len())).collect();
        let list: Vec<String> = picked.iter().map(|index| format!("n{index}")).collect();
        let mut labelled = cluster.clone();
        for index in &picked {
            labelled.nodes[*index].labels.insert("pool".into(), "services".into());
        }
        let label = ServiceNodes::Label { name: "pool".to_owned(), value: "services".to_owned() };
        for (cluster, choice) in [
            (&cluster, ServiceNodes::Count(picked.len())),
            (&cluster, ServiceNodes::Names(list.join(","))),
            (&labelled, label),
        ] {
            match partition(cluster.clone(), &choice) {
                Ok(parts) => {
                    is_a_partition(cluster, &parts)?;
                    prop_assert_eq!(parts.services.nodes.len(), picked.len());
                }
                Err(PartitionError::NoBatch { chosen, nodes }) => prop_assert!(chosen == nodes && nodes == cluster.nodes.len()),
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }
}
