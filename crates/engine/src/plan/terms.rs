//! What limits and quota say to each try of a gang, before a place is looked for.

use muster_model::{Reason, Span};
use muster_policy::{LeafId, ModelId, Policy, Promise, UserId};
use smallvec::SmallVec;

use super::ask::{Caps, Pick};
use crate::state::shape::Shape;

/// Who is to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whose {
    pub(crate) leaf: LeafId,
    pub(crate) user: UserId,
    /// On its queue's own quota only.
    pub(crate) owns: bool,
}

impl Whose {
    /// What limits and quota say to a start on these GPUs.
    pub(crate) fn judge(
        self,
        policy: &Policy,
        gpus: &[(ModelId, u64)],
        length: Option<Span>,
    ) -> Result<(), Reason> {
        policy.judge_start(self.leaf, self.user, gpus, length)?;
        if self.owns { policy.judge_owned(self.leaf, gpus) } else { Ok(()) }
    }
}

/// A try that limits and quota admit, and how much of each model they do.
#[derive(Clone, Debug)]
pub(crate) struct Admitted<'p> {
    pub(crate) pick: &'p Pick,
    pub(crate) caps: Caps,
}

/// The tries that are admitted; the first refusal when there is none. Budgets see only the sum of
/// what a gang holds, which is the same on any models.
pub(crate) fn admitted<'p>(
    policy: &Policy,
    whose: Whose,
    shape: &Shape,
    promise: Promise,
    picks: &'p [Pick],
) -> Result<SmallVec<[Admitted<'p>; 1]>, Reason> {
    policy.judge_promise(whose.leaf, whose.user, shape.milli(), promise)?;
    let mut admitted = SmallVec::new();
    let mut refused = None;
    for pick in picks {
        let verdict = match &pick.exact {
            Some(exact) => whose.judge(policy, exact, promise.length).map(|()| Caps::new()),
            None => caps(policy, whose, shape, promise.length, pick),
        };
        match verdict {
            Ok(caps) => admitted.push(Admitted { pick, caps }),
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

/// How much of each model a gang that may mix them can hold. Exact, since quotas of models are
/// independent, and limits on users and elements see only sums, which are the same on any models:
/// those refuse the whole gang.
fn caps(
    policy: &Policy,
    whose: Whose,
    shape: &Shape,
    length: Option<Span>,
    pick: &Pick,
) -> Result<Caps, Reason> {
    let total = shape.milli();
    let mut models: SmallVec<[ModelId; 2]> = pick.models.iter().flatten().copied().collect();
    models.sort_unstable();
    models.dedup();
    whose.judge(policy, &[], length)?;
    let mut caps = Caps::new();
    let mut refused = None;
    for model in &models {
        let judge = |milli: u64| whose.judge(policy, &[(*model, milli)], length);
        let Err(reason) = judge(total) else { continue };
        if matches!(reason, Reason::GpusPerUser { .. }) {
            return Err(reason);
        }
        refused.get_or_insert(reason);
        // The most that is admitted: what is, stays so for less.
        let (mut most, mut refused_at) = (0, total);
        while refused_at - most > 1 {
            let middle = most + (refused_at - most) / 2;
            match judge(middle) {
                Ok(()) => most = middle,
                Err(_) => refused_at = middle,
            }
        }
        caps.push((*model, most));
    }
    let in_vain =
        caps.len() == models.len() && caps.iter().map(|(_, cap)| *cap).sum::<u64>() < total;
    match refused {
        Some(reason) if in_vain => Err(reason),
        _ => Ok(caps),
    }
}
