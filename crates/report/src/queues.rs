//! The queue tree: `muster queues`.

use muster_model::view::{QueueView, QuotaView};

use crate::amount::{hours, percent};
use crate::style::{Ink, Style};
use crate::table::{Align, Cell, Table};

/// One row per queue and GPU model, children indented under their parent.
#[must_use]
pub fn queues(rows: &[QueueView], style: &Style) -> String {
    let mut table = Table::new(&[
        ("QUEUE", Align::Left),
        ("WEIGHT", Align::Right),
        ("GPUS", Align::Left),
        ("BORROWED", Align::Right),
        ("WAITING", Align::Right),
        ("RUNNING", Align::Right),
        ("GPU-HOURS", Align::Right),
        ("SHARE", Align::Right),
    ]);
    for queue in rows {
        let path = queue.name.as_str();
        let depth = path.matches('/').count();
        let name = path.rsplit('/').next().unwrap_or(path);
        let ink = if queue.is_leaf { Ink::Plain } else { Ink::Strong };
        table.row(vec![
            Cell::inked(format!("{}{name}", "  ".repeat(depth)), ink),
            Cell::from(queue.weight.to_string()),
            Cell::from(queue.gpus.first().map_or(String::new(), held)),
            Cell::from(queue.gpus.first().map_or(String::new(), borrowed)),
            Cell::from(queue.waiting.to_string()),
            Cell::from(queue.running.to_string()),
            Cell::from(hours(queue.usage_gpu_secs)),
            Cell::from(percent(queue.share_ppm)),
        ]);
        for quota in queue.gpus.iter().skip(1) {
            table.row(vec!["".into(), "".into(), held(quota).into(), borrowed(quota).into()]);
        }
    }
    table.render(style)
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

#[cfg(test)]
mod tests {
    use muster_model::GpuMilli;

    use super::*;

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
        insta::assert_snapshot!(queues(&rows, &Style::plain()), @r"
        QUEUE     WEIGHT  GPUS           BORROWED  WAITING  RUNNING  GPU-HOURS  SHARE
        research       1  20 of 32 h100                  3        2       12.5  37.5%
          vision       1  18 of 16 h100         2        3        2       12.5  37.5%
                          0.5 a100
        default        1                                 3        2       12.5  37.5%
        ");
    }
}
