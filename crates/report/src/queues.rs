//! The queue tree: `muster queues`.

use muster_model::Span;
use muster_model::view::{AccessView, BudgetView, QueueView, QuotaView};

use crate::RenderContext;
use crate::amount::{hours, percent};
use crate::clock;
use crate::style::Ink;
use crate::table::{Cell, Table};

/// Returns a table with one row per queue and GPU model, children indented under their parent.
#[must_use]
pub fn queues(rows: &[QueueView], context: RenderContext) -> String {
    // Each queue with its first model, then its other models.
    let rows: Vec<(Option<&QueueView>, Option<&QuotaView>)> = rows
        .iter()
        .flat_map(|queue| {
            let others = queue.gpus.iter().skip(1).map(|quota| (None, Some(quota)));
            std::iter::once((Some(queue), queue.gpus.first())).chain(others)
        })
        .collect();
    Table::of(&rows)
        .left("QUEUE", |(queue, _)| queue.map_or(Cell::default(), name))
        .right("WEIGHT", |(queue, _)| text(*queue, |queue| queue.weight.to_string()))
        .left("GPUS", |(_, quota)| quota.map_or(String::new(), held))
        .right("BORROWED", |(_, quota)| quota.map_or(String::new(), borrowed))
        .right("WAITING", |(queue, _)| text(*queue, |queue| queue.waiting.to_string()))
        .right("RUNNING", |(queue, _)| text(*queue, |queue| queue.running.to_string()))
        .right("GPU-HOURS", |(queue, _)| text(*queue, |queue| hours(queue.usage_gpu_secs)))
        .right("SHARE", |(queue, _)| text(*queue, |queue| percent(queue.share_ppm)))
        .left("BUDGET LEFT", |(queue, _)| {
            let budget = queue.and_then(|queue| queue.budget.as_ref());
            budget.map_or(String::new(), |budget| budget_left(budget, context))
        })
        .right("DEFAULT TIME", |(queue, _)| {
            let time = queue.and_then(|queue| queue.default_time);
            time.map_or(String::new(), |time| time.to_string())
        })
        .left("IDLE JOBS", |(queue, _)| {
            let idle = queue.and_then(|queue| queue.idle);
            idle.map_or(String::new(), |idle| {
                format!("{} after {}", idle.action.word(), idle.after)
            })
        })
        .left("YOU MAY", |(queue, _)| {
            let leaf = queue.filter(|queue| queue.is_leaf);
            leaf.and_then(|queue| queue.access.as_ref()).map_or(String::new(), may)
        })
        .render(context)
}

fn text(queue: Option<&QueueView>, text: impl Fn(&QueueView) -> String) -> String {
    queue.map_or(String::new(), text)
}

/// Returns the last part of the queue's path, indented by its depth.
fn name(queue: &QueueView) -> Cell {
    let path = queue.name.as_str();
    let name = path.rsplit('/').next().unwrap_or(path);
    let ink = if queue.is_leaf { Ink::Plain } else { Ink::Strong };
    Cell::inked(format!("{}{name}", "  ".repeat(path.matches('/').count())), ink)
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
            idle: None,
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
    fn the_policy_for_idle_jobs() {
        use muster_model::queue::{IdleAction, IdlePolicy};
        let idle = |action, minutes: u64| {
            Some(IdlePolicy { after: Span::from_secs(minutes * 60), action })
        };
        let rows = [
            QueueView { idle: idle(IdleAction::Cancel, 60), ..queue("a", true, Vec::new()) },
            QueueView { idle: idle(IdleAction::Notify, 5), ..queue("b", true, Vec::new()) },
            queue("c", true, Vec::new()),
        ];
        insta::assert_snapshot!(queues(&rows, RenderContext::plain().at(NOON)), @r"
        QUEUE  WEIGHT  WAITING  RUNNING  GPU-HOURS  SHARE  IDLE JOBS
        a           1        3        2       12.5  37.5%  cancel after 1h
        b           1        3        2       12.5  37.5%  notify after 5m
        c           1        3        2       12.5  37.5%
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
