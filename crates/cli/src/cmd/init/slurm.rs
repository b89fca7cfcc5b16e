//! `muster init slurm`: writes the configuration of a new Slurm cluster. `muster-slurm` renders
//! the files; here are the options for what is in neither the cluster file nor the queue file.

use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_model::unit::{Bytes, CpuMilli};
use muster_model::{NodeSpec, QueueTree, Span};
use muster_slurm::init::{
    self, Auth, Choices, GeneratedFiles, InitError, InitInput, Member, Release,
};
use muster_spec::quantity::{parse_bytes, parse_span};
use muster_spec::{parse_cluster, parse_queues};

use super::generated::{self, EarlierFiles, GeneratedFile, OtherFiles};
use crate::app::App;
use crate::args::whole_number;
use crate::cmd::inventory::summary;
use crate::exit::{Failure, USAGE};
use crate::source;

/// Largest list of users in bytes that is read.
const MAX_BYTES: u64 = 16 << 20;

const EXAMPLES: &str = "\
Examples:
  muster init slurm --cluster cluster.yaml --queues queues.yaml --controller head1
  muster init slurm --cluster cluster.yaml --controller head1 --controller head2 --state-dir /shared/slurm
  muster init slurm --cluster cluster.yaml --queues queues.yaml --controller head1 --user alice=research/vision
  muster init slurm --cluster cluster.yaml --controller head1 --db-password-file secret --health-check /usr/sbin/nhc
  muster init slurm --cluster cluster.yaml --queues queues.yaml --controller head1 -o slurm --diff
  muster check slurm --conf slurm";

/// Write the configuration of a new Slurm cluster: slurm.conf, gres.conf, cgroup.conf,
/// topology.conf, slurmdbd.conf, accounts.sh
///
/// Nodes, GPUs and switches come from the cluster file; accounts, shares, limits and preemption
/// come from the queue file. Properties of queues that Slurm cannot express are printed, and listed
/// in accounts.sh. Read the files and install them; nothing is run. A later run overwrites them; if one
/// was edited by hand, it is named and nothing is written. See docs/slurm.md.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct InitSlurmArgs {
    /// Cluster file; `muster inventory` writes one
    #[arg(long, value_name = "FILE")]
    cluster: PathBuf,
    /// Queue file; by default there is one account, `default`
    #[arg(long, value_name = "FILE")]
    queues: Option<PathBuf>,
    /// Directory for the files; - prints them without writing
    #[arg(short = 'o', long, value_name = "DIR", default_value = "slurm")]
    output: PathBuf,
    #[command(flatten)]
    earlier: EarlierFiles,

    /// Name of the cluster (ClusterName)
    #[arg(long, value_name = "NAME", default_value = "cluster", help_heading = "The site")]
    name: String,
    /// Host of slurmctld, or host(address); repeat for a backup controller [default: this machine]
    #[arg(long, value_name = "HOST", help_heading = "The site")]
    controller: Vec<String>,
    /// Host of slurmdbd [default: the first controller]
    #[arg(long, value_name = "HOST", help_heading = "The site")]
    dbd_host: Option<String>,
    /// Host of the database, as seen by slurmdbd
    #[arg(long, value_name = "HOST", default_value = "localhost", help_heading = "The site")]
    db_host: String,
    /// User of the database
    #[arg(long, value_name = "NAME", default_value = "slurm", help_heading = "The site")]
    db_user: String,
    /// Name of the database
    #[arg(long, value_name = "NAME", default_value = "slurm_acct_db", help_heading = "The site")]
    db_name: String,
    /// File whose first line is the password of that user; by default a placeholder is written
    #[arg(long, value_name = "FILE", help_heading = "The site")]
    db_password_file: Option<PathBuf>,
    /// User that slurmctld and slurmdbd run as
    #[arg(long, value_name = "NAME", default_value = "slurm", help_heading = "The site")]
    slurm_user: String,
    /// Folder of the controller's state; with two controllers it must be shared by both
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/spool/slurmctld",
        help_heading = "The site"
    )]
    state_dir: String,
    /// Folder of slurmd on each node
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/spool/slurmd",
        help_heading = "The site"
    )]
    spool_dir: String,
    /// Folder of the log files
    #[arg(long, value_name = "DIR", default_value = "/var/log/slurm", help_heading = "The site")]
    log_dir: String,
    /// Authentication between daemons: munge, or Slurm's own key from 23.11 on
    #[arg(long, value_enum, value_name = "KIND", default_value_t = AuthKind::Munge, help_heading = "The site")]
    auth: AuthKind,
    /// Version of Slurm that the files are for, from 21.08 on
    #[arg(long, value_name = "YY.MM", default_value = "22.05", value_parser = release, help_heading = "The site")]
    slurm_version: Release,
    /// HealthCheckProgram; without it `muster check slurm` reports a finding
    #[arg(long, value_name = "PATH", help_heading = "The site")]
    health_check: Option<String>,

    /// User and the leaf queues that become its accounts, the first as the default; may be repeated
    #[arg(long, value_name = "NAME=QUEUE,..", value_parser = member, help_heading = "Users")]
    user: Vec<Member>,
    /// File of such users, one per line
    #[arg(long, value_name = "FILE", help_heading = "Users")]
    users: Option<PathBuf>,

    /// Grace period of preempted jobs
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = span, help_heading = "Jobs")]
    grace: Span,
    /// Default time limit of jobs
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = span, help_heading = "Jobs")]
    default_time: Span,
    /// Maximum time limit of jobs whose queue sets none
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = span, help_heading = "Jobs")]
    max_time: Span,
    /// Maximum time limit in interactive queues: those named interactive, debug, dev or notebook
    #[arg(long, value_name = "TIME", default_value = "8h", value_parser = span, help_heading = "Jobs")]
    interactive_time: Span,

    /// CPUs of nodes whose CPUs are not in the cluster file
    #[arg(long, value_name = "N", value_parser = whole_number(1, 1_000_000), help_heading = "Nodes")]
    cpus: Option<u32>,
    /// Memory of nodes whose memory is not in the cluster file, such as 1000GiB
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Nodes")]
    memory: Option<Bytes>,
    /// Sockets per node, to bind tasks near their GPUs; `slurmd -C` prints them
    #[arg(long, value_name = "N", value_parser = whole_number(1, 64), help_heading = "Nodes")]
    sockets: Option<u32>,
    /// Hardware threads per core, with --sockets
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole_number(1, 8), requires = "sockets", help_heading = "Nodes")]
    threads_per_core: u32,
    /// Shards per GPU, for jobs that request a part of a GPU (--gres=shard:1); from 22.05 on
    #[arg(long, value_name = "N", default_value = "0", value_parser = whole_number(0, 1024), help_heading = "Nodes")]
    shards: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum AuthKind {
    /// munge, with its daemon on every machine
    Munge,
    /// Slurm's own authentication with a shared key
    Slurm,
}

fn release(text: &str) -> Result<Release, String> {
    let parts = text.split_once('.').and_then(|(year, month)| {
        // A third number is ignored: 22.05.8 is a 22.05.
        let month = month.split('.').next().unwrap_or_default();
        Some(Release(
            year.parse().ok()?,
            month.parse().ok().filter(|month| (1..=12).contains(month))?,
        ))
    });
    parts.ok_or_else(|| "expected a release of Slurm such as 22.05".to_owned())
}

fn span(text: &str) -> Result<Span, String> {
    let reported = |error: muster_spec::quantity::Malformed| match error.hint {
        Some(hint) => format!("{}; {hint}", error.label),
        None => error.label,
    };
    match parse_span(text).map_err(reported)? {
        Span(0) => Err("0 is too short".to_owned()),
        span => Ok(span),
    }
}

fn size(text: &str) -> Result<Bytes, String> {
    parse_bytes(text).map_err(|error| error.label)
}

fn member(text: &str) -> Result<Member, String> {
    let wrong =
        || "expected a user and queues, such as alice=research/vision,research/language".to_owned();
    let (user, queues) = text.split_once('=').ok_or_else(wrong)?;
    let user = user.trim();
    let queues = queues.split(',').map(|queue| queue.trim().to_owned()).collect::<Vec<_>>();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
    let is_name = !user.is_empty() && !user.starts_with('-') && user.chars().all(allowed);
    if is_name && queues.iter().all(|queue| !queue.is_empty()) {
        Ok(Member { user: user.to_owned(), queues })
    } else {
        Err(wrong())
    }
}

/// Runs `muster init slurm`; returns its exit code.
pub fn run(app: &App, args: &InitSlurmArgs) -> Result<u8> {
    // 1. Read the cluster, the queues and the users.
    let given = source::read(&args.cluster)?;
    let mut cluster = parse_cluster(&given.source, given.file.as_deref()).map_err(Failure::from)?;
    fill_in_resources(&mut cluster.nodes, args);
    let queues = match &args.queues {
        Some(path) => {
            let text = source::read(path)?;
            parse_queues(&text.source, text.file.as_deref()).map_err(Failure::from)?
        }
        None => QueueTree::single(),
    };
    let members = members(args)?;
    let choices = choices(args)?;
    if args.controller.is_empty() {
        app.ui.warning(&format!(
            "the controller is {}, this machine; --controller sets another",
            choices.controllers[0]
        ));
    }

    // 2. Render the files.
    let order = InitInput {
        nodes: &cluster.nodes,
        levels: &cluster.levels,
        queues: &queues,
        members: &members,
        choices: &choices,
    };
    let made = init::render(&order).map_err(init_failure)?;
    let files: Vec<GeneratedFile> =
        made.files.iter().map(|(name, text)| GeneratedFile::new("slurm", name, text)).collect();

    // 3. Write them.
    if let Some(code) = generated::deliver(
        app,
        &args.output,
        &files,
        args.earlier,
        OtherFiles::Keep,
        &summary(&cluster.nodes),
    )? {
        return Ok(code);
    }
    print_notes(app, args, &made);
    Ok(0)
}

/// Fills in what is not in the cluster file.
fn fill_in_resources(nodes: &mut [NodeSpec], args: &InitSlurmArgs) {
    for node in nodes {
        if let (0, Some(cpus)) = (node.cpus.0, args.cpus) {
            node.cpus = CpuMilli(cpus * 1000);
        }
        if let (0, Some(memory)) = (node.memory.0, args.memory) {
            node.memory = memory;
        }
    }
}

fn members(args: &InitSlurmArgs) -> Result<Vec<Member>> {
    let mut members: Vec<Member> = Vec::new();
    if let Some(path) = &args.users {
        let (name, text) = source::text(path, MAX_BYTES)?;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                members.push(
                    member(line)
                        .map_err(|why| Failure::usage(format!("{name}:{number}: {why}")))?,
                );
            }
        }
    }
    members.extend(args.user.iter().cloned());
    let twice = members
        .iter()
        .enumerate()
        .find(|(at, one)| members[..*at].iter().any(|other| other.user == one.user));
    match twice {
        Some((_, one)) => Err(Failure::usage(format!("user {} is given twice", one.user))
            .hint("name all queues of a user at once: alice=research/vision,research/language")
            .into()),
        None => Ok(members),
    }
}

fn choices(args: &InitSlurmArgs) -> Result<Choices> {
    let db_password = match &args.db_password_file {
        None => None,
        Some(path) => {
            let (name, text) = source::text(path, MAX_BYTES)?;
            let first = text.lines().next().unwrap_or_default();
            if first.is_empty() {
                return Err(
                    Failure::usage(format!("the first line of {name} has no password")).into()
                );
            }
            Some(first.to_owned())
        }
    };
    let controllers = match args.controller.as_slice() {
        [] => vec![rustix::system::uname().nodename().to_string_lossy().into_owned()],
        named => named.to_vec(),
    };
    Ok(Choices {
        name: args.name.clone(),
        dbd_host: args.dbd_host.clone().unwrap_or_else(|| host(&controllers[0]).to_owned()),
        controllers,
        db_host: args.db_host.clone(),
        db_user: args.db_user.clone(),
        db_name: args.db_name.clone(),
        db_password,
        slurm_user: args.slurm_user.clone(),
        state_dir: args.state_dir.clone(),
        spool_dir: args.spool_dir.clone(),
        log_dir: args.log_dir.clone(),
        auth: match args.auth {
            AuthKind::Munge => Auth::Munge,
            AuthKind::Slurm => Auth::Slurm,
        },
        release: args.slurm_version,
        grace: args.grace,
        default_time: args.default_time,
        max_time: args.max_time,
        interactive_time: args.interactive_time,
        health_check: args.health_check.clone(),
        shards: args.shards,
        sockets: args.sockets,
        threads_per_core: args.threads_per_core,
    })
}

/// Returns the host name of a controller: `head1` of `head1(10.0.0.1)`.
fn host(controller: &str) -> &str {
    controller.split('(').next().unwrap_or(controller)
}

fn init_failure(error: InitError) -> Failure {
    Failure { code: USAGE, ..Failure::new(error.to_string()) }.hint(error.hint())
}

/// Prints what is not in the files, and the next step.
fn print_notes(app: &App, args: &InitSlurmArgs, made: &GeneratedFiles) {
    for lost in &made.unsupported {
        app.ui.warning(&format!("Slurm: {lost}"));
    }
    for open in &made.open {
        app.ui.warning(open);
    }
    if args.output != Path::new("-") {
        let dir = args.output.display();
        app.ui.hint(&format!(
            "read them, then run `muster check slurm --conf {dir}`; the header of accounts.sh has the order in which to start services"
        ));
    }
}
