//! Plain oracles: counters in a loop. They must use neither the engine nor anything else of the
//! library but its types.

use muster_model::proof::OrderVerdict;

/// Gives a pod GPUs if they are free and its gang still needs one, in order of arrival.
pub fn greedy_pods(gpus: u32, per_pod: u32, needs: &[u32], order: &[usize]) -> Vec<u32> {
    let mut held = vec![0; needs.len()];
    let mut free = gpus;
    for &gang in order {
        if held[gang] < needs[gang] && free >= per_pod {
            held[gang] += 1;
            free -= per_pod;
        }
    }
    held
}

/// Gives a gang all it needs if that is free, in order of arrival; a later one may fit where an
/// earlier did not.
pub fn first_feasible(gpus: u32, per_pod: u32, needs: &[u32], order: &[usize]) -> Vec<u32> {
    let mut held = vec![0; needs.len()];
    let mut free = gpus;
    let mut seen = vec![false; needs.len()];
    for &gang in order {
        let all = needs[gang] * per_pod;
        if !std::mem::replace(&mut seen[gang], true) && all <= free {
            held[gang] = needs[gang];
            free -= all;
        }
    }
    held
}

/// Returns the verdict on the holdings at the end.
pub fn verdict(needs: &[u32], held: &[u32]) -> OrderVerdict {
    let pairs = || needs.iter().zip(held);
    let parts = pairs().filter(|(need, held)| **held > 0 && held < need).count();
    let whole = pairs().filter(|(need, held)| held == need).count();
    match (parts, whole) {
        (0, _) => OrderVerdict::Whole,
        (_, 0) => OrderVerdict::Deadlock,
        _ => OrderVerdict::Waste,
    }
}

/// Returns every distinct order of all pods.
pub fn every_order(needs: &[u32]) -> Vec<Vec<usize>> {
    if needs.iter().all(|need| *need == 0) {
        return vec![Vec::new()];
    }
    let mut orders = Vec::new();
    for gang in (0..needs.len()).filter(|gang| needs[*gang] > 0) {
        let mut rest = needs.to_vec();
        rest[gang] -= 1;
        for mut order in every_order(&rest) {
            order.insert(0, gang);
            orders.push(order);
        }
    }
    orders
}

/// Returns gangs as letters.
pub fn letters(order: &[usize]) -> String {
    order.iter().map(|gang| (b'a' + *gang as u8) as char).collect()
}
