//! Rule on servers of Ray that run the code of everybody who reaches them.

use std::net::SocketAddr;

use muster_model::check::Severity::High;

use super::RayRule;
use crate::ray::host::DashboardAnswer;
use crate::ray::process::RayProgram;
use crate::ray::view::{HostView, ProcessView};
use crate::rule::{DocPage, RuleFinding, RuleResult, judge};
use muster_slurm::conf::evidence::MissingInput;

pub(super) const RULES: &[RayRule] = &[RayRule {
    id: "ray-open-to-network",
    severity: High,
    title: "a Ray cluster runs programs for everybody who reaches its ports",
    meaning: "every user of the network can run code as the user of the cluster, with that user's files and GPUs",
    cure: "RAY_AUTH_MODE=token and the same RAY_AUTH_TOKEN for all its processes (Ray 2.52 or later); a job of `kind: ray` sets both",
    page: DocPage::Web("https://docs.ray.io/en/latest/ray-security/token-auth.html"),
    check: open_to_network,
}];

fn open_to_network(host: &HostView<'_>) -> RuleResult {
    let mut missing = None;
    let mut findings = Vec::new();
    for cluster in host.clusters() {
        let servers =
            cluster.running(RayProgram::Gcs).chain(cluster.running(RayProgram::Dashboard));
        let mut open = Vec::new();
        for server in servers {
            match is_open(server) {
                Ok(Some(port)) => open.push(format!("{} on {port}", name(server.program))),
                Ok(None) => {}
                Err(needed) => missing = missing.or(Some(needed)),
            }
        }
        if !open.is_empty() {
            let users = cluster.users();
            let address = cluster.address();
            let says =
                format!("the cluster {address} of {users}, without a token: {}", open.join(", "));
            findings.push(RuleFinding::about(format!("{users} {address}"), says));
        }
    }
    judge(findings, missing, host.seen())
}

/// Returns the address on which a server is open to the network without a token.
fn is_open(server: &ProcessView<'_>) -> Result<Option<SocketAddr>, MissingInput> {
    let process = server.process;
    let Some(listens) = &process.listens else {
        let says = format!(
            "the sockets of process {} of {}, which root can list",
            process.pid, process.user
        );
        return Err(MissingInput(says));
    };
    // A dashboard serves its metrics on a port of their own, which runs no programs.
    if server.program == RayProgram::Dashboard {
        let says = || format!("an answer of the dashboard, process {}", process.pid);
        return match process.dashboard {
            DashboardAnswer::Nothing => Err(MissingInput(says())),
            DashboardAnswer::Refusal => Ok(None),
            DashboardAnswer::Version(address) => Ok(Some(address)),
        };
    }
    let beyond = listens.iter().find(|address| !address.ip().to_canonical().is_loopback());
    match (beyond, server.unread()) {
        (Some(_), Some(missing)) => Err(missing),
        (Some(_), None) if server.variable("RAY_AUTH_MODE") == Some("token") => Ok(None),
        (beyond, _) => Ok(beyond.copied()),
    }
}

fn name(program: RayProgram) -> &'static str {
    match program {
        RayProgram::Gcs => "control store",
        RayProgram::Dashboard => "dashboard",
        RayProgram::Raylet => "node",
        RayProgram::BlockedStart => "`ray start`",
    }
}
