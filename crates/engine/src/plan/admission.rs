//! Admission of each model choice of a gang by limits and quota, before placement.

use muster_model::{Reason, Span};
use muster_policy::{BudgetCharge, LeafId, ModelId, Policy, UserId};
use smallvec::SmallVec;

use crate::place::request::{AdmittedChoice, ModelCaps, ModelChoice};
use crate::pool::shape::Shape;

/// Leaf and user of an element that is to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester {
    pub(crate) leaf: LeafId,
    pub(crate) user: UserId,
    /// True if it may use only its queue's own quota.
    pub(crate) own_quota_only: bool,
}

impl Requester {
    /// Checks limits and quota for a start on these GPUs.
    pub(crate) fn check(
        self,
        policy: &Policy,
        gpus: &[(ModelId, u64)],
        length: Option<Span>,
    ) -> Result<(), Reason> {
        policy.check_start(self.leaf, self.user, gpus, length)?;
        if self.own_quota_only { policy.check_owned(self.leaf, gpus) } else { Ok(()) }
    }
}

/// Returns the admitted choices; the first refusal if there is none. Budgets depend only on the sum
/// of GPUs of a gang, which is the same for all models.
pub(crate) fn admitted_choices<'p>(
    policy: &Policy,
    requester: Requester,
    shape: &Shape,
    charge: BudgetCharge,
    choices: &'p [ModelChoice],
) -> Result<SmallVec<[AdmittedChoice<'p>; 1]>, Reason> {
    policy.check_charge(requester.leaf, requester.user, shape.milli(), charge)?;
    let mut admitted = SmallVec::new();
    let mut refused = None;
    for choice in choices {
        let verdict = match &choice.exact {
            Some(exact) => requester.check(policy, exact, charge.length).map(|()| ModelCaps::new()),
            None => model_caps(policy, requester, shape, charge.length, choice),
        };
        match verdict {
            Ok(caps) => admitted.push(AdmittedChoice { choice, caps }),
            Err(reason) => {
                refused.get_or_insert(reason);
            }
        }
    }
    match refused {
        Some(reason) if admitted.is_empty() => Err(reason),
        _ => Ok(admitted),
    }
}

/// Returns how much of each model a gang that may mix them can hold. Exact, since quotas of models
/// are independent, and limits on users and elements depend only on sums, which are the same for
/// all models: those refuse the whole gang.
fn model_caps(
    policy: &Policy,
    requester: Requester,
    shape: &Shape,
    length: Option<Span>,
    choice: &ModelChoice,
) -> Result<ModelCaps, Reason> {
    let total = shape.milli();
    let mut models: SmallVec<[ModelId; 2]> = choice.models.iter().flatten().copied().collect();
    models.sort_unstable();
    models.dedup();
    requester.check(policy, &[], length)?;
    let mut caps = ModelCaps::new();
    let mut refused = None;
    for model in &models {
        let check = |milli: u64| requester.check(policy, &[(*model, milli)], length);
        let Err(reason) = check(total) else { continue };
        if matches!(reason, Reason::GpusPerUser { .. }) {
            return Err(reason);
        }
        refused.get_or_insert(reason);
        // Bisect: if an amount is admitted, so is less.
        let mut most = 0;
        let mut refused_at = total;
        while refused_at - most > 1 {
            let middle = most + (refused_at - most) / 2;
            match check(middle) {
                Ok(()) => most = middle,
                Err(_) => refused_at = middle,
            }
        }
        caps.push((*model, most));
    }
    let is_insufficient =
        caps.len() == models.len() && caps.iter().map(|(_, cap)| *cap).sum::<u64>() < total;
    match refused {
        Some(reason) if is_insufficient => Err(reason),
        _ => Ok(caps),
    }
}
