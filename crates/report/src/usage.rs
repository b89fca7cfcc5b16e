//! GPU-hours by user and queue: `muster usage`.

use muster_model::view::UsageView;

use crate::RenderContext;
use crate::amount::hours;
use crate::table::{Align, Cell, Table};

/// Returns a table with one row per user and queue, and their sum if there are several. The decayed
/// GPU-hours are those that fair share counts.
#[must_use]
pub fn usage(rows: &[UsageView], context: RenderContext) -> String {
    let mut table = Table::new(&[
        ("USER", Align::Left),
        ("QUEUE", Align::Left),
        ("JOBS", Align::Right),
        ("GPU-HOURS", Align::Right),
        ("DECAYED GPU-HOURS", Align::Right),
    ]);
    let mut add = |user: &str, queue: &str, jobs: u64, secs: u64, decayed: u64| {
        table.row(vec![
            Cell::from(user),
            Cell::from(queue),
            Cell::from(jobs.to_string()),
            Cell::from(hours(secs)),
            Cell::from(hours(decayed)),
        ]);
    };
    for row in rows {
        add(row.user.as_str(), row.queue.as_str(), row.jobs, row.gpu_secs, row.decayed_gpu_secs);
    }
    if rows.len() > 1 {
        let sum = |of: fn(&UsageView) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
        add(
            "all",
            "",
            sum(|row| row.jobs),
            sum(|row| row.gpu_secs),
            sum(|row| row.decayed_gpu_secs),
        );
    }
    table.render(context)
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
