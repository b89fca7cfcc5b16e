//! `muster init none`: writes the conventions of a team that needs no scheduler yet.
//! `muster-advise` makes the text.

use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_model::NodeSpec;
use muster_model::advice::{Fact, SiteProfile, Threshold};

use crate::app::App;
use crate::args::whole_number;
use crate::exit::Failure;
use crate::{output_files, source};

/// Largest number that an option accepts: more than any one site has.
const MANY: u32 = 10_000_000;

/// Write conventions for a small team without a scheduler: ssh, tmux, how to announce GPU use, and
/// when to install a scheduler
///
/// For sites with fewer than 16 GPUs and 8 users who talk to each other. Read, edit and commit the
/// page.
///
///   muster init none --nodes 2 --gpus 12 --users 5
///   muster init none --cluster cluster.yaml -o docs/gpus.md
///   muster init none --gpus 8 -o -
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct InitNoneArgs {
    /// Number of machines with GPUs
    #[arg(long, value_name = "N", conflicts_with = "cluster", allow_negative_numbers = true,
          value_parser = whole_number(1, MANY))]
    nodes: Option<u32>,
    /// Total number of GPUs
    #[arg(long, value_name = "N", conflicts_with = "cluster", allow_negative_numbers = true,
          required_unless_present = "cluster", value_parser = whole_number(1, MANY))]
    gpus: Option<u32>,
    /// Number of users of the GPUs
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = whole_number(1, MANY))]
    users: Option<u32>,
    /// Cluster file, in place of the numbers; `muster inventory` writes one
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// File to write; - is stdout
    #[arg(short = 'o', long, value_name = "FILE", default_value = "CONVENTIONS.md")]
    output: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
}

/// Runs `muster init none`; returns its exit code.
pub fn run(app: &App, args: &InitNoneArgs) -> Result<u8> {
    // 1. Read the size of the site.
    let mut site = SiteProfile::default();
    for (fact, given) in
        [(Fact::FleetNodes, args.nodes), (Fact::FleetGpus, args.gpus), (Fact::Users, args.users)]
    {
        site.facts.set(fact, given.unwrap_or(fact.default()));
    }
    let machines: Vec<NodeSpec> = match &args.cluster {
        Some(path) => {
            let text = source::read(path)?;
            muster_spec::parse_cluster(&text.source, text.file.as_deref())
                .map_err(Failure::from)?
                .nodes
        }
        None => Vec::new(),
    };

    // 2. Write the page.
    let page = muster_advise::conventions(&site, &machines);
    if args.output == Path::new("-") {
        app.ui.data(&page)?;
    } else {
        output_files::write(&args.output, &page, args.force)?;
        app.ui.status(&format!("wrote {}", args.output.display()));
        app.ui.hint("read it, adapt it to your site, and commit it where all users see it");
    }

    // 3. Warn if the site is too large for conventions alone.
    let whole =
        machines.iter().flat_map(|node| &node.devices).filter(|device| device.slice_of.is_none());
    let gpus = args.gpus.unwrap_or_else(|| u32::try_from(whole.count()).unwrap_or(u32::MAX));
    let limit = site.thresholds.get(Threshold::ConventionGpus);
    if gpus >= limit {
        app.ui.warning(&format!("{gpus} GPUs: from {limit} GPUs on, a scheduler is recommended"));
        app.ui.hint("describe the site and run: muster advise --site site.yaml");
    }
    Ok(0)
}
