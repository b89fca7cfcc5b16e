//! Tests on a slurm.conf from a printed page that looks right but is not. The pages are next to the
//! checkout, or in `MUSTER_SEEDS`; without them the test prints that it is skipped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use muster_doctor::check;
use muster_slurm::conf::evidence::Evidence;
use muster_slurm::conf::source::{CheckSource, SourceKind};

use crate::site::failed;

#[expect(clippy::disallowed_methods, reason = "pages of others are no part of this repository")]
fn pages() -> Vec<String> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .expect("a checkout lies somewhere");
    let folder =
        std::env::var_os("MUSTER_SEEDS").map_or(beside.join("shared").join("seeds"), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect()
}

/// Returns the lines from the first to the one before the last, as printed.
fn between<'a>(page: &'a str, first: &str, last: &str) -> Option<&'a str> {
    let start = page.find(first)?;
    let end = start + page[start..].find(last)?;
    Some(&page[start..end])
}

fn source(name: &str, kind: SourceKind, text: &str) -> CheckSource {
    CheckSource { name: name.to_owned(), kind, text: text.to_owned() }
}

#[test]
fn what_a_page_prints_is_found_wrong_where_it_is() {
    let pages = pages();
    let printed = |page: &String| {
        let conf = between(page, "ClusterName=kentino", "The matching gres.conf")?.to_owned();
        let gres = between(page, "AutoDetect=nvml\nNodeName", "\n\n")?.to_owned();
        Some((conf, gres))
    };
    let Some((conf, gres)) = pages.iter().find_map(printed) else {
        println!("skipped: the pages are not here");
        return;
    };
    let sources = [
        source("slurm.conf", SourceKind::SlurmConf, &conf),
        source("gres.conf", SourceKind::GresConf, &gres),
    ];
    let report = check(&Evidence::of(&sources), &BTreeSet::new());
    let failed = failed(&report);
    // The page claims that its lines make fair share count GPUs, and that cgroups isolate them.
    // Neither is true.
    for rule in [
        "gpus-not-billed",
        "limits-not-enforced",
        "task-plugin-without-cgroup",
        "no-memory-default",
        "no-default-time",
        "backfill-window-short",
        "gres-files-beside-autodetect",
        "controller-is-root",
    ] {
        assert!(failed.contains(&rule), "{rule}: {failed:?}");
    }
    for rule in [
        "gpus-not-accounted",
        "gres-count-differs",
        "gres-type-differs",
        "no-backfill",
        "no-accounting",
    ] {
        assert!(report.passed.iter().any(|outcome| outcome.rule == rule), "{rule}: {failed:?}");
    }
    assert!(report.not_tested.iter().any(|outcome| outcome.rule == "devices-not-constrained"));
}
