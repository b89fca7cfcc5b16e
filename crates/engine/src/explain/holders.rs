//! Holders of GPUs that an element could use.

use std::collections::BTreeMap;

use muster_model::view::{ElementView, Holder, HolderEnd, JobState};
use muster_model::{ElementId, GpuMilli, Span, Time};

use crate::pool::shape::Shape;
use crate::state::State;
use crate::state::view::element_view;

/// Maximum number of holders that are named.
const MAX_NAMED: usize = 10;

/// Returns the holders, earliest end first.
pub(super) fn of(state: &State, now: Time, shape: &Shape) -> Vec<Holder> {
    let mut held: BTreeMap<(Time, ElementId), u64> = BTreeMap::new();
    for holding in state.pool.holdings() {
        let milli: u64 = holding
            .placement
            .iter()
            .filter(|task| {
                let node = state.pool.node(task.node);
                let mut devices = task.devices.minus(node.availability.outside).iter();
                let model = devices.next().and_then(|device| node.model_of(device));
                let is_wanted = |model| {
                    shape.groups.iter().any(|group| group.wants_gpu() && group.accepts(model))
                };
                node.accepts_work() && shape.admits(node) && model.is_some_and(is_wanted)
            })
            .map(|task| u64::from(task.devices.len()) * u64::from(task.share.0))
            .sum();
        if milli > 0 {
            // Its limit, whatever run time is predicted.
            held.insert((state.latest_end(now, holding), holding.element), milli);
        }
    }
    let spec = |id: ElementId| state.jobs.get(&id.job).map(|job| &*job.record.spec);
    let what_ends = |id, view: Option<&ElementView>| match spec(id) {
        _ if view.is_some_and(|view| view.state == JobState::Stopping) => HolderEnd::Stopping,
        Some(spec) if spec.grace > Span(0) => HolderEnd::Grace,
        _ => HolderEnd::TimeLimit,
    };
    held.into_iter()
        .take(MAX_NAMED)
        .map(|((end, element), milli)| {
            let view = element_view(state, now, element);
            Holder {
                element,
                name: spec(element).map(|spec| spec.name.to_string()).unwrap_or_default(),
                gpus: GpuMilli(u32::try_from(milli).unwrap_or(u32::MAX)),
                ends_by: (end < Time::NEVER).then_some(end),
                end: what_ends(element, view.as_ref()),
                expected_end: view.and_then(|view| view.expected_end),
            }
        })
        .collect()
}
