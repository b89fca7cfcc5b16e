//! GPU-hours by user, queue and job: `muster usage`.

use std::collections::BTreeMap;

use muster_model::view::{UsageRow, UsageView};
use muster_model::{GpuMilli, QueueName, Span, UserName};

use crate::RenderContext;
use crate::amount::hours;
use crate::data_table::quoted;
use crate::style::clean;
use crate::table::Table;

/// Returns a table with one row per user and queue, and their sum if there are several. The decayed
/// GPU-hours are those that fair share counts.
#[must_use]
pub fn usage(rows: &[UsageView], context: RenderContext) -> String {
    let sum = |of: fn(&UsageView) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let all = UsageView {
        user: "all".into(),
        queue: "".into(),
        jobs: sum(|row| row.jobs),
        gpu_secs: sum(|row| row.gpu_secs),
        decayed_gpu_secs: sum(|row| row.decayed_gpu_secs),
    };
    let shown: Vec<&UsageView> = rows.iter().chain((rows.len() > 1).then_some(&all)).collect();
    Table::of(&shown)
        .left("USER", |row| row.user.as_str())
        .left("QUEUE", |row| row.queue.as_str())
        .right("JOBS", |row| row.jobs.to_string())
        .right("GPU-HOURS", |row| hours(row.gpu_secs))
        .right("DECAYED GPU-HOURS", |row| hours(row.decayed_gpu_secs))
        .render(context)
}

/// Usage of a period, with what it is compared to.
#[derive(Debug)]
pub struct PeriodUsage<'a> {
    /// Rows of the report, largest first.
    pub rows: &'a [UsageRow],
    /// Length of the period.
    pub length: Span,
    /// Price of a GPU-hour; `None` leaves the cost out.
    pub price: Option<f64>,
    /// GPUs of the quota of each queue, for usage by queue alone; empty leaves the comparison out.
    pub quotas: &'a BTreeMap<QueueName, GpuMilli>,
}

impl PeriodUsage<'_> {
    fn has(&self, is_there: impl Fn(&UsageRow) -> bool) -> bool {
        self.rows.iter().any(is_there)
    }

    fn cost(&self, row: &UsageRow) -> Option<f64> {
        Some(gpu_hours(row.gpu_secs) * self.price?)
    }

    /// Returns the sum of all rows.
    fn all(&self) -> UsageRow {
        let sum = |of: fn(&UsageRow) -> u64| self.rows.iter().map(of).fold(0, u64::saturating_add);
        UsageRow {
            attempts: sum(|row| row.attempts),
            gpu_secs: sum(|row| row.gpu_secs),
            failed_gpu_secs: sum(|row| row.failed_gpu_secs),
            restarted_gpu_secs: sum(|row| row.restarted_gpu_secs),
            measured_gpu_secs: sum(|row| row.measured_gpu_secs),
            used_gpu_secs: self
                .rows
                .iter()
                .filter_map(|row| row.used_gpu_secs)
                .reduce(u64::saturating_add),
            ..UsageRow::default()
        }
    }

    /// Returns the part of its quota that a queue held, in whole per cent; empty without a quota.
    fn of_quota(&self, row: &UsageRow) -> String {
        let quota = row.queue.as_ref().and_then(|queue| self.quotas.get(queue));
        let milli_ms = quota.map_or(0, |quota| u64::from(quota.0).saturating_mul(self.length.0));
        match u128::from(milli_ms) {
            0 => String::new(),
            most => format!("{} %", u128::from(row.gpu_secs) * 100_000_000 / most),
        }
    }
}

/// Text of a figure that was not measured, which is not 0.
const NOT_MEASURED: &str = "-";
/// Part of the held GPU time in percent from which on it counts as measured: polls miss the end of each attempt.
const MOSTLY_PERCENT: u64 = 95;

/// Returns a part in whole per cent; `None` of nothing.
pub(crate) fn percent_of(part: u64, whole: u64) -> Option<u64> {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    (whole > 0).then(|| u64::try_from(percent).unwrap_or(u64::MAX))
}

/// Returns true if nearly all of the held GPU time was measured.
pub(crate) fn is_mostly_measured(measured: u64, held: u64) -> bool {
    percent_of(measured, held).is_none_or(|percent| percent >= MOSTLY_PERCENT)
}

/// Returns true if some of the held GPU time was measured, and not nearly all.
fn is_partly_measured(row: &UsageRow) -> bool {
    row.used_gpu_secs.is_some() && !is_mostly_measured(row.measured_gpu_secs, row.gpu_secs)
}

fn utilisation(row: &UsageRow) -> String {
    let used = row.used_gpu_secs.and_then(|used| percent_of(used, row.measured_gpu_secs));
    used.map_or(NOT_MEASURED.to_owned(), |percent| format!("{percent} %"))
}

fn gpu_hours(gpu_secs: u64) -> f64 {
    gpu_secs as f64 / 3600.0
}

/// Returns a table of the usage of a period, and its sum if there are several rows.
#[must_use]
pub fn period(usage: &PeriodUsage<'_>, context: RenderContext) -> String {
    let all = usage.all();
    let sum = (usage.rows.len() > 1).then_some(&all);
    let rows: Vec<&UsageRow> = usage.rows.iter().chain(sum).collect();
    let has_users = usage.has(|row| row.user.is_some());
    let has_queues = usage.has(|row| row.queue.is_some());
    // The sum has neither user nor queue nor job: its name is in the first column.
    let mut table = Table::of(&rows);
    if has_users {
        table = table.left("USER", |row| row.user.as_ref().map_or("all", UserName::as_str));
    }
    if has_queues {
        let sum = if has_users { "" } else { "all" };
        table = table.left("QUEUE", |row| row.queue.as_ref().map_or(sum, QueueName::as_str));
    }
    if usage.has(|row| row.job.is_some()) {
        let sum = if has_users || has_queues { "" } else { "all" };
        table = table
            .left("JOB", |row| row.job.map_or(sum.to_owned(), |job| job.to_string()))
            .left("NAME", |row| row.name.clone().unwrap_or_default());
    }
    table = table
        .right("ATTEMPTS", |row| row.attempts.to_string())
        .right("GPU-HOURS", |row| hours(row.gpu_secs))
        .right("USED", |row| row.used_gpu_secs.map_or(NOT_MEASURED.to_owned(), hours))
        .right("UTILISATION", |row| utilisation(row));
    if usage.has(is_partly_measured) {
        table = table.right("MEASURED", |row| {
            percent_of(row.measured_gpu_secs, row.gpu_secs)
                .map_or(NOT_MEASURED.to_owned(), |percent| format!("{percent} %"))
        });
    }
    table = table
        .right("FAILED", |row| hours(row.failed_gpu_secs))
        .right("RESTARTED", |row| hours(row.restarted_gpu_secs));
    if !usage.quotas.is_empty() {
        table = table.right("OF QUOTA", |row| usage.of_quota(row));
    }
    if usage.price.is_some() {
        table = table.right("COST", |row| {
            usage.cost(row).map_or(String::new(), |cost| format!("{cost:.2}"))
        });
    }
    table.render(context)
}

/// Returns the usage of a period as CSV, with hours to the thousandth and no sum.
#[must_use]
pub fn period_csv(usage: &PeriodUsage<'_>) -> String {
    let cost = if usage.price.is_some() { ",cost" } else { "" };
    let mut text = format!(
        "user,queue,job,name,attempts,gpu_hours,used_gpu_hours,measured_gpu_hours,failed_gpu_hours,restarted_gpu_hours{cost}\n"
    );
    for row in usage.rows {
        let text_of = |value: Option<&str>| value.map_or(String::new(), csv_field);
        let mut fields = vec![
            text_of(row.user.as_ref().map(UserName::as_str)),
            text_of(row.queue.as_ref().map(QueueName::as_str)),
            row.job.map_or(String::new(), |job| job.to_string()),
            text_of(row.name.as_deref()),
            row.attempts.to_string(),
        ];
        let hours = |secs: u64| format!("{:.3}", gpu_hours(secs));
        fields.push(hours(row.gpu_secs));
        fields.push(row.used_gpu_secs.map_or(String::new(), hours));
        fields.extend(
            [row.measured_gpu_secs, row.failed_gpu_secs, row.restarted_gpu_secs].map(hours),
        );
        fields.extend(usage.cost(row).map(|cost| format!("{cost:.2}")));
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

/// Quotes a field where that is needed (RFC 4180). A name that a spreadsheet would take for a formula gets an apostrophe,
/// which marks text there.
fn csv_field(text: &str) -> String {
    let text = clean(text);
    let mark = if text.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    quoted(&format!("{mark}{text}"))
}

#[cfg(test)]
mod tests {
    use muster_model::JobId;

    use super::*;

    #[test]
    fn users_and_their_sum() {
        let row = |user: &str, jobs, gpu_secs| UsageView {
            user: user.into(),
            queue: "default".into(),
            jobs,
            gpu_secs,
            decayed_gpu_secs: gpu_secs / 2,
        };
        insta::assert_snapshot!(usage(&[row("alice", 12, 45_000), row("bob", 1, 360)], RenderContext::plain()), @r"
        USER   QUEUE    JOBS  GPU-HOURS  DECAYED GPU-HOURS
        alice  default    12       12.5                6.2
        bob    default     1        0.1                0.0
        all               13       12.6                6.3
        ");
    }

    fn rows() -> Vec<UsageRow> {
        let row =
            |queue: &str, job: u64, name: &str, gpu_secs, used_gpu_secs: Option<u64>| UsageRow {
                queue: Some(queue.into()),
                job: Some(JobId(job)),
                name: Some(name.to_owned()),
                attempts: 2,
                gpu_secs,
                failed_gpu_secs: 1800,
                restarted_gpu_secs: 0,
                measured_gpu_secs: if used_gpu_secs.is_none() { 0 } else { gpu_secs * 4 / 5 },
                used_gpu_secs,
                ..UsageRow::default()
            };
        vec![
            row("lab", 7, "train, \"big\"", 45_000, Some(27_000)),
            row("lab/vision", 8, "eval", 3600, None),
        ]
    }

    #[test]
    fn a_period_is_a_table_with_its_sum() {
        let quotas = [("lab".into(), GpuMilli(1000))].into();
        let rows = rows();
        let usage = PeriodUsage {
            rows: &rows,
            length: Span::from_secs(36_000),
            price: Some(2.5),
            quotas: &quotas,
        };
        insta::assert_snapshot!(period(&usage, RenderContext::plain()), @r#"
        QUEUE       JOB  NAME          ATTEMPTS  GPU-HOURS  USED  UTILISATION  MEASURED  FAILED  RESTARTED  OF QUOTA   COST
        lab         7    train, "big"         2       12.5   7.5         75 %      80 %     0.5        0.0     125 %  31.25
        lab/vision  8    eval                 2        1.0     -            -       0 %     0.5        0.0             2.50
        all                                   4       13.5   7.5         75 %      74 %     1.0        0.0            33.75
        "#);
        // Without a measured GPU-hour nothing is said of how much was measured.
        let rows = &rows[1..];
        let usage = PeriodUsage { price: None, quotas: &BTreeMap::new(), rows, ..usage };
        insta::assert_snapshot!(period(&usage, RenderContext::plain()), @r"
        QUEUE       JOB  NAME  ATTEMPTS  GPU-HOURS  USED  UTILISATION  FAILED  RESTARTED
        lab/vision  8    eval         2        1.0     -            -     0.5        0.0
        ");
    }

    #[test]
    fn a_period_is_csv() {
        let quotas = BTreeMap::new();
        let rows = rows();
        let usage = PeriodUsage { rows: &rows, length: Span(0), price: Some(2.5), quotas: &quotas };
        assert_eq!(csv_field("=1+1\u{1b}"), "'=1+1?");
        assert_eq!(
            period_csv(&usage),
            "user,queue,job,name,attempts,gpu_hours,used_gpu_hours,measured_gpu_hours,failed_gpu_hours,restarted_gpu_hours,cost\n\
             ,lab,7,\"train, \"\"big\"\"\",2,12.500,7.500,10.000,0.500,0.000,31.25\n\
             ,lab/vision,8,eval,2,1.000,,0.000,0.500,0.000,2.50\n"
        );
    }
}
