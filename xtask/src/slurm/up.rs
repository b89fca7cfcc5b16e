//! Starts a cluster, its daemons in the order of their dependencies, or checks the running one.
//! After a failure the started daemons are stopped and the ends of the logs shown.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::cluster::{NODES, SlurmTestCluster};
use super::daemon::Daemon;
use super::{command, conf, down, external_config, probe};
use crate::test_cluster::{folder, process};

/// Timeout for one daemon; normally the whole start takes a third of it.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Additional address of the loopback: without one, slurmdbd does not even resolve `localhost`.
const ADDRESS: &str = "10.99.0.1/32";

/// Starts the cluster from the default configuration or from that of a folder; checks it if it
/// runs.
pub fn run(cluster: &SlurmTestCluster, config: Option<&Path>) -> Result<()> {
    if cluster.namespace().inode().is_some() {
        check(cluster)?;
        println!("already running: {} nodes idle or busy, accounting answers", cluster.nodes());
        return Ok(());
    }
    if let Some(obstacle) = probe::obstacle(cluster) {
        bail!("no Slurm cluster can run here: {obstacle}");
    }
    let start = Instant::now();
    prepare(cluster, config)?;
    if let Err(error) = start_all(cluster, config.is_some()) {
        folder::print_log_tails(&cluster.dir().join("log"));
        down::run(cluster)?;
        return Err(error);
    }
    println!("cluster ready in {:.1} s: {} nodes", start.elapsed().as_secs_f32(), cluster.nodes());
    print!("{}", fs::read_to_string(cluster.facts())?);
    println!("hint: cargo xtask slurm shell {} -- sinfo", cluster.text());
    Ok(())
}

/// Writes the configuration into an empty folder, or into that of a cluster that is down, which is
/// cleared first.
fn prepare(cluster: &SlurmTestCluster, config: Option<&Path>) -> Result<()> {
    folder::clear(cluster.dir(), &cluster.facts())?;
    let cgroups = probe::cgroups();
    conf::write(cluster, cgroups.is_ok())?;
    let nodes = match config {
        Some(folder) => external_config::write(folder, cluster, cgroups.is_ok())?,
        None => NODES,
    };
    let constrained = cgroups.map_or_else(|reason| format!("no: {reason}"), |()| "yes".into());
    let facts = format!(
        "dir: {}\nnamespace: {}\nnodes: {nodes}\nconstrained: {constrained}\nrest: 127.0.0.1:16820\n",
        cluster.text(),
        cluster.namespace().name()
    );
    fs::write(cluster.facts(), facts)?;
    // Jobs of ordinary users must be able to read the configuration and connect to munge.
    let conf = cluster.dir().join("etc/slurm.conf");
    let conf = conf.to_str().context("the folder's name is UTF-8")?;
    let as_nobody =
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-r", conf];
    command::outside(&as_nobody).with_context(|| {
        format!("ordinary users cannot enter {}; name a folder such as /tmp/slurm", cluster.text())
    })?;
    Ok(())
}

fn start_all(cluster: &SlurmTestCluster, is_external: bool) -> Result<()> {
    // 1. Create a network in which every port is free, unreachable from outside.
    cluster.namespace().create(ADDRESS)?;

    // 2. Start authentication and the database.
    Daemon::Munged.start(cluster)?;
    database(cluster)?;

    // 3. Create accounts before the controller starts: it treats accounts that it has only partly
    //    received as errors.
    Daemon::Slurmdbd.start(cluster)?;
    answers(cluster, "slurmdbd", &["sacctmgr", "-nP", "show", "cluster"])?;
    if is_external {
        external_config::accounts(cluster, external_config::UNFINISHED)?;
    } else {
        sacctmgr(cluster, conf::ACCOUNTS)?;
        sacctmgr(cluster, conf::SHARES)?;
    }

    // 4. Start the controller and its nodes.
    Daemon::Slurmctld.start(cluster)?;
    let nodes = cluster.nodes();
    for number in 1..=nodes {
        Daemon::Slurmd(number).start(cluster)?;
    }
    process::wait("slurmctld in accounting", TIMEOUT, || has_gpu_tres(cluster))?;
    // It registers before it controller_answers, and never receives limits that are set in between.
    process::wait("slurmctld", TIMEOUT, || controller_answers(cluster))?;
    if is_external {
        external_config::accounts(cluster, 0)?;
    } else {
        sacctmgr(cluster, conf::LIMITS)?;
        process::wait("limits in slurmctld", TIMEOUT, || has_limits(cluster))?;
    }
    let all_idle = |states: Vec<String>| states == vec!["idle"; usize::from(nodes)];
    process::wait("idle nodes", TIMEOUT, || states(cluster).is_ok_and(all_idle))?;

    // 5. Start the REST API.
    Daemon::Slurmrestd.start(cluster)?;
    process::wait("slurmrestd", TIMEOUT, || rest_answers(cluster))
}

fn database(cluster: &SlurmTestCluster) -> Result<()> {
    let dir = cluster.text();
    let data = format!("--datadir={dir}/db");
    command::outside(&[
        "mariadb-install-db",
        "--no-defaults",
        "--user=root",
        &data,
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        // Clusters that start at once would use each other's temporary tables.
        &format!("--tmpdir={dir}/run"),
    ])?;
    Daemon::Mariadbd.start(cluster)?;
    let socket = format!("--socket={dir}/run/mysql.sock");
    let sql = "create database slurm_acct_db; create user slurm@'%' identified by 'slurm'; \
               grant all on slurm_acct_db.* to slurm@'%'";
    answers(cluster, "mariadbd", &["mariadb-admin", "--no-defaults", &socket, "ping"])?;
    command::inside(cluster, &["mariadb", "--no-defaults", &socket, "-e", sql])?;
    Ok(())
}

fn answers(cluster: &SlurmTestCluster, what: &str, words: &[&str]) -> Result<()> {
    process::wait(what, TIMEOUT, || command::inside(cluster, words).is_ok())
}

/// Runs many sacctmgr commands in one session; a failed one prints `error:` but does not change the
/// exit status.
fn sacctmgr(cluster: &SlurmTestCluster, commands: &str) -> Result<()> {
    let text = command::with_input(cluster, &["sh", "-c", "sacctmgr --immediate 2>&1"], commands)?;
    match text.lines().find(|line| line.contains("error:") || line.contains("Unknown option")) {
        Some(refused) => bail!("sacctmgr: {refused}\n{text}"),
        None => Ok(()),
    }
}

fn has_gpu_tres(cluster: &SlurmTestCluster) -> bool {
    command::inside(cluster, &["sacctmgr", "-nP", "show", "tres", "format=Type,Name"])
        .is_ok_and(|tres| tres.lines().any(|line| line == "gres|gpu"))
}

fn controller_answers(cluster: &SlurmTestCluster) -> bool {
    command::inside(cluster, &["scontrol", "ping"]).is_ok_and(|text| text.contains("is UP"))
}

/// Returns true when the controller has received the limits; one is checked, as all are sent
/// together.
fn has_limits(cluster: &SlurmTestCluster) -> bool {
    command::inside(cluster, &["scontrol", "--oneliner", "show", "assoc_mgr"]).is_ok_and(
        |accounts| {
            let intern = accounts.lines().find(|line| line.contains("Account=intern UserName= "));
            intern.is_some_and(|intern| intern.contains("gres/gpu=8("))
        },
    )
}

/// Returns the state of each node once, whatever the number of its partitions.
fn states(cluster: &SlurmTestCluster) -> Result<Vec<String>> {
    let text = command::inside(cluster, &["sinfo", "-h", "-N", "-o", "%N %t"])?;
    let nodes: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(' ')).collect();
    Ok(nodes.into_values().map(str::to_owned).collect())
}

fn rest_answers(cluster: &SlurmTestCluster) -> bool {
    command::inside(cluster, &["bash", "-c", ": </dev/tcp/127.0.0.1/16820"]).is_ok()
}

/// Fails unless every daemon runs, every node takes jobs and accounting answers.
fn check(cluster: &SlurmTestCluster) -> Result<()> {
    let dead: Vec<String> = Daemon::all(cluster.nodes())
        .into_iter()
        .filter(|daemon| daemon.pid(cluster).is_none())
        .map(Daemon::name)
        .collect();
    if !dead.is_empty() {
        let dir = cluster.text();
        let first = &dead[0];
        bail!(
            "running, but without {}\nhint: cargo xtask slurm start {first} {dir}, or slurm down {dir}",
            dead.join(", ")
        );
    }
    let states = states(cluster)?;
    if let Some(bad) =
        states.iter().find(|state| !["idle", "mix", "alloc", "comp"].contains(&state.as_str()))
    {
        bail!(
            "running, but a node is {bad}\nhint: cargo xtask slurm shell {} -- sinfo -R",
            cluster.text()
        );
    }
    command::inside(cluster, &["sacctmgr", "-nP", "show", "cluster"])?;
    Ok(())
}
