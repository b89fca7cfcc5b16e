//! Use of GPUs in accounting: summed from polls of the loads, kept across daemons, never invented.

use std::time::Duration;

use muster_api::JobAction;
use muster_api::query::UsageQuery;
use muster_api::types::ActionRequest;
use muster_model::JobId;
use muster_model::view::{GpuUseView, JobState, UsageRow};

use crate::site::{TestSite, until};
use crate::store::tamper;

/// Returns a site that polls often, with these devices busy to so many percent.
async fn site(busy: &[u8]) -> TestSite {
    let mut site = TestSite::new(|world| world.eager());
    site.poll_every = Duration::from_millis(2);
    for (index, percent) in (0..).zip(busy) {
        site.world.set_busy("n1".into(), index, Some(*percent));
    }
    site.boot().await;
    site
}

/// Lets time pass until the use of a job's GPUs fulfils a condition.
async fn use_of(
    site: &TestSite,
    job: JobId,
    is_enough: impl Fn(&GpuUseView) -> bool,
) -> GpuUseView {
    let client = site.client();
    until(async || {
        site.clock.jump(1);
        client.job(job, None).await.unwrap().gpu_use.filter(&is_enough)
    })
    .await
}

async fn rows(site: &TestSite) -> Vec<UsageRow> {
    let query = UsageQuery { since: None, until: None, by: "job".to_owned() };
    let mut rows = site.client().usage_report(&query).await.unwrap().rows;
    rows.sort_by_key(|row| row.job);
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn use_is_the_part_of_the_measured_time_in_which_gpus_computed() {
    let mut site = site(&[40, 40, 90]).await;
    let measured = site.submit("{name: a, gpus: 2, run: run}").await[0];
    let shared = site.submit("{name: b, gpus: 0.5, run: run}").await[0];
    let unknown = site.submit("{name: c, gpus: 1, run: run}").await[0];
    site.reach(unknown, JobState::Running).await;
    let first = use_of(&site, measured, |gpus| gpus.measured_gpu_secs >= 60).await;
    assert!(first.measured_gpu_secs <= first.held_gpu_secs, "{first:?}");

    // The next daemon adds to it.
    site.restart().await;
    let second =
        use_of(&site, measured, |gpus| gpus.measured_gpu_secs >= first.measured_gpu_secs + 60)
            .await;
    assert!(second.used_gpu_secs.abs_diff(second.measured_gpu_secs * 2 / 5) <= 2, "{second:?}");

    // Of an attempt that ends, all that polls have seen is written at once.
    let cancel = ActionRequest { index: None };
    site.client().act(shared, JobAction::Cancel, cancel).await.unwrap();
    site.reach(shared, JobState::Cancelled).await;
    let shared = use_of(&site, shared, |gpus| gpus.used_gpu_secs > 0).await;
    assert!(shared.used_gpu_secs.abs_diff(shared.measured_gpu_secs * 9 / 10) <= 2, "{shared:?}");
    assert!(shared.measured_gpu_secs <= shared.held_gpu_secs, "{shared:?}");

    assert_eq!(site.client().job(unknown, None).await.unwrap().gpu_use, None);
    let rows = rows(&site).await;
    let is_measured: Vec<bool> = rows.iter().map(|row| row.used_gpu_secs.is_some()).collect();
    assert_eq!(is_measured, [true, true, false], "{rows:?}");
    assert_eq!(rows[2].measured_gpu_secs, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_from_before_use_was_measured_is_migrated() {
    let mut site = site(&[100]).await;
    let job = site.submit("{name: a, gpus: 1, run: run}").await[0];
    site.reach(job, JobState::Running).await;
    site.stop();
    tamper(
        site.dir.path(),
        "ALTER TABLE attempts DROP COLUMN measured_milli_ms;
         ALTER TABLE attempts DROP COLUMN busy_milli_ms;
         PRAGMA user_version = 6",
    );
    site.boot().await;
    assert_eq!(site.client().job(job, None).await.unwrap().gpu_use, None);
    use_of(&site, job, |gpus| gpus.used_gpu_secs > 0).await;
}
