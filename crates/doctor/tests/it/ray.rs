//! Each rule for the Ray clusters of a machine passes on two sound jobs, and fails on the same machine
//! with one change. A rule without such a change fails a test here.

use std::collections::{BTreeMap, BTreeSet};

use muster_doctor::ray::{DashboardAnswer, HostProcess, RayHost};
use muster_doctor::{check_ray_host, ray_host_rule_texts};
use muster_model::check::CheckReport;

use crate::site::failed;

/// Rule, change of the machine, and the evidence.
type HostCase = (&'static str, HostChange, &'static str);

type HostChange = fn(&mut RayHost);

const SITE: &str = "/v/lib/python3.11/site-packages/ray/core/src/ray";

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn variables(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
    Some(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// A raylet of a session, with the store of objects in shared memory.
fn raylet(pid: u32, session: &str, gcs: &str, resources: &str) -> HostProcess {
    HostProcess {
        pid,
        user: "ann".to_owned(),
        age_secs: 3600,
        arguments: words(&format!(
            "{SITE}/raylet/raylet --static_resource_list={resources} --temp_dir=/tmp/{session} \
             --plasma_directory=/dev/shm --gcs-address={gcs} --session-name={session}"
        )),
        cpus: Some(8),
        memory_bytes: Some(64 << 30),
        shared_memory_bytes: Some(1 << 30),
        listens: Some(Vec::new()),
        version: Some("2.60.0".to_owned()),
        ..HostProcess::default()
    }
}

fn gcs(pid: u32, session: &str, address: &str) -> HostProcess {
    let (host, port) = address.split_once(':').unwrap();
    HostProcess {
        pid,
        user: "ann".to_owned(),
        age_secs: 3600,
        arguments: words(&format!(
            "{SITE}/gcs/gcs_server --gcs_server_port={port} --node-ip-address={host} --session-name={session}"
        )),
        listens: Some(vec![format!("[::]:{port}").parse().unwrap()]),
        version: Some("2.60.0".to_owned()),
        ..HostProcess::default()
    }
}

/// The dashboard of the cluster of job 3, which has not answered.
fn dashboard(host: &RayHost) -> HostProcess {
    let line = "/v/bin/python3 /v/ray/dashboard/dashboard.py --session-dir=/tmp/s1/s1 --port=0";
    HostProcess {
        arguments: words(line),
        environment: host.processes[0].environment.clone(),
        ..gcs(12, "s1", "10.0.0.1:7001")
    }
}

/// A machine with job 3 of Muster, whose Ray cluster is on it, and job 9 of Slurm, whose head is on
/// another machine.
fn good() -> RayHost {
    let of_muster = || {
        variables(&[
            ("MUSTER_JOB_ID", "3"),
            ("CUDA_VISIBLE_DEVICES", "0,1"),
            ("RAY_AUTH_MODE", "token"),
        ])
    };
    let resources = "node:10.0.0.1,1.0,CPU,3,GPU,2,memory,1073741824,object_store_memory,536870912";
    let mut own = raylet(11, "s1", "10.0.0.1:7001", resources);
    own.environment = of_muster();
    let mut head = gcs(10, "s1", "10.0.0.1:7001");
    head.environment = of_muster();
    let mut other = raylet(21, "s2", "10.0.0.2:6379", "CPU,8,GPU,4,memory,1073741824");
    other.user = "bob".to_owned();
    other.groups = "0::/system.slice/slurmstepd.scope/job_9/step_0/user/task_0".to_owned();
    other.environment = variables(&[
        ("SLURM_JOB_ID", "9"),
        ("SLURM_JOB_NODELIST", "n[1-2]"),
        ("SLURM_GPUS_ON_NODE", "4"),
        ("SLURM_CPUS_ON_NODE", "8"),
    ]);
    let mut start = HostProcess {
        pid: 20,
        user: "bob".to_owned(),
        age_secs: 3600,
        arguments: words("/v/bin/python3 /v/bin/ray start --address=10.0.0.2:6379 --block"),
        ..HostProcess::default()
    };
    start.environment.clone_from(&other.environment);
    other.parent = start.pid;
    RayHost {
        name: "n1".to_owned(),
        addresses: BTreeSet::from(["10.0.0.1".parse().unwrap()]),
        resolved: [("n1", "10.0.0.1"), ("n2", "10.0.0.2")]
            .map(|(name, address)| (name.to_owned(), BTreeSet::from([address.parse().unwrap()])))
            .into(),
        processes: vec![head, own, start, other],
        ..RayHost::default()
    }
}

/// Returns the process with this number.
fn process(host: &mut RayHost, pid: u32) -> &mut HostProcess {
    host.processes.iter_mut().find(|process| process.pid == pid).unwrap()
}

/// Replaces a text in the arguments of a process.
fn replace(host: &mut RayHost, pid: u32, from: &str, to: &str) {
    for argument in &mut process(host, pid).arguments {
        *argument = argument.replace(from, to);
    }
}

fn set(host: &mut RayHost, pid: u32, name: &str, value: Option<&str>) {
    let environment = process(host, pid).environment.as_mut().unwrap();
    match value {
        Some(value) => environment.insert(name.to_owned(), value.to_owned()),
        None => environment.remove(name),
    };
}

/// Puts a second cluster, of this user, on the machine.
fn second(host: &mut RayHost, environment: Option<BTreeMap<String, String>>) {
    for mut one in
        [gcs(30, "s3", "10.0.0.1:6379"), raylet(31, "s3", "10.0.0.1:6379", "CPU,64,GPU,8")]
    {
        one.environment.clone_from(&environment);
        one.user = "eve".to_owned();
        host.processes.push(one);
    }
}

const FAILS: &[HostCase] = &[
    (
        "ray-outside-jobs",
        |host| second(host, variables(&[("RAY_AUTH_MODE", "token")])),
        "the cluster 10.0.0.1:6379 of eve: 1 node with 64 CPUs and 8 GPUs, in no job (processes 30, 31)",
    ),
    (
        "ray-joined-elsewhere",
        |host| replace(host, 21, "s2", "s1"),
        "the Ray node 21 in job 9 of Slurm is of the cluster 10.0.0.2:6379, which is in job 3 of Muster",
    ),
    (
        "ray-joined-elsewhere",
        |host| {
            replace(host, 21, "10.0.0.2", "10.0.0.7");
            host.resolved.insert("n7".to_owned(), BTreeSet::from(["10.0.0.7".parse().unwrap()]));
        },
        "the Ray node 21 in job 9 of Slurm is of the cluster 10.0.0.7:6379, on n7, which is none of its nodes",
    ),
    (
        "ray-joined-elsewhere",
        |host| replace(host, 11, "10.0.0.1:7001", "10.0.0.7:6379"),
        "the Ray node 11 in job 3 of Muster is of the cluster 10.0.0.7:6379, on none of its nodes",
    ),
    (
        "ray-clusters-collide",
        |host| {
            let job = host.processes[0].environment.clone();
            second(host, job);
            replace(host, 31, "CPU,64,GPU,8", "CPU,1");
        },
        "in job 3 of Muster: 10.0.0.1:7001 of ann, 10.0.0.1:6379 of eve",
    ),
    (
        "ray-clusters-collide",
        |host| {
            second(host, variables(&[("RAY_AUTH_MODE", "token")]));
            let mut third = raylet(41, "s4", "10.0.0.1:6380", "CPU,64");
            third.environment = variables(&[]);
            host.processes.push(third);
            replace(host, 31, "/tmp/s3", "/tmp/ray");
            replace(host, 41, "/tmp/s4", "/tmp/ray");
        },
        "in /tmp/ray: 10.0.0.1:6379 of eve, 10.0.0.1:6380 of ann",
    ),
    (
        "ray-gpus-beyond-job",
        |host| replace(host, 11, "GPU,2", "GPU,4"),
        "the Ray node 11 in job 3 of Muster offers 4 GPUs, its job has 2 GPUs",
    ),
    (
        "ray-gpus-beyond-job",
        |host| {
            set(host, 21, "CUDA_VISIBLE_DEVICES", Some("0,1,2,3,4,5,6,7"));
            replace(host, 21, "GPU,4", "GPU,8");
        },
        "the Ray node 21 in job 9 of Slurm offers 8 GPUs, its job has 4 GPUs",
    ),
    (
        "ray-cpus-beyond-job",
        |host| replace(host, 11, "CPU,3", "CPU,9"),
        "the Ray node 11 in job 3 of Muster offers 9 CPUs, its job has 8 CPUs",
    ),
    (
        "ray-cpus-beyond-job",
        |host| set(host, 21, "SLURM_CPUS_ON_NODE", Some("2")),
        "the Ray node 21 in job 9 of Slurm offers 8 CPUs, its job has 2 CPUs",
    ),
    (
        "ray-memory-beyond-job",
        |host| process(host, 11).memory_bytes = Some(1 << 30),
        "the Ray node 11 in job 3 of Muster offers 1.5GiB, its job has 1GiB",
    ),
    (
        "ray-memory-beyond-job",
        |host| set(host, 21, "SLURM_MEM_PER_NODE", Some("512")),
        "the Ray node 21 in job 9 of Slurm offers 1GiB, its job has 512MiB",
    ),
    (
        "ray-store-beyond-shared-memory",
        |host| process(host, 11).shared_memory_bytes = Some(64 << 20),
        "the Ray node 11 in job 3 of Muster: its object store of 512MiB is larger than /dev/shm, which has 64MiB",
    ),
    (
        "ray-store-beyond-shared-memory",
        |host| replace(host, 11, "/dev/shm", "/tmp"),
        "the Ray node 11 in job 3 of Muster: its object store of 512MiB is in /tmp",
    ),
    (
        "ray-open-to-network",
        |host| set(host, 10, "RAY_AUTH_MODE", None),
        "the cluster 10.0.0.1:7001 of ann, without a token: control store on [::]:7001",
    ),
    (
        "ray-open-to-network",
        |host| {
            let mut dashboard = dashboard(host);
            dashboard.dashboard = DashboardAnswer::Version("0.0.0.0:8265".parse().unwrap());
            host.processes.push(dashboard);
        },
        "the cluster 10.0.0.1:7001 of ann, without a token: dashboard on 0.0.0.0:8265",
    ),
    (
        "ray-head-without-node",
        |host| host.processes.retain(|process| process.pid != 11),
        "the control store 10.0.0.1:7001 of ann, process 10 in job 3 of Muster, has no raylet",
    ),
    (
        "ray-start-without-node",
        |host| host.processes.retain(|process| process.pid != 21),
        "process 20 of bob in job 9 of Slurm has no raylet",
    ),
    (
        "ray-versions-differ",
        |host| {
            let mut other = process(host, 11).clone();
            other.pid = 13;
            other.version = Some("2.9.0".to_owned());
            host.processes.push(other);
        },
        "job 3 of Muster: 2.60.0 (python3.11), 2.9.0 (python3.11)",
    ),
];

/// Changes after which a rule passes.
const PASSES: &[(&str, HostChange)] = &[
    // A pod is governed by Kubernetes.
    ("ray-outside-jobs", |host| {
        second(host, None);
        for pid in [30, 31] {
            process(host, pid).groups = "0::/kubepods.slice/kubepods-pod1.slice".to_owned();
        }
    }),
    // Two jobs, each with a cluster of its own.
    ("ray-clusters-collide", |host| {
        let other = variables(&[("MUSTER_JOB_ID", "4"), ("RAY_AUTH_MODE", "token")]);
        second(host, other);
    }),
    // A further node of a cluster that grows is a job of its own; its head may be on another machine.
    ("ray-joined-elsewhere", |host| {
        set(host, 11, "MUSTER_JOB_ID", Some("4"));
        set(host, 11, "MUSTER_RAY_JOINS", Some("10.0.0.1:7001"));
    }),
    ("ray-joined-elsewhere", |host| {
        replace(host, 11, "10.0.0.1:7001", "10.0.0.7:7001");
        set(host, 11, "MUSTER_RAY_JOINS", Some("10.0.0.7:7001"));
    }),
    // The head is at another address of this machine.
    ("ray-joined-elsewhere", |host| {
        replace(host, 21, "10.0.0.2", "192.168.0.1");
        host.addresses.insert("192.168.0.1".parse().unwrap());
    }),
    // Slurm gives a task of Muster one CPU, and a node of two GPUs offers three.
    ("ray-cpus-beyond-job", |host| process(host, 11).cpus = Some(1)),
    // A /dev/shm of its own, as in a container, has another size than that of another node.
    ("ray-store-beyond-shared-memory", |host| {
        replace(host, 21, "memory,1073741824", "object_store_memory,4294967296");
        process(host, 21).shared_memory_bytes = Some(8 << 30);
    }),
    ("ray-open-to-network", |host| {
        let mut dashboard = dashboard(host);
        dashboard.dashboard = DashboardAnswer::Refusal;
        host.processes.push(dashboard);
    }),
    // It starts.
    ("ray-head-without-node", |host| {
        host.processes.retain(|process| process.pid != 11);
        process(host, 10).age_secs = 5;
    }),
    // Nothing but this machine reaches it.
    ("ray-open-to-network", |host| {
        set(host, 10, "RAY_AUTH_MODE", None);
        process(host, 10).listens = Some(vec!["127.0.0.1:7001".parse().unwrap()]);
    }),
];

/// Changes after which a rule is not tested, with a part of what is needed.
const NOT_TESTED: &[HostCase] = &[
    (
        "ray-outside-jobs",
        |host| process(host, 11).environment = None,
        "the environment of process 11 of ann, which that user or root can read",
    ),
    (
        "ray-gpus-beyond-job",
        |host| set(host, 11, "CUDA_VISIBLE_DEVICES", None),
        "the GPUs of job 3 of Muster: CUDA_VISIBLE_DEVICES is not set",
    ),
    (
        "ray-cpus-beyond-job",
        |host| {
            replace(host, 11, "CPU,3", "CPU,4");
            process(host, 11).cpus = None;
        },
        "the CPUs of job 3 of Muster",
    ),
    // The head may be at another address of a node of the job than that of its name.
    (
        "ray-joined-elsewhere",
        |host| replace(host, 21, "10.0.0.2", "192.168.0.2"),
        "the node of 192.168.0.2:6379, the cluster of process 21",
    ),
    (
        "ray-joined-elsewhere",
        |host| {
            replace(host, 21, "10.0.0.2", "192.168.0.2");
            host.resolved.clear();
        },
        "the node of 192.168.0.2:6379, the cluster of process 21",
    ),
    (
        "ray-joined-elsewhere",
        |host| {
            replace(host, 11, "10.0.0.1:7001", "172.17.0.2:7001");
            process(host, 11).is_in_other_network = true;
        },
        "the node of 172.17.0.2:7001, the cluster of process 11",
    ),
    // Whether it is a further node of job 3 is in its environment.
    (
        "ray-joined-elsewhere",
        |host| {
            process(host, 11).muster_job = Some(4);
            process(host, 11).environment = None;
        },
        "the environment of process 11 of ann",
    ),
    (
        "ray-open-to-network",
        |host| {
            let dashboard = dashboard(host);
            host.processes.push(dashboard);
        },
        "an answer of the dashboard, process 12",
    ),
    (
        "ray-memory-beyond-job",
        |host| process(host, 11).memory_bytes = None,
        "a limit on the memory of job 3 of Muster",
    ),
    (
        "ray-store-beyond-shared-memory",
        |host| process(host, 11).shared_memory_bytes = None,
        "the size of /dev/shm of process 11",
    ),
    ("ray-open-to-network", |host| process(host, 10).listens = None, "the sockets of process 10"),
    (
        "ray-versions-differ",
        |host| process(host, 11).version = None,
        "the Ray package of process 11",
    ),
];

fn report(change: HostChange) -> CheckReport {
    let mut host = good();
    change(&mut host);
    check_ray_host(&host, &BTreeSet::new())
}

#[test]
fn sound_jobs_pass_every_rule() {
    let report = report(|_| {});
    assert_eq!((report.findings, report.not_tested), (Vec::new(), Vec::new()));
    let passed: Vec<&str> = report.passed.iter().map(|outcome| outcome.rule).collect();
    assert_eq!(passed, ray_host_rule_texts().map(|rule| rule.id).collect::<Vec<_>>());
}

#[test]
fn a_machine_without_ray_passes_every_rule() {
    let host = RayHost { name: "n1".to_owned(), ..RayHost::default() };
    let report = check_ray_host(&host, &BTreeSet::new());
    assert_eq!(report.passed.len(), ray_host_rule_texts().count());
    assert_eq!(report.passed[0].text, "0 Ray nodes on n1");
}

#[test]
fn each_change_fails_its_rule_and_no_other() {
    for (rule, change, evidence) in FAILS {
        let report = report(*change);
        let failed: BTreeSet<&str> = failed(&report).into_iter().collect();
        // Clusters that share a directory are outside every job.
        let is_outside = evidence.contains("/tmp/ray");
        let also = is_outside.then_some("ray-outside-jobs");
        assert_eq!(failed, also.into_iter().chain([*rule]).collect(), "{evidence}");
        let says: Vec<&str> = report.findings.iter().map(|one| one.evidence.as_str()).collect();
        assert!(says.contains(evidence), "{rule}: {says:?}");
    }
}

#[test]
fn harmless_changes_fail_nothing() {
    for (rule, change) in PASSES {
        let report = report(*change);
        assert!(report.passed.iter().any(|outcome| outcome.rule == *rule), "{rule}: {report:#?}");
    }
}

#[test]
fn without_its_input_a_rule_is_not_tested() {
    for (rule, change, text) in NOT_TESTED {
        let report = report(*change);
        let outcome = report.not_tested.iter().find(|outcome| outcome.rule == *rule);
        let outcome = outcome.unwrap_or_else(|| panic!("{rule}: {report:#?}"));
        assert!(outcome.text.contains(text), "{rule}: {}", outcome.text);
    }
}

#[test]
fn every_rule_has_a_failing_case() {
    let fails: BTreeSet<&str> = FAILS.iter().map(|(rule, ..)| *rule).collect();
    assert_eq!(fails, ray_host_rule_texts().map(|rule| rule.id).collect());
}

/// A baseline is still valid when the cluster has other processes.
#[test]
fn fingerprints_do_not_depend_on_process_numbers() {
    let prints = |change| {
        report(change).findings.iter().map(|one| one.fingerprint.clone()).collect::<Vec<_>>()
    };
    let first = prints(|host| second(host, variables(&[])));
    let later = prints(|host| {
        second(host, variables(&[]));
        process(host, 30).pid = 130;
    });
    assert_eq!(first.len(), 2);
    assert_eq!(first, later);
}
