//! `muster init none`: the page of conventions for a team that needs no scheduler yet. Its text is
//! made in `muster-advise`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_model::NodeSpec;
use muster_model::advice::{Fact, SiteProfile, Threshold};

use crate::app::App;
use crate::args::whole;
use crate::exit::Failure;
use crate::{output_files, source};

/// Largest number that any option takes: more than any one site has.
const MANY: u32 = 10_000_000;

/// Write the conventions of a small team: ssh, tmux, who says what where, and when to install a
/// scheduler after all
///
/// For fewer than 16 GPUs and 8 people who talk to each other. The page is for you to read, change
/// and commit.
///
///   muster init none --nodes 2 --gpus 12 --users 5
///   muster init none --cluster cluster.yaml -o docs/gpus.md
///   muster init none --gpus 8 -o -
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Machines
    #[arg(long, value_name = "N", conflicts_with = "cluster", allow_negative_numbers = true,
          value_parser = whole(1, MANY))]
    nodes: Option<u32>,
    /// GPUs, all together
    #[arg(long, value_name = "N", conflicts_with = "cluster", allow_negative_numbers = true,
          required_unless_present = "cluster", value_parser = whole(1, MANY))]
    gpus: Option<u32>,
    /// People who use them
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = whole(1, MANY))]
    users: Option<u32>,
    /// A cluster file, in place of the numbers; `muster inventory` writes one
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Where the page goes; - is stdout
    #[arg(short = 'o', long, value_name = "FILE", default_value = "CONVENTIONS.md")]
    output: PathBuf,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    // 1. What there is.
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

    // 2. The page.
    let page = muster_advise::conventions(&site, &machines);
    if args.output == Path::new("-") {
        app.ui.data(&page)?;
    } else {
        output_files::write(&args.output, &page, args.force)?;
        app.ui.status(&format!("wrote {}", args.output.display()));
        app.ui.hint(
            "read it, change what is different with you, and commit it where everybody sees it",
        );
    }

    // 3. Whether it is still the right answer.
    let whole =
        machines.iter().flat_map(|node| &node.devices).filter(|device| device.slice_of.is_none());
    let gpus = args.gpus.unwrap_or_else(|| u32::try_from(whole.count()).unwrap_or(u32::MAX));
    let limit = site.thresholds.get(Threshold::ConventionGpus);
    if gpus >= limit {
        app.ui
            .warning(&format!("{gpus} GPUs: nobody recommends conventions alone from {limit} on"));
        app.ui.hint("describe the site and ask: muster advise --site site.yaml");
    }
    Ok(0)
}
