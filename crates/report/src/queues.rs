//! The queue tree: `muster queues`.

use muster_model::Span;
use muster_model::view::{AccessView, BudgetView, QueueView, QuotaView};

use crate::RenderContext;
use crate::amount::{hours, percent};
use crate::clock;
use crate::style::Ink;
use crate::table::{Align, Cell, Table};

/// Returns a table with one row per queue and GPU model, children indented under their parent.
#[must_use]
pub fn queues(rows: &[QueueView], context: RenderContext) -> String {
    // Columns of optional features are shown only where they are used.
    let has_times = rows.iter().any(|queue| queue.default_time.is_some());
    let is_shared = rows.iter().any(|queue| queue.access.is_some());
    let mut columns = vec![
        ("QUEUE", Align::Left),
        ("WEIGHT", Align::Right),
        ("GPUS", Align::Left),
        ("BORROWED", Align::Right),
        ("WAITING", Align::Right),
        ("RUNNING", Align::Right),
        ("GPU-HOURS", Align::Right),
        ("SHARE", Align::Right),
        ("BUDGET LEFT", Align::Left),
    ];
    columns.extend(has_times.then_some(("DEFAULT TIME", Align::Right)));
    columns.extend(is_shared.then_some(("YOU MAY", Align::Left)));
    let mut table = Table::new(&columns);
    for queue in rows {
        let path = queue.name.as_str();
        let depth = path.matches('/').count();
        let name = path.rsplit('/').next().unwrap_or(path);
        let ink = if queue.is_leaf { Ink::Plain } else { Ink::Strong };
        let mut cells = vec![
            Cell::inked(format!("{}{name}", "  ".repeat(depth)), ink),
            Cell::from(queue.weight.to_string()),
            Cell::from(queue.gpus.first().map_or(String::new(), held)),
            Cell::from(queue.gpus.first().map_or(String::new(), borrowed)),
            Cell::from(queue.waiting.to_string()),
            Cell::from(queue.running.to_string()),
            Cell::from(hours(queue.usage_gpu_secs)),
            Cell::from(percent(queue.share_ppm)),
            Cell::from(
                queue.budget.as_ref().map_or(String::new(), |budget| budget_left(budget, context)),
            ),
        ];
        if has_times {
            cells.push(Cell::from(
                queue.default_time.map_or(String::new(), |time| time.to_string()),
            ));
        }
        cells.extend(
            queue
                .access
                .as_ref()
                .filter(|_| is_shared && queue.is_leaf)
                .map(|access| Cell::from(may(access))),
        );
        table.row(cells);
        for quota in queue.gpus.iter().skip(1) {
            table.row(vec!["".into(), "".into(), held(quota).into(), borrowed(quota).into()]);
        }
    }
    table.render(context)
}

/// Describes what the calling user may do in a queue: `submit, priority to 5, protect 30m`.
fn may(access: &AccessView) -> String {
    if !access.may_submit {
        return "-".to_owned();
    }
    let mut words = vec!["submit".to_owned()];
    words.extend((access.max_priority > 0).then(|| format!("priority to {}", access.max_priority)));
    words.extend(match access.max_protect {
        Span(0) => None,
        Span(u64::MAX) => Some("protect".to_owned()),
        span => Some(format!("protect {span}")),
    });
    words.join(", ")
}

fn held(quota: &QuotaView) -> String {
    match quota.nominal {
        Some(nominal) => format!("{} of {nominal} {}", quota.used, quota.model),
        None => format!("{} {}", quota.used, quota.model),
    }
}

fn borrowed(quota: &QuotaView) -> String {
    if quota.borrowed.0 == 0 { String::new() } else { quota.borrowed.to_string() }
}

/// `12.0 of 5000.0 until Dec 01 00:00`, in GPU-hours; the budget per user if only users have one.
fn budget_left(budget: &BudgetView, context: RenderContext) -> String {
    let until = clock::time(budget.refills_at, context);
    let each = budget.per_user_gpu_secs.map(|secs| format!("{} per user", hours(secs)));
    match (budget.gpu_secs, each) {
        (None, each) => format!("{} until {until}", each.unwrap_or_default()),
        (Some(all), each) => {
            let taken = budget.used_gpu_secs.saturating_add(budget.promised_gpu_secs);
            let each = each.map_or(String::new(), |each| format!(", {each}"));
            format!("{} of {}{each} until {until}", hours(all.saturating_sub(taken)), hours(all))
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_model::GpuMilli;

    use super::*;
    use crate::sample::NOON;

    fn queue(name: &str, is_leaf: bool, gpus: Vec<QuotaView>) -> QueueView {
        QueueView {
            name: name.into(),
            is_leaf,
            weight: 1,
            gpus,
            waiting: 3,
            running: 2,
            usage_gpu_secs: 45_000,
            share_ppm: 375_000,
            budget: None,
            default_time: None,
            access: None,
        }
    }

    fn quota(model: &str, nominal: Option<u32>, used: u32, borrowed: u32) -> QuotaView {
        QuotaView {
            model: model.into(),
            nominal: nominal.map(GpuMilli),
            used: GpuMilli(used),
            borrowed: GpuMilli(borrowed),
        }
    }

    #[test]
    fn a_tree_with_quotas() {
        let rows = [
            queue("research", false, vec![quota("h100", Some(32_000), 20_000, 0)]),
            queue(
                "research/vision",
                true,
                vec![quota("h100", Some(16_000), 18_000, 2000), quota("a100", None, 500, 0)],
            ),
            queue("default", true, Vec::new()),
        ];
        insta::assert_snapshot!(queues(&rows, RenderContext::plain().at(NOON)), @r"
        QUEUE     WEIGHT  GPUS           BORROWED  WAITING  RUNNING  GPU-HOURS  SHARE
        research       1  20 of 32 h100                  3        2       12.5  37.5%
          vision       1  18 of 16 h100         2        3        2       12.5  37.5%
                          0.5 a100
        default        1                                 3        2       12.5  37.5%
        ");
    }

    #[test]
    fn what_is_left_of_a_budget() {
        let budget = |hours: Option<u64>, per_user: Option<u64>| BudgetView {
            gpu_secs: hours.map(|hours| hours * 3600),
            used_gpu_secs: 36_000,
            promised_gpu_secs: 3600,
            per_user_gpu_secs: per_user.map(|hours| hours * 3600),
            users: Vec::new(),
            every: muster_model::Span::from_secs(86_400),
            refills_at: NOON + muster_model::Span::from_secs(43_200),
        };
        let with =
            |name, budget| QueueView { budget: Some(budget), ..queue(name, true, Vec::new()) };
        let rows = [
            with("all", budget(Some(5000), None)),
            with("both", budget(Some(10), Some(200))),
            with("users", budget(None, Some(200))),
            queue("none", true, Vec::new()),
        ];
        insta::assert_snapshot!(queues(&rows, RenderContext::plain().at(NOON)), @r"
        QUEUE  WEIGHT  WAITING  RUNNING  GPU-HOURS  SHARE  BUDGET LEFT
        all         1        3        2       12.5  37.5%  4989.0 of 5000.0 until Nov 21 00:00
        both        1        3        2       12.5  37.5%  0.0 of 10.0, 200.0 per user until Nov 21 00:00
        users       1        3        2       12.5  37.5%  200.0 per user until Nov 21 00:00
        none        1        3        2       12.5  37.5%
        ");
    }
}
