//! `muster import --slurm-conf`: a Slurm configuration as a cluster file and a queue file. Files of
//! `muster init slurm` convert back unchanged; for a site's own files, settings that cannot be
//! converted are listed. Both files can be used.

use muster_model::{NodeSpec, QueueTree};
use muster_spec::{Cluster, parse_cluster, parse_queues};

use crate::home::Home;

const CLUSTER: &str = "\
levels: [block, leaf]
nodes:
  - {name: 'node[1-2]', gpus: 8, gpu: h100, cpus: 64, memory: 1000GiB, domain: {block: b1, leaf: l1}, extras: {nic: 2}}
  - {name: 'node[3-4]', gpus: 8, gpu: h100, cpus: 96, memory: 2000GiB, domain: {block: b1, leaf: l2}, labels: {features: 'ib,nvlink'}}
  - {name: 'node[5-6]', gpus: 4, gpu: a100, cpus: 64, memory: 1000GiB, domain: {block: b2, leaf: l3}, labels: {partition: old}}
";

const QUEUES: &str = "\
half-life: 36h
backfill: conservative
preemption: reclaim
queues:
  - name: lab
    weight: 3
    queues:
      - {name: vision, quota: {h100: 16, a100: 4}, borrow: 8}
      - {name: language, weight: 2, quota: {h100: 8, a100: 4}, limits: {running-jobs: 5, time: 2d, borrowed-time: 4h}, protect: 30m}
  - {name: guest, limits: {gpus-per-user: 4, pending-jobs: 100}}
  - {name: service, quota: {h100: 4}, borrow: 0}
";

fn read(home: &Home, folder: &str) -> (Cluster, QueueTree) {
    let text = |name: &str| home.read(&format!("{folder}{name}"));
    let cluster = parse_cluster(&text("cluster.yaml"), None).unwrap();
    (cluster, parse_queues(&text("queues.yaml"), None).unwrap())
}

/// A node but for the label of its partition, which init gives to every node.
fn bare(mut node: NodeSpec) -> NodeSpec {
    node.labels.remove("partition");
    node
}

#[test]
fn what_was_written_for_slurm_comes_back() {
    let home = Home::new();
    home.write("cluster.yaml", CLUSTER);
    home.write("queues.yaml", QUEUES);
    home.words("init slurm --cluster cluster.yaml --queues queues.yaml --controller head1").ok();
    let run = home.words("import --slurm-conf slurm --sacctmgr slurm/accounts.sh -o back").ok();
    assert!(
        run.stderr.starts_with("back: cluster.yaml and queues.yaml, 6 nodes with 40 GPUs"),
        "{}",
        run.stderr
    );
    let ((cluster, queues), (cluster_back, queues_back)) = (read(&home, ""), read(&home, "back/"));
    assert_eq!(cluster_back.levels, cluster.levels);
    let nodes = |cluster: Cluster| cluster.nodes.into_iter().map(bare).collect::<Vec<_>>();
    assert_eq!(nodes(cluster_back), nodes(cluster));
    assert_eq!(queues_back, queues);
}

/// A realistic cluster: files that include each other, defaults, sockets, three levels of switches.
const SITE: &str = "\
ClusterName=site
SlurmctldHost=head
PriorityDecayHalfLife=14-0
SchedulerType=sched/backfill
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
Include nodes.conf
PartitionName=DEFAULT MaxTime=2-0
PartitionName=gpu Nodes=g[01-04] Default=YES
PartitionName=all Nodes=ALL AllowAccounts=physics QOS=long
";
const NODES: &str = "\
NodeName=DEFAULT Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=500000 State=UNKNOWN
NodeName=g[01-04] Gres=gpu:4 Feature=v100,ib
NodeName=c[1-2] RealMemory=100000
NodeName=c3 CPUs=8 State=FUTURE
";
const GRES: &str = "NodeName=g[01-04] Name=gpu Type=v100 File=/dev/nvidia[0-3]\n";
const TOPOLOGY: &str = "\
SwitchName=s1 Nodes=g[01-02]
SwitchName=s2 Nodes=g[03-04]
SwitchName=m1 Switches=s[1-2]
SwitchName=m2 Nodes=c[1-2]
SwitchName=top Switches=m[1-2]
";
const DUMP: &str = "\
Cluster - 'site':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='physics':Organization='site':Fairshare=60:GrpTRES=gres/gpu=8
Account - 'biology':Description='biology':Organization='site':Fairshare=40:GrpTRES=cpu=64:MaxWallDurationPerJob=1440
Parent - 'physics'
User - 'ada':DefaultAccount='physics':Fairshare=1:MaxJobs=4
Account - 'astro':Description='astro':Organization='site':Fairshare=parent:GrpTRES=gres/gpu=6:GrpJobs=3
Account - 'plasma':Description='plasma':Organization='site':Fairshare=2:GrpTRES=gres/gpu=6:GrpSubmitJobs=50
";

fn site() -> Home {
    let home = Home::new();
    std::fs::create_dir(home.path("etc")).unwrap();
    for (name, text) in [
        ("slurm.conf", SITE),
        ("nodes.conf", NODES),
        ("gres.conf", GRES),
        ("topology.conf", TOPOLOGY),
    ] {
        home.write(&format!("etc/{name}"), text);
    }
    home.write("dump.cfg", DUMP);
    home
}

#[test]
fn a_site_of_others_is_read_with_what_it_cannot_say() {
    let home = site();
    let run = home.words("import --slurm-conf etc/slurm.conf --sacctmgr dump.cfg -o out").ok();
    let gpus = "gpus: 4, gpu: v100, cpus: 64, memory: 500000MiB, domain: {core: top, spine: m1, leaf: LEAF}, \
                labels: {features: \"v100,ib\", partition: gpu}";
    let expected = format!(
        "# 6 nodes with 16 GPUs (16 v100), from etc/slurm.conf; written by muster import\nlevels: [core, spine, leaf]\nnodes:\n  \
         # also in partition all\n  - {{name: \"g[01-02]\", {}}}\n  # also in partition all\n  - {{name: \"g[03-04]\", {}}}\n  \
         - {{name: \"c[1-2]\", gpus: 0, cpus: 64, memory: 100000MiB, domain: {{core: top, spine: m2, leaf: m2}}, labels: {{partition: all}}}}\n",
        gpus.replace("LEAF", "s1"),
        gpus.replace("LEAF", "s2"),
    );
    assert_eq!(home.read("out/cluster.yaml"), expected);
    let queues = home.read("out/queues.yaml");
    let (_, tree) = queues.split_once("half-life").unwrap();
    assert_eq!(
        tree,
        ": 14d\nbackfill: conservative\nbackfill-depth: 16\npreemption: none\ndefault-queue: physics/astro\nqueues:\n  - name: physics\n    \
         weight: 60\n    queues:\n      - {name: astro, quota: {v100: 6}, borrow: 0, limits: {running-jobs: 3}}\n      \
         - {name: plasma, weight: 2, quota: {v100: 6}, borrow: 0}\n      - {name: direct}\n  - {name: biology, weight: 40, limits: {time: 1d}}\n"
    );
    for part in [
        "c3: State=FUTURE, left out",
        "physics/astro: Fairshare=parent is not a number",
        "physics: the account has users and child accounts; the users are in `physics/direct`",
        "biology: a limit on cpu (64) has no counterpart",
        "physics: its cap of 8 v100 is less than the 12 of its child accounts together",
        "PreemptType=preempt/partition_prio: it cannot be expressed by quotas",
        "MaxJobs of users has no counterpart: ada in physics 4",
        "GrpSubmitJobs of accounts has no counterpart: plasma 50",
        "partitions, maximum time limits (MaxTime): gpu 2-0, all 2-0",
        "partitions, allowed accounts (AllowAccounts): all physics",
        "partitions, partition QOS (QOS): all long;",
        "partitions, default partition (Default): gpu;",
    ] {
        assert!(
            run.stderr.contains(&format!("warning: not as in Slurm: {part}")),
            "{part}: {}",
            run.stderr
        );
        assert!(queues.contains(&format!("# not as in Slurm: {part}")), "{part}: {queues}");
    }
}

#[test]
fn both_files_do_what_they_are_for() {
    let home = site();
    home.words("import --slurm-conf etc --sacctmgr dump.cfg -o out").ok();
    home.write(
        "jobs.csv",
        "id,submit,runtime,requested,tasks,cpus,memory,gpus,gpu_share,models,user,queue,ended,priority\n\
         a,0,600,900,1,8,,4,,,ada,astro,,\nb,10,60,90,1,8,,1,,,bob,biology,,\n",
    );
    let files = "--trace jobs.csv --cluster out/cluster.yaml --queues out/queues.yaml --json";
    let answer: serde_json::Value = home
        .words(&format!("simulate {files} --scheduler slurm,muster --estimates requested"))
        .json();
    let runs = answer["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{answer}");
    assert!(runs.iter().all(|run| run["left"] == 0 && run["refused"] == 0), "{answer}");
    home.write(
        "site.yaml",
        "fleet: {nodes: 6, gpus: 16, hosting: bare-metal}\npeople: {users: 20, teams: 3, operates: slurm, works: true}\n",
    );
    let answer: serde_json::Value =
        home.words(&format!("advise --site site.yaml --prove --seeds 1 {files}")).json();
    assert_eq!(
        (&answer["proof"]["nodes"], &answer["proof"]["strangers"]),
        (&6.into(), &0.into()),
        "{answer}"
    );
}

#[test]
fn accounts_may_be_tables_and_without_any_partitions_are_queues() {
    let home = site();
    let run = home.words("import --slurm-conf etc").ok();
    assert!(
        run.stdout.contains("==> cluster.yaml <==\n")
            && run.stdout.contains(
                "default-queue: gpu\nqueues:\n  - {name: gpu, limits: {time: 2d}}\n  - {name: all, limits: {time: 2d}}\n"
            ),
        "{}",
        run.stdout
    );
    assert!(
        run.stderr.contains("no accounts were given, so each partition is a queue"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("maximum time limits (MaxTime)"), "{}", run.stderr);
    // Priority weights are listed, with or without accounts.
    home.write(
        "etc/slurm.conf",
        &format!("{SITE}PriorityType=priority/multifactor\nPriorityWeightAge=500\n"),
    );
    for accounts in ["", " --sacctmgr dump.cfg"] {
        let run = home.words(&format!("import --slurm-conf etc{accounts}")).ok();
        assert!(run.stderr.contains("priority weights (PriorityWeightAge=500)"), "{}", run.stderr);
    }
    home.write(
        "assoc",
        "Account|ParentName|User|Share|GrpTRES|QOS|Def QOS\nlab|root||2|gres/gpu=12|own,low|own\n",
    );
    home.write("qos", "Name|GraceTime|Preempt|GrpTRES|MaxTRESPU|MaxWall\nown|00:00:00|low|gres/gpu=8|gres/gpu=2|\nlow|00:02:00||||04:00:00\n");
    home.write("etc/slurm.conf", &SITE.replace("partition_prio", "qos"));
    let run = home.words("import --slurm-conf etc --sacctmgr assoc --sacctmgr qos").ok();
    let expected = "preemption: reclaim\ndefault-queue: lab\nqueues:\n  \
                    - {name: lab, weight: 2, quota: {v100: 8}, borrow: 4, limits: {gpus-per-user: 2, borrowed-time: 4h}}\n";
    assert!(run.stdout.contains(expected), "{}", run.stdout);
}

#[test]
fn mistakes_are_told() {
    let home = site();
    home.write("text", "hello\n");
    for (words, part) in [
        ("--slurm-conf nowhere", "nowhere"),
        ("--slurm-conf etc/gres.conf", "contains no slurm.conf"),
        ("--slurm-conf etc --sacctmgr text", "text is not output or input of sacctmgr"),
        (
            "--slurm-conf etc --levels rack,leaf",
            "topology.conf has 3 levels of switches, but --levels names 2",
        ),
        ("--sacctmgr dump.cfg", "--slurm-conf"),
    ] {
        let run = home.words(&format!("import {words} -o out")).code(2);
        assert!(run.stderr.contains(part), "{words}: {}", run.stderr);
        assert!(!home.path("out").exists(), "{words}");
    }
    home.words("import --slurm-conf etc -o out").ok();
    let again = home.words("import --slurm-conf etc -o out").code(2);
    assert!(again.stderr.contains("--force overwrites"), "{}", again.stderr);
    let levels = home.words("import --slurm-conf etc --levels site,rack,leaf").ok();
    assert!(levels.stdout.contains("levels: [site, rack, leaf]\n"), "{}", levels.stdout);
}
