//! `muster init site`: writes a commented site file for `muster advise`, with the numbers of a cluster file.
//! What nobody can measure is a comment with its default.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_model::NodeSpec;
use muster_model::advice::Fact;

use crate::app::App;
use crate::args::whole_number;
use crate::exit::Failure;
use crate::{output_files, source};

/// Write a commented site file for `muster advise`, filled in from a cluster file
///
/// Nodes, GPUs and models come from the cluster file, which `muster inventory` writes; every other
/// fact is a comment with its question. Remove the `#` of those that hold.
///
///   muster inventory -o cluster.yaml
///   muster init site --cluster cluster.yaml --users 12
///   muster advise --site site.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct InitSiteArgs {
    /// Cluster file with the nodes; `muster inventory` writes one
    #[arg(long, value_name = "FILE")]
    cluster: PathBuf,
    /// Number of users of the GPUs
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = whole_number(1, 10_000_000))]
    users: u32,
    /// File to write; - is stdout
    #[arg(short = 'o', long, value_name = "FILE", default_value = "site.yaml")]
    output: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
}

/// Runs `muster init site`; returns its exit code.
pub fn run(app: &App, args: &InitSiteArgs) -> Result<u8> {
    let text = source::read(&args.cluster)?;
    let cluster = muster_spec::parse_cluster(&text.source, text.file.as_deref());
    let nodes = cluster.map_err(Failure::from)?.nodes;
    let page = site_file(&nodes, args.users)?;
    if args.output == Path::new("-") {
        app.ui.data(&page)?;
        return Ok(0);
    }
    output_files::write(&args.output, &page, args.force)?;
    app.ui.status(&format!("wrote {}", args.output.display()));
    app.ui.hint(&format!(
        "remove the # of what holds, then: muster advise --site {}",
        args.output.display()
    ));
    Ok(0)
}

/// Returns the site file of these nodes.
fn site_file(nodes: &[NodeSpec], users: u32) -> Result<String, Failure> {
    let whole =
        || nodes.iter().flat_map(|node| &node.devices).filter(|device| device.slice_of.is_none());
    let gpus = whole().count();
    if gpus == 0 {
        return Err(Failure::usage("no node of the cluster file has a GPU")
            .hint("`muster inventory` writes the GPUs of this machine"));
    }
    let mut text =
        String::from("# A site for `muster advise --site`. Remove the # of what holds.\n");
    for section in ["fleet", "people", "needs"] {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{section}:");
        match section {
            "fleet" => {
                let _ = writeln!(text, "  nodes: {}\n  gpus: {gpus}", nodes.len());
                let _ = writeln!(text, "  models: {}", models(nodes));
                text.push_str("  # fabric: infiniband          # or roce; ethernet by default\n");
                text.push_str("  # hosting: bare-metal         # cloud by default\n");
            }
            "people" => {
                let _ = writeln!(text, "  users: {users}");
                text.push_str(
                    "  # operates: slurm             # or a list, such as [kubernetes, kueue]\n",
                );
            }
            _ => {}
        }
        for fact in Fact::SITE {
            let Some(key) = muster_spec::site_field(*fact, section) else { continue };
            if *fact == Fact::Batch {
                // A need that is written: a section of comments would be no mapping.
                let _ = writeln!(text, "  {:<30}# true: {}", "batch: false", fact.question());
                continue;
            }
            if !matches!(fact, Fact::FleetNodes | Fact::FleetGpus | Fact::Users) {
                let value = if fact.default() == 0 {
                    "true".to_owned()
                } else {
                    fact.value(fact.default()).to_string()
                };
                let value = if *fact == Fact::PlatformFte { "0.25".to_owned() } else { value };
                let line = format!("# {key}: {value}");
                let _ = writeln!(text, "  {line:<30}# {}", fact.question());
            }
        }
    }
    text.push_str("# mix:\n#   - name: training\n#     share: 60            # percent of the GPU-hours\n#     facts: {nodes: 2, tightly_coupled: true}\n");
    Ok(text)
}

/// Returns the GPU models, each with the number of its nodes where the file may say so: if every node has GPUs, of one
/// model.
fn models(nodes: &[NodeSpec]) -> String {
    let of_node = |node: &NodeSpec| -> BTreeSet<String> {
        let whole = node.devices.iter().filter(|device| device.slice_of.is_none());
        whole.map(|device| device.model.as_str().to_owned()).collect()
    };
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for model in nodes.iter().flat_map(of_node) {
        *counts.entry(model).or_default() += 1;
    }
    let is_sum_of_nodes = nodes.iter().all(|node| of_node(node).len() == 1);
    let named = counts
        .into_iter()
        .map(|(model, nodes)| if is_sum_of_nodes { format!("{model}: {nodes}") } else { model });
    let named = named.collect::<Vec<_>>().join(", ");
    if is_sum_of_nodes { format!("{{{named}}}") } else { format!("[{named}]") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_their_numbers_of_nodes_where_these_add_up() {
        let check = |cluster: &str, expected: &str| {
            let nodes = muster_spec::parse_cluster(cluster, None).unwrap().nodes;
            let text = site_file(&nodes, 12).unwrap();
            assert!(text.contains(&format!("  models: {expected}\n")), "{text}");
            muster_spec::parse_site(&text, None).unwrap();
        };
        let two =
            "nodes:\n- {name: 'a[1-3]', gpus: 8, gpu: h100}\n- {name: b, gpus: 4, gpu: l40s}\n";
        check(two, "{h100: 3, l40s: 1}");
        check(&format!("{two}- {{name: head, cpus: 8}}\n"), "[h100, l40s]");
    }

    /// Every line that is a comment is valid without its `#`, so that users can take it as it is.
    #[test]
    fn the_file_is_a_site_with_and_without_each_comment() {
        let cluster = "nodes:\n- {name: a, gpus: 4, gpu: h100}\n- {name: b, gpus: 4, gpu: h100}\n";
        let nodes = muster_spec::parse_cluster(cluster, None).unwrap().nodes;
        let text = site_file(&nodes, 12).unwrap();
        let site = muster_spec::parse_site(&text, None).unwrap();
        let numbers = [Fact::FleetNodes, Fact::FleetGpus, Fact::Users];
        assert_eq!(numbers.map(|fact| site.facts.get(fact)), [2, 8, 12]);
        let comments = text.lines().filter(|line| line.starts_with("  # ")).count();
        assert!(comments > 40, "{text}");
        for (place, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("  # ")) {
            let on: Vec<String> = text
                .lines()
                .enumerate()
                .map(
                    |(at, other)| {
                        if at == place { other.replacen("# ", "", 1) } else { other.to_owned() }
                    },
                )
                .collect();
            if let Err(wrong) = muster_spec::parse_site(&on.join("\n"), None) {
                // Only what contradicts the rest of the file is refused, never a name or a value.
                let wrong = format!("{wrong:?}");
                assert!(wrong.contains("contradicts"), "{line}: {wrong}");
            }
        }
    }
}
