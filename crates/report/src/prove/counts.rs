//! Outcomes counted over all orders: of one pool, and as a grid over pool and gang sizes.

use muster_model::proof::{GangOrders, GangSweep, OrderCounts, OrderShare, SweepCell};

use super::{closing, line, needs, per_pod, pool};
use crate::RenderContext;
use crate::amount::count;
use crate::style::Ink;
use crate::table::{Cell, Table};

/// Selects one of the outcomes.
type OutcomeField = fn(&OrderCounts) -> &OrderShare;

/// Largest denominator of a fraction that is shown.
const READABLE: u128 = 1_000_000;
/// Higher counts are shown as a percentage only; `--json` has them exactly.
const LONG: u128 = 1_000_000_000_000;
/// Columns of one pool in a grid.
const COLUMN: usize = 4;
/// Columns in front of a grid.
const MARGIN: usize = 8;

/// Returns the outcomes counted over all orders, under both kinds of admission.
#[must_use]
pub fn orders(found: &GangOrders, context: RenderContext) -> String {
    let requested = format!(
        "{}; {}; {}; {} of arrival",
        pool(found.gpus),
        needs(&found.gangs),
        per_pod(found.gpus_per_pod),
        if found.orders == 1 { "1 order".to_owned() } else { format!("{} orders", found.orders) },
    );
    let mut text = line(&requested, context);
    text.push('\n');
    let cell = |of: &OrderShare, bad| Cell::inked(share(of), ink(of, bad));
    text += &Table::of(&[("pod by pod", &found.per_pod), ("gang admission", &found.gang)])
        .left("ADMISSION", |(name, _)| *name)
        .left("DEADLOCK", |(_, counts)| cell(&counts.deadlock, Ink::Bad))
        .left("WASTE", |(_, counts)| cell(&counts.waste, Ink::Waiting))
        .left("WHOLE", |(_, counts)| cell(&counts.whole, Ink::Good))
        .render(context);
    text.push('\n');
    let steps = found.per_pod.engine_steps + found.gang.engine_steps;
    let how = format!(
        "the engine decided {}; orders that lead to the same arrivals and holdings are counted together",
        count(steps, "submission")
    );
    text += &closing("how", &how, context);
    text += &closing("next", "muster prove gang --sweep", context);
    text
}

fn ink(share: &OrderShare, ink: Ink) -> Ink {
    if share.orders == 0 { Ink::Faint } else { ink }
}

/// `none`, `all 252`, `140 (5/9, 55.6%)`.
fn share(share: &OrderShare) -> String {
    match (share.orders, share.numerator, share.denominator) {
        (0, ..) => "none".to_owned(),
        (LONG.., 1, 1) => "all".to_owned(),
        (orders, 1, 1) => format!("all {orders}"),
        (LONG.., ..) => tenths(share),
        (orders, above, below @ 0..READABLE) => {
            format!("{orders} ({above}/{below}, {})", tenths(share))
        }
        (orders, ..) => format!("{orders} ({})", tenths(share)),
    }
}

/// Returns a percentage with one decimal, which reads as 0 % or 100 % only if it is exactly that.
fn tenths(share: &OrderShare) -> String {
    match (share.ppm + 500) / 1000 {
        0 => "<0.1%".to_owned(),
        1000.. => ">99.9%".to_owned(),
        tenths => format!("{}.{}%", tenths / 10, tenths % 10),
    }
}

/// Returns the shares of all orders that deadlock and that waste GPUs, pod by pod, over pool and
/// gang sizes.
#[must_use]
pub fn sweep(found: &GangSweep, context: RenderContext) -> String {
    let requested = format!(
        "{} gangs of equal size, {}; percent of all orders of arrival, · is none",
        found.gangs,
        per_pod(found.gpus_per_pod)
    );
    let mut text = line(&requested, context);
    let shares: [(&str, OutcomeField); 2] = [
        ("deadlock, pod by pod: nothing ever runs", |counts| &counts.deadlock),
        ("waste, pod by pod: a gang that does not run holds GPUs", |counts| &counts.waste),
    ];
    for (title, of) in shares {
        text += &format!("\n{title}\n");
        text += &grid(&found.cells, of, context);
    }
    let bad = |counts: &OrderCounts| counts.deadlock.orders + counts.waste.orders > 0;
    let cells = count(found.cells.len() as u64, "cell");
    let gang = match found.cells.iter().filter(|cell| bad(&cell.gang)).count() {
        0 => format!("no order deadlocks or wastes in any of {cells}"),
        some => format!("orders deadlock or waste in {some} of {cells}"),
    };
    let never = found.cells.iter().any(|cell| cell.need_pods * found.gpus_per_pod > cell.gpus);
    let never = if never { "; a gang larger than the pool is refused at once" } else { "" };
    text.push('\n');
    text += &line(&format!("gang admission: {gang}{never}"), context);
    text
}

/// Returns a grid with pools across and gang sizes down, with as many pools per row as fit the
/// terminal.
fn grid(cells: &[SweepCell], of: OutcomeField, context: RenderContext) -> String {
    let Some(first) = cells.first() else { return String::new() };
    let pools = cells.iter().take_while(|cell| cell.need_pods == first.need_pods).count();
    let space =
        context.width.map_or(pools, |width| width.saturating_sub(MARGIN) / COLUMN).clamp(1, pools);
    let mut text = String::new();
    for from in (0..pools).step_by(space) {
        let part = from..(from + space).min(pools);
        let heading: String =
            cells[part.clone()].iter().map(|cell| format!("{:>COLUMN$}", cell.gpus)).collect();
        text += &context.paint(Ink::Strong, &format!("{:>MARGIN$}{heading}", "GPUS"));
        text.push('\n');
        for row in cells.chunks(pools) {
            let shares = row[part.clone()].iter().map(|cell| of(&cell.per_pod));
            let line: String =
                shares.map(|share| format!("{:>COLUMN$}", whole_percent(share))).collect();
            let label = row.first().map_or(0, |cell| cell.need_pods);
            text += &format!("{:>MARGIN$}{line}\n", format!("need {label}"));
        }
    }
    text
}

/// Returns a percentage in three characters, which reads as 0 % or 100 % only if it is exactly
/// that.
fn whole_percent(share: &OrderShare) -> String {
    match (share.orders, (share.ppm + 5000) / 10_000) {
        (0, _) => "·".to_owned(),
        (_, 0) => "<1".to_owned(),
        (_, 100..) if share.denominator > 1 => ">99".to_owned(),
        (_, percent) => percent.to_string(),
    }
}
