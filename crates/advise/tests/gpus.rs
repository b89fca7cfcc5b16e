//! The table of GPU models: what the pages say, what is true, and what is not known.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use muster_advise::gpus::{GPUS, Link, find, is_mig_capable};
use muster_model::GpuModel;

/// `instances` 0: whole GPUs only.
#[track_caller]
fn check(model: &str, instances: u32) {
    let gpu = find(&GpuModel::from(model)).unwrap_or_else(|| panic!("{model} is in the table"));
    assert_eq!(gpu.mig_instances, instances, "{model}");
    assert_eq!(is_mig_capable(&GpuModel::from(model)), Some(instances > 0), "{model}");
}

/// NVIDIA MIG User Guide, "Supported GPUs": every product that Muster has a name for.
#[test]
fn nvidia_lists_these_with_so_many_instances() {
    for (model, instances) in [
        ("a100", 7),
        ("a30", 4),
        ("h100", 7),
        ("h20", 7),
        ("h200", 7),
        ("gh200", 7),
        ("b200", 7),
        ("gb200", 7),
        ("b300", 7),
        ("rtxpro6000", 4),
        ("rtxpro5000", 2),
        ("rtxpro4500", 2),
    ] {
        check(model, instances);
    }
}

#[test]
fn these_are_not_on_the_list() {
    for model in [
        "rtx5090", "rtx4090", "rtx3090", "l40", "l40s", "l4", "t4", "v100", "a10", "a40", "a6000",
        "rtxa6000",
    ] {
        check(model, 0);
    }
}

/// Kentino, "MIG and GPU sharing": four models with MIG, five without, one of them wrongly.
#[test]
fn the_kentino_page_is_wrong_about_one_model() {
    for model in ["h100", "h200", "a100", "b200"] {
        assert_eq!(find(&GpuModel::from(model)).unwrap().kentino_mig, Some(true), "{model}");
    }
    for model in ["rtx5090", "rtx4090", "rtxpro6000", "l40", "l4"] {
        assert_eq!(find(&GpuModel::from(model)).unwrap().kentino_mig, Some(false), "{model}");
    }
    let named = GPUS.iter().filter(|gpu| gpu.kentino_mig.is_some()).count();
    let wrong: Vec<&str> =
        GPUS.iter().filter(|gpu| gpu.page_is_wrong()).map(|gpu| gpu.names[0]).collect();
    assert_eq!((named, wrong), (9, vec!["rtxpro6000"]));
}

#[test]
fn amd_partitions_are_not_mig() {
    for (model, partitions) in
        [("mi300x", 8), ("mi325x", 8), ("mi350x", 8), ("mi300a", 6), ("mi250x", 0)]
    {
        let gpu = find(&GpuModel::from(model)).unwrap();
        assert_eq!((gpu.amd_partitions, gpu.mig_instances), (partitions, 0), "{model}");
        assert_eq!(gpu.link, Link::InfinityFabric);
        assert_eq!(is_mig_capable(&GpuModel::from(model)), Some(false), "{model}");
    }
}

#[test]
fn what_is_not_known_is_not_guessed() {
    for model in ["virtual", "gpu", "h1000", "amd-1234", "", "-"] {
        assert_eq!(is_mig_capable(&GpuModel::from(model)), None, "{model}");
    }
}

#[test]
fn a_slice_and_capitals_are_understood() {
    check("a100-1g.5gb", 7);
    check("H100", 7);
    assert_eq!(find(&GpuModel::from("MI300X")).unwrap().amd_partitions, 8);
}

#[test]
fn no_name_stands_twice() {
    let mut names: Vec<&str> = GPUS.iter().flat_map(|gpu| gpu.names).copied().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
