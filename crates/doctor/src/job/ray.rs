//! Check of the Ray cluster of a job of kind `ray`.

use super::JobEvidence;
use super::check::JobCheckOutcome::{self, Failed, NotTested, Passed};
use super::check::count;

/// Nodes of the cluster of a job, as Ray itself sees them.
#[derive(Clone, Debug, PartialEq)]
pub struct RayNodes {
    /// GPUs of each node that is alive and belongs to the job itself.
    pub own: Vec<f64>,
    /// Number of nodes that joined it from other jobs.
    pub further: usize,
}

/// Compares the nodes of the cluster with the ranks of the job.
pub(super) fn nodes(evidence: &JobEvidence) -> JobCheckOutcome {
    let nodes = match &evidence.ray {
        None => return NotTested("a job of kind `ray`".to_owned()),
        Some(Err(reason)) => return NotTested(format!("an answer of its cluster: {reason}")),
        Some(Ok(nodes)) => nodes,
    };
    let ranks = evidence.expected.len();
    if nodes.own.len() != ranks {
        return Failed(format!("{} of {ranks} nodes are in the cluster", nodes.own.len()));
    }
    let mut there = nodes.own.clone();
    there.sort_by(f64::total_cmp);
    let gpus: Option<Vec<u32>> = evidence.expected.iter().map(|rank| rank.gpus).collect();
    let mut allocated: Vec<f64> = gpus.iter().flatten().map(|gpus| f64::from(*gpus)).collect();
    allocated.sort_by(f64::total_cmp);
    let further = match nodes.further {
        0 => String::new(),
        further => format!("; {} joined it", count(further, "other")),
    };
    match gpus {
        Some(_) if there != allocated => Failed(format!(
            "its nodes offer {} GPUs, and the job has {}",
            there.iter().sum::<f64>(),
            allocated.iter().sum::<f64>()
        )),
        _ => Passed(format!(
            "{}; GPUs in all: {}{further}",
            count(ranks, "node"),
            there.iter().sum::<f64>()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ExpectedRank;

    fn said(ray: Option<Result<RayNodes, String>>, gpus: &[Option<u32>]) -> JobCheckOutcome {
        let rank = |gpus: &Option<u32>| ExpectedRank { gpus: *gpus, ..ExpectedRank::default() };
        let expected = gpus.iter().map(rank).collect();
        nodes(&JobEvidence { ray, expected, ..JobEvidence::default() })
    }

    #[test]
    fn a_cluster_has_the_nodes_and_gpus_of_its_job() {
        let own = |own: &[f64]| Some(Ok(RayNodes { own: own.to_vec(), further: 1 }));
        let passed = said(own(&[2.0, 0.0]), &[Some(0), Some(2)]);
        assert!(
            matches!(&passed, Passed(says) if says.ends_with("2 nodes; GPUs in all: 2; 1 other joined it")),
            "{passed:?}"
        );
        assert!(matches!(said(own(&[2.0, 0.0]), &[None, None]), Passed(_)));
        assert!(
            matches!(said(own(&[2.0]), &[Some(2), Some(2)]), Failed(says) if says.starts_with("1 of 2 nodes"))
        );
        assert!(
            matches!(said(own(&[2.0, 1.0]), &[Some(2), Some(2)]), Failed(says) if says.contains("offer 3 GPUs, and the job has 4"))
        );
        assert!(
            matches!(said(Some(Err("no head".to_owned())), &[Some(1)]), NotTested(says) if says.ends_with("no head"))
        );
    }
}
