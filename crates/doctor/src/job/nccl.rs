//! Checks of the network transport that NCCL reports in the output of ranks with NCCL_DEBUG=INFO.

use std::collections::BTreeMap;

use super::JobEvidence;
use super::check::JobCheckOutcome::{self, Failed, NotTested, Passed};
use super::check::count;

/// Number of NCCL channels by transport. NCCL prints one line per channel, such as `… Channel 00/0
/// : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NcclTransports {
    /// Channels between nodes, by network: `IB`, `Socket`, or the name of a plugin.
    networks: BTreeMap<String, u32>,
    /// Channels between nodes without a copy through host memory.
    direct: u32,
    /// Channels within a node.
    local: u32,
}

impl NcclTransports {
    fn of(output: &str) -> Self {
        let mut ways = Self::default();
        for line in output.lines().filter(|line| line.contains("NCCL INFO")) {
            let Some((_, way)) = line.split_once(" via ") else { continue };
            let way = way.trim();
            match way.strip_prefix("NET/") {
                Some(network) => {
                    let name = network.split('/').next().unwrap_or_default();
                    *ways.networks.entry(name.to_owned()).or_default() += 1;
                    ways.direct += u32::from(way.contains("/GDRDMA"));
                }
                None if ["P2P", "SHM", "direct"].iter().any(|local| way.starts_with(local)) => {
                    ways.local += 1
                }
                None => {}
            }
        }
        ways
    }

    fn between_nodes(&self) -> u32 {
        self.networks.values().sum()
    }
}

/// Returns the transports of a job on several nodes, or why there are none.
fn transports(evidence: &JobEvidence) -> Result<NcclTransports, JobCheckOutcome> {
    if evidence.nodes().len() < 2 {
        return Err(NotTested("several nodes: this job does not use the network".to_owned()));
    }
    let Some(output) = &evidence.output else {
        return Err(NotTested("output of the job's ranks, while it runs or after".to_owned()));
    };
    let ways = NcclTransports::of(output);
    match ways.between_nodes() {
        0 if output.contains("NCCL INFO") => Err(NotTested(
            "NCCL's messages on its channels, which it prints when it creates a communicator"
                .to_owned(),
        )),
        0 => {
            Err(NotTested("NCCL's messages in the output: set NCCL_DEBUG=INFO in `env`".to_owned()))
        }
        _ => Ok(ways),
    }
}

pub(super) fn transport(evidence: &JobEvidence) -> JobCheckOutcome {
    let ways = match transports(evidence) {
        Ok(ways) => ways,
        Err(verdict) => return verdict,
    };
    let each: Vec<String> = ways
        .networks
        .iter()
        .map(|(name, many)| format!("{} by NET/{name}", channels(*many)))
        .collect();
    let has_adapter = evidence.seen.iter().any(|seen| !seen.rdma_devices.is_empty());
    match ways.networks.get("Socket") {
        None => Passed(each.join(", ")),
        Some(_) if has_adapter || ways.networks.len() > 1 => Failed(each.join(", ")),
        Some(_) if evidence.seen.is_empty() => NotTested(format!(
            "a probe of the nodes while it runs: {}, and it is unknown whether there is a faster network",
            each.join(", ")
        )),
        Some(_) => NotTested(format!(
            "a faster network: {}, and these nodes have no other",
            each.join(", ")
        )),
    }
}

pub(super) fn gpudirect(evidence: &JobEvidence) -> JobCheckOutcome {
    let ways = match transports(evidence) {
        Ok(ways) => ways,
        Err(verdict) => return verdict,
    };
    let rdma = ways.between_nodes() - ways.networks.get("Socket").copied().unwrap_or_default();
    match (rdma, ways.direct) {
        (0, _) => NotTested("a network with RDMA".to_owned()),
        (rdma, direct) if direct == rdma => Passed(channels(direct)),
        (rdma, direct) => Failed(format!("{direct} of {}", channels(rdma))),
    }
}

fn channels(many: u32) -> String {
    count(many as usize, "channel")
}

#[cfg(test)]
mod tests {
    use muster_model::verify::ProbeObservation;

    use super::*;
    use crate::job::ExpectedRank;

    fn evidence(output: &str, adapters: &[&str]) -> JobEvidence {
        let seen = |node: &str| ProbeObservation {
            node: node.to_owned(),
            allocation: None,
            ranks: Vec::new(),
            device_files: Vec::new(),
            gpu_users: None,
            shared_memory: Ok(0),
            rdma_devices: adapters.iter().map(|&name| name.to_owned()).collect(),
            listens: None,
        };
        JobEvidence {
            expected: vec![ExpectedRank::default()],
            seen: vec![seen("a"), seen("b")],
            output: Some(output.to_owned()),
            ..JobEvidence::default()
        }
    }

    const DIRECT: &str =
        "n1:9:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n";
    const COPIED: &str =
        "n1:9:12 [0] NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/IB/0\n";
    const SOCKET: &str =
        "n1:9:12 [0] NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/Socket/0\n";
    const LOCAL: &str = "n1:9:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n";

    #[test]
    fn the_way_between_nodes_is_named() {
        let fast = evidence(&[DIRECT, LOCAL, DIRECT].concat(), &["mlx5_0"]);
        assert_eq!(transport(&fast), Passed("2 channels by NET/IB".to_owned()));
        assert_eq!(gpudirect(&fast), Passed("2 channels".to_owned()));
        let copied = evidence(&[DIRECT, COPIED].concat(), &["mlx5_0"]);
        assert!(matches!(transport(&copied), Passed(_)));
        assert_eq!(gpudirect(&copied), Failed("1 of 2 channels".to_owned()));
    }

    #[test]
    fn sockets_beside_an_adapter_are_a_failure_and_without_one_the_only_way() {
        let fallen = evidence(SOCKET, &["mlx5_0"]);
        assert_eq!(transport(&fallen), Failed("1 channel by NET/Socket".to_owned()));
        assert!(matches!(gpudirect(&fallen), NotTested(_)));
        assert!(matches!(transport(&evidence(SOCKET, &[])), NotTested(_)));
    }

    #[test]
    fn what_was_not_printed_was_not_tested() {
        let silent = transport(&evidence("epoch 1\n", &[]));
        assert_eq!(
            silent,
            NotTested("NCCL's messages in the output: set NCCL_DEBUG=INFO in `env`".to_owned())
        );
        assert!(matches!(transport(&evidence(LOCAL, &[])), NotTested(_)));
    }
}
