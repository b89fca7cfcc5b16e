//! What people are shown of windows. It changes nothing.

use muster_model::view::{NodeWindowView, WindowPlaceView, WindowView, device_indices};
use muster_model::{DeviceSet, Time, WindowWhat};

use super::{Claim, Placed, times};
use crate::state::State;

/// A window as one of its nodes sees it; nothing once it is over.
pub(crate) fn of_node(claim: &Claim, now: Time) -> Option<NodeWindowView> {
    let (begins, ends) = times::at_or_after(&claim.window.times, now)?;
    Some(NodeWindowView {
        window: claim.window.name.clone(),
        devices: claim.devices.map(device_indices).unwrap_or_default(),
        is_open: begins <= now,
        begins,
        ends,
    })
}

impl State {
    /// All windows, by name.
    pub(crate) fn window_views(&self, now: Time) -> Vec<WindowView> {
        self.windows.iter().map(|placed| self.window_view(placed, now)).collect()
    }

    fn window_view(&self, placed: &Placed, now: Time) -> WindowView {
        let window = &placed.window;
        let next = times::at_or_after(&window.times, now);
        let (gpus, model) = match &window.what {
            WindowWhat::Nodes(_) => (None, None),
            WindowWhat::Gpus { count, model } => (Some(*count), model.clone()),
        };
        let there = |name, devices: Option<DeviceSet>| {
            let node = self.pool.find(name).map(|id| self.pool.node(id)).filter(|node| node.up);
            node.map_or(0, |_| devices.map_or(0, DeviceSet::len))
        };
        let found = placed.places.iter().map(|place| there(&place.node, place.devices)).sum();
        let named = self
            .jobs
            .values()
            .filter(|job| job.record.spec.constraint.window.as_ref() == Some(&window.name));
        let (running, waiting) = named.fold((0, 0), |(running, waiting), job| {
            (running + job.record.active, waiting + job.record.waiting())
        });
        WindowView {
            name: window.name.clone(),
            users: window.users.clone(),
            queues: window.queues.clone(),
            times: window.times,
            is_open: next.is_some_and(|(begins, _)| begins <= now),
            begins: next.map(|(begins, _)| begins),
            ends: next.map(|(_, ends)| ends),
            gpus,
            model,
            gpus_missing: gpus.map_or(0, |gpus| gpus.saturating_sub(found)),
            places: placed
                .places
                .iter()
                .map(|place| WindowPlaceView {
                    node: place.node.clone(),
                    devices: place.devices.map(device_indices).unwrap_or_default(),
                })
                .collect(),
            running,
            waiting,
            stop: window.stop,
            by: window.by.clone(),
            reason: window.reason.to_string(),
        }
    }
}
