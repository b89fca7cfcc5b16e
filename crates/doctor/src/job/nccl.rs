//! What NCCL says of the way that it goes, in the output of ranks that run with NCCL_DEBUG=INFO.

use std::collections::BTreeMap;

use super::JobEvidence;
use super::check::Verdict::{self, Failed, NotTested, Passed};
use super::check::count;

/// How many channels go which way. NCCL names a way for each, such as `… Channel 00/0 : 0[0] ->
/// 8[0] [send] via NET/IB/0/GDRDMA`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ways {
    /// Between nodes, by network: `IB`, `Socket`, or the name of a plugin.
    networks: BTreeMap<String, u32>,
    /// Of those, without a copy through the host.
    direct: u32,
    /// Within a node.
    local: u32,
}

impl Ways {
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

/// Ways of a job on several nodes; why there are none, else.
fn ways(evidence: &JobEvidence) -> Result<Ways, Verdict> {
    if evidence.nodes().len() < 2 {
        return Err(NotTested("several nodes: nothing goes by the network".to_owned()));
    }
    let Some(output) = &evidence.output else {
        return Err(NotTested("output of the job's ranks, while it runs or after".to_owned()));
    };
    let ways = Ways::of(output);
    match ways.between_nodes() {
        0 if output.contains("NCCL INFO") => Err(NotTested(
            "lines of NCCL on its channels, which it prints when a communicator is made".to_owned(),
        )),
        0 => Err(NotTested("lines of NCCL in the output: NCCL_DEBUG=INFO in `env`".to_owned())),
        _ => Ok(ways),
    }
}

pub(super) fn transport(evidence: &JobEvidence) -> Verdict {
    let ways = match ways(evidence) {
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
            "a look at the nodes while it runs: {}, and whether there is a faster network is not known",
            each.join(", ")
        )),
        Some(_) => NotTested(format!(
            "a faster network: {}, and these nodes have no other",
            each.join(", ")
        )),
    }
}

pub(super) fn gpudirect(evidence: &JobEvidence) -> Verdict {
    let ways = match ways(evidence) {
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
    use muster_model::verify::Seen;

    use super::*;
    use crate::job::Expected;

    fn evidence(output: &str, adapters: &[&str]) -> JobEvidence {
        let seen = |node: &str| Seen {
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
            expected: vec![Expected::default()],
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
            NotTested("lines of NCCL in the output: NCCL_DEBUG=INFO in `env`".to_owned())
        );
        assert!(matches!(transport(&evidence(LOCAL, &[])), NotTested(_)));
    }
}
