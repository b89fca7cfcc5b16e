//! The page of conventions for a team without a scheduler: how to find free GPUs, announce, start
//! and stop work, how to free a forgotten GPU, and the numbers at which to ask for advice again.
//! Markdown text, made from the site's numbers and thresholds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_model::NodeSpec;
use muster_model::advice::{Fact, SiteProfile, Threshold};

use crate::gpus::{self, Link};

/// Hours that a notebook may hold a GPU. Kentino, "the interactive notebook problem": salloc with
/// four hours.
const NOTEBOOK_HOURS: u32 = 4;
/// Hours without an answer after which a held and idle GPU is freed. Muster's own number: well
/// within a working day.
const PATIENCE_HOURS: u32 = 2;
/// Collisions in a month after which coordination counts as failing. Muster's own number.
const COLLISIONS: u32 = 3;

/// Commands that differ between vendors.
struct Vendor {
    /// Command that lists devices and the processes on them.
    look: &'static str,
    /// Environment variable with the devices that a program sees.
    visible: &'static str,
}

const NVIDIA: Vendor = Vendor { look: "nvidia-smi", visible: "CUDA_VISIBLE_DEVICES" };
const AMD: Vendor = Vendor { look: "amd-smi process", visible: "HIP_VISIBLE_DEVICES" };

/// Returns the page for a site. Numbers are taken from `machines` if it is not empty, else from the
/// facts.
#[must_use]
pub fn conventions(site: &SiteProfile, machines: &[NodeSpec]) -> String {
    let fleet = ConventionFleet::of(site, machines);
    let mut page = String::new();
    opening(&mut page, &fleet);
    map(&mut page, machines, &fleet);
    start(&mut page, &fleet);
    rules(&mut page, &fleet);
    forgotten(&mut page, &fleet);
    one_machine(&mut page);
    revisit(&mut page, &fleet);
    page
}

/// Properties of the fleet that the page uses.
struct ConventionFleet<'a> {
    site: &'a SiteProfile,
    nodes: u32,
    gpus: u32,
    users: u32,
    vendor: &'static Vendor,
    /// Name of a machine, for examples.
    example: &'a str,
}

impl<'a> ConventionFleet<'a> {
    fn of(site: &'a SiteProfile, machines: &'a [NodeSpec]) -> Self {
        let whole = |node: &NodeSpec| {
            node.devices.iter().filter(|device| device.slice_of.is_none()).count()
        };
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (nodes, gpus) = if machines.is_empty() {
            (site.facts.get(Fact::FleetNodes), site.facts.get(Fact::FleetGpus))
        } else {
            (count(machines.len()), count(machines.iter().map(whole).sum()))
        };
        let mut models = site
            .models
            .iter()
            .chain(machines.iter().flat_map(|node| &node.devices).map(|device| &device.model));
        let amd = models
            .any(|model| gpus::find(model).is_some_and(|gpu| gpu.link == Link::InfinityFabric));
        Self {
            site,
            nodes,
            gpus,
            users: site.facts.get(Fact::Users),
            vendor: if amd { &AMD } else { &NVIDIA },
            example: machines.first().map_or("node01", |node| node.name.as_str()),
        }
    }

    fn threshold(&self, threshold: Threshold) -> u32 {
        self.site.thresholds.get(threshold)
    }
}

/// Writes a line; writing to a string cannot fail.
fn put(page: &mut String, line: std::fmt::Arguments<'_>) {
    page.write_fmt(line).expect("a string takes all text");
    page.push('\n');
}

fn plural(count: u32, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn opening(page: &mut String, fleet: &ConventionFleet<'_>) {
    put(page, format_args!("# Who uses which GPU\n"));
    let machines = plural(fleet.nodes, "machine", "machines");
    let gpus = plural(fleet.gpus, "GPU", "GPUs");
    let users =
        if fleet.users > 1 { format!(", for {} people", fleet.users) } else { String::new() };
    put(
        page,
        format_args!(
            "{gpus} on {machines}{users}. There is no scheduler here: we agree, by this page."
        ),
    );
    put(page, format_args!("Change this page by agreement, in the repository that holds it.\n"));
    let from = fleet.threshold(Threshold::SchedulerGpus);
    let until = fleet.threshold(Threshold::ConventionGpus);
    if fleet.gpus >= until {
        put(
            page,
            format_args!(
                "**{gpus} are more than any source recommends conventions for (below {until}): install a scheduler.**\n"
            ),
        );
    } else if fleet.gpus >= from || fleet.users >= fleet.threshold(Threshold::SchedulerUsers) {
        put(
            page,
            format_args!(
                "**At this size a scheduler pays for itself: work without one only while users do not collide.**\n"
            ),
        );
    }
}

fn map(page: &mut String, machines: &[NodeSpec], fleet: &ConventionFleet<'_>) {
    put(page, format_args!("## What there is\n\n| machine | GPUs | for |\n|---|---|---|"));
    for node in machines {
        let mut models: BTreeMap<&str, u32> = BTreeMap::new();
        for device in node.devices.iter().filter(|device| device.slice_of.is_none()) {
            *models.entry(device.model.as_str()).or_default() += 1;
        }
        let gpus: Vec<String> =
            models.iter().map(|(model, count)| format!("{count} × {model}")).collect();
        let gpus = if gpus.is_empty() { "none".to_owned() } else { gpus.join(", ") };
        put(page, format_args!("| {} | {gpus} | anything |", node.name));
    }
    if machines.is_empty() {
        put(page, format_args!("| {} | | anything |", fleet.example));
        put(
            page,
            format_args!("\nOne line per machine. Name the GPUs that are for notebooks, if any."),
        );
    }
    page.push('\n');
}

fn start(page: &mut String, fleet: &ConventionFleet<'_>) {
    let look = fleet.vendor.look;
    let visible = fleet.vendor.visible;
    let node = fleet.example;
    put(page, format_args!("## Start\n"));
    put(page, format_args!("1. Look which GPUs are free: `ssh {node} {look}`."));
    put(
        page,
        format_args!(
            "2. Say it in the channel **before** you start: machine, GPUs, until when, what. Like this:"
        ),
    );
    put(page, format_args!("   `{node} gpu 0-3 until tuesday 18:00, finetune`."));
    put(page, format_args!("3. Start in tmux, on these GPUs only:\n"));
    put(
        page,
        format_args!(
            "   ```sh\n   ssh {node}\n   tmux new -s finetune\n   {visible}=0,1,2,3 python train.py"
        ),
    );
    put(
        page,
        format_args!(
            "   # Ctrl-B D leaves it running; tmux attach -t finetune comes back\n   ```\n"
        ),
    );
    put(
        page,
        format_args!(
            "4. When it ends, early or late, say so in the channel and close the tmux session.\n"
        ),
    );
}

fn rules(page: &mut String, fleet: &ConventionFleet<'_>) {
    let visible = fleet.vendor.visible;
    put(page, format_args!("## Rules\n"));
    put(
        page,
        format_args!(
            "- A GPU that was not announced in the channel is not reserved. First announced, first served."
        ),
    );
    put(
        page,
        format_args!(
            "- `{visible}` is a convention, not a lock: a program without it takes every GPU."
        ),
    );
    if fleet.nodes > 1 {
        put(
            page,
            format_args!(
                "- A run on several machines: ask for all of them, and start when all are free. Hold none while you wait for"
            ),
        );
        put(
            page,
            format_args!("  the others; two people who do that wait for each other forever."),
        );
    }
    put(
        page,
        format_args!(
            "- A notebook holds a GPU for {NOTEBOOK_HOURS} hours at most, and never over night. A notebook without a limit holds its GPU"
        ),
    );
    put(page, format_args!("  forever."));
    put(
        page,
        format_args!(
            "- Two people on one GPU: only when both agreed, with the memory that each takes. Nothing isolates them: one"
        ),
    );
    put(page, format_args!("  that runs out of memory may end the other."));
    put(
        page,
        format_args!(
            "- Runs longer than a day write checkpoints, so that stopping them costs little.\n"
        ),
    );
}

fn forgotten(page: &mut String, fleet: &ConventionFleet<'_>) {
    let look = fleet.vendor.look;
    put(page, format_args!("## A GPU is held and forgotten\n"));
    put(
        page,
        format_args!(
            "1. Whose is it: `{look}` names the process, `ps -o user,lstart,args -p PID` its owner and start."
        ),
    );
    put(page, format_args!("2. Ask the owner, then the channel."));
    put(
        page,
        format_args!(
            "3. No answer within {PATIENCE_HOURS} hours, the announced end is past, and the GPU computes nothing: stop it. `kill PID`, and"
        ),
    );
    put(
        page,
        format_args!("   after a minute `kill -9 PID`; without permission, ask an administrator."),
    );
    put(page, format_args!("4. Say what you stopped, and add a line here:\n"));
    put(page, format_args!("| day | machine, GPU | what happened |\n|---|---|---|\n| | | |\n"));
}

fn one_machine(page: &mut String) {
    put(page, format_args!("## A queue for one machine, without a cluster\n"));
    put(
        page,
        format_args!(
            "When people only collide on one machine, a queue on that machine is enough. Nothing else is needed there than the"
        ),
    );
    put(page, format_args!("`muster` binary:\n"));
    put(
        page,
        format_args!(
            "```sh\nmuster run --gpus 2 --time 4h -- python train.py   # waits for two free GPUs, ends after 4 hours"
        ),
    );
    put(
        page,
        format_args!(
            "muster ps                                          # waiting and running jobs, with their GPUs"
        ),
    );
    put(
        page,
        format_args!(
            "muster explain 7                                   # why job 7 waits, and when it starts\n```\n"
        ),
    );
    put(
        page,
        format_args!(
            "It allocates no GPU that a process outside it uses. For several people on one machine, root runs\n`muster serve --system`.\n"
        ),
    );
}

fn revisit(page: &mut String, fleet: &ConventionFleet<'_>) {
    let number = |threshold| fleet.threshold(threshold);
    let people =
        if fleet.users > 1 { format!(" and {} people", fleet.users) } else { String::new() };
    put(page, format_args!("## When to ask again\n"));
    put(
        page,
        format_args!(
            "Install a scheduler when coordination fails, not before. Any of these says that it does, or soon will:\n"
        ),
    );
    put(
        page,
        format_args!(
            "- [ ] {} GPUs or more, or {} people or more, whichever comes first; here: {}{people}. Looser advice goes up to {} \
             GPUs\n      on {} machines with {} people, as long as they talk.",
            number(Threshold::SchedulerGpus),
            number(Threshold::SchedulerUsers),
            plural(fleet.gpus, "GPU", "GPUs"),
            number(Threshold::ConventionGpus).saturating_sub(1),
            number(Threshold::ConventionNodes).saturating_sub(1),
            number(Threshold::ConventionUsers).saturating_sub(1),
        ),
    );
    put(page, format_args!("- [ ] {COLLISIONS} lines in the table above within a month."));
    put(
        page,
        format_args!(
            "- [ ] People join who are not in the channel: another team, a customer, a student project."
        ),
    );
    put(page, format_args!("- [ ] People wait for GPUs that turn out to be idle."));
    put(page, format_args!("- [ ] A service must stay up: an endpoint that others rely on."));
    put(page, format_args!("- [ ] Runs over several machines become the rule.\n"));
    put(
        page,
        format_args!(
            "Then describe the site in `site.yaml` and ask: `muster advise --site site.yaml`."
        ),
    );
}
