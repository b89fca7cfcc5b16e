//! Translation of each option of a script to the job file: a field, a raw option, or nothing with
//! the reason. Every option is in the report.

pub(super) mod container;
mod early;
mod size;

use std::collections::BTreeMap;

use muster_model::imported::{ImportOutcome, ImportedOption};
use muster_model::{Array, IndexRange};

use super::draft::{DraftCheckpoint, DraftGroup, ImportedJob};
use super::option::GivenOption;
use super::read::BatchScript;
use super::sizes::{Memory, RequestedSizes};
use super::value::{self, Limit};

pub(super) use early::normal;

/// Maximum length of a job's name.
const NAME_CHARACTERS: usize = 64;
/// Value of `--nice` without a number (sbatch(1)).
const NICE: i64 = 100;
/// Seconds of `--signal` without a time (sbatch(1)).
const LEAD_SECS: u64 = 60;
/// Signals that a job file accepts, which a program can handle.
const SIGNALS: [&str; 9] = ["ALRM", "CONT", "HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH"];
/// Maximum number of elements of an array in a job file.
const ARRAY_ELEMENTS: u64 = 100_000;

/// Result of the translation of an option.
type Translation = (ImportOutcome, String);

fn field(name: impl Into<String>) -> Translation {
    (ImportOutcome::Field, name.into())
}

fn near(says: impl Into<String>) -> Translation {
    (ImportOutcome::Near, says.into())
}

fn nothing(why: impl Into<String>) -> Translation {
    (ImportOutcome::NotMapped, why.into())
}

/// Builds the job without its programs, and the result for every option.
pub(super) fn draft(
    script: &BatchScript<'_>,
    name: &str,
) -> (ImportedJob, Vec<ImportedOption>, Vec<RequestedSizes>) {
    let mut draft = ImportedJob {
        name: job_name(name).unwrap_or_else(|| "job".to_owned()),
        ..ImportedJob::default()
    };
    let mut answers = Vec::new();
    let mut all_sizes = Vec::new();
    let is_het = script.components.len() > 1;
    for (index, given) in script.components.iter().enumerate() {
        // 1. Sizes are translated together.
        let sizes = RequestedSizes::of(given);
        let (mut group, verdicts) = size::group(&sizes, given, is_het);
        group.name = is_het.then(|| format!("part{index}"));
        if sizes.memory == Some(Memory::WholeNode) && !is_het {
            draft.slurm.options.push("--mem=0".to_owned());
        }
        draft.groups.push(group);
        // 2. Each other option by itself; of a repeated one the last counts.
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
                        group_placement(group, name, one.value.as_deref().unwrap_or_default())
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
    // 3. Directives without an option, and those that sbatch never reads.
    for (line, word) in &script.hets {
        answers.push(line_answer(*line, word, "hetjob", field("groups: one per component")));
    }
    for (line, text) in &script.late {
        let why = nothing("it is after the first command: sbatch does not read it");
        answers.push(line_answer(*line, text, "", why));
    }
    answers.sort_by_key(|answer| answer.line);
    early::checks(&mut draft, &mut answers);
    (draft, answers, all_sizes)
}

fn answer(one: &GivenOption, translation: Translation) -> ImportedOption {
    line_answer(one.line, &one.written, one.name.unwrap_or_default(), translation)
}

fn line_answer(
    line: u32,
    written: &str,
    option: &str,
    (becomes, text): Translation,
) -> ImportedOption {
    let written = written.to_owned();
    ImportedOption { line, written, option: option.to_owned(), becomes, text }
}

fn unknown(written: &str) -> String {
    match written {
        _ if written.starts_with("--") => {
            "sbatch itself has no such option: a plugin of the site may have it, else sbatch rejects the script"
                .to_owned()
        }
        _ if written.starts_with('-') => "sbatch has no such option, and rejects the script".to_owned(),
        _ => "not an option: sbatch ignores it".to_owned(),
    }
}

/// Sets the partition or constraint of a component. sbatch does not inherit them between
/// components.
fn group_placement(group: &mut DraftGroup, name: &str, text: &str) -> Translation {
    if !is_word(text) {
        return nothing("this field cannot contain blanks, quotes, `#` or backslashes");
    }
    match name {
        "partition" => group.partition = value::list(text),
        _ => group.constraint = Some(text.to_owned()),
    }
    field(format!("slurm: {{{name}}}, of its group where groups differ"))
}

/// Moves options that all groups share to the job.
fn same_everywhere(draft: &mut ImportedJob) {
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

/// Translates an option of a component after the first: options of the whole job count only in the
/// first.
fn of_later(script: &BatchScript<'_>, one: &GivenOption, name: &str) -> Translation {
    match script.last(name) {
        Some(first) if first.value == one.value => field("the same for all groups"),
        _ => nothing("a group has only its own sizes; other options are for the whole job"),
    }
}

/// Translates a single option.
fn single(draft: &mut ImportedJob, one: &GivenOption, name: &'static str) -> Translation {
    let text = one.value.as_deref().unwrap_or_default();
    let is_word = is_word(text);
    let slurm = &mut draft.slurm;
    let no_word = || nothing("this field cannot contain blanks, quotes, `#` or backslashes");
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
            _ => nothing("not a number of nodes"),
        },
        "export" => export(draft, text),
        _ => own_or_raw(draft, one, name, text),
    }
}

/// Sets an output file. sbatch truncates it by default, which would remove the output of earlier
/// elements or starts.
fn output(draft: &mut ImportedJob, name: &str, text: &str) -> Translation {
    if let Err(why) = muster_model::output::parts(text) {
        return nothing(format!("{why}; Muster stores the output itself (`muster logs`)"));
    }
    match name {
        "output" => draft.files.output = Some(text.to_owned()),
        _ => draft.files.error = Some(text.to_owned()),
    }
    near(format!("{name}; output is appended, and a missing directory is created"))
}

/// Translates options that are Muster's defaults, that concern only the submission, and all others,
/// which are passed on.
fn own_or_raw(draft: &mut ImportedJob, one: &GivenOption, name: &str, text: &str) -> Translation {
    match name {
        "output" | "error" => output(draft, name, text),
        "open-mode" if text == "append" => near("output to a file is always appended"),
        "open-mode" => {
            nothing("output is always appended: a new start keeps the output of the one before")
        }
        "comment" => nothing("Muster uses the comment for its job id"),
        "kill-on-invalid-dep" if text == "yes" => {
            field("a job whose dependency cannot be met is cancelled")
        }
        "kill-on-invalid-dep" => {
            nothing("a job whose dependency cannot be met is always cancelled")
        }
        "wait" => nothing("concerns the submission, not the job: `muster run --wait`"),
        "test-only" => nothing("concerns the submission, not the job: `muster run --dry-run`"),
        "parsable" | "quiet" | "verbose" | "help" | "usage" | "version" | "ignore-pbs"
        | "immediate" => nothing("concerns the submission, not the job"),
        "exclusive" if !matches!(text, "user" | "mcs" | "topo") => {
            nothing("sbatch has no such value")
        }
        "wrap" => nothing("a script has its own commands"),
        "uid" | "gid" => nothing("a job runs as the user who submits it"),
        _ => raw(draft, one, name),
    }
}

/// Passes an option on unchanged.
fn raw(draft: &mut ImportedJob, one: &GivenOption, name: &str) -> Translation {
    let option = match one.value.as_deref() {
        None | Some("") => format!("--{name}"),
        Some(value) => format!("--{name}={value}"),
    };
    if option.chars().any(|c| c.is_control() || matches!(c, '"' | '\'' | '\\' | '#')) {
        return nothing("quotes, `#` and backslashes cannot be passed on");
    }
    draft.slurm.options.push(option.clone());
    (ImportOutcome::Raw, format!("slurm: {{options: {option}}}"))
}

fn named(draft: &mut ImportedJob, text: &str) -> Translation {
    match job_name(text) {
        Some(name) if name == text => {
            draft.name = name;
            field("name")
        }
        Some(name) => {
            let says = format!(
                "name: `{name}`; a name has at most {NAME_CHARACTERS} letters, digits, `.`, `_`, `-`"
            );
            draft.name = name;
            near(says)
        }
        None => nothing("it has no letter or digit for a name"),
    }
}

/// Derives a valid job name from any text.
pub(super) fn job_name(text: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String =
        text.chars().map(|c| if allowed(c) { c } else { '-' }).take(NAME_CHARACTERS).collect();
    let name = name.trim_matches('-').trim_start_matches('.');
    name.contains(|c: char| c.is_ascii_alphanumeric()).then(|| name.to_owned())
}

/// Translates node names, each with at most one list of numbers in brackets.
fn nodes(draft: &mut ImportedJob, name: &str, text: &str) -> Translation {
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
            "a job accepts node names such as `node[01-04]`, but no files and other patterns",
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

fn time(draft: &mut ImportedJob, text: &str) -> Translation {
    match value::limit(text) {
        Some(Limit::Minutes(count)) => {
            draft.time = Some(count);
            field(format!("time: {}", value::minutes(count)))
        }
        Some(Limit::None) => {
            near("no `time`: the partition's default limit applies, not unlimited")
        }
        None => nothing("not a time of Slurm: minutes, HH:MM:SS, D-HH:MM:SS"),
    }
}

fn array(draft: &mut ImportedJob, text: &str) -> Translation {
    let (list, cap) = text.split_once('%').map_or((text, None), |(list, cap)| (list, Some(cap)));
    let ranges: Option<Vec<IndexRange>> = list.split(',').map(range).collect();
    let cap = cap.map(|cap| cap.parse().ok().filter(|cap| *cap > 0));
    let (Some(ranges), None | Some(Some(_))) = (ranges, cap) else {
        return nothing("not a valid index list");
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

/// Parses an index range: `7`, `0-199`, `1-9:2`.
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

fn dependency(draft: &mut ImportedJob, text: &str) -> Translation {
    if text.contains('?') {
        return nothing("with `?` one met dependency is enough, but a job waits for all of them");
    }
    let mut after = Vec::new();
    let mut is_single = false;
    for part in text.split(',') {
        let mut words = part.split(':');
        let kind = words.next().unwrap_or_default();
        if part == "singleton" {
            is_single = true;
            continue;
        }
        if !matches!(kind, "after" | "afterany" | "afterok" | "afternotok") {
            return nothing(format!(
                "a job supports after, afterok, afterany and afternotok, and singleton, but not `{part}`"
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
                        "a job waits for {job} only, not for {minutes} minutes more"
                    ));
                }
                Some((whole, _)) if is_number(whole) && job.contains('_') => {
                    return nothing(format!(
                        "a job waits for a whole array, not for `{job}` of it"
                    ));
                }
                _ => return nothing(format!("`{job}` is not a job number")),
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

fn nice(draft: &mut ImportedJob, text: Option<&str>) -> Translation {
    match text.map_or(Ok(NICE), str::parse::<i64>) {
        Ok(0) => field("priority: 0, as by default"),
        Ok(nice) if (1..=1_000_000).contains(&nice) => {
            draft.priority = Some(-nice);
            field("priority")
        }
        _ => nothing("in Slurm only operators raise a priority"),
    }
}

fn signal(draft: &mut ImportedJob, text: &str) -> Translation {
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
        return nothing("not a time before the limit");
    };
    if !SIGNALS.contains(&name.as_str()) {
        return nothing(format!("a checkpoint is requested by one of {}", SIGNALS.join(", ")));
    }
    draft.checkpoint =
        Some(DraftCheckpoint { signal: name, lead_secs: lead, ..DraftCheckpoint::default() });
    match whom {
        "" => field("checkpoint"),
        _ if whom.contains('B') => {
            near("checkpoint: every task gets the signal, not the batch shell alone")
        }
        _ => near("checkpoint; there is no signal when a reservation ends"),
    }
}

fn switches(draft: &mut ImportedJob, text: &str) -> Translation {
    let (count, wait) = text
        .split_once('@')
        .map_or((text, None), |(count, wait)| (count, Some(value::limit(wait))));
    let (Some(count), None | Some(Some(_))) =
        (value::count(count).filter(|count| *count > 0), wait)
    else {
        return nothing("not a number of switches");
    };
    draft.slurm.switches = Some(count);
    if let Some(Some(Limit::Minutes(wait))) = wait {
        draft.slurm.switches_wait = Some(wait);
    }
    field("slurm: {switches}")
}

/// Translates `--export`: `ALL` is Muster's default, variables in it become the job's own.
fn export(draft: &mut ImportedJob, text: &str) -> Translation {
    let parts: Vec<&str> = text.split(',').collect();
    if parts == ["ALL"] {
        return field("a job gets the environment of its submission");
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
            nothing("variables are set by `env`, in addition to those of the submission")
        }
        _ => {
            let option = format!("--export={text}");
            draft.slurm.options.push(option.clone());
            (ImportOutcome::Raw, format!("slurm: {{options: {option}}}"))
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

/// Returns the requested options in a normal form, so that two scripts can be compared.
pub(super) fn requested(
    script: &BatchScript<'_>,
    sizes: &[RequestedSizes],
) -> BTreeMap<String, String> {
    let mut asks = BTreeMap::new();
    for (index, (given, sizes)) in script.components.iter().zip(sizes).enumerate() {
        let mut scratch =
            ImportedJob { groups: vec![DraftGroup::default()], ..ImportedJob::default() };
        let prefix = if index > 0 { format!("{index}:") } else { String::new() };
        let mut put = |name: &str, value: String| asks.insert(format!("{prefix}{name}"), value);
        size::requested(sizes, &mut put);
        for one in given {
            let Some(name) = one.name.filter(|name| !size::NAMES.contains(name)) else { continue };
            let text = one.value.as_deref().unwrap_or_default();
            // Muster's default; variables in it are the job's.
            if name == "export" && text.split(',').next() == Some("ALL") {
                continue;
            }
            let normal = normal(&mut scratch, one, name, text);
            put(if name == "no-requeue" { "requeue" } else { name }, normal);
        }
    }
    asks
}
