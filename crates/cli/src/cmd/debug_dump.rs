//! `muster debug-dump`: what a maintainer needs to look into a fault, without the names of a site.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_api::Client;
use muster_api::query::SnapshotQuery;
use muster_api::types::DaemonInfo;
use muster_model::SiteSnapshot;
use serde::Serialize;

use crate::app::App;
use crate::connect;
use crate::exit::Failure;

/// Write a file for a bug report, without names
///
/// One JSON file, compressed: versions, the operating system, warnings and counts of the daemon, and the state of the
/// scheduler with users, nodes, devices and labels as numbers. Names and commands of jobs, their environments and
/// their output are not in it; queues and GPU models keep their names. `muster whatif` reads the state in it
/// after `gunzip -c FILE | jq .snapshot`. Look at it before you attach it: `gunzip -c FILE | less`.
#[derive(Debug, clap::Args)]
pub struct DebugDumpArgs {
    /// File to write; an existing one is not overwritten
    #[arg(value_name = "FILE", default_value = "muster-debug.json.gz")]
    file: PathBuf,
}

/// Content of the file.
#[derive(Serialize)]
struct DebugDump {
    /// Version of this binary.
    version: &'static str,
    system: SystemFacts,
    /// The daemon; `None` if it does not answer.
    daemon: Option<DaemonInfo>,
    /// Errors of requests that were not answered.
    errors: Vec<String>,
    snapshot: Option<SiteSnapshot>,
}

/// Facts of this machine.
#[derive(Serialize)]
struct SystemFacts {
    /// Name and release of the distribution.
    distribution: Option<String>,
    /// Name, release and build of the kernel.
    kernel: Option<String>,
    /// Version of NVIDIA's driver.
    nvidia_driver: Option<String>,
    /// Controllers of the unified cgroup hierarchy.
    cgroup_controllers: Option<String>,
    cpus: usize,
    /// Names of the variables of Muster that are set.
    variables: Vec<String>,
}

/// Runs `muster debug-dump`; returns its exit code.
pub async fn run(app: &App, args: DebugDumpArgs) -> Result<u8> {
    // A daemon that does not answer is what the report may be about.
    let dump = match connect::find(&app.global) {
        Ok(client) => collect(&client).await,
        Err(error) => DebugDump::of(None, None, vec![format!("the daemon: {error:#}")]),
    };
    let shown = args.file.display();
    let open = fs::OpenOptions::new().write(true).create_new(true).open(&args.file);
    let file = open.map_err(|error| {
        Failure::new(format!("cannot write {shown}: {error}"))
            .hint("name another file: muster debug-dump FILE")
    })?;
    let mut packed = GzEncoder::new(file, Compression::best());
    let text = serde_json::to_vec_pretty(&dump)?;
    let written = packed.write_all(&text).and_then(|()| packed.finish().map(drop));
    written.map_err(|error| Failure::new(format!("cannot write {shown}: {error}")))?;
    for error in &dump.errors {
        app.ui.warning(error);
    }
    app.ui
        .status(&format!("{shown} is written; look at it before you attach it: gunzip -c {shown}"));
    Ok(0)
}

async fn collect(client: &Client) -> DebugDump {
    let mut errors = Vec::new();
    let mut note =
        |what: &str, failure: Failure| errors.push(format!("{what}: {}", failure.message));
    let daemon = client.info().await.map_err(|error| note("the daemon", error.into())).ok();
    let snapshot = client.snapshot(SnapshotQuery::default()).await;
    let snapshot = snapshot.map_err(|error| note("the snapshot", error.into())).ok();
    DebugDump::of(daemon, snapshot, errors)
}

impl DebugDump {
    fn of(daemon: Option<DaemonInfo>, snapshot: Option<SiteSnapshot>, errors: Vec<String>) -> Self {
        let hidden = HiddenNames::of_this_user();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            system: system_facts(),
            daemon: daemon.map(|info| without_names(info, &hidden)),
            errors: errors.iter().map(|error| hidden.hide(error)).collect(),
            snapshot,
        }
    }
}

/// Names of the user and the machine, each with its placeholder. The home directory comes first: it contains the name.
struct HiddenNames(Vec<(String, &'static str)>);

impl HiddenNames {
    fn of_this_user() -> Self {
        let user = muster_daemon::auth::user_name(rustix::process::getuid().as_raw());
        let names = [
            (std::env::var("HOME").unwrap_or_default(), "~"),
            (muster_daemon::paths::host_name(), "HOST"),
            (user.to_string(), "USER"),
        ];
        Self(names.into_iter().filter(|(name, _)| name.len() > 1).collect())
    }

    fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, placeholder)| {
            text.replace(name.as_str(), placeholder)
        })
    }
}

fn without_names(info: DaemonInfo, hidden: &HiddenNames) -> DaemonInfo {
    DaemonInfo {
        host: hidden.hide(&info.host),
        state_dir: hidden.hide(&info.state_dir),
        warnings: info.warnings.iter().map(|warning| hidden.hide(warning)).collect(),
        ..info
    }
}

fn system_facts() -> SystemFacts {
    let line = |path: &str| Some(fs::read_to_string(path).ok()?.lines().next()?.to_owned());
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let distribution = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    SystemFacts {
        distribution: distribution.map(|name| name.trim_matches('"').to_owned()),
        kernel: line("/proc/sys/kernel/osrelease"),
        nvidia_driver: line("/proc/driver/nvidia/version"),
        cgroup_controllers: line("/sys/fs/cgroup/cgroup.controllers"),
        cpus: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        variables: variables.filter(|name| name.starts_with("MUSTER_")).collect(),
    }
}
