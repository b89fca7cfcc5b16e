//! The example of the README: two gangs that compete for GPUs, an array and a short job as
//! backfill; a gang is never partially started.

use std::collections::BTreeMap;
use std::path::Path;

use muster_api::Client;
use muster_api::query::TimelineQuery;
use muster_model::view::{DeviceBar, JobState};
use muster_model::{ElementId, Time};

use crate::home::{Home, HomeRun};

#[test]
fn the_example_ends_with_all_jobs_done() {
    let home = Home::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command =
        home.command(&["run", "examples/contention.yaml", "--virtual-gpus", "8", "--watch"]);
    let run = HomeRun::of(command.current_dir(root).output().unwrap()).ok();
    assert!(
        run.stderr
            .starts_with("no daemon was running; started one for this user, with 8 virtual GPUs")
    );
    assert!(
        run.stdout.contains("ended in ") && run.stdout.contains(": all done\n"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("gpu 0 │"), "{}", run.stdout);
    assert!(home.jobs().iter().all(|job| job.state == JobState::Done));
    no_partial_gang(&home, &[("left", 5), ("right", 5)]);

    // The gangs did contend: the second started when the first had ended, and was overtaken by
    // backfill.
    let jobs = home.jobs();
    let find = |name: &str| jobs.iter().find(|job| job.name == name).unwrap();
    let left = find("left");
    let right = find("right");
    assert!(right.started.unwrap() >= left.ended.unwrap());
    let overtaken = jobs.iter().filter(|job| job.job > right.job && job.started < right.started);
    assert!(overtaken.count() >= 1);
}

/// All devices of a gang are allocated at once and released at once.
fn no_partial_gang(home: &Home, gangs: &[(&str, usize)]) {
    let bars = bars(home);
    for (name, size) in gangs {
        let job = home.jobs().iter().find(|job| job.name == *name).unwrap().job;
        let own = &bars[&ElementId::single(job)];
        assert_eq!(own.len(), *size, "{name}: {own:?}");
        assert!(
            own.iter().all(|bar| bar.from == own[0].from && bar.to == own[0].to),
            "{name}: {own:?}"
        );
    }
    // And no device is held twice.
    let all: Vec<&DeviceBar> = bars.values().flatten().collect();
    for (place, one) in all.iter().enumerate() {
        for other in &all[place + 1..] {
            let apart = one.to.is_some_and(|to| to <= other.from)
                || other.to.is_some_and(|to| to <= one.from);
            assert!(one.device != other.device || apart, "{one:?} {other:?}");
        }
    }
}

fn bars(home: &Home) -> BTreeMap<ElementId, Vec<DeviceBar>> {
    let client = Client::new(home.path("m/run/muster.sock"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let query = TimelineQuery { since: Some(Time(0)) };
    let timeline = runtime.block_on(client.timeline(query)).unwrap();
    let mut bars: BTreeMap<ElementId, Vec<DeviceBar>> = BTreeMap::new();
    for bar in timeline.bars {
        bars.entry(bar.element).or_default().push(bar);
    }
    bars
}
