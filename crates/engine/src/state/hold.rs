//! Holds: keep waiting elements from starting until they are released. Users hold their own jobs;
//! the hold of an administrator is separate, and only an administrator releases it.

use muster_model::{CommandTarget, Time, UserName};

use super::State;
use super::entries::EntryOwner;
use super::job::{AdminHold, JobRecord, Phase};
use super::jobs::JobTable;

/// Change of a hold.
#[derive(Clone, Copy)]
pub(super) enum HoldChange<'a> {
    Hold,
    Release,
    AdminHold(&'a UserName),
    AdminRelease,
}

impl HoldChange<'_> {
    /// Applies the change. `held` is true when the user or an administrator holds.
    fn make(self, held: &mut bool, admin: &mut Option<Box<AdminHold>>) {
        match (self, admin.as_mut()) {
            (HoldChange::Hold, Some(admin)) => admin.own = true,
            (HoldChange::Hold, None) => *held = true,
            (HoldChange::Release, Some(_)) => {}
            (HoldChange::Release | HoldChange::AdminRelease, None) => *held = false,
            (HoldChange::AdminHold(by), Some(admin)) => admin.by = by.clone(),
            (HoldChange::AdminHold(by), None) => {
                *admin = Some(Box::new(AdminHold { by: by.clone(), own: *held }));
                *held = true;
            }
            (HoldChange::AdminRelease, Some(over)) => {
                *held = over.own;
                *admin = None;
            }
        }
    }
}

impl State {
    /// Changes the hold of waiting elements.
    pub(super) fn change_hold(&mut self, now: Time, target: CommandTarget, change: HoldChange<'_>) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        let record = &mut job.record;
        match target.index {
            None => {
                change.make(&mut record.held, &mut record.admin_hold);
                for element in record.elements.values_mut() {
                    if let Phase::Waiting { held, admin, .. } = &mut element.phase {
                        change.make(held, admin);
                    }
                }
                self.sync_job(now, target.job);
            }
            Some(index) => {
                let Some(ordinal) = self.jobs.record_element(target.job, index) else { return };
                let Some(element) = self.jobs.element_mut(target.job, ordinal) else { return };
                if let Phase::Waiting { held, admin, .. } = &mut element.phase {
                    change.make(held, admin);
                }
                self.sync(now, EntryOwner { job: target.job, ordinal: None });
                self.sync(now, EntryOwner { job: target.job, ordinal: Some(ordinal) });
            }
        }
    }
}

impl JobTable {
    /// Returns the hold of an administrator over a job, or over one element of it.
    pub(crate) fn admin_hold(&self, target: CommandTarget) -> Option<&AdminHold> {
        self.get(&target.job)?.record.admin_hold(target.index)
    }
}

impl JobRecord {
    /// Returns the administrator's hold over one element, or over the job: over all its waiting
    /// elements.
    fn admin_hold(&self, index: Option<u32>) -> Option<&AdminHold> {
        if let Some(index) = index {
            return self.admin_hold_of(self.ordinal_of(index)?);
        }
        if self.admin_hold.is_some() || self.unrecorded() > 0 {
            return self.admin_hold.as_deref();
        }
        let mut waiting = self.elements.values().filter_map(|element| match &element.phase {
            Phase::Waiting { admin, .. } => Some(admin.as_deref()),
            Phase::Active | Phase::Ended { .. } => None,
        });
        let first = waiting.next()?;
        first.filter(|_| waiting.all(|hold| hold.is_some()))
    }

    /// Returns the hold of an administrator over an element that waits.
    pub(crate) fn admin_hold_of(&self, ordinal: u32) -> Option<&AdminHold> {
        match self.elements.get(&ordinal).map(|element| &element.phase) {
            Some(Phase::Waiting { admin, .. }) => admin.as_deref(),
            Some(Phase::Active | Phase::Ended { .. }) => None,
            None => self.admin_hold.as_deref(),
        }
    }

    /// Returns the phase of a waiting element: held if the job is.
    pub(super) fn waiting_phase(&self, not_before: Time) -> Phase {
        Phase::Waiting { held: self.held, not_before, admin: self.admin_hold.clone() }
    }
}
