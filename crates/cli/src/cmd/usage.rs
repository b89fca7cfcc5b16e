//! `muster usage`.

use std::collections::BTreeMap;

use anyhow::Result;
use muster_api::Client;
use muster_api::query::UsageQuery;
use muster_model::view::UsageKey;
use muster_model::{GpuMilli, QueueName};
use muster_report::usage::{self, PeriodUsage};

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::Failure;
use crate::past::Past;

/// Show the GPU-hours used, by user, queue or job
///
/// Without a period: GPU-hours in total, and decayed GPU-hours, which count for fair share (usage
/// decays with a half-life). On Kubernetes, users are namespaces, and the total is that of the pods
/// that still exist. JSON: a `UsageList`.
///
/// With --since, --until, --by, --csv or --price: GPU-hours held in a period, by default the last 30
/// days, and how many of them were in attempts that failed, or after which the job was to start
/// again: FAILED counts a time limit too, and of RESTARTED only what was computed since the last
/// checkpoint is lost. A held GPU counts whether it is busy or idle. USED is the part in which the
/// GPUs computed, as polls of their loads every 20 s saw it; UTILISATION is that part of the measured
/// GPU-hours, and MEASURED the part of the held ones that was measured. `-` is never measured:
/// virtual GPUs, GPUs whose driver knows no load, Slurm and Kubernetes. JSON: a `UsageReport`.
#[derive(Debug, clap::Args)]
pub struct UsageArgs {
    /// Start of the period: 30d, 2026-08-01 or 2026-08-01T06:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<Past>,
    /// End of the period; by default now
    #[arg(long, value_name = "TIME")]
    until: Option<Past>,
    /// Sum by `user`, `queue` or `job`, or by several; by default user,queue
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    by: Vec<UsageKey>,
    /// Write CSV, with hours to the thousandth
    #[arg(long, conflicts_with_all = ["json", "output"])]
    csv: bool,
    /// Price of a GPU-hour, for a column with the cost
    #[arg(long, value_name = "PRICE", value_parser = price)]
    price: Option<f64>,
    #[command(flatten)]
    output: OutputArgs,
}

fn price(text: &str) -> std::result::Result<f64, String> {
    let price = text.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| "expected an amount, such as 2.50".to_owned())
}

impl UsageArgs {
    fn is_of_period(&self) -> bool {
        let has_period = self.since.is_some() || self.until.is_some();
        has_period || !self.by.is_empty() || self.csv || self.price.is_some()
    }
}

/// Runs `muster usage`; returns its exit code.
pub async fn run(app: &App, args: UsageArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    if args.is_of_period() {
        return of_period(app, &client, args).await;
    }
    let list = client.usage().await.map_err(Failure::from)?;
    if args.output.json() {
        app.ui.json(&list)?;
    } else if list.rows.is_empty() {
        app.ui.status("no usage is recorded");
    } else {
        app.ui.data(&usage::usage(&list.rows, app.ui.context()))?;
    }
    Ok(0)
}

async fn of_period(app: &App, client: &Client, args: UsageArgs) -> Result<u8> {
    // 1. Ask.
    let now = jiff::Zoned::now();
    let instant = |past: Option<Past>| past.map(|past| past.instant(&now)).transpose();
    let since = instant(args.since)?;
    let until = instant(args.until)?;
    if since.zip(until).is_some_and(|(since, until)| until <= since) {
        return Err(Failure::usage("the period ends before it begins").into());
    }
    let by = match args.by.as_slice() {
        [] => vec![UsageKey::User, UsageKey::Queue],
        by => by.to_vec(),
    };
    let words: Vec<&str> = by.iter().map(|key| key.word()).collect();
    let query = UsageQuery { since, until, by: words.join(",") };
    let report = client.usage_report(&query).await.map_err(Failure::from)?;
    if args.output.json() {
        app.ui.json(&report)?;
        return Ok(0);
    }
    // 2. Show.
    let quotas = match by.as_slice() {
        [UsageKey::Queue] if !args.csv => quotas(client).await?,
        _ => BTreeMap::new(),
    };
    let shown = PeriodUsage {
        rows: &report.rows,
        length: report.until.since(report.since),
        price: args.price,
        quotas: &quotas,
    };
    if args.csv {
        app.ui.bytes(usage::period_csv(&shown).as_bytes())?;
    } else if report.rows.is_empty() {
        app.ui.status("nothing held GPUs or other resources in this period");
    } else {
        app.ui.data(&usage::period(&shown, app.ui.context()))?;
    }
    Ok(0)
}

/// Returns the GPUs of each queue's quota as it is now, over all models.
async fn quotas(client: &Client) -> Result<BTreeMap<QueueName, GpuMilli>> {
    let list = client.queues().await.map_err(Failure::from)?;
    let quota = |queue: muster_model::view::QueueView| {
        let milli: u32 = queue.gpus.iter().filter_map(|one| Some(one.nominal?.0)).sum();
        (milli > 0).then_some((queue.name, GpuMilli(milli)))
    };
    Ok(list.queues.into_iter().filter_map(quota).collect())
}
