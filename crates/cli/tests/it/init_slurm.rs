//! `muster init slurm`: the files pass `muster check slurm`, list what Slurm cannot express,
//! contain no secret except the given password, and are not overwritten after edits by hand.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::home::{Home, HomeRun};

const CLUSTER: &str = "\
levels: [block, leaf]
nodes:
  - {name: 'node[1-2]', gpus: 8, gpu: h100, cpus: 64, memory: 1000GiB, domain: {block: b1, leaf: l1}}
  - {name: 'node[3-4]', gpus: 8, gpu: h100, cpus: 64, memory: 1000GiB, domain: {block: b2, leaf: l2}}
";

const QUEUES: &str = "\
half-life: 36h
backfill: conservative
preemption: reclaim
queues:
  - name: lab
    weight: 3
    queues:
      - {name: vision, quota: {h100: 16}, borrow: 8}
      - {name: language, weight: 2, quota: {h100: 8}, limits: {running-jobs: 5, time: 2d, borrowed-time: 4h}}
  - {name: guest, limits: {gpus-per-user: 4}}
  - {name: interactive, quota: {h100: 4}, borrow: 0}
";

/// All that a site decides.
const COMPLETE: &str =
    "--db-password-file secret --health-check /usr/sbin/nhc --user alice=lab/vision,guest";

fn site() -> Home {
    let home = Home::new();
    home.write("cluster.yaml", CLUSTER);
    home.write("queues.yaml", QUEUES);
    home.write("secret", "Tr0ub4dor\n");
    home
}

fn init(home: &Home, more: &str) -> HomeRun {
    home.words(&format!(
        "init slurm --cluster cluster.yaml --queues queues.yaml --controller head1 {more}"
    ))
}

/// Returns the rules that fail the check, and those that were not tested.
fn findings(home: &Home) -> (Vec<String>, Vec<String>) {
    let report: Value =
        serde_json::from_str(&home.words("check slurm --conf slurm --json").stdout).unwrap();
    let rules = |list: &str| -> Vec<String> {
        let list = report[list].as_array().unwrap();
        list.iter().map(|entry| entry["rule"].as_str().unwrap().to_owned()).collect()
    };
    (rules("findings"), rules("not_tested"))
}

/// Returns the line of a file with this prefix, without the prefix.
fn line(home: &Home, file: &str, start: &str) -> String {
    let text = home.read(file);
    let found = text.lines().find_map(|line| line.strip_prefix(start));
    found.unwrap_or_else(|| panic!("no {start} in {file}:\n{text}")).to_owned()
}

#[test]
fn its_own_check_finds_nothing() {
    let home = site();
    let run = init(&home, COMPLETE).ok();
    assert!(
        run.stderr.starts_with("slurm: 6 files for 4 nodes with 32 GPUs (32 h100); 6 written"),
        "{}",
        run.stderr
    );
    assert!(
        !run.stderr.contains("StoragePass") && !run.stderr.contains("HealthCheck"),
        "{}",
        run.stderr
    );
    let (found, untested) = findings(&home);
    assert_eq!(found, [""; 0]);
    // What is about sockets, a prolog, Kubernetes, or qualities of service as the cluster has them.
    let expected = [
        "processors-do-not-match",
        "nodes-also-in-kubernetes",
        "preempt-without-grace",
        "slow-start-requeues",
        "prolog-without-end",
    ];
    assert_eq!(untested, expected);
    home.words("check slurm --conf slurm --fail-on low").ok();
}

#[test]
fn a_secret_is_read_from_a_file_and_shown_nowhere_else() {
    let home = site();
    let run = init(&home, COMPLETE).ok();
    assert!(!run.stdout.contains("Tr0ub4dor") && !run.stderr.contains("Tr0ub4dor"));
    assert_eq!(line(&home, "slurm/slurmdbd.conf", "StoragePass="), "Tr0ub4dor");
    for (file, mode) in [("slurmdbd.conf", 0o600), ("slurm.conf", 0o644), ("accounts.sh", 0o755)] {
        let permissions = fs::metadata(home.path("slurm").join(file)).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{file}");
        assert!(
            file == "slurmdbd.conf" || !home.read(&format!("slurm/{file}")).contains("Tr0ub4dor")
        );
    }
    home.write("secret", "correct-horse\n");
    let run = init(&home, &format!("{COMPLETE} --diff")).code(1);
    assert!(run.stdout.contains("StoragePass= differs"), "{}", run.stdout);
    assert!(
        !run.stdout.contains("correct-horse") && !run.stdout.contains("Tr0ub4dor"),
        "{}",
        run.stdout
    );
}

#[test]
fn what_is_left_open_is_named_by_the_check() {
    let home = site();
    let run = init(&home, "").ok();
    for word in ["StoragePass=FILL_IN", "no HealthCheckProgram", "no users"] {
        assert!(run.stderr.contains(word), "{word}: {}", run.stderr);
    }
    assert_eq!(findings(&home).0, ["line-left-open", "no-health-check"]);
    assert!(home.read("slurm/accounts.sh").contains("\n#member alice vision\n"));
}

#[test]
fn queues_become_accounts_and_qualities_of_service() {
    let home = site();
    let run = init(&home, COMPLETE).ok();
    let accounts = |start: &str| line(&home, "slurm/accounts.sh", start);
    assert_eq!(accounts("add account vision "), "parent=lab Description=lab/vision");
    assert_eq!(
        accounts("change account vision "),
        "Fairshare=1 GrpTRES=gres/gpu=24 GrpJobs=-1 MaxWall=-1 MaxSubmitJobs=-1 QOS=vision-own,idle DefaultQOS=vision-own"
    );
    assert_eq!(
        accounts("change account language "),
        "Fairshare=2 GrpTRES=gres/gpu=-1 GrpJobs=5 MaxWall=2-00:00:00 MaxSubmitJobs=-1 QOS=language-own,language-idle \
         DefaultQOS=language-own"
    );
    // A queue without a quota preempts nothing; a queue that may not borrow has no second QOS.
    assert!(accounts("change account guest ").ends_with(" QOS=guest-idle DefaultQOS=guest-idle"));
    assert!(
        accounts("change account interactive ")
            .ends_with(" QOS=interactive-own DefaultQOS=interactive-own")
    );
    let own = accounts("change qos vision-own ");
    assert!(
        own.contains("GrpTRES=gres/gpu=16 ")
            && own.ends_with("Preempt=idle,language-idle,guest-idle"),
        "{own}"
    );
    let idle = accounts("change qos language-idle ");
    assert!(idle.contains("MaxWall=04:00:00 PreemptMode=requeue GraceTime=120"), "{idle}");
    assert!(accounts("change qos guest-idle ").contains("MaxTRESPerUser=gres/gpu=4"));
    assert_eq!(accounts("member alice "), "vision guest");
    assert_eq!(line(&home, "slurm/slurm.conf", "PriorityDecayHalfLife="), "1-12:00:00");
    let partition = line(&home, "slurm/slurm.conf", "PartitionName=interactive ");
    assert!(
        partition.contains("AllowAccounts=interactive") && partition.contains("MaxTime=08:00:00"),
        "{partition}"
    );
    // Properties without a counterpart are printed, and listed in the file.
    assert!(
        run.stderr.contains("warning: Slurm: borrowing: jobs do not borrow automatically"),
        "{}",
        run.stderr
    );
    assert!(home.read("slurm/accounts.sh").contains("#  * borrowing: "));
}

#[test]
fn every_field_without_a_counterpart_is_told() {
    let home = site();
    home.write(
        "queues.yaml",
        "backfill: none\nestimates: predicted\nplacement: best-fit\ndefragment: {gpu-hours: 1, every: 1d}\nqueues:\n  - name: a\n    quota: {h100: 8, v100: 2}\n    \
         queues: [{name: x, quota: {h100: 8}, lend: 2, priority: [0, 9], protect: 30m, limits: {pending-jobs: 3, gpus-per-user: 2}, \
         budget: {gpu-hours: 100, gpu-hours-per-user: 9, every: 30d}}]\n  - {name: b, queues: [{name: x}]}\n",
    );
    let run = init(&home, COMPLETE.split(" --user").next().unwrap()).ok();
    for part in [
        "`backfill: none` is SchedulerType=sched/builtin",
        "`placement`",
        "`defragment`",
        "`estimates`: Slurm plans by time limits",
        "a: its quota is only the sum of its child queues",
        "a: quota of v100, which no node has",
        "a/x: `lend: 2`",
        "a/x: `priority`",
        "a/x: `pending-jobs` is MaxSubmitJobs",
        "a/x: gpus-per-user counts separately in each QOS",
        "a/x: `budget`: Slurm has no budget periods; run the command in accounts.sh every 30-00:00:00",
        "a/x: `gpu-hours-per-user`",
        "a/x: jobs in the QOS a-x-idle are not charged",
        "`preemption: priority`",
        "b/x: its account is b-x",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let accounts = home.read("slurm/accounts.sh");
    assert!(accounts.contains(
        "# a/x, every 30-00:00:00: sacctmgr -i modify qos where name=a-x-own set RawUsage=0"
    ));
    assert!(
        accounts.contains("Flags=DenyOnLimit,NoDecay")
            && accounts.contains("GrpTRESMins=gres/gpu=6000")
    );
    assert!(accounts.contains("PreemptExemptTime=00:30:00"), "{accounts}");
    assert_eq!(findings(&home).0, ["no-backfill", "backfill-window-short"]);
}

#[test]
fn other_nodes_pass_the_check_too() {
    let home = site();
    home.write("queues.yaml", "preemption: none\nqueues: [{name: a, quota: {h100: 8}, borrow: 8}, {name: b, limits: {time: 14d}}]\n");
    home.write(
        "cluster.yaml",
        "levels: [leaf]\nnodes:\n  - {name: mig1, gpus: {a100: 2, a100-1g.10gb: 14}, cpus: 64, memory: 1TiB, domain: {leaf: l1}}\n  \
         - {name: 'h[1-2]', gpus: 8, gpu: h100, cpus: 96, memory: 2TiB, domain: {leaf: l1}, extras: {nic: 8}, labels: {features: 'ib,nvlink'}}\n  \
         - {name: amd1, gpus: 4, gpu: mi300x, cpus: 96, memory: 2TiB, domain: {leaf: l1}}\n  \
         - {name: h3, gpus: 8, gpu: h100, cpus: 96, memory: 2TiB, domain: {leaf: l1}, extras: {nic: 8}, labels: {features: 'ib,nvlink'}}\n  \
         - {name: cpu1, cpus: 96, memory: 512GiB, labels: {}}\n",
    );
    let run = init(
        &home,
        "--db-password-file secret --health-check /usr/sbin/nhc --shards 4 --sockets 2 --threads-per-core 2",
    )
    .ok();
    assert_eq!(findings(&home).0, [""; 0]);
    let nodes = line(&home, "slurm/slurm.conf", "NodeName=h[1-3] ");
    assert_eq!(
        nodes,
        "Sockets=2 CoresPerSocket=24 ThreadsPerCore=2 RealMemory=2097152 Gres=gpu:h100:8,shard:32,nic:8 Features=ib,nvlink State=UNKNOWN"
    );
    assert_eq!(line(&home, "slurm/slurm.conf", "GresTypes="), "gpu,shard,nic");
    let gres = home.read("slurm/gres.conf");
    for expected in [
        "NodeName=mig1 AutoDetect=nvml",
        "NodeName=amd1 AutoDetect=rsmi",
        "NodeName=h[1-3] AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia[0-7]",
        "NodeName=h[1-3] Name=shard Count=32",
        "NodeName=h[1-3] Name=nic Count=8",
    ] {
        assert!(gres.contains(&format!("\n{expected}\n")), "{expected}: {gres}");
    }
    assert!(line(&home, "slurm/slurm.conf", "PartitionName=cpu ").starts_with("Nodes=cpu1 "));
    assert!(
        line(&home, "slurm/slurm.conf", "PartitionName=batch ").contains("MaxTime=14-00:00:00")
    );
    assert!(run.stderr.contains("1 nodes have no domain"), "{}", run.stderr);
    assert!(home.read("slurm/topology.conf").contains("SwitchName=all-nodes Switches=l1,unplaced"));
    // Preemption is off, so quota plus borrowing is a cap.
    assert_eq!(line(&home, "slurm/slurm.conf", "PreemptType="), "preempt/none");
    let account = line(&home, "slurm/accounts.sh", "change account a ");
    assert!(
        account.contains("gres/gpu=-1,gres/gpu:a100=-1,gres/gpu:1g.10gb=-1,gres/gpu:h100=16,"),
        "{account}"
    );
}

#[test]
fn files_edited_by_hand_are_kept() {
    let home = site();
    init(&home, COMPLETE).ok();
    let run = init(&home, COMPLETE).ok();
    assert!(run.stderr.contains("all unchanged"), "{}", run.stderr);
    assert_eq!(init(&home, &format!("{COMPLETE} --diff")).ok().stdout, "");

    // Another queue file changes only what it is in.
    home.write("queues.yaml", &QUEUES.replace("weight: 3", "weight: 4"));
    let run = init(&home, &format!("{COMPLETE} --diff")).code(1);
    let changed: Vec<&str> = run
        .stdout
        .lines()
        .filter(|line| line.starts_with(['+', '-']) && !line.contains("fingerprint"))
        .collect();
    let of = |shares| {
        format!(
            "change account lab Fairshare={shares} GrpTRES=gres/gpu=-1 GrpJobs=-1 MaxWall=-1 MaxSubmitJobs=-1"
        )
    };
    assert_eq!(
        changed,
        [
            "--- slurm/accounts.sh",
            "+++ slurm/accounts.sh",
            &format!("-{}", of(3)),
            &format!("+{}", of(4))
        ]
    );
    let run = init(&home, COMPLETE).ok();
    assert!(run.stderr.contains("; 1 written"), "{}", run.stderr);

    // A change by hand.
    let by_hand = home.read("slurm/slurm.conf").replace("KillWait=30", "KillWait=60");
    home.write("slurm/slurm.conf", &by_hand);
    let run = init(&home, COMPLETE).code(1);
    assert!(
        run.stderr.contains("slurm contains files edited by hand: slurm.conf; nothing was written"),
        "{}",
        run.stderr
    );
    assert_eq!(home.read("slurm/slurm.conf"), by_hand);
    let run = init(&home, &format!("{COMPLETE} --diff")).code(1);
    assert!(run.stdout.contains("\n-KillWait=60\n+KillWait=30\n"), "{}", run.stdout);
    init(&home, &format!("{COMPLETE} --force")).ok();
    assert_eq!(line(&home, "slurm/slurm.conf", "KillWait="), "30");
}

#[test]
fn a_dash_prints_and_writes_nothing() {
    let home = site();
    let run = init(&home, "-o -").ok();
    for name in
        ["slurm.conf", "gres.conf", "cgroup.conf", "topology.conf", "slurmdbd.conf", "accounts.sh"]
    {
        assert!(run.stdout.contains(&format!("==> {name} <==\n")), "{name}");
    }
    assert!(!home.path("slurm").exists());
}

#[test]
fn mistakes_are_told() {
    let home = site();
    home.write("bare.yaml", "nodes: [{name: n1, gpus: 8, gpu: h100}]");
    home.write("twice.yaml", "queues: [{name: Root}]");
    home.write("empty", "\n");
    home.write("users", "# who\nalice lab/vision\n");
    for (words, part) in [
        ("init slurm --cluster bare.yaml --controller h", "1 nodes have no `cpus`, such as n1"),
        (
            "init slurm --cluster bare.yaml --controller h --cpus 8",
            "1 nodes have no `memory`, such as n1",
        ),
        (
            "init slurm --cluster cluster.yaml --queues twice.yaml --controller h",
            "would both be the account `root`",
        ),
        (
            "init slurm --cluster cluster.yaml --controller h --controller i",
            "hint: set --state-dir to a directory that both controllers can write to",
        ),
        (
            "init slurm --cluster cluster.yaml --controller h --auth slurm",
            "auth/slurm needs Slurm 23.11",
        ),
        (
            "init slurm --cluster cluster.yaml --controller h --slurm-version 20.11",
            "needs Slurm 21.08",
        ),
        (
            "init slurm --cluster cluster.yaml --controller h --slurm-version new",
            "expected a release of Slurm",
        ),
        ("init slurm --cluster cluster.yaml --controller h --sockets 3", "are not 3 sockets"),
        (
            "init slurm --cluster cluster.yaml --controller h --user alice=lab",
            "user alice is in `lab`",
        ),
        (
            "init slurm --cluster cluster.yaml --controller h --user alice",
            "expected a user and queues",
        ),
        (
            "init slurm --cluster cluster.yaml --controller h --users users",
            "users:2: expected a user",
        ),
        (
            "init slurm --cluster cluster.yaml --controller h --user a=default --user a=default",
            "given twice",
        ),
        (
            "init slurm --cluster cluster.yaml --controller h --db-password-file empty",
            "has no password",
        ),
        (
            "init slurm --cluster cluster.yaml --controller h --name a=b",
            "cannot be written into Slurm's files",
        ),
        ("init slurm --cluster cluster.yaml --controller h --grace 2", "which unit?"),
        (
            "init slurm --cluster cluster.yaml --controller h -o cluster.yaml",
            "is a file, not a directory",
        ),
    ] {
        let run = home.words(words).code(2);
        assert!(run.stderr.contains(part), "{words}: {}", run.stderr);
        assert!(!home.path("slurm").exists(), "{words}");
    }
}

#[test]
fn without_a_controller_it_is_this_machine_and_that_is_said() {
    let home = site();
    let run = home.words("init slurm --cluster cluster.yaml --queues queues.yaml -o own").ok();
    let conf = home.read("own/slurm.conf");
    let host = conf.lines().find_map(|line| line.strip_prefix("SlurmctldHost=")).unwrap();
    let said = format!("the controller is {host}, this machine; --controller sets another");
    assert!(!host.is_empty() && run.stderr.contains(&said), "{}", run.stderr);
}
