//! The section `slurm` of a job: options in Slurm's own terms. Slurm itself validates them; refused
//! here are only values that cannot be written to a script, or that contradict the job itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::slurm::{GroupOptions, LeafSwitches, SlurmContainer, SlurmOptions};

use crate::diagnostic::{Problem, Problems, show};
use crate::field::{Located, OneOrMany, Text};
use crate::job::document::{JobDocument, SlurmDocument};
use crate::job::environment;
use crate::source::Place;

/// Options of sbatch that Muster sets, by their long names, and the corresponding field of a job;
/// empty if there is none.
const OWN: &[(&str, &str)] = &[
    ("account", "slurm: {account: …}"),
    ("array", "array"),
    ("begin", "begin"),
    ("chdir", "workdir"),
    ("comment", ""),
    ("constraint", "slurm: {constraint: …}"),
    ("cpus-per-task", "cpus"),
    ("dependency", "after"),
    ("error", "error"),
    ("exclude", "exclude"),
    ("exclusive", "slurm: {exclusive: true}"),
    ("gpus", "tasks and gpus-per-task"),
    ("gpus-per-node", "gpus"),
    ("gpus-per-socket", "gpus"),
    ("gpus-per-task", "gpus-per-task"),
    ("help", ""),
    ("hold", "hold"),
    ("job-name", "name"),
    ("kill-on-invalid-dep", ""),
    ("licenses", "slurm: {licenses: …}"),
    ("mem", "memory"),
    ("mem-per-cpu", "memory"),
    ("no-requeue", "slurm: {requeue: false}"),
    ("nodelist", "slurm: {nodelist: …}"),
    ("nodes", "nodes"),
    ("ntasks", "tasks"),
    ("ntasks-per-node", "tasks-per-node"),
    ("open-mode", ""),
    ("output", "output"),
    ("parsable", ""),
    ("partition", "slurm: {partition: …}"),
    ("qos", "slurm: {qos: …}"),
    ("requeue", "slurm: {requeue: true}"),
    ("reservation", "reservation"),
    ("segment", "slurm: {segment: …}"),
    ("signal", "checkpoint"),
    ("switches", "slurm: {switches: …}"),
    ("test-only", "muster run --dry-run"),
    ("time", "time"),
    ("usage", ""),
    ("version", ""),
    ("wait", "muster run --wait"),
    ("wrap", "run"),
];

/// Values of such options that no field expresses, and that are passed on: all memory of a node,
/// and nodes shared with some other jobs.
const OWN_VALUES: [&str; 4] =
    ["--mem=0", "--exclusive=user", "--exclusive=mcs", "--exclusive=topo"];

/// Converts the section to values.
fn options(written: &SlurmDocument, problems: &mut Problems) -> SlurmOptions {
    let one = |field: &Option<Located<Text>>, name: &str, problems: &mut Problems| {
        let field = field.as_ref()?;
        word(&field.value.0, name, field.place, problems)
    };
    let many = |field: &Option<Located<OneOrMany<Text>>>, name: &str, problems: &mut Problems| {
        let items = field.iter().flat_map(|field| &field.value.0);
        items.filter_map(|item| word(&item.value.0, name, item.place, problems)).collect::<Vec<_>>()
    };
    let whole = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    let nodelist = written.nodelist.iter().flat_map(|nodes| &nodes.value.0);
    if let (None, Some(wait)) = (&written.switches, &written.switches_wait) {
        let hint = "add `switches: 1`".to_owned();
        problems.add(
            Problem::new("`switches-wait` without `switches`")
                .at(wait.key, "for how many?")
                .hint(hint),
        );
    }
    if let (None, Some(mounts)) = (&written.container, &written.container_mounts) {
        let hint = "add `container`".to_owned();
        problems.add(
            Problem::new("`container-mounts` without `container`")
                .at(mounts.key, "of which?")
                .hint(hint),
        );
    }
    let extra = written.options.iter().flat_map(|options| &options.value.0);
    SlurmOptions {
        partitions: many(&written.partition, "partition", problems),
        account: one(&written.account, "account", problems),
        qos: one(&written.qos, "qos", problems),
        constraint: one(&written.constraint, "constraint", problems),
        licenses: many(&written.licenses, "licenses", problems),
        nodelist: nodelist.flat_map(|item| item.value.0.names()).map(Arc::from).collect(),
        exclusive: written.exclusive.as_ref().is_some_and(|flag| flag.value.0),
        singleton: written.singleton.as_ref().is_some_and(|flag| flag.value.0),
        switches: written.switches.as_ref().map(|count| LeafSwitches {
            count: whole(count.value.0),
            wait: written.switches_wait.as_ref().map(|wait| wait.value.0),
        }),
        segment_nodes: written.segment.as_ref().map(|nodes| whole(nodes.value.0)),
        requeue: written.requeue.as_ref().map(|flag| flag.value.0),
        modules: many(&written.modules, "modules", problems),
        conda: environment::one(&written.conda, "conda", problems),
        venv: environment::one(&written.venv, "venv", problems),
        container: one(&written.container, "container", problems).map(|image| SlurmContainer {
            image,
            mounts: mounts(written.container_mounts.as_ref(), problems),
        }),
        setup: written.setup.as_ref().map(|text| text.value.0.as_str().into()),
        options: extra
            .filter_map(|item| extra_option(&item.value.0, item.place, problems))
            .collect(),
        groups: BTreeMap::new(),
    }
}

/// Returns the options of the job and its groups.
pub(super) fn of_job(job: &JobDocument, problems: &mut Problems) -> SlurmOptions {
    let of_all =
        job.slurm.as_ref().map(|slurm| options(&slurm.value, problems)).unwrap_or_default();
    SlurmOptions { groups: of_groups(job, problems), ..of_all }
}

/// Returns the options of single groups, by their names.
fn of_groups(job: &JobDocument, problems: &mut Problems) -> BTreeMap<Arc<str>, GroupOptions> {
    let mut groups = BTreeMap::new();
    for item in job.groups.iter().flat_map(|groups| &groups.value.0) {
        let (Some(name), Some(slurm)) = (&item.value.name, &item.value.slurm) else { continue };
        let partitions = slurm.value.partition.iter().flat_map(|field| &field.value.0);
        let constraint = slurm.value.constraint.as_ref();
        let options = GroupOptions {
            partitions: partitions
                .filter_map(|one| word(&one.value.0, "partition", one.place, problems))
                .collect(),
            constraint: constraint
                .and_then(|one| word(&one.value.0, "constraint", one.place, problems)),
        };
        groups.insert(Arc::from(name.value.0.as_str()), options);
    }
    groups
}

/// Returns mounts, each `SOURCE:TARGET` with absolute paths.
fn mounts(written: Option<&Located<OneOrMany<Text>>>, problems: &mut Problems) -> Vec<Arc<str>> {
    let mut mounts = Vec::new();
    for item in written.iter().flat_map(|field| &field.value.0) {
        let Some(text) = word(&item.value.0, "container-mounts", item.place, problems) else {
            continue;
        };
        let parts: Vec<&str> = text.split(':').collect();
        let is_mount = match parts.as_slice() {
            [source, target] | [source, target, "ro" | "rw"] => {
                let is_whole = source.starts_with('/') || source.starts_with("~/");
                is_whole && target.starts_with('/') && !text.contains(',')
            }
            _ => false,
        };
        if is_mount {
            mounts.push(text);
        } else {
            let label = "expected `/source:/target`, with `:ro` where it must not be written to";
            problems
                .add(Problem::new("`container-mounts` cannot be mounted").at(item.place, label));
        }
    }
    mounts
}

/// Returns a value that can be written to a line of a script literally, or adds a problem.
fn word(text: &str, name: &str, place: Place, problems: &mut Problems) -> Option<Arc<str>> {
    let label = match text {
        "" => "this is empty",
        _ if text.starts_with('-') => "a dash begins an option",
        _ if text.chars().any(|c| {
            c.is_control() || c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '#')
        }) =>
        {
            "blanks, quotes, `#`, backslashes and control characters are not allowed here"
        }
        _ => return Some(text.into()),
    };
    problems.add(Problem::new(format!("`{name}` cannot be passed to Slurm")).at(place, label));
    None
}

/// Returns an option of sbatch that Muster does not set itself, `--name` or `--name=value`, or adds
/// a problem.
fn extra_option(text: &str, place: Place, problems: &mut Problems) -> Option<Arc<str>> {
    let mut refuse = |label: String, hint: Option<String>| {
        let problem =
            Problem::new(format!("{} cannot be passed to sbatch", show(text))).at(place, label);
        problems.add(match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        });
        None
    };
    let Some(body) = text.strip_prefix("--") else {
        return refuse("expected `--name=value`; short options are not read".to_owned(), None);
    };
    let name = body.split('=').next().unwrap_or_default();
    if name.is_empty()
        || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    {
        return refuse("expected `--name=value`".to_owned(), None);
    }
    if text.chars().any(|c| c.is_control() || matches!(c, '"' | '\'' | '\\' | '#')) {
        return refuse(
            "quotes, `#`, backslashes and line ends would break the script".to_owned(),
            None,
        );
    }
    if OWN_VALUES.contains(&text) {
        return Some(text.into());
    }
    // Slurm would add these GPUs to those that the job asks for, without Muster accounting for
    // them.
    if asks_gpus(body) {
        let hint = "in a job this is `gpus`, `gpus-per-task` and `gpu` for the model; other resources are allowed here";
        return refuse(
            "GPUs are asked for by the job's own fields".to_owned(),
            Some(hint.to_owned()),
        );
    }
    // sbatch accepts a unique prefix of a long option.
    let own = OWN
        .iter()
        .find(|(own, _)| *own == name)
        .or_else(|| OWN.iter().find(|(own, _)| own.starts_with(name)));
    match own {
        Some((own, "")) => refuse(format!("Muster sets --{own} itself"), None),
        Some((own, field)) => refuse(
            format!("Muster sets --{own} itself"),
            Some(format!("in a job this is `{field}`")),
        ),
        None => Some(text.into()),
    }
}

/// Returns true if an option asks for GPUs: `gres=gpu:2`, `tres-per-task=cpu:8,gres/gpu:1`.
fn asks_gpus(option: &str) -> bool {
    let Some((name, value)) = option.split_once('=') else { return false };
    let is_gpu = |item: &str| {
        let item = item.trim();
        let item =
            item.strip_prefix("gres/").or_else(|| item.strip_prefix("gres:")).unwrap_or(item);
        item.split([':', '=']).next() == Some("gpu")
    };
    let takes_resources =
        name == "gres" || name.starts_with("tres-per-") || "tres-per-task".starts_with(name);
    takes_resources && value.split(',').any(is_gpu)
}
