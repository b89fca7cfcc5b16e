//! What each option of a script becomes in a job file: a field, an option that is handed on as it
//! is, or nothing with the reason. No option is left out of the answer.

pub(super) mod container;
mod early;
mod size;

use std::collections::BTreeMap;

use muster_model::imported::{Becomes, ImportedOption};
use muster_model::{Array, IndexRange};

use super::draft::{Checkpoint, Draft, Group};
use super::option::Given;
use super::read::Script;
use super::sizes::{Memory, Sizes};
use super::value::{self, Limit};

pub(super) use early::normal;

/// Longest name of a job.
const NAME_CHARACTERS: usize = 64;
/// `--nice` without a number (sbatch(1)).
const NICE: i64 = 100;
/// Seconds of `--signal` without a time (sbatch(1)).
const LEAD_SECS: u64 = 60;
/// Signals that a job file can ask for, which a program can answer.
const SIGNALS: [&str; 9] = ["ALRM", "CONT", "HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH"];
/// Most elements of an array in a job file.
const ARRAY_ELEMENTS: u64 = 100_000;

/// What became of an option.
type Verdict = (Becomes, String);

fn field(name: impl Into<String>) -> Verdict {
    (Becomes::Field, name.into())
}

fn near(says: impl Into<String>) -> Verdict {
    (Becomes::Near, says.into())
}

fn nothing(why: impl Into<String>) -> Verdict {
    (Becomes::NotMapped, why.into())
}

/// Makes the job without its programs, and says what became of every option.
pub(super) fn draft(script: &Script<'_>, name: &str) -> (Draft, Vec<ImportedOption>, Vec<Sizes>) {
    let mut draft =
        Draft { name: job_name(name).unwrap_or_else(|| "job".to_owned()), ..Draft::default() };
    let mut answers = Vec::new();
    let mut all_sizes = Vec::new();
    let is_het = script.components.len() > 1;
    for (index, given) in script.components.iter().enumerate() {
        // 1. Sizes are understood together.
        let sizes = Sizes::of(given);
        let (mut group, verdicts) = size::group(&sizes, given, is_het);
        group.name = is_het.then(|| format!("part{index}"));
        if sizes.memory == Some(Memory::WholeNode) && !is_het {
            draft.slurm.options.push("--mem=0".to_owned());
        }
        draft.groups.push(group);
        // 2. Each option by itself; of one that is given twice the last counts.
        for (at, one) in given.iter().enumerate() {
            let again =
                given[at + 1..].iter().any(|later| later.name.is_some() && later.name == one.name);
            let verdict = match one.name {
                None => nothing(unknown(&one.written)),
                Some(name) if again => {
                    nothing(format!("--{name} is given again below, and the last counts"))
                }
                Some(name) => match (size::beaten(given, name), verdicts.get(name)) {
                    (Some(other), _) => {
                        nothing(format!("sbatch refuses it beside --{other}, which is kept"))
                    }
                    (None, Some(verdict)) => verdict.clone(),
                    (None, None) if is_het && matches!(name, "partition" | "constraint") => {
                        let group = draft.groups.last_mut().expect("the group was just pushed");
                        where_to(group, name, one.value.as_deref().unwrap_or_default())
                    }
                    (None, None) if index > 0 => of_later(script, one, name),
                    (None, None) if container::is_one(name) => {
                        container::option(script, &mut draft, one, name)
                    }
                    (None, None) => single(&mut draft, one, name),
                },
            };
            answers.push(answer(one, verdict));
        }
        all_sizes.push(sizes);
    }
    same_everywhere(&mut draft);
    // 3. What is no option, and what sbatch never reads.
    for (line, word) in &script.hets {
        let says = "groups: one per component".to_owned();
        let written = (*word).to_owned();
        answers.push(ImportedOption {
            line: *line,
            written,
            option: "hetjob".to_owned(),
            becomes: Becomes::Field,
            says,
        });
    }
    for (line, text) in &script.late {
        let says = "it stands after the first command: sbatch does not read it".to_owned();
        answers.push(ImportedOption {
            line: *line,
            written: (*text).to_owned(),
            option: String::new(),
            becomes: Becomes::NotMapped,
            says,
        });
    }
    answers.sort_by_key(|answer| answer.line);
    early::checks(&mut draft, &mut answers);
    (draft, answers, all_sizes)
}

fn answer(one: &Given, (becomes, says): Verdict) -> ImportedOption {
    let option = one.name.unwrap_or_default().to_owned();
    ImportedOption { line: one.line, written: one.written.clone(), option, becomes, says }
}

fn unknown(written: &str) -> String {
    match written {
        _ if written.starts_with("--") => {
            "sbatch itself has no such option: a plugin of the site may have it, else sbatch refuses the script"
                .to_owned()
        }
        _ if written.starts_with('-') => "sbatch has no such option, and refuses the script".to_owned(),
        _ => "it is no option: sbatch passes over it".to_owned(),
    }
}

/// Where a component waits. sbatch hands neither on to the components that do not say it.
fn where_to(group: &mut Group, name: &str, text: &str) -> Verdict {
    if !is_word(text) {
        return nothing("blanks, quotes, `#` and backslashes cannot stand in this field");
    }
    match name {
        "partition" => group.partition = value::list(text),
        _ => group.constraint = Some(text.to_owned()),
    }
    field(format!("slurm: {{{name}}}, of its group where groups differ"))
}

/// What all groups say alike is said by the job.
fn same_everywhere(draft: &mut Draft) {
    let Some((first, rest)) = draft.groups.split_first() else { return };
    if rest.is_empty() {
        return;
    }
    if rest.iter().all(|group| group.partition == first.partition) {
        draft.slurm.partition = first.partition.clone();
        draft.groups.iter_mut().for_each(|group| group.partition.clear());
    }
    let Some((first, rest)) = draft.groups.split_first() else { return };
    if rest.iter().all(|group| group.constraint == first.constraint) {
        draft.slurm.constraint = first.constraint.clone();
        draft.groups.iter_mut().for_each(|group| group.constraint = None);
    }
}

/// Options of a component after the first: what is of the whole job counts there.
fn of_later(script: &Script<'_>, one: &Given, name: &str) -> Verdict {
    match script.last(name) {
        Some(first) if first.value == one.value => field("the same for all groups"),
        _ => nothing("a group has sizes of its own, and the rest is of the whole job"),
    }
}

/// An option that stands for itself.
fn single(draft: &mut Draft, one: &Given, name: &'static str) -> Verdict {
    let text = one.value.as_deref().unwrap_or_default();
    let is_word = is_word(text);
    let slurm = &mut draft.slurm;
    let no_word = || nothing("blanks, quotes, `#` and backslashes cannot stand in this field");
    let set = |field_of: &mut Option<String>, says: &str| {
        *field_of = Some(text.to_owned());
        field(says)
    };
    match name {
        "job-name" => named(draft, text),
        "account" if is_word => set(&mut slurm.account, "slurm: {account}"),
        "qos" if is_word => set(&mut slurm.qos, "slurm: {qos}"),
        "constraint" if is_word => set(&mut slurm.constraint, "slurm: {constraint}"),
        "reservation" if is_plain_name(text) => set(&mut draft.reservation, "reservation"),
        "chdir" if !text.is_empty() && !text.starts_with('~') => set(&mut draft.workdir, "workdir"),
        "account" | "qos" | "constraint" | "chdir" | "reservation" => no_word(),
        "partition" | "licenses" if !is_word => no_word(),
        "partition" | "licenses" => {
            let parts = value::list(text);
            match name {
                "partition" => slurm.partition = parts,
                _ => slurm.licenses = parts,
            }
            field(format!("slurm: {{{name}}}"))
        }
        "nodelist" | "exclude" => nodes(draft, name, text),
        "time" => time(draft, text),
        "array" => array(draft, text),
        "dependency" => dependency(draft, text),
        "begin" => match value::from_now(text) {
            Some(seconds) => {
                draft.begin = Some(seconds).filter(|seconds| *seconds > 0);
                field("begin")
            }
            None => nothing(
                "an hour of the cluster's time zone: write `begin: 2030-01-31T06:00:00Z`, or `+2h`",
            ),
        },
        "hold" => {
            draft.hold = true;
            field("hold")
        }
        "nice" => nice(draft, one.value.as_deref()),
        "signal" => signal(draft, text),
        "requeue" | "no-requeue" => {
            slurm.requeue = Some(name == "requeue");
            field("slurm: {requeue}")
        }
        "exclusive" if text.is_empty() => {
            slurm.exclusive = true;
            field("slurm: {exclusive: true}")
        }
        "switches" => switches(draft, text),
        "segment" => match value::count(text) {
            Some(count) if count > 0 => {
                slurm.segment = Some(count);
                field("slurm: {segment}")
            }
            _ => nothing("no number of nodes"),
        },
        "export" => export(draft, text),
        _ => own_or_raw(draft, one, name, text),
    }
}

/// A file for the output. sbatch writes it anew, which would take away what an element or a start
/// before has written.
fn output(draft: &mut Draft, name: &str, text: &str) -> Verdict {
    if let Err(why) = muster_model::output::parts(text) {
        return nothing(format!("{why}; Muster keeps the output itself (`muster logs`)"));
    }
    match name {
        "output" => draft.files.output = Some(text.to_owned()),
        _ => draft.files.error = Some(text.to_owned()),
    }
    near(format!("{name}; it is appended to, and its folder is made where it is not there"))
}

/// What Muster does by itself, what is about the submission, and the rest, which is handed on.
fn own_or_raw(draft: &mut Draft, one: &Given, name: &str, text: &str) -> Verdict {
    match name {
        "output" | "error" => output(draft, name, text),
        "open-mode" if text == "append" => {
            near("output that goes into a file is always appended to")
        }
        "open-mode" => nothing(
            "output is always appended to: a new start takes away nothing of the one before",
        ),
        "comment" => nothing("Muster marks its jobs in the comment"),
        "kill-on-invalid-dep" if text == "yes" => {
            field("a job whose dependency cannot be met ends")
        }
        "kill-on-invalid-dep" => nothing("a job whose dependency cannot be met always ends"),
        "wait" => nothing("about the submission, not the job: `muster run --wait`"),
        "test-only" => nothing("about the submission, not the job: `muster run --dry-run`"),
        "parsable" | "quiet" | "verbose" | "help" | "usage" | "version" | "ignore-pbs"
        | "immediate" => nothing("about the submission, not the job"),
        "exclusive" if !matches!(text, "user" | "mcs" | "topo") => {
            nothing("sbatch has no such value")
        }
        "wrap" => nothing("a script has its own commands"),
        "uid" | "gid" => nothing("a job runs as its submitter"),
        _ => raw(draft, one, name),
    }
}

/// Hands an option on as it is.
fn raw(draft: &mut Draft, one: &Given, name: &str) -> Verdict {
    let option = match one.value.as_deref() {
        None | Some("") => format!("--{name}"),
        Some(value) => format!("--{name}={value}"),
    };
    if option.chars().any(|c| c.is_control() || matches!(c, '"' | '\'' | '\\' | '#')) {
        return nothing("quotes, `#` and backslashes cannot be handed on");
    }
    draft.slurm.options.push(option.clone());
    (Becomes::Raw, format!("slurm: {{options: {option}}}"))
}

fn named(draft: &mut Draft, text: &str) -> Verdict {
    match job_name(text) {
        Some(name) if name == text => {
            draft.name = name;
            field("name")
        }
        Some(name) => {
            let says = format!(
                "name: `{name}`; a name has letters, digits, `.`, `_`, `-`, at most {NAME_CHARACTERS}"
            );
            draft.name = name;
            near(says)
        }
        None => nothing("no letter or digit of it can stand in a name"),
    }
}

/// A name that a job can have, of any text.
pub(super) fn job_name(text: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String =
        text.chars().map(|c| if allowed(c) { c } else { '-' }).take(NAME_CHARACTERS).collect();
    let name = name.trim_matches('-').trim_start_matches('.');
    name.contains(|c: char| c.is_ascii_alphanumeric()).then(|| name.to_owned())
}

/// Names, perhaps with one list of numbers in brackets each.
fn nodes(draft: &mut Draft, name: &str, text: &str) -> Verdict {
    let parts = value::list(text);
    let is_name = |part: &String| {
        let brackets = part.matches('[').count();
        brackets <= 1
            && brackets == part.matches(']').count()
            && part.chars().all(|c| {
                c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '[' | ']' | ',')
            })
    };
    if parts.is_empty() || !parts.iter().all(is_name) {
        return nothing(
            "names of nodes such as `node[01-04]` can stand in a job, files and other patterns cannot",
        );
    }
    match name {
        "exclude" => {
            draft.exclude = parts;
            field("exclude")
        }
        _ => {
            draft.slurm.nodelist = parts;
            field("slurm: {nodelist}")
        }
    }
}

fn time(draft: &mut Draft, text: &str) -> Verdict {
    match value::limit(text) {
        Some(Limit::Minutes(count)) => {
            draft.time = Some(count);
            field(format!("time: {}", value::minutes(count)))
        }
        Some(Limit::None) => near("no `time`: the partition's default limit counts, not endless"),
        None => nothing("no time of Slurm: minutes, HH:MM:SS, D-HH:MM:SS"),
    }
}

fn array(draft: &mut Draft, text: &str) -> Verdict {
    let (list, cap) = text.split_once('%').map_or((text, None), |(list, cap)| (list, Some(cap)));
    let ranges: Option<Vec<IndexRange>> = list.split(',').map(range).collect();
    let cap = cap.map(|cap| cap.parse().ok().filter(|cap| *cap > 0));
    let (Some(ranges), None | Some(Some(_))) = (ranges, cap) else {
        return nothing("no indices that an array can have");
    };
    let elements: u64 = ranges.iter().map(|range| u64::from(range.count())).sum();
    if elements > ARRAY_ELEMENTS {
        return nothing("more elements than an array can have");
    }
    let array = match ranges[..] {
        [IndexRange { first, last, step }] => Some(Array::range(first, last, step, cap.flatten())),
        _ => Array::list(ranges.into_iter().flat_map(IndexRange::indices).collect(), cap.flatten()),
    };
    draft.array = array.map(|array| array.to_string());
    field("array")
}

/// `7`, `0-199`, `1-9:2`.
fn range(text: &str) -> Option<IndexRange> {
    let (ends, step) = text.split_once(':').unwrap_or((text, "1"));
    let (first, last) = ends.split_once('-').unwrap_or((ends, ends));
    let range = IndexRange {
        first: first.parse().ok()?,
        last: last.parse().ok()?,
        step: step.parse().ok()?,
    };
    (range.step > 0 && range.first <= range.last && range.last <= i32::MAX as u32).then_some(range)
}

fn dependency(draft: &mut Draft, text: &str) -> Verdict {
    if text.contains('?') {
        return nothing(
            "with `?` the first of them that holds is enough, and a job waits for all of them",
        );
    }
    let (mut after, mut is_single) = (Vec::new(), false);
    for part in text.split(',') {
        let mut words = part.split(':');
        let kind = words.next().unwrap_or_default();
        if part == "singleton" {
            is_single = true;
            continue;
        }
        if !matches!(kind, "after" | "afterany" | "afterok" | "afternotok") {
            return nothing(format!(
                "a job waits by after, afterok, afterany and afternotok of all, and by singleton, not by `{part}`"
            ));
        }
        for job in words {
            let is_number =
                |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            match job.split_once(['+', '_']) {
                None if is_number(job) => after.push(format!("{kind}:{job}")),
                Some((job, minutes))
                    if is_number(job) && is_number(minutes) && part.contains('+') =>
                {
                    return nothing(format!(
                        "a job waits for {job} alone, not {minutes} minutes more"
                    ));
                }
                Some((whole, _)) if is_number(whole) && job.contains('_') => {
                    return nothing(format!(
                        "a job waits for all of an array, not for `{job}` of it"
                    ));
                }
                _ => return nothing(format!("`{job}` is no number of a job")),
            }
        }
    }
    let says = match (after.is_empty(), is_single) {
        (true, _) => "slurm: {singleton: true}",
        (false, true) => "after, and slurm: {singleton: true}",
        (false, false) => "after",
    };
    (draft.after, draft.slurm.singleton) = (after, is_single);
    field(says)
}

fn nice(draft: &mut Draft, text: Option<&str>) -> Verdict {
    match text.map_or(Ok(NICE), str::parse::<i64>) {
        Ok(0) => field("priority: 0, as by default"),
        Ok(nice) if (1..=1_000_000).contains(&nice) => {
            draft.priority = Some(-nice);
            field("priority")
        }
        _ => nothing("in Slurm only operators raise a priority"),
    }
}

fn signal(draft: &mut Draft, text: &str) -> Verdict {
    let (whom, rest) = match text.split_once(':') {
        Some((whom, rest)) => (whom, rest),
        None => ("", text),
    };
    let (name, lead) = rest
        .split_once('@')
        .map_or((rest, Some(LEAD_SECS)), |(name, lead)| (name, lead.parse().ok()));
    let name = name.trim().to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name).to_owned();
    let name = match name.as_str() {
        "10" => "USR1".to_owned(),
        "12" => "USR2".to_owned(),
        "15" => "TERM".to_owned(),
        "28" => "WINCH".to_owned(),
        _ => name,
    };
    let Some(lead) = lead.filter(|lead| *lead > 0) else {
        return nothing("no time before the limit");
    };
    if !SIGNALS.contains(&name.as_str()) {
        return nothing(format!("a checkpoint is asked for by one of {}", SIGNALS.join(", ")));
    }
    draft.checkpoint = Some(Checkpoint { signal: name, lead_secs: lead, ..Checkpoint::default() });
    match whom {
        "" => field("checkpoint"),
        _ if whom.contains('B') => {
            near("checkpoint: every task gets the signal, not the batch shell alone")
        }
        _ => near("checkpoint; the job of a reservation that ends is not signalled"),
    }
}

fn switches(draft: &mut Draft, text: &str) -> Verdict {
    let (count, wait) = text
        .split_once('@')
        .map_or((text, None), |(count, wait)| (count, Some(value::limit(wait))));
    let (Some(count), None | Some(Some(_))) =
        (value::count(count).filter(|count| *count > 0), wait)
    else {
        return nothing("no number of switches");
    };
    draft.slurm.switches = Some(count);
    if let Some(Some(Limit::Minutes(wait))) = wait {
        draft.slurm.switches_wait = Some(wait);
    }
    field("slurm: {switches}")
}

/// `ALL` is what Muster does; variables that it sets are the job's own.
fn export(draft: &mut Draft, text: &str) -> Verdict {
    let parts: Vec<&str> = text.split(',').collect();
    if parts == ["ALL"] {
        return field("a job gets its submitter's environment");
    }
    let is_pair = |part: &&str| {
        part.split_once('=').is_some_and(|(name, _)| super::super::script::quote::is_variable(name))
    };
    match parts.split_first() {
        Some((&"ALL", rest)) if rest.iter().all(is_pair) => {
            let pairs = rest.iter().filter_map(|part| part.split_once('='));
            draft.env.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
            field("env")
        }
        _ if text.contains('=') => {
            nothing("variables are set by `env`, beside all of the submitter's")
        }
        _ => {
            let option = format!("--export={text}");
            draft.slurm.options.push(option.clone());
            (Becomes::Raw, format!("slurm: {{options: {option}}}"))
        }
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '#'))
}

fn is_plain_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// What the options ask for, in one way of writing, so that two scripts can be compared.
pub(super) fn asks(script: &Script<'_>, sizes: &[Sizes]) -> BTreeMap<String, String> {
    let mut asks = BTreeMap::new();
    for (index, (given, sizes)) in script.components.iter().zip(sizes).enumerate() {
        let mut scratch = Draft { groups: vec![Group::default()], ..Draft::default() };
        let prefix = if index > 0 { format!("{index}:") } else { String::new() };
        let mut put = |name: &str, value: String| asks.insert(format!("{prefix}{name}"), value);
        size::asks(sizes, &mut put);
        for one in given {
            let Some(name) = one.name.filter(|name| !size::NAMES.contains(name)) else { continue };
            let text = one.value.as_deref().unwrap_or_default();
            // What Muster always does; variables beside it are the job's, and no option.
            if name == "export" && text.split(',').next() == Some("ALL") {
                continue;
            }
            let normal = normal(&mut scratch, one, name, text);
            put(if name == "no-requeue" { "requeue" } else { name }, normal);
        }
    }
    asks
}
