//! The page of conventions: what it must say, and from which numbers on it asks to be revisited.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use muster_advise::conventions;
use muster_model::advice::{Fact, Facts, SiteProfile, Threshold};
use muster_model::unit::{Bytes, CpuMilli};
use muster_model::{Device, GpuModel, NodeSpec};

fn site(nodes: u32, gpus: u32, users: u32) -> SiteProfile {
    let facts = Facts::default()
        .with(Fact::FleetNodes, nodes)
        .with(Fact::FleetGpus, gpus)
        .with(Fact::Users, users);
    SiteProfile { facts, ..SiteProfile::default() }
}

fn machine(name: &str, models: &[&str]) -> NodeSpec {
    let device = |model: &&str| Device {
        model: GpuModel::from(*model),
        memory: Bytes(0),
        uuid: "".into(),
        is_virtual: false,
        slice_of: None,
    };
    NodeSpec {
        devices: models.iter().map(device).collect(),
        ..NodeSpec::plain(name, CpuMilli(64_000), Bytes(1 << 40))
    }
}

/// Kentino, "the honest small-team reality", step 1 of its tree, and "the interactive notebook
/// problem".
#[test]
fn it_says_what_the_page_says() {
    let page = conventions(&site(2, 12, 5), &[]);
    for part in [
        "12 GPUs on 2 machines, for 5 people",
        "ssh node01",
        "tmux new -s",
        "nvidia-smi",
        "CUDA_VISIBLE_DEVICES=0,1,2,3",
        "**before** you start",
        "A notebook holds a GPU for 4 hours at most",
        "is held and forgotten",
        "16 GPUs or more, or 8 people or more, whichever comes first",
        "up to 32 GPUs",
        "on 4 machines with 6 people",
        "when coordination fails, not before",
        "muster run --gpus 2 --time 4h",
        "muster advise --site site.yaml",
    ] {
        assert!(page.contains(part), "{part} is not in:\n{page}");
    }
    assert!(
        page.lines().all(|line| line.trim_end() == line && line.chars().count() <= 140),
        "{page}"
    );
    assert!(!page.contains("\n\n\n") && page.ends_with('\n'));
}

#[track_caller]
fn notice(gpus: u32, users: u32, expected: Option<&str>) {
    let page = conventions(&site(1, gpus, users), &[]);
    let bold = page.lines().find(|line| line.starts_with("**"));
    match expected {
        Some(part) => {
            assert!(
                bold.is_some_and(|line| line.contains(part)),
                "{gpus} GPUs, {users} people: {bold:?}"
            )
        }
        None => assert_eq!(bold, None, "{gpus} GPUs, {users} people"),
    }
}

#[test]
fn it_says_when_the_site_is_past_its_size() {
    notice(15, 7, None);
    notice(16, 7, Some("pays for itself"));
    notice(15, 8, Some("pays for itself"));
    notice(32, 2, Some("pays for itself"));
    notice(33, 2, Some("install a scheduler"));
}

#[test]
fn the_numbers_are_the_sites_own() {
    let mut site = site(1, 20, 3);
    site.thresholds.set(Threshold::SchedulerGpus, 24);
    let page = conventions(&site, &[]);
    assert!(page.contains("24 GPUs or more") && !page.contains("pays for itself"), "{page}");
}

#[test]
fn machines_are_listed_with_what_they_have() {
    let machines = [machine("ada", &["h100", "h100", "a100"]), machine("grace", &[])];
    let page = conventions(&site(9, 99, 3), &machines);
    assert!(page.contains("| ada | 1 × a100, 2 × h100 | anything |"), "{page}");
    assert!(page.contains("| grace | none | anything |"));
    assert!(page.contains("3 GPUs on 2 machines"), "the machines' own numbers count");
    assert!(page.contains("ssh ada"));
    assert!(page.contains("A run on several machines"));
    assert!(!conventions(&site(1, 3, 3), &machines[..1]).contains("A run on several machines"));
}

#[test]
fn amd_has_words_of_its_own() {
    let page = conventions(&site(1, 8, 3), &[machine("amd", &["mi300x"])]);
    assert!(page.contains("HIP_VISIBLE_DEVICES=0,1,2,3") && page.contains("amd-smi process"));
    assert!(!page.contains("CUDA_VISIBLE_DEVICES") && !page.contains("nvidia-smi"));
}
