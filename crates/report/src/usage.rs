//! GPU-hours by user and queue: `muster usage`.

use muster_model::view::UsageView;

use crate::RenderContext;
use crate::amount::hours;
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

#[cfg(test)]
mod tests {
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
}
