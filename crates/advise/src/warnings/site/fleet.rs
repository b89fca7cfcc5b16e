//! Failure modes of the fleet: ownership of nodes, isolation of tenants, and the network between
//! nodes. Data only.

use muster_model::advice::{Citation, CitedPage, ControlPlane, Fact, Threshold};

use crate::condition::Condition::{All, Any, Chosen, Gang, Is, Never, Not, Reaches};
use crate::rule::Hazard;
use crate::site::terms::{
    COUPLED, FINITE, GANGS, KUBERNETES, NOTHING, ON_KUBERNETES, POOL, PYTHON, SLURM, SLURM_SERVES,
};

/// Failure modes of the fleet, most dangerous first.
pub(super) const FLEET: &[Hazard] = &[
    Hazard {
        id: "past-the-gang-scheduler",
        source: Citation::new(CitedPage::Comparison, "failure modes, 2; guide: failure modes, 1"),
        when: All(&[ON_KUBERNETES, Gang]),
        sentence: "a coupled run that bypasses the gang scheduler is placed partly, holds GPUs and waits forever",
        tell: "workers Running beside workers Pending in one group",
        cure: "make the gang scheduler the only way in: its name in every template, and an admission policy that refuses the rest",
    },
    Hazard {
        id: "ray-beside-the-plane",
        source: Citation::new(CitedPage::Guide, "failure modes, 3; overview: failure modes, 1"),
        when: All(&[
            Is(Fact::OperatesRay),
            Any(&[
                Chosen(&[ControlPlane::Slurm, ControlPlane::Kubernetes, ControlPlane::K3s]),
                Is(Fact::OperatesSlurm),
                Is(Fact::OperatesKubernetes),
            ]),
        ]),
        sentence: "Ray clusters beside the scheduler are a second, ungoverned control plane: they schedule again, and outside every quota",
        tell: "GPUs busy with Ray that no queue shows, and a team whose share is unknown",
        cure: "start Ray inside: through KubeRay on Kubernetes, inside an allocation on Slurm",
    },
    Hazard {
        id: "ray-for-batch",
        source: Citation::new(CitedPage::Guide, "when not to switch"),
        when: All(&[Is(Fact::OperatesRay), FINITE, Never(&PYTHON)]),
        sentence: "Ray is the control plane of jobs that only start and end",
        tell: "Ray programs whose only task is to start a script",
        cure: "a Slurm job, or one Volcano job on the Kubernetes that is there; leave Ray out",
    },
    Hazard {
        id: "slices-without-hardware",
        source: Citation::new(CitedPage::Kentino, "MIG and GPU sharing; decision tree, step 6"),
        when: All(&[Is(Fact::IsolatedSlices), Not(Fact::FleetMig)]),
        sentence: "isolated slices are requested of GPUs that are not known to have MIG",
        tell: "one tenant's out-of-memory ends another tenant's process",
        cure: "whole GPUs per tenant, or GPUs with MIG; do not design around MIG that is not there",
    },
    Hazard {
        id: "sharing-is-not-isolation",
        source: Citation::new(
            CitedPage::Comparison,
            "failure modes, 6; kentino: MIG and GPU sharing",
        ),
        when: Any(&[Is(Fact::SharedGpus), Is(Fact::IsolatedSlices)]),
        sentence: "time-slicing or MPS is taken for isolation: neither isolates a tenant's memory and faults",
        tell: "the scheduler counts more GPUs than there are, and a job fails when its neighbour grows",
        cure: "MIG where tenants must be kept apart, time-slicing for development only",
    },
    Hazard {
        id: "namespace-is-not-a-wall",
        source: Citation::new(
            CitedPage::Upstream,
            "kubernetes.io: multi-tenancy, 2026; CVE-2025-23266 in NVIDIA Container Toolkit before 1.17.8",
        ),
        when: All(&[ON_KUBERNETES, Is(Fact::HostileTenants)]),
        sentence: "a namespace is taken for an isolation boundary: customers on one node share its kernel, GPU driver and container runtime",
        tell: "pods of two customers run on one node, and any pod can reach any other",
        cure: "nodes per customer (taints, enforced at admission) or a virtual machine per pod with the GPU passed through, \
               network closed by default, container toolkit kept current; a cluster each where the contract asks for it",
    },
    Hazard {
        id: "tenants-on-slurm",
        source: Citation::new(CitedPage::Kentino, "where Slurm hits its ceiling, third place"),
        when: All(&[SLURM, Is(Fact::HostileTenants)]),
        sentence: "customers share Slurm, which has no namespaces, no network policy per job and no tenancy of the container kind",
        tell: "one customer's job can list another's processes, files or ports",
        cure: "customers on the Kubernetes side only, or on nodes that no one else uses",
    },
    Hazard {
        id: "regulated-and-shared",
        source: Citation::new(CitedPage::Hyperstack, "how to map your workload, row 5"),
        when: All(&[Is(Fact::Regulated), Not(Fact::FleetSingleTenant)]),
        sentence: "regulated work shares machines with others: no orchestrator makes up for that",
        tell: "an auditor's question about other users of the machine has no answer",
        cure: "machines of one tenant first, then either control plane",
    },
    Hazard {
        id: "service-on-slurm",
        source: Citation::new(
            CitedPage::Kentino,
            "where Slurm hits its ceiling, first place; hyperstack: SLURM failure modes",
        ),
        when: SLURM_SERVES,
        sentence: "a service is sent to Slurm: nothing restarts it, keeps its address, updates it in turns or scales it",
        tell: "the address changes when the job is requeued, and batch waits behind jobs that never end",
        cure: "a partition of its own, health checks and a proxy of your own; a Kubernetes pool once there is staff to run it",
    },
    Hazard {
        id: "boundary-in-heads",
        source: Citation::new(CitedPage::Overview, "open questions; failure modes, 2"),
        when: POOL,
        sentence: "the boundary between two control planes is not configured anywhere",
        tell: "a node in slurm.conf that is also Ready in Kubernetes",
        cure: "one list that names every node once, both configurations made from it (`muster init hybrid`)",
    },
    Hazard {
        id: "unconfined-devices",
        source: Citation::new(
            CitedPage::Kentino,
            "where Slurm hits its ceiling, third place; its slurm.conf",
        ),
        when: All(&[SLURM, Reaches(Threshold::SharedUsers)]),
        sentence: "only an environment variable keeps GPUs apart, and any job can change it",
        tell: "nvidia-smi in a job of one GPU lists all of them",
        cure: "ConstrainDevices=yes in cgroup.conf, with proctrack/cgroup and task/cgroup",
    },
    Hazard {
        id: "stranded-half",
        source: Citation::new(
            CitedPage::Muster,
            "a consequence of a hard boundary, which the pages ask for and do not price",
        ),
        when: POOL,
        sentence: "one half idles while the other queues: quotas do not lend across the boundary",
        tell: "pending jobs on one side and free GPUs on the other, every night",
        cure: "move nodes on a schedule, drained first; or one substrate (Slinky, Soperator)",
    },
    Hazard {
        id: "collectives-on-tcp",
        source: Citation::new(CitedPage::Guide, "failure modes, 5"),
        when: All(&[COUPLED, Is(Fact::FleetRdma), Never(&ON_KUBERNETES)]),
        sentence: "collectives fall back from the fast fabric to TCP, and nothing fails",
        tell: "NCCL_DEBUG=INFO says Socket where it should say GDRDMA; steps are slow from the first",
        cure: "check the path in the first minute of every run, on either control plane, and with nccl-tests after every change",
    },
    Hazard {
        id: "container-network-between",
        source: Citation::new(
            CitedPage::Hyperstack,
            "Kubernetes failure modes, second; interconnect; guide: failure modes, 5",
        ),
        when: All(&[ON_KUBERNETES, GANGS, Is(Fact::FleetRdma)]),
        sentence: "the network of the containers stands between ranks and the fabric: collectives run on TCP, and nothing fails",
        tell: "NCCL_DEBUG=INFO says Socket where it should say GDRDMA; gaps in the trace of GPU use at every all-reduce",
        cure: "hostNetwork or SR-IOV, and an RDMA device plugin that exposes the real interface to the pod; nccl-tests after \
               every change",
    },
    Hazard {
        id: "ray-workers-without-rdma",
        source: Citation::new(CitedPage::Overview, "failure modes, 3"),
        when: All(&[Any(&[Is(Fact::Rl), Is(Fact::DistributedPython)]), GANGS, Is(Fact::FleetRdma)]),
        sentence: "Ray workers do not see the fabric: Ray Train runs its collectives on TCP",
        tell: "nccl-tests is fast on the node and slow inside a Ray worker",
        cure: "the same RDMA resource, memory limits and interface in the worker template as in any other pod or job",
    },
    Hazard {
        id: "scattered-ranks",
        source: Citation::new(CitedPage::Comparison, "failure modes, 5"),
        when: All(&[GANGS, ON_KUBERNETES]),
        sentence: "placement without regard to switches scatters a run across them: every all-reduce is slower",
        tell: "the same run is slower on some days, on other nodes",
        cure: "topology-aware placement in the gang scheduler or in Kueue, Topology Manager within a node",
    },
    Hazard {
        id: "traffic-before-tests",
        source: Citation::new(
            CitedPage::Guide,
            "how to run it in production: smoke tests, health gating",
        ),
        when: All(&[Never(&NOTHING), Any(&[Is(Fact::Services), COUPLED])]),
        sentence: "untested nodes take work: one GPU that is slow or failing takes a whole run or an endpoint with it",
        tell: "the first incident of a node is found by its user",
        cure: "smoke tests before traffic, a health check that takes a node out before its next job, utilisation and queue time watched",
    },
    Hazard {
        id: "free-but-apart",
        source: Citation::new(
            CitedPage::Hyperstack,
            "Kubernetes failure modes, first; things that break, 1",
        ),
        when: All(&[
            KUBERNETES,
            Any(&[Is(Fact::Training), Is(Fact::CoupledTraining)]),
            Any(&[Is(Fact::Services), Is(Fact::Notebooks), Is(Fact::Batch)]),
        ]),
        sentence: "enough GPUs are free, but fragmented: small pods are spread over the nodes that a whole-node run needs",
        tell: "a run of 8 GPUs waits while 10 are free",
        cure: "pack small pods (MostAllocated, or a binpack queue), keep nodes for whole-node runs",
    },
];
