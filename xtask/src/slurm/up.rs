//! Starts a cluster, in the order in which its daemons need each other, or checks the one that
//! runs. What fails takes down what was started and shows the ends of the logs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::daemon::{Daemon, NODES};
use super::site::Site;
use super::{command, conf, down, given, probe, process};

/// Longest wait for one daemon; the whole start takes a third of it.
const PATIENCE: Duration = Duration::from_secs(40);

/// Lines of each log that are shown after a failure.
const TAIL: usize = 12;

/// The address beside the loopback's own: without one, slurmdbd does not resolve even `localhost`.
const ADDRESS: &str = "10.99.0.1/32";

/// Starts what is not there, from our own files or from those of a folder.
pub fn run(site: &Site, given: Option<&Path>) -> Result<()> {
    if site.namespace_inode().is_some() {
        check(site)?;
        println!("runs already: {} nodes idle or busy, accounting answers", site.nodes());
        return Ok(());
    }
    if let Some(obstacle) = probe::obstacle(site) {
        bail!("no Slurm cluster here: {obstacle}");
    }
    let start = Instant::now();
    prepare(site, given)?;
    if let Err(error) = start_all(site, given.is_some()) {
        tails(site);
        down::run(site)?;
        return Err(error);
    }
    println!("cluster ready in {:.1} s: {} nodes", start.elapsed().as_secs_f32(), site.nodes());
    print!("{}", fs::read_to_string(site.facts())?);
    println!("hint: cargo xtask slurm shell {} -- sinfo", site.text());
    Ok(())
}

/// An empty folder with configuration, or the one of a cluster that is down, made new.
fn prepare(site: &Site, given: Option<&Path>) -> Result<()> {
    let used = fs::read_dir(site.dir()).is_ok_and(|mut entries| entries.next().is_some());
    if used && !site.facts().exists() {
        bail!("{} holds something else\nhint: name an empty folder", site.text());
    }
    if used {
        fs::remove_dir_all(site.dir())?;
    }
    let cgroups = probe::cgroups();
    conf::write(site, cgroups.is_ok())?;
    let nodes = match given {
        Some(folder) => given::write(folder, site, cgroups.is_ok())?,
        None => NODES,
    };
    let constrained = cgroups.map_or_else(|reason| format!("no: {reason}"), |()| "yes".into());
    let facts = format!(
        "dir: {}\nnamespace: {}\nnodes: {nodes}\nconstrained: {constrained}\nrest: 127.0.0.1:16820\n",
        site.text(),
        site.namespace()
    );
    fs::write(site.facts(), facts)?;
    // Jobs of ordinary users read the configuration and speak to munge.
    let conf = site.dir().join("etc/slurm.conf");
    let conf = conf.to_str().context("the folder's name is UTF-8")?;
    let nobody =
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-r", conf];
    command::outside(&nobody).with_context(|| {
        format!("ordinary users cannot enter {}; name a folder such as /tmp/slurm", site.text())
    })?;
    Ok(())
}

fn start_all(site: &Site, is_given: bool) -> Result<()> {
    // 1. A network where every port is free and that nobody outside reaches.
    let name = site.namespace();
    command::outside(&["ip", "netns", "add", &name])?;
    command::outside(&["ip", "-n", &name, "link", "set", "lo", "up"])?;
    command::outside(&["ip", "-n", &name, "addr", "add", ADDRESS, "dev", "lo"])?;

    // 2. Who is who, and where accounting is kept.
    Daemon::Munged.start(site)?;
    database(site)?;

    // 3. Accounting before the controller, which learns of accounts it has seen only in part as of
    //    errors.
    Daemon::Slurmdbd.start(site)?;
    answers(site, "slurmdbd", &["sacctmgr", "-nP", "show", "cluster"])?;
    match is_given {
        true => given::accounts(site, given::UNFINISHED)?,
        false => {
            sacctmgr(site, conf::ACCOUNTS)?;
            sacctmgr(site, conf::SHARES)?;
        }
    }

    // 4. The controller and its nodes.
    Daemon::Slurmctld.start(site)?;
    let nodes = site.nodes();
    for number in 1..=nodes {
        Daemon::Slurmd(number).start(site)?;
    }
    process::wait("slurmctld in accounting", PATIENCE, || knows_gpus(site))?;
    // It enrols before it listens, and a limit that it is not told of it never hears of.
    process::wait("slurmctld", PATIENCE, || listens(site))?;
    if is_given {
        given::accounts(site, 0)?;
    } else {
        sacctmgr(site, conf::LIMITS)?;
        process::wait("limits in slurmctld", PATIENCE, || knows_limits(site))?;
    }
    let all_idle = |states: Vec<String>| states == vec!["idle"; usize::from(nodes)];
    process::wait("idle nodes", PATIENCE, || states(site).is_ok_and(all_idle))?;

    // 5. The same by HTTP.
    Daemon::Slurmrestd.start(site)?;
    process::wait("slurmrestd", PATIENCE, || rest_listens(site))
}

fn database(site: &Site) -> Result<()> {
    let dir = site.text();
    let data = format!("--datadir={dir}/db");
    command::outside(&[
        "mariadb-install-db",
        "--no-defaults",
        "--user=root",
        &data,
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    ])?;
    Daemon::Mariadbd.start(site)?;
    let socket = format!("--socket={dir}/run/mysql.sock");
    let sql = "create database slurm_acct_db; create user slurm@'%' identified by 'slurm'; \
               grant all on slurm_acct_db.* to slurm@'%'";
    answers(site, "mariadbd", &["mariadb-admin", "--no-defaults", &socket, "ping"])?;
    command::inside(site, &["mariadb", "--no-defaults", &socket, "-e", sql])?;
    Ok(())
}

fn answers(site: &Site, what: &str, words: &[&str]) -> Result<()> {
    process::wait(what, PATIENCE, || command::inside(site, words).is_ok())
}

/// Many commands in one session; one that was refused says `error:` and does not change the exit
/// status.
fn sacctmgr(site: &Site, commands: &str) -> Result<()> {
    let said = command::told(site, &["sh", "-c", "sacctmgr --immediate 2>&1"], commands)?;
    match said.lines().find(|line| line.contains("error:") || line.contains("Unknown option")) {
        Some(refused) => bail!("sacctmgr: {refused}\n{said}"),
        None => Ok(()),
    }
}

fn knows_gpus(site: &Site) -> bool {
    command::inside(site, &["sacctmgr", "-nP", "show", "tres", "format=Type,Name"])
        .is_ok_and(|tres| tres.lines().any(|line| line == "gres|gpu"))
}

fn listens(site: &Site) -> bool {
    command::inside(site, &["scontrol", "ping"]).is_ok_and(|said| said.contains("is UP"))
}

/// One of them stands for all: they are sent together.
fn knows_limits(site: &Site) -> bool {
    command::inside(site, &["scontrol", "--oneliner", "show", "assoc_mgr"]).is_ok_and(|accounts| {
        let intern = accounts.lines().find(|line| line.contains("Account=intern UserName= "));
        intern.is_some_and(|intern| intern.contains("gres/gpu=8("))
    })
}

/// Of each node once, in how many partitions it ever is.
fn states(site: &Site) -> Result<Vec<String>> {
    let said = command::inside(site, &["sinfo", "-h", "-N", "-o", "%N %t"])?;
    let nodes: BTreeMap<&str, &str> =
        said.lines().filter_map(|line| line.split_once(' ')).collect();
    Ok(nodes.into_values().map(str::to_owned).collect())
}

fn rest_listens(site: &Site) -> bool {
    command::inside(site, &["bash", "-c", ": </dev/tcp/127.0.0.1/16820"]).is_ok()
}

/// Fails unless every daemon runs, every node takes jobs and accounting answers.
fn check(site: &Site) -> Result<()> {
    let dead: Vec<String> = Daemon::all(site.nodes())
        .into_iter()
        .filter(|daemon| daemon.pid(site).is_none())
        .map(Daemon::name)
        .collect();
    if !dead.is_empty() {
        let (dir, first) = (site.text(), &dead[0]);
        bail!(
            "runs, without {}\nhint: cargo xtask slurm start {first} {dir}, or slurm down {dir}",
            dead.join(", ")
        );
    }
    let states = states(site)?;
    if let Some(bad) =
        states.iter().find(|state| !["idle", "mix", "alloc", "comp"].contains(&state.as_str()))
    {
        bail!(
            "runs, with a node that is {bad}\nhint: cargo xtask slurm shell {} -- sinfo -R",
            site.text()
        );
    }
    command::inside(site, &["sacctmgr", "-nP", "show", "cluster"])?;
    Ok(())
}

/// The end of every log.
fn tails(site: &Site) {
    let entries = fs::read_dir(site.dir().join("log")).into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    logs.sort();
    for log in logs {
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        println!("-- {}", log.display());
        for line in &lines[lines.len().saturating_sub(TAIL)..] {
            println!("{line}");
        }
    }
}
