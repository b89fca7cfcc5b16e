//! Every warning and every dispute about a site: a site where it is due, and a near miss, one fact
//! away, where it is not.

use std::collections::BTreeSet;

use muster_advise::document;
use muster_model::advice::Fact::{self, *};

use crate::pages;
use crate::rows::{ask, of, said, site};

type SiteNumbers = &'static [(Fact, u32)];

/// A lab that is too large to talk.
const LAB: SiteNumbers = &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20)];
/// The same, with staff to run Kubernetes.
const RUN: SiteNumbers = &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (PlatformFte, 50)];
/// A large fleet of several teams.
const LARGE: SiteNumbers =
    &[(FleetNodes, 25), (FleetGpus, 200), (Users, 60), (Teams, 4), (PlatformFte, 100)];
/// A fleet of many teams.
const TEAMS: SiteNumbers =
    &[(FleetNodes, 16), (FleetGpus, 128), (Users, 60), (Teams, 10), (PlatformFte, 100)];
/// Few GPUs, few people.
const FEW: SiteNumbers = &[(FleetNodes, 2), (FleetGpus, 8), (Users, 4)];
/// One person, several nodes.
const ONE: SiteNumbers = &[(FleetNodes, 4), (FleetGpus, 32), (Users, 1)];

/// Id, the facts of a site where it is due, and the one change after which it is not.
type FiringRow = (&'static str, &'static [Fact], SiteNumbers, (Fact, u32));

const WARNINGS: &[FiringRow] = &[
    ("shared-nodes", &[FleetSharedNodes, Training], LAB, (FleetSharedNodes, 0)),
    ("past-the-gang-scheduler", &[Services, CoupledTraining], RUN, (CoupledTraining, 0)),
    ("ray-beside-the-plane", &[OperatesRay, Rl], LAB, (OperatesRay, 0)),
    ("ray-for-batch", &[OperatesRay, Batch], LAB, (DistributedPython, 1)),
    ("slices-without-hardware", &[IsolatedSlices, Services], RUN, (FleetMig, 1)),
    ("sharing-is-not-isolation", &[SharedGpus, Services], RUN, (SharedGpus, 0)),
    ("namespace-is-not-a-wall", &[Services, HostileTenants], RUN, (HostileTenants, 0)),
    (
        "tenants-on-slurm",
        &[OperatesSlurm, Works, Training, Services, HostileTenants],
        RUN,
        (Works, 0),
    ),
    ("unconfined-devices", &[Training], LAB, (Users, 1)),
    ("regulated-and-shared", &[Regulated, Training], LAB, (FleetSingleTenant, 1)),
    ("service-on-slurm", &[Services, Training], LAB, (Managed, 1)),
    ("boundary-in-heads", &[OperatesSlurm, Works, Training, Services], RUN, (PlatformFte, 0)),
    ("stranded-half", &[OperatesSlurm, Works, Training, Services], RUN, (Services, 0)),
    ("collectives-on-tcp", &[CoupledTraining, FleetRdma, Services], LAB, (Managed, 1)),
    ("container-network-between", &[CoupledTraining, Services, FleetRdma], RUN, (Services, 0)),
    ("ray-workers-without-rdma", &[Rl, Sweeps, CoupledTraining, FleetRdma], LAB, (Rl, 0)),
    ("scattered-ranks", &[CoupledTraining, Services], RUN, (PlatformFte, 0)),
    ("traffic-before-tests", &[Services], RUN, (Services, 0)),
    ("free-but-apart", &[Services, Training], RUN, (Training, 0)),
    ("nothing-but-agreement", &[Talk, Training], FEW, (Users, 1)),
    ("nothing-restarts", &[Talk, Services], FEW, (Services, 0)),
    ("half-a-run-by-hand", &[Talk, CoupledTraining], FEW, (CoupledTraining, 0)),
    ("second-user-of-ray", &[Rl], ONE, (Users, 2)),
    ("k3s-past-its-envelope", &[FleetEdge], &[(FleetNodes, 9), (FleetGpus, 9)], (FleetNodes, 8)),
    ("time-counted-in-cpus", &[Training], LAB, (Talk, 1)),
    ("limits-not-enforced", &[Training, StrictQuotas], LAB, (StrictQuotas, 0)),
    ("whole-node-for-one-gpu", &[Training, Notebooks], LAB, (Notebooks, 0)),
    ("fixed-allocation", &[Training, Grow], LAB, (Grow, 0)),
    ("grows-only-if-asked", &[Training, Services, Grow], RUN, (PlatformFte, 0)),
    ("elastic-nodes-fixed-pool", &[Batch, FleetElastic], LAB, (FleetElastic, 0)),
    (
        "one-pool-many-kinds",
        &[OperatesSlurm, Works, Training, Notebooks, Services],
        LAB,
        (PlatformFte, 25),
    ),
    ("drifting-environments", &[Training, Reproducible], LAB, (Reproducible, 0)),
    ("launch-depends-on-dns", &[Services, CoupledTraining], RUN, (CoupledTraining, 0)),
    ("rank-fails-unseen", &[CoupledTraining], LAB, (CoupledTraining, 0)),
    ("recovery-is-yours", &[Training], LAB, (Training, 0)),
    ("sweep-of-pods", &[Sweeps, Services], RUN, (Sweeps, 0)),
    ("wait-longer-than-run", &[Training, ShortRuns], LAB, (ShortRuns, 0)),
    ("notebook-without-end", &[Notebooks], LAB, (Notebooks, 0)),
    ("twenty-components", &[Services, Training], RUN, (OperatesKubernetes, 1)),
    ("head-starved-of-its-node", &[Services, DistributedPython], RUN, (FleetNodes, 1)),
    (
        "nobody-runs-it",
        &[Services],
        &[(FleetNodes, 9), (FleetGpus, 72), (Users, 20), (PlatformFte, 24)],
        (PlatformFte, 25),
    ),
    (
        "build-phase",
        &[Services, Training],
        &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (PlatformFte, 49)],
        (PlatformFte, 50),
    ),
    ("moved-for-fashion", &[OperatesSlurm, Works, Modernise, Training], LAB, (Works, 0)),
    ("fluency-tax", &[Services, HpcFluent], RUN, (KubernetesFluent, 1)),
    ("gang-means-two-things", &[CoupledTraining, KubernetesFluent], LAB, (KubernetesFluent, 0)),
    ("mix-shifts", &[Training], RUN, (Services, 1)),
];

const DISPUTES: &[FiringRow] = &[
    (
        "no-scheduler-boundary",
        &[Talk, Training],
        &[(FleetNodes, 4), (FleetGpus, 32), (Users, 6)],
        (Users, 7),
    ),
    (
        "how-many-users",
        &[Talk, Training],
        &[(FleetNodes, 2), (FleetGpus, 15), (Users, 7)],
        (Users, 6),
    ),
    (
        "second-team",
        &[Talk, Training],
        &[(FleetNodes, 2), (FleetGpus, 8), (Users, 4), (Teams, 2)],
        (Teams, 1),
    ),
    (
        "working-scheduler-on-few-gpus",
        &[Talk, OperatesSlurm, Works, Training],
        FEW,
        (FleetGpus, 16),
    ),
    ("edge-or-nothing", &[FleetEdge, Talk], FEW, (FleetGpus, 16)),
    ("endpoint-on-few-gpus", &[Talk, Services], FEW, (FleetGpus, 16)),
    ("conventions-cannot-enforce", &[Talk, Training, StrictQuotas], FEW, (StrictQuotas, 0)),
    ("one-large-fleet", &[Training, Services], LARGE, (FleetGpus, 199)),
    ("size-of-k3s", &[FleetEdge], &[(FleetNodes, 9), (FleetGpus, 9)], (FleetNodes, 8)),
    ("small-platform-k3s", &[Services], LAB, (FleetNodes, 9)),
    ("working-slurm-and-services", &[OperatesSlurm, Works, Training, Services], RUN, (Services, 0)),
    (
        "working-kubernetes-and-coupled",
        &[OperatesKubernetes, Works, CoupledTraining],
        RUN,
        (HpcFluent, 1),
    ),
    ("ray-owns-the-nodes", &[Rl], ONE, (Users, 2)),
    ("ray-as-primary", &[Rl], LAB, (Rl, 0)),
    ("serving-without-training", &[Services], RUN, (Training, 1)),
    ("mix-or-staff", &[Services, Training], LAB, (PlatformFte, 25)),
    ("where-the-tree-ends", &[Services, Training, StrictQuotas], RUN, (StrictQuotas, 0)),
    ("mixed-fleet", &[Services, Training], RUN, (Services, 0)),
    (
        "coupled-on-bare-metal",
        &[Services, CoupledTraining, FleetBareMetal],
        RUN,
        (MainlyCoupled, 1),
    ),
    ("simple-batch", &[Training], LAB, (CoupledTraining, 1)),
    ("teams-on-slurm", &[Training], TEAMS, (Teams, 1)),
    ("declared-or-staffed", &[Batch, Gitops], LAB, (PlatformFte, 25)),
    (
        "declared-or-coupled",
        &[CoupledTraining, MainlyCoupled, FleetBareMetal, Gitops],
        RUN,
        (MainlyCoupled, 0),
    ),
    ("many-clusters", &[Batch, MultiCluster], RUN, (MultiCluster, 0)),
    ("ten-or-more-than-ten", &[Training, ToolingBudget], TEAMS, (Teams, 11)),
    ("budget-or-quotas", &[Training, ToolingBudget], TEAMS, (StrictQuotas, 1)),
    ("bought-or-batch", &[Training, ToolingBudget, StrictQuotas], TEAMS, (Services, 1)),
    ("cohorts-or-product", &[Training, ToolingBudget, StrictQuotas], TEAMS, (Teams, 9)),
    ("familiarity", &[Training, KubernetesFluent], LAB, (HpcFluent, 1)),
    ("regulated-on-slurm", &[Training, Regulated], LAB, (Regulated, 0)),
    ("volcano-without-gangs", &[Services, Training], RUN, (CoupledTraining, 1)),
    ("is-kueue-a-gang-scheduler", &[Services, CoupledTraining], RUN, (CoupledTraining, 0)),
    ("who-makes-ray-whole", &[Services, Rl], RUN, (Rl, 0)),
    ("array-or-tune", &[Sweeps], LAB, (Sweeps, 0)),
    ("ray-or-a-batch-job", &[OperatesRay, Batch], LAB, (OperatesRay, 0)),
    ("who-keeps-devices-apart", &[Training], TEAMS, (Teams, 1)),
    ("topology-by-itself", &[CoupledTraining], LAB, (CoupledTraining, 0)),
    ("what-gang-means", &[Mpi], LAB, (FleetNodes, 1)),
    ("who-recovers", &[Training], LAB, (Training, 0)),
    ("provider-or-you", &[Training, Managed], LAB, (Managed, 0)),
    ("slurm-in-pods", &[CoupledTraining, Managed], LAB, (PlatformFte, 25)),
    (
        "managed-kubernetes-for-training",
        &[CoupledTraining, Services, Managed],
        LAB,
        (CoupledTraining, 0),
    ),
    ("ray-in-which-pool", &[OperatesSlurm, Works, Rl, Services], RUN, (PlatformFte, 0)),
    ("which-looks-simpler", &[CoupledTraining], LAB, (CoupledTraining, 0)),
    ("elastic-slurm", &[Batch, FleetElastic], LAB, (FleetElastic, 0)),
    ("one-part-time-person", &[Training], LARGE, (FleetGpus, 199)),
    (
        "fractions-by-memory",
        &[Training, Notebooks, ToolingBudget, StrictQuotas],
        TEAMS,
        (Notebooks, 0),
    ),
    ("native-gang", &[Services, CoupledTraining], RUN, (CoupledTraining, 0)),
    ("determined-ended", &[Training, Tracking], LAB, (Tracking, 0)),
    ("growing-in-slurm", &[Training, Grow], LAB, (Grow, 0)),
    ("growing-on-kubernetes", &[Services, Training, Grow], RUN, (PlatformFte, 24)),
    ("yield-in-sixty-seconds", &[Services, Training], RUN, (Training, 0)),
    ("lent-and-not-returned", &[Services, Training, StrictQuotas], RUN, (StrictQuotas, 0)),
    ("training-jobs-renamed", &[Services, Training], RUN, (Services, 0)),
    ("what-is-charged", &[Training], LAB, (Talk, 1)),
    (
        "slices-by-hand",
        &[OperatesSlurm, Works, Training, IsolatedSlices, FleetMig],
        LAB,
        (FleetMig, 0),
    ),
    ("share-of-top500", &[CoupledTraining], LAB, (CoupledTraining, 0)),
];

/// Ids of a part of the document.
fn listed(part: &str) -> BTreeSet<String> {
    let text = document();
    let (_, from) = text.split_once(&format!("\n## {part}\n")).unwrap();
    let until = from.split_once("\n## ").map_or(from, |(part, _)| part);
    until.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect()
}

fn check(rows: &[FiringRow], part: &str) {
    let mut wrong = Vec::new();
    for (id, flags, numbers, (fact, value)) in rows {
        let due = site(flags, numbers);
        let near = of(due.facts.with(*fact, *value));
        assert_ne!(due, near, "{id}: the near miss is the same site");
        if !said(&ask(&due)).contains(id) {
            wrong.push(format!("{id} is not due: {:?}", ask(&due).advice.label));
        }
        if said(&ask(&near)).contains(id) {
            wrong.push(format!("{id} is due on the near miss: {:?}", ask(&near).advice.label));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let with_row: BTreeSet<String> = rows.iter().map(|(id, ..)| (*id).to_owned()).collect();
    assert_eq!(with_row, listed(part), "every one has a row");
}

#[test]
fn warnings_are_due_where_they_belong() {
    check(WARNINGS, "Warnings for a site");
}

#[test]
fn disputes_are_shown_where_they_belong() {
    check(DISPUTES, "Disputes about a site");
}

/// Slurm that works inside Kubernetes is one substrate: the fleet is not divided again.
#[test]
fn slurm_inside_kubernetes_is_not_divided() {
    for (product, numbers) in
        [(OperatesSlinky, LARGE), (OperatesSoperator, RUN), (OperatesSunk, LARGE)]
    {
        let due = site(&[product, Works, Services, CoupledTraining], numbers);
        let said_here = said(&ask(&due));
        assert!(said_here.contains(&"split-slurm-on-kubernetes"), "{product}");
        for split in ["split-federated", "split-partition"] {
            assert!(!said_here.contains(&split), "{product}: {split}");
        }
        let near = said(&ask(&of(due.facts.with(Works, 0))));
        assert!(!near.contains(&"split-slurm-on-kubernetes"), "{product}");
    }
}

/// KAI that works is the required gang scheduler; where it does not, Volcano is.
#[test]
fn the_gang_scheduler_is_the_one_that_works() {
    let required = |product, works| {
        let site = site(&[CoupledTraining, Services, product], RUN).facts;
        ask(&of(site.with(Works, works).with(Teams, 4))).advice.label.addon
    };
    for (product, gangs) in
        [(OperatesKai, "KAI gang scheduler"), (OperatesRunai, "Run:ai gang scheduling")]
    {
        let works = required(product, 1);
        assert!(works.starts_with(&format!("{gangs} (REQUIRED)")), "{works}");
        let broken = required(product, 0);
        assert!(broken.starts_with("Volcano gang scheduler (REQUIRED)"), "{broken}");
    }
    let runai = ask(&site(&[CoupledTraining, Services, OperatesRunai, Works], RUN));
    for id in ["kueue", "kubeflow", "is-kueue-a-gang-scheduler", "cohorts-or-product"] {
        assert!(!said(&runai).contains(&id), "{id}: {}", runai.advice.label.addon);
    }
}

/// A rule that never fires would be unreachable.
#[test]
fn every_rule_fires_somewhere() {
    let rows = pages::all().map(|row| row.site());
    let others = WARNINGS.iter().chain(DISPUTES).map(|(_, flags, numbers, _)| site(flags, numbers));
    let more = [
        site(&[OperatesK3s, Works, Services], LAB),
        site(&[FleetDev, Batch], &[(FleetNodes, 3), (FleetGpus, 12), (Users, 20), (Teams, 3)]),
        site(&[Services, FleetElastic], RUN),
        site(&[Training, StrictQuotas], LAB),
        site(&[Services, Training, Reproducible], RUN),
        site(&[Batch], &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (FleetPlaces, 2)]),
        site(&[Batch, OperatesLsf, Works], LAB),
        site(&[CoupledTraining, OperatesKai, Works], LAB),
    ];
    let said: BTreeSet<&str> =
        rows.chain(others).chain(more).flat_map(|site| said(&ask(&site))).collect();
    let silent: Vec<String> =
        listed("Rules for a site").into_iter().filter(|id| !said.contains(id.as_str())).collect();
    assert!(silent.is_empty(), "{silent:?}");
}
