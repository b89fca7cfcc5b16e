//! `muster init hybrid`: division of a cluster into two pools, their files, and the check after
//! edits by hand.

use std::os::unix::fs::PermissionsExt;

use muster_spec::parse_cluster;

use crate::home::{Home, HomeRun};

const CLUSTER: &str = "\
levels: [block, leaf]
nodes:
  - {name: \"node[01-04]\", gpus: 8, gpu: rtxpro6000, gpu-memory: 96GB, cpus: 128, memory: 1000GB, domain: {block: b1, leaf: l1}, labels: {partition: train}}
  - {name: \"node[05-06]\", gpus: 8, gpu: h100, gpu-memory: 80GB, cpus: 128, memory: 2000GB, domain: {block: b1, leaf: l2}, labels: {pool: services}}
  - {name: \"cpu[1-2]\", cpus: 64, memory: 256GB, domain: {block: b2, leaf: l3}, labels: {partition: debug}}
";

const FILES: [&str; 7] = [
    "BOUNDARY.md",
    "slurm-nodes.conf",
    "slurm-gres.conf",
    "kubernetes-nodes.sh",
    "cluster-batch.yaml",
    "cluster-services.yaml",
    "cluster-all.yaml",
];

/// Returns a home with the cluster, and its division in `site`.
fn site() -> Home {
    let home = Home::new();
    home.write("cluster.yaml", CLUSTER);
    home.words("init hybrid --cluster cluster.yaml --services-nodes node[05-06] -o site").ok();
    home
}

fn pool(home: &Home, name: &str) -> Vec<String> {
    let cluster = parse_cluster(&home.read(name), None).unwrap();
    cluster.nodes.iter().map(|node| node.name.to_string()).collect()
}

/// Replaces a text in a file of the site.
fn edit(home: &Home, file: &str, from: &str, to: &str) {
    let name = format!("site/{file}");
    let text = home.read(&name);
    assert!(text.contains(from), "{text}");
    home.write(&name, &text.replace(from, to));
}

#[test]
fn the_pools_are_written_and_agree() {
    let home = Home::new();
    home.write("cluster.yaml", CLUSTER);
    let run =
        home.words("init hybrid --cluster cluster.yaml --services-nodes node[05-06] -o site").ok();
    assert_eq!(run.stdout, "");
    insta::assert_snapshot!(run.stderr, @"
    batch     6 nodes with 32 GPUs (32 rtxpro6000): node[01-04],cpu[1-2]
    services  2 nodes with 16 GPUs (16 h100): node[05-06]
    warning: topology domains with nodes in both pools: block b1
    wrote 7 files to site; nothing was run
    hint: read site/BOUNDARY.md; it says where each file goes and how to move a node
    ");
    let mut there: Vec<_> = std::fs::read_dir(home.path("site"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let mut expected = FILES.map(std::ffi::OsString::from);
    there.sort();
    expected.sort();
    assert_eq!(there, expected);
    assert_eq!(pool(&home, "site/cluster-services.yaml"), ["node05", "node06"]);
    assert_eq!(
        pool(&home, "site/cluster-batch.yaml"),
        ["node01", "node02", "node03", "node04", "cpu1", "cpu2"]
    );
    insta::assert_snapshot!(home.read("site/slurm-nodes.conf"), @r#"
    # The batch pool, for slurm.conf on every Slurm node:
    #   include /etc/slurm/slurm-nodes.conf
    # slurm.conf itself must say GresTypes=gpu. `slurmd -C` on a node prints its true CPUs and RealMemory; with less than is
    # written here it is drained. These nodes must run no kubelet (BOUNDARY.md).
    NodeName=node[01-04] CPUs=128 RealMemory=953674 Gres=gpu:rtxpro6000:8 State=UNKNOWN
    NodeName=cpu[1-2] CPUs=64 RealMemory=244140 State=UNKNOWN

    # MaxTime applies to jobs without --time; backfill needs time limits, so keep one. Yours may be shorter.
    PartitionName=train Nodes=node[01-04] Default=YES DefaultTime=01:00:00 MaxTime=7-00:00:00 TRESBillingWeights="CPU=0.0625,Mem=0.008589G,GRES/gpu=1.0" DefMemPerCPU=7450 DefCpuPerGPU=16 State=UP
    PartitionName=debug Nodes=cpu[1-2] DefaultTime=01:00:00 MaxTime=7-00:00:00 TRESBillingWeights="CPU=1.0" DefMemPerCPU=3814 State=UP
    "#);
    insta::assert_snapshot!(home.read("site/slurm-gres.conf"), @"
    # The GPUs of the batch pool, for gres.conf on every Slurm node:
    #   include /etc/slurm/slurm-gres.conf
    # The device files are derived from the number of GPUs: compare with `ls /dev/nvidia*` on a node. cgroup.conf needs
    # ConstrainDevices=yes, else a job sees GPUs that are not allocated to it.
    NodeName=node[01-04] AutoDetect=off Name=gpu Type=rtxpro6000 File=/dev/nvidia[0-7]
    ");
    let page = home.read("site/BOUNDARY.md");
    for words in [
        "| batch | Slurm | 6 nodes with 32 GPUs (32 rtxpro6000) | `node[01-04]` `cpu[1-2]` |",
        "Slinky",
        "Soperator",
        "muster init hybrid --check .",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    assert!(page.lines().count() < 90);
    let run = home.words("init hybrid --check site").ok();
    assert_eq!(run.stderr, "site: 8 nodes, 6 batch and 2 services; each is in exactly one pool\n");
    assert!(!home.path("m").exists());
}

#[test]
fn a_count_takes_whole_domains_first_and_says_what_it_breaks() {
    let home = Home::new();
    home.write("cluster.yaml", CLUSTER);
    let chosen = |count: usize| {
        let run = home
            .words(&format!("init hybrid --cluster cluster.yaml --services {count} -o s{count}"))
            .ok();
        let warning = run
            .stderr
            .lines()
            .find(|line| line.starts_with("warning"))
            .unwrap_or_default()
            .to_owned();
        (pool(&home, &format!("s{count}/cluster-services.yaml")).join(" "), warning)
    };
    assert_eq!(chosen(2), ("cpu1 cpu2".to_owned(), String::new()));
    assert_eq!(chosen(6), ("node01 node02 node03 node04 node05 node06".to_owned(), String::new()));
    let warning = "warning: topology domains with nodes in both pools: block b1";
    assert_eq!(chosen(4), ("node05 node06 cpu1 cpu2".to_owned(), warning.to_owned()));
    let broken = "warning: topology domains with nodes in both pools: block b2, leaf l3";
    assert_eq!(chosen(1), ("cpu2".to_owned(), broken.to_owned()));
}

#[test]
fn a_label_chooses_and_a_dry_run_writes_nothing() {
    let home = Home::new();
    home.write("cluster.yaml", CLUSTER);
    let run = home.words("init hybrid --cluster cluster.yaml --label pool=services --dry-run").ok();
    for file in FILES {
        assert!(run.stdout.contains(&format!("==> {file} <==\n")), "{file}");
    }
    assert!(
        run.stderr.contains("services  2 nodes with 16 GPUs (16 h100): node[05-06]\n"),
        "{}",
        run.stderr
    );
    assert!(!home.path("hybrid").exists());
    home.words("init hybrid --cluster cluster.yaml --label pool=services").ok();
    assert_eq!(pool(&home, "hybrid/cluster-services.yaml"), ["node05", "node06"]);
}

#[test]
fn files_that_are_there_are_kept_unless_forced() {
    let home = site();
    home.write("site/BOUNDARY.md", "ours\n");
    std::fs::remove_file(home.path("site/cluster-all.yaml")).unwrap();
    let run = home.words("init hybrid --cluster cluster.yaml --services 1 -o site").code(2);
    insta::assert_snapshot!(run.stderr, @"
    error: site already contains BOUNDARY.md, slurm-nodes.conf, slurm-gres.conf, kubernetes-nodes.sh, cluster-batch.yaml, cluster-services.yaml; nothing was written
    hint: --force overwrites, -o names another directory
    ");
    assert_eq!(home.read("site/BOUNDARY.md"), "ours\n");
    assert!(!home.path("site/cluster-all.yaml").exists());
    home.words("init hybrid --cluster cluster.yaml --services 1 -o site --force").ok();
    assert_eq!(pool(&home, "site/cluster-services.yaml"), ["cpu2"]);
}

#[test]
fn a_move_as_the_page_tells_it_passes_the_check() {
    let home = site();
    let words =
        "init hybrid --cluster site/cluster-all.yaml --services-nodes node[04-06] -o site --force";
    home.words(words).ok();
    assert_eq!(pool(&home, "site/cluster-services.yaml"), ["node04", "node05", "node06"]);
    home.words("init hybrid --check site").ok();
}

#[test]
fn a_move_by_hand_in_every_file_passes_the_check() {
    let home = site();
    edit(&home, "cluster-batch.yaml", "node[01-04]", "node[01-03]");
    edit(&home, "slurm-nodes.conf", "node[01-04]", "node[01-03]");
    edit(&home, "slurm-gres.conf", "node[01-04]", "node[01-03]");
    let entry = "  - {name: node04, gpus: 8, gpu: rtxpro6000, domain: {block: b1, leaf: l1}}\n";
    home.write("site/cluster-services.yaml", &(home.read("site/cluster-services.yaml") + entry));
    edit(
        &home,
        "kubernetes-nodes.sh",
        "kubectl label node node05",
        "kubectl label nodes node04 node05",
    );
    home.words("init hybrid --check site").ok();
}

#[test]
fn what_was_changed_by_half_is_found() {
    let check = |file: &str, from: &str, to: &str| -> HomeRun {
        let home = site();
        edit(&home, file, from, to);
        home.words("init hybrid --check site").code(1)
    };
    let found = [
        check("slurm-nodes.conf", "node[01-04] CPUs", "node[01-05] CPUs").stdout,
        check("slurm-nodes.conf", "node[01-04]", "node[01-03]").stdout,
        check("kubernetes-nodes.sh", "label node node06", "label node node04").stdout,
        check("cluster-all.yaml", "cpu[1-2]", "cpu[1-3]").stdout,
        check("cluster-all.yaml", "cpu[1-2]", "cpu1").stdout,
        check("slurm-gres.conf", "node[01-04]", "node[01-06]").stdout,
        check("slurm-nodes.conf", "NodeName=cpu[1-2]", "NodeName=cpu[1-2],cpu1").stdout,
    ];
    insta::assert_snapshot!(found.join("\n"), @"
    node05 is in both pools: batch in slurm-nodes.conf, services in cluster-services.yaml, kubernetes-nodes.sh

    node04 is partially moved: in cluster-batch.yaml, missing in slurm-nodes.conf

    node04 is in both pools: batch in cluster-batch.yaml, slurm-nodes.conf, services in kubernetes-nodes.sh
    node06 is partially moved: in cluster-services.yaml, missing in kubernetes-nodes.sh

    cpu3 is in neither pool

    cpu2 is in cluster-batch.yaml, slurm-nodes.conf but not in cluster-all.yaml

    node05 has GPUs in slurm-gres.conf but is not in the batch pool
    node06 has GPUs in slurm-gres.conf but is not in the batch pool

    cpu1 is listed twice in slurm-nodes.conf
    ");
}

#[test]
fn the_check_says_what_it_cannot_read() {
    let home = site();
    let run = home.words("init hybrid --check nowhere").code(1);
    insta::assert_snapshot!(run.stderr, @"
    error: nowhere/cluster-all.yaml does not exist
    hint: `muster init hybrid --cluster cluster.yaml --services N -o DIR` writes the files of a boundary
    ");
    edit(&home, "slurm-nodes.conf", "node[01-04]", "node[01-");
    let run = home.words("init hybrid --check site").code(1);
    insta::assert_snapshot!(run.stderr, @"error: slurm-nodes.conf: `node[01-`: expected a name such as `node07`, or a range such as `node[01-04]`");
    home.write("site/cluster-batch.yaml", "nodes: []\n");
    let run = home.words("init hybrid --check site").code(2);
    assert!(run.stderr.contains("cluster-batch.yaml:1:"), "{}", run.stderr);
    home.words("init hybrid --check site --services 2").code(2);
}

#[test]
fn the_check_takes_what_there_is_from_another_file() {
    let home = site();
    home.write("now.yaml", &CLUSTER.replace("cpu[1-2]", "cpu[1-3]"));
    let run = home.words("init hybrid --check site --cluster now.yaml").code(1);
    assert_eq!(run.stdout, "cpu3 is in neither pool\n");
}

#[test]
fn mistakes_are_told_with_their_numbers() {
    let home = Home::new();
    home.write("cluster.yaml", CLUSTER);
    let complaint = |words: &str| home.words(&format!("init hybrid {words}")).code(2).stderr;
    let reported = [
        complaint("--cluster cluster.yaml --services 8"),
        complaint("--cluster cluster.yaml --services 0"),
        complaint("--cluster cluster.yaml --services-nodes node[01-07]"),
        complaint("--cluster cluster.yaml --services-nodes node[01"),
        complaint("--cluster cluster.yaml --label pool=service"),
        complaint("--cluster cluster.yaml"),
        complaint("--cluster none.yaml --services 2"),
    ];
    insta::assert_snapshot!(reported.join("\n"), @"
    error: 8 of 8 nodes for services leaves none for batch; at most 7 can be chosen
    hint: services alone need no Slurm pool and no boundary

    error: 0 of 8 nodes are for services; at least 1 is needed, else there is nothing to partition
    hint: batch jobs alone need no Kubernetes pool and no boundary

    error: the cluster has no node `node07`; did you mean `node01`?

    error: `node[01` is not a list of nodes: expected a name such as `node07`, or a range such as `node[01-04]`

    error: none of 8 nodes has the label `pool: service`; they have `pool: services` (2)

    error: the nodes for services are not given
    hint: add --services 2, --services-nodes 'node[01-02]', or --label pool=services

    error: cannot read none.yaml: no such file or directory
    ");
    assert!(complaint("--services 2").contains("--cluster <FILE>"));
    assert!(complaint("--cluster cluster.yaml --services -1").contains("error:"));
    assert!(
        complaint("--cluster cluster.yaml --services 1 --label a=b")
            .contains("cannot be used with")
    );
    assert!(complaint("--cluster cluster.yaml --label pool").contains("such as pool=services"));
    home.write("cluster.yaml", "nodes: [{nme: a}]\n");
    assert!(complaint("--cluster cluster.yaml --services 1").contains("did you mean `name`?"));
    assert!(!home.path("hybrid").exists());
    home.words("init").code(2);
    home.words("init hybird").code(2);
}

/// A fake `kubectl` with the given nodes that records the requested changes.
fn with_kubectl(home: &Home, members: &str) -> HomeRun {
    let log = home.path("changes");
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in\n\"get nodes -o name\") printf '{members}' ;;\n*) echo \"$*\" >> '{}' ;;\nesac\n",
        log.display()
    );
    std::fs::create_dir_all(home.path("bin")).unwrap();
    let program = home.write("bin/kubectl", &text);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = std::process::Command::new("sh");
    command.arg(home.path("site/kubernetes-nodes.sh"));
    command.env_clear().env("PATH", format!("{}:/usr/bin:/bin", home.path("bin").display()));
    HomeRun::of(command.output().unwrap())
}

#[test]
fn the_script_marks_services_nodes_and_stops_while_a_batch_node_is_a_member() {
    let home = site();
    let run = with_kubectl(&home, "node/node05\\nnode/node03\\n").code(1);
    assert!(run.stderr.starts_with("node03 belongs to the batch pool"), "{}", run.stderr);
    assert!(!home.path("changes").exists());
    with_kubectl(&home, "node/node05\\nnode/node06\\n").ok();
    insta::assert_snapshot!(home.read("changes"), @"
    label node node05 pool=services --overwrite
    taint node node05 nvidia.com/gpu=present:NoSchedule --overwrite
    label node node06 pool=services --overwrite
    taint node node06 nvidia.com/gpu=present:NoSchedule --overwrite
    ");
}

#[test]
fn what_inventory_writes_can_be_divided() {
    let home = Home::new();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../kubernetes/tests/data/synthetic-kubectl-nodes.json");
    let path = path.to_str().unwrap();
    home.muster(&["inventory", "--from", path, "-o", "cluster.yaml"]).ok();
    home.words("init hybrid --cluster cluster.yaml --label pool=train -o site").ok();
    home.words("init hybrid --check site").ok();
}

/// Returns the number of failed rules of `muster check slurm` on a folder, with the Kubernetes pool.
fn failed_rules(home: &Home, conf: &str) -> Vec<String> {
    let words = format!(
        "check slurm --conf {conf} --kubernetes-nodes site/cluster-services.yaml --format json"
    );
    let report: serde_json::Value = serde_json::from_str(&home.words(&words).stdout).unwrap();
    assert!(report["passed"].as_array().unwrap().len() > 60, "{report}");
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|one| format!("{}: {}", one["rule"], one["evidence"])).collect()
}

#[test]
fn what_is_written_passes_the_check_of_slurm() {
    let home = site();
    home.write("password", "secret\n");
    // 1. A new Slurm cluster of the batch pool.
    home.words("init slurm --cluster site/cluster-batch.yaml --controller head1 --db-password-file password --health-check /usr/sbin/nhc -o slurm").ok();
    assert_eq!(failed_rules(&home, "slurm"), [""; 0]);
    // 2. An existing one, which includes the nodes of the pool.
    let conf = home.read("slurm/slurm.conf");
    let own = |line: &&str| !line.starts_with("NodeName") && !line.starts_with("PartitionName");
    let conf: Vec<&str> = conf.lines().filter(own).collect();
    let conf = conf.join("\n") + "\ninclude /etc/slurm/slurm-nodes.conf\n";
    home.write("slurm/slurm.conf", &conf);
    home.write("slurm/gres.conf", "include /etc/slurm/slurm-gres.conf\n");
    for name in ["slurm-nodes.conf", "slurm-gres.conf"] {
        home.write(&format!("slurm/{name}"), &home.read(&format!("site/{name}")));
    }
    assert_eq!(failed_rules(&home, "slurm"), [""; 0]);
    // 3. A node that is left to Kubernetes, and is also in Slurm, is found.
    let nodes = home.read("slurm/slurm-nodes.conf").replace("node[01-04]", "node[01-05]");
    home.write("slurm/slurm-nodes.conf", &nodes);
    let failed = failed_rules(&home, "slurm").join("\n");
    assert!(failed.contains("nodes-also-in-kubernetes") && failed.contains("node05"), "{failed}");
}
