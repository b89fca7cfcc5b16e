//! Scores compared with values worked out by hand from the description of each policy, and the
//! resulting placements.

use super::*;

fn host(capacities: &[u16], cpus_milli: u64) -> PackingNode {
    PackingNode {
        model: Some("t4".into()),
        capacities: capacities.to_vec(),
        cpus_milli,
        memory_bytes: 100,
        kinds: BTreeMap::new(),
    }
}

fn pod(devices: u32, share_milli: u16, cpus_milli: u64) -> PackingPod {
    PackingPod { cpus_milli, share_milli, devices, models: Vec::new(), memory_bytes: 1 }
}

const LARGEST: NodeMaxima = NodeMaxima { cpus_milli: 100_000, gpu_milli: 8000 };

#[test]
fn room_is_devices_cpus_memory_and_the_model() {
    let host = host(&[1000, 300, 1000], 4000);
    let check = |pod: PackingPod, expected: bool| assert_eq!(host.fits(&pod), expected, "{pod:?}");
    check(pod(2, 0, 4000), true);
    check(pod(3, 0, 4000), false);
    check(pod(2, 0, 4001), false);
    check(pod(0, 999, 0), true);
    check(PackingPod { memory_bytes: 101, ..pod(0, 0, 0) }, false);
    check(PackingPod { models: vec!["a10".into()], ..pod(1, 0, 0) }, false);
    check(PackingPod { models: vec!["a10".into(), "t4".into()], ..pod(1, 0, 0) }, true);
    assert_eq!(host.tightest(&pod(0, 300, 0)), DeviceSet::one(1));
    assert_eq!(host.tightest(&pod(0, 301, 0)), DeviceSet::one(0));
    assert_eq!(host.tightest(&pod(2, 0, 0)), [0, 2].into_iter().collect());
}

#[test]
fn dot_products_use_free_and_requested_resources() {
    let check = |host: &PackingNode, pod: PackingPod, expected| {
        assert_eq!(dot_product::score(host, LARGEST, &pod), expected, "{host:?} {pod:?}");
    };
    // Half of the CPUs and a quarter of the GPUs, times a tenth and an eighth: 100 × (1 − (0.05 +
    // 0.03125) ÷ 2) = 95.9.
    check(&host(&[1000, 1000], 50_000), pod(1, 0, 10_000), 95);
    check(&host(&[1000, 1000], 50_000), pod(0, 0, 0), 100);
    check(&host(&[1000; 8], 100_000), pod(8, 0, 100_000), 0);
}

#[test]
fn packing_prefers_shared_devices_then_used_nodes_then_small_ones() {
    let check = |capacities: &[u16], pod: PackingPod, expected| {
        assert_eq!(
            gpu_packing::score(&host(capacities, 0), &pod),
            expected,
            "{capacities:?} {pod:?}"
        );
    };
    check(&[300, 1000], pod(0, 300, 0), 97);
    check(&[900, 1000], pod(0, 300, 0), 91);
    check(&[200, 1000], pod(0, 300, 0), 49);
    check(&[0, 1000, 1000], pod(2, 0, 0), 48);
    check(&[1000, 1000], pod(1, 0, 0), 31);
    check(&[1000; 8], pod(1, 0, 0), 25);
    check(&[200, 1000], pod(0, 0, 0), 0);
}

#[test]
fn clustering_prefers_nodes_of_the_same_kind() {
    let check = |kinds: &[PodKind], capacities: &[u16], pod: PackingPod, expected| {
        let host = PackingNode {
            kinds: kinds.iter().map(|kind| (*kind, 1)).collect(),
            ..host(capacities, 0)
        };
        assert_eq!(
            gpu_clustering::score(&host, LARGEST, &pod),
            expected,
            "{kinds:?} {capacities:?}"
        );
    };
    // A quarter of the scale for what is held of 8 devices: 7 of 8 are.
    check(&[PodKind::Share], &[500, 500], pod(0, 500, 0), 96);
    check(&[PodKind::Share, PodKind::Whole(1)], &[500, 500], pod(0, 500, 0), 71);
    check(&[], &[1000], pod(0, 500, 0), 46);
    check(&[PodKind::Whole(1)], &[500, 500], pod(0, 500, 0), 21);
    check(&[PodKind::Whole(2)], &[1000; 4], pod(1, 0, 0), 12);
    check(&[], &[1000], pod(0, 0, 0), 0);
}

#[test]
fn the_best_node_is_chosen_and_ties_are_seeded() {
    let hosts = [host(&[1000], 8000), host(&[400], 8000), host(&[300], 8000), host(&[400], 8000)];
    let place = |policy, seed| PeerPlacer::new(policy, &hosts, seed).place(&hosts, &pod(0, 400, 0));
    let places = |policy| {
        let mut places: Vec<usize> =
            (0..100).filter_map(|seed| place(policy, seed)).map(|(at, _)| at).collect();
        places.sort_unstable();
        places.dedup();
        places
    };
    assert_eq!(places(PackingPolicy::Random), [0, 1, 3]);
    assert_eq!(places(PackingPolicy::GpuPacking), [1, 3], "equals go by names that are drawn");
    for (name, policy) in PackingPolicy::ALL {
        assert_eq!(place(policy, 7), place(policy, 7), "{name}");
        assert_eq!(PeerPlacer::new(policy, &hosts, 7).place(&hosts, &pod(2, 0, 0)), None, "{name}");
    }
    // Any device with room, not the tightest.
    let shared = [host(&[500, 1000, 300], 8000)];
    let devices = |seed| {
        PeerPlacer::new(PackingPolicy::Random, &shared, seed).place(&shared, &pod(0, 400, 0))
    };
    let devices: std::collections::BTreeSet<_> = (0..100).filter_map(devices).collect();
    assert_eq!(devices.len(), 2);
}
