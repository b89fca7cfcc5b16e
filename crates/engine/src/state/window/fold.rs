//! Events about windows, and the turns of windows as time passes: nodes get and lose their walls,
//! jobs fall asleep and wake.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{JobId, Time, Window, WindowName, WindowPlace, WindowWhat};

use super::{Claim, Placed};
use crate::state::State;

impl State {
    /// What began or ended by now does so for everybody.
    pub(crate) fn turn(&mut self, now: Time) {
        self.pool.drains_begin(now);
        if self.windows.turns_at <= now {
            self.windows.look_ahead(now);
            self.pool.look_again();
            self.sync_windowed(now, |_| true);
        }
    }

    pub(in crate::state) fn window_set(&mut self, now: Time, window: &Window) {
        let places = match &window.what {
            WindowWhat::Nodes(nodes) => {
                let nodes: BTreeSet<_> = nodes.iter().cloned().collect();
                nodes.into_iter().map(|node| WindowPlace { node, devices: None }).collect()
            }
            WindowWhat::Gpus { .. } => Vec::new(),
        };
        self.put_window(now, Placed { window: Arc::new(window.clone()), places });
    }

    pub(in crate::state) fn window_placed(
        &mut self,
        now: Time,
        name: &WindowName,
        places: &[WindowPlace],
    ) {
        if let Some(known) = self.windows.get(name) {
            let placed = Placed { window: Arc::clone(&known.window), places: places.to_vec() };
            self.put_window(now, placed);
        }
    }

    pub(in crate::state) fn window_dropped(&mut self, now: Time, name: &WindowName) {
        if self.windows.by_name.remove(name).is_some() {
            self.pool.set_claims(name, Vec::new());
            self.windows.look_ahead(now);
            self.sync_windowed(now, |other| other == name);
        }
    }

    /// A window is where it says from now on.
    pub(in crate::state) fn put_window(&mut self, now: Time, placed: Placed) {
        let name = placed.window.name.clone();
        let claims = placed.places.iter().filter_map(|place| {
            let node = self.pool.find(&place.node)?;
            Some((node, Claim { window: Arc::clone(&placed.window), devices: place.devices }))
        });
        let claims = claims.collect();
        self.windows.by_name.insert(name.clone(), placed);
        self.pool.set_claims(&name, claims);
        self.windows.look_ahead(now);
        self.sync_windowed(now, |other| *other == name);
    }

    /// Brings the entries of jobs that name one of these windows in line.
    fn sync_windowed(&mut self, now: Time, is_meant: impl Fn(&WindowName) -> bool) {
        let named = self
            .jobs
            .iter()
            .filter(|(_, job)| job.record.spec.constraint.window.as_ref().is_some_and(&is_meant));
        let named: Vec<JobId> = named.map(|(id, _)| *id).collect();
        for id in named {
            self.sync_job(now, id);
        }
    }
}
