//! Holds: what keeps elements that wait from starting until somebody releases them. A user holds
//! the own jobs; the hold of an administrator lies over that, and only an administrator takes it
//! away.

use muster_model::{JobId, Target, Time, UserName};
use serde::{Deserialize, Serialize};

use super::State;
use super::entries::Owner;
use super::job::{JobRecord, Phase};

/// The hold of an administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdminHold {
    pub(crate) by: UserName,
    /// The user holds it too, and still does when the administrator has released it.
    pub(crate) own: bool,
}

/// What becomes of a hold.
#[derive(Clone, Copy)]
pub(super) enum Change<'a> {
    Hold,
    Release,
    AdminHold(&'a UserName),
    AdminRelease,
}

impl Change<'_> {
    /// Makes the change. `held` says whether anybody holds it.
    fn make(self, held: &mut bool, admin: &mut Option<Box<AdminHold>>) {
        match (self, admin.as_mut()) {
            (Change::Hold, Some(admin)) => admin.own = true,
            (Change::Hold, None) => *held = true,
            (Change::Release, Some(_)) => {}
            (Change::Release | Change::AdminRelease, None) => *held = false,
            (Change::AdminHold(by), Some(admin)) => admin.by = by.clone(),
            (Change::AdminHold(by), None) => {
                *admin = Some(Box::new(AdminHold { by: by.clone(), own: *held }));
                *held = true;
            }
            (Change::AdminRelease, Some(over)) => {
                *held = over.own;
                *admin = None;
            }
        }
    }
}

impl State {
    /// Changes the hold of what waits.
    pub(super) fn change_hold(&mut self, now: Time, target: Target, change: Change<'_>) {
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
                let Some(ordinal) = self.single_out(target.job, index) else { return };
                let Some(element) = self.element_mut(target.job, ordinal) else { return };
                if let Phase::Waiting { held, admin, .. } = &mut element.phase {
                    change.make(held, admin);
                }
                self.sync(now, Owner { job: target.job, ordinal: None });
                self.sync(now, Owner { job: target.job, ordinal: Some(ordinal) });
            }
        }
    }

    /// Returns the hold of an administrator over a job, or over one element of it.
    pub(crate) fn admin_hold(&self, target: Target) -> Option<&AdminHold> {
        self.record(target.job)?.admin_hold(target.index)
    }

    fn record(&self, id: JobId) -> Option<&JobRecord> {
        self.jobs.get(&id).map(|job| &job.record)
    }
}

impl JobRecord {
    /// Returns the hold of an administrator over one element, or over the job: over all of it that
    /// waits.
    fn admin_hold(&self, index: Option<u32>) -> Option<&AdminHold> {
        if let Some(index) = index {
            return self.admin_hold_of(self.ordinal_of(index)?);
        }
        if self.admin_hold.is_some() || self.fresh() > 0 {
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

    /// The phase of an element that waits: held as the job is.
    pub(super) fn waiting_phase(&self, not_before: Time) -> Phase {
        Phase::Waiting { held: self.held, not_before, admin: self.admin_hold.clone() }
    }
}
