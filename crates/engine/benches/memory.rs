//! How much memory a pending job takes: resident set before and after, over the number of jobs.
//! `cargo bench -p muster-engine --bench memory`.

#[allow(dead_code, reason = "shared with the other bench, which uses the rest")]
mod mix;

use std::sync::Arc;

use mix::{Bench, MIXES, all_mixes};
use muster_model::JobSpec;

/// Resident bytes of this process.
#[allow(clippy::disallowed_methods, reason = "a bench may read its own process; the library may not")]
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has statm");
    let pages: u64 =
        text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("statm has a second number");
    pages * 4096
}

/// A copy that shares nothing with the original, as if it had been read from a user's text.
fn own(spec: &JobSpec) -> JobSpec {
    let mut own = spec.clone();
    own.name = own.name.to_string().into();
    own.user = own.user.to_string().into();
    own.queue = own.queue.to_string().into();
    for group in &mut own.groups {
        group.name = group.name.to_string().into();
    }
    own
}

/// Submits `count` jobs that cannot start, each with a spec of its own.
fn measure(count: u64) {
    let mut bench = Bench::new(100);
    let specs: Vec<Arc<JobSpec>> = all_mixes();
    let fill = mix::single("fill");
    let mut fill = JobSpec { time_limit: None, ..fill };
    (fill.groups[0].min_tasks, fill.groups[0].max_tasks) = (800, 800);
    let event = bench.submission(&Arc::new(fill));
    bench.step(&[event]);
    let before = resident();
    for at in 0..count {
        let event = bench.submission(&Arc::new(own(&specs[at as usize % MIXES])));
        bench.engine.apply(bench.now, &event);
        drop(bench.engine.take_facts());
    }
    let bytes = resident().saturating_sub(before);
    assert_eq!(bench.engine.counts().pending, count);
    println!("{count} pending jobs of {MIXES} mixes: {} bytes each", bytes / count);
}

fn main() {
    measure(100_000);
}
