//! The Ray nodes and clusters of a machine as the rules need them. A node is a raylet; a cluster is what
//! has one session, of which several nodes may be on the machine.

use std::collections::{BTreeMap, BTreeSet};

use muster_slurm::conf::evidence::MissingInput;

use super::host::{HostProcess, RayHost};
use super::process::{Owner, RayProgram, offered, option, owner, program};
use crate::kubernetes::view::count;

/// Machine as the rules see it.
pub(crate) struct HostView<'a> {
    pub(crate) host: &'a RayHost,
    pub(crate) processes: Vec<ProcessView<'a>>,
}

/// Process of Ray with what its command line says.
pub(crate) struct ProcessView<'a> {
    pub(crate) process: &'a HostProcess,
    pub(crate) program: RayProgram,
    pub(crate) owner: Owner,
    /// Name of the cluster's session; empty for `ray start`.
    pub(crate) session: &'a str,
    /// Address of the cluster's control store.
    pub(crate) gcs: String,
    /// Amounts that the node offers.
    offered: BTreeMap<&'a str, f64>,
}

/// Cluster, as far as it is on the machine.
pub(crate) struct Cluster<'a, 'b> {
    /// Raylets, control store and dashboard of its session.
    pub(crate) processes: Vec<&'b ProcessView<'a>>,
}

impl<'a> HostView<'a> {
    /// Reads the processes of a machine.
    pub(crate) fn of(host: &'a RayHost) -> Self {
        let processes = host.processes.iter().filter_map(ProcessView::of).collect();
        Self { host, processes }
    }

    /// Returns the processes that run this program.
    pub(crate) fn running(&self, program: RayProgram) -> impl Iterator<Item = &ProcessView<'a>> {
        self.processes.iter().filter(move |process| process.program == program)
    }

    /// Returns the raylets, one for each node.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &ProcessView<'a>> {
        self.running(RayProgram::Raylet)
    }

    /// Returns the clusters, in the order of their sessions.
    pub(crate) fn clusters(&self) -> Vec<Cluster<'a, '_>> {
        let mut by_session: BTreeMap<&str, Vec<&ProcessView<'a>>> = BTreeMap::new();
        for process in self.processes.iter().filter(|process| !process.session.is_empty()) {
            by_session.entry(process.session).or_default().push(process);
        }
        by_session.into_values().map(|processes| Cluster { processes }).collect()
    }

    /// Returns the text of a rule that passed: the number of nodes.
    pub(crate) fn seen(&self) -> String {
        format!("{} on {}", count(self.nodes().count(), "Ray node"), self.host.name)
    }
}

impl<'a> ProcessView<'a> {
    fn of(process: &'a HostProcess) -> Option<Self> {
        let arguments = &process.arguments;
        let program = program(arguments)?;
        let of_session = || option(arguments, "session_dir")?.rsplit('/').next();
        let session = option(arguments, "session_name").or_else(of_session).unwrap_or_default();
        let of_server = || {
            let address = option(arguments, "node_ip_address")?;
            Some(format!("{address}:{}", option(arguments, "gcs_server_port")?))
        };
        let gcs = option(arguments, "gcs_address").map(str::to_owned).or_else(of_server);
        Some(Self {
            process,
            program,
            owner: owner(process),
            session,
            gcs: gcs.unwrap_or_default(),
            offered: offered(arguments),
        })
    }

    /// Returns the amount of a resource that the node offers; 0 for others.
    pub(crate) fn offers(&self, resource: &str) -> f64 {
        self.offered.get(resource).copied().unwrap_or_default()
    }

    /// Returns the value of an environment variable; `None` if it is unset or cannot be read.
    pub(crate) fn variable(&self, name: &str) -> Option<&'a str> {
        self.process.environment.as_ref()?.get(name).map(String::as_str)
    }

    /// Returns true for a node that a job has, so that the job's limits apply to it.
    pub(crate) fn is_in_job(&self) -> bool {
        matches!(self.owner, Owner::Muster(_) | Owner::Slurm(_))
    }

    /// Returns the input that is missing where its environment cannot be read.
    pub(crate) fn unread(&self) -> Option<MissingInput> {
        let process = self.process;
        let says = || {
            MissingInput(format!(
                "the environment of process {} of {}, which that user or root can read",
                process.pid, process.user
            ))
        };
        process.environment.is_none().then(says)
    }

    /// Returns its owner and, of a node, the cluster: `the Ray node of job 3 of Muster`.
    pub(crate) fn title(&self) -> String {
        let pid = self.process.pid;
        format!("the Ray node {pid} in {}", self.owner)
    }
}

impl<'a> Cluster<'a, '_> {
    /// Returns its processes that run this program.
    pub(crate) fn running(&self, program: RayProgram) -> impl Iterator<Item = &ProcessView<'a>> {
        self.processes.iter().copied().filter(move |process| process.program == program)
    }

    /// Returns the address of its control store.
    pub(crate) fn address(&self) -> &str {
        let named = self.processes.iter().map(|process| process.gcs.as_str());
        named.into_iter().find(|address| !address.is_empty()).unwrap_or("an unknown address")
    }

    /// Returns the users of its processes.
    pub(crate) fn users(&self) -> String {
        let users = self.processes.iter().map(|process| process.process.user.as_str());
        users.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    }

    /// Returns what its nodes on this machine offer: `1 node with 2 CPUs and 1 GPU`.
    pub(crate) fn offer(&self) -> String {
        let sum = |resource: &str| -> f64 {
            self.running(RayProgram::Raylet).map(|node| node.offers(resource)).sum()
        };
        let nodes = count(self.running(RayProgram::Raylet).count(), "node");
        format!("{nodes} with {} and {}", amount(sum("CPU"), "CPU"), amount(sum("GPU"), "GPU"))
    }
}

/// Returns an amount with its noun: `1 GPU`, `2.5 CPUs`.
pub(crate) fn amount(number: f64, noun: &str) -> String {
    let is_one = (number - 1.0).abs() < f64::EPSILON;
    format!("{number} {noun}{}", if is_one { "" } else { "s" })
}
