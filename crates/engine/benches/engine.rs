//! Runs the rows of the table under criterion, to inspect the distribution of one of them: `cargo
//! bench -p muster-engine --bench engine -- NAME`. `cargo xtask bench` makes the table itself.

#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock; the library may not")]
#![allow(dead_code, reason = "shared with the other bench, which uses the rest")]

mod mix;
mod rows;

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rows::{Meter, RowUnit};

fn every_row(criterion: &mut Criterion) {
    for row in rows::all().into_iter().filter(|row| row.unit != RowUnit::Bytes) {
        let mut group = criterion.benchmark_group(row.name);
        if let RowUnit::PerSecond(items) = row.unit {
            group.throughput(Throughput::Elements(u64::from(items)));
        }
        group.bench_function("usual", |bencher| {
            bencher.iter_custom(|iterations| {
                let mut meter = Meter::exactly(iterations as usize);
                (row.run)(row.scale, &mut meter);
                meter.taken.iter().sum()
            });
        });
        group.finish();
    }
}

fn short() -> Criterion {
    Criterion::default().sample_size(10).measurement_time(Duration::from_secs(3)).without_plots()
}

criterion_group! {
    name = benches;
    config = short();
    targets = every_row
}
criterion_main!(benches);
