//! Parser of one line of a script and the mapping below it, to a [`ScriptCommand`]. Mappings are
//! read by `muster-spec`, with the lines and columns of the script. It executes nothing.

use std::collections::BTreeMap;
use std::str::SplitWhitespace;

use muster_model::{
    AdvanceReservation, AdvanceReservationTimes, Bytes, CpuMilli, DeviceSet, Replicas,
    ReservedResources, Span, TaskExit, Time,
};
use muster_spec::quantity::{parse_bytes, parse_cpus, parse_range, parse_span};
use muster_spec::{Colour, Diagnostics, expand_names};

use super::command::{
    CrashPoint, JobRequest, NodeChange, SaveAge, ScriptCheckpoint, ScriptCommand, ScriptJobRef,
    ScriptQuestion, ScriptedBehaviour, StartBehaviour, TaskEvent, VERBS, WorldEvent, WorldSetting,
};
use super::script_error::ScriptError;

/// Program of jobs that name none; it is never run.
const NO_PROGRAM: &str = "true";

/// A line with the indented lines below it.
pub(crate) struct ScriptLine<'a> {
    /// Name of the script, for places in mappings.
    pub(crate) file: &'a str,
    /// Line of the verb, from 1.
    pub(crate) line: usize,
    /// Characters of the line before the verb.
    pub(crate) indent: usize,
    /// From the verb on, with all lines below.
    pub(crate) text: &'a str,
}

pub(crate) fn command(written: &ScriptLine<'_>) -> Result<ScriptCommand, ScriptError> {
    let first = written.text.lines().next().unwrap_or_default();
    let end = first.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(first.len());
    let verb = &first[..end];
    if !VERBS.iter().any(|(known, _)| *known == verb) {
        let known = VERBS.iter().map(|(known, _)| *known);
        return Err(ScriptError::at(written.line, format!("there is no command `{verb}`"))
            .with_suggestion(verb, known));
    }
    let takes_mapping = match verb {
        "cluster" | "submit" | "would" => true,
        "queues" => first[end..].starts_with(':'),
        _ => false,
    };
    if takes_mapping {
        return with_mapping(written, verb, first);
    }
    if written.text.lines().nth(1).is_some() {
        return Err(ScriptError::at(written.line + 1, format!("`{verb}` takes no indented lines"))
            .hint(format!("usage: {}", usage(verb))));
    }
    let mut words = Words { line: written.line, verb, rest: first[end..].split_whitespace() };
    let command = plain(verb, &mut words)?;
    words.finish()?;
    Ok(command)
}

fn usage(verb: &str) -> &'static str {
    VERBS.iter().find(|(known, _)| *known == verb).map_or("", |(_, usage)| usage)
}

/// Parses a verb without a mapping.
fn plain(verb: &str, words: &mut Words<'_>) -> Result<ScriptCommand, ScriptError> {
    match verb {
        "advance" => Ok(ScriptCommand::Advance(words.span()?)),
        "until" => words.until(),
        "crash" => words.crash(),
        "restart" => Ok(ScriptCommand::Restart),
        "disk-full" => Ok(ScriptCommand::Arrange(WorldSetting::Disk { full: true })),
        "disk-free" => Ok(ScriptCommand::Arrange(WorldSetting::Disk { full: false })),
        "start-fails" => words.starts(|words| {
            Ok(StartBehaviour::Fails(words.rest_or("it cannot be started").into()))
        }),
        "start-takes" => words.starts(|words| Ok(StartBehaviour::Takes(words.span()?))),
        "start-works" => words.starts(|_| Ok(StartBehaviour::Works)),
        "explain" => Ok(ScriptCommand::Ask(ScriptQuestion::Explain(words.element()?))),
        "ps" => Ok(ScriptCommand::Ask(ScriptQuestion::Ps { all: words.flag("all") })),
        "queues" => Ok(ScriptCommand::Ask(ScriptQuestion::Queues)),
        "usage" => Ok(ScriptCommand::Ask(ScriptQuestion::Usage)),
        "nodes" => Ok(ScriptCommand::Ask(ScriptQuestion::Nodes)),
        "reservations" => Ok(ScriptCommand::Ask(ScriptQuestion::Reservations)),
        "windows" => Ok(ScriptCommand::Ask(ScriptQuestion::Windows)),
        _ => event(verb, words),
    }
}

/// Parses a verb of an event without a mapping.
fn event(verb: &str, words: &mut Words<'_>) -> Result<ScriptCommand, ScriptError> {
    match verb {
        "cancel" => words
            .request(|words| Ok(JobRequest::Cancel { by: words.after("by")?.map(str::to_owned) })),
        "scale" => words.request(|words| {
            let replicas = words.replicas()?;
            Ok(JobRequest::Scale { replicas, by: words.after("by")?.map(str::to_owned) })
        }),
        "hold" => words.request(|_| Ok(JobRequest::Hold)),
        "release" => words.request(|_| Ok(JobRequest::Release)),
        "requeue" => words.request(|_| Ok(JobRequest::Requeue)),
        "ends" => Ok(tasks(words.element()?, TaskEvent::End)),
        "idles" => Ok(tasks(words.element()?, TaskEvent::Idle)),
        "fails" => {
            let who = words.job_ref()?;
            let exit = words.exit()?.unwrap_or(TaskExit::Code { code: 1 });
            Ok(tasks(who, TaskEvent::Fail(exit)))
        }
        "loses" => Ok(tasks(words.job_ref()?, TaskEvent::Lose)),
        "saves" => words.save(),
        "node-down" => words.nodes(|_| Ok(NodeChange::Down)),
        "node-up" => words.nodes(|_| Ok(NodeChange::Up)),
        "drain" => words.nodes(|words| words.drain(None)),
        "undrain" => words.nodes(|_| Ok(NodeChange::Undrain { gpus: None })),
        "gpu-drain" => words.nodes(|words| {
            let gpus = words.gpus()?.into_iter().collect();
            words.drain(Some(gpus))
        }),
        "gpu-undrain" => words.nodes(|words| {
            let gpus = words.gpus()?.into_iter().collect();
            Ok(NodeChange::Undrain { gpus: Some(gpus) })
        }),
        "foreign" => words.nodes(Words::foreign),
        "reserve" => words.reserve(),
        "unreserve" => {
            let name = words.take("a name")?.to_owned();
            Ok(ScriptCommand::Happens(WorldEvent::Unreserve { name }))
        }
        verb => Err(ScriptError::at(words.line, format!("`{verb}` needs a mapping"))),
    }
}

fn tasks(who: ScriptJobRef, task_event: TaskEvent) -> ScriptCommand {
    ScriptCommand::Happens(WorldEvent::Tasks { who, task_event })
}

/// Parses a verb with a mapping behind a colon.
fn with_mapping(
    written: &ScriptLine<'_>,
    verb: &str,
    first: &str,
) -> Result<ScriptCommand, ScriptError> {
    let Some(colon) = first.find(':') else {
        return Err(ScriptError::at(written.line, format!("`{verb}` has no mapping"))
            .hint(format!("usage: {}", usage(verb))));
    };
    // The mapping as a text of its own in which every character has the position it has in the
    // script.
    let before = "\n".repeat(written.line - 1) + &" ".repeat(written.indent + colon + 1);
    let text = before + &written.text[colon + 1..];
    let file = Some(written.file);
    let wrong = |diagnostics: Diagnostics| {
        let line = diagnostics.iter().map(|one| one.line as usize).find(|line| *line > 0);
        ScriptError::at(line.unwrap_or(written.line), diagnostics.render(Colour::Never))
    };
    let mut words =
        Words { line: written.line, verb, rest: first[verb.len()..colon].split_whitespace() };
    let documents = || {
        // A field from outside replaces that of the text, so only if the text has none.
        let has_program = text.contains("run:");
        let program = (!has_program).then(|| ("run".to_owned(), NO_PROGRAM.into()));
        muster_spec::parse(&text, file, &program.into_iter().collect()).map_err(wrong)
    };
    let command = match verb {
        "cluster" => ScriptCommand::Happens(WorldEvent::Cluster(
            muster_spec::parse_cluster(&text, file).map_err(wrong)?,
        )),
        "queues" => ScriptCommand::Happens(WorldEvent::Queues(
            muster_spec::parse_queues(&text, file).map_err(wrong)?,
        )),
        "would" => ScriptCommand::Ask(ScriptQuestion::Would {
            user: words.take("a user")?.to_owned(),
            documents: documents()?,
        }),
        _ => {
            let user = words.take("a user")?.to_owned();
            let lasts = words.after("lasts")?;
            let lasts = lasts.map(|text| words.parse_span(text)).transpose()?;
            let exit = words.exit()?.unwrap_or(TaskExit::Code { code: 0 });
            let stubborn = words.flag("stubborn");
            let behaviour = ScriptedBehaviour { lasts, exit, stubborn };
            words.finish()?;
            ScriptCommand::Happens(WorldEvent::Submit { user, behaviour, documents: documents()? })
        }
    };
    words.finish()?;
    Ok(command)
}

/// Words of a line that are not parsed yet.
struct Words<'a> {
    line: usize,
    verb: &'a str,
    rest: SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn error(&self, message: impl Into<String>) -> ScriptError {
        ScriptError::at(self.line, message).hint(format!("usage: {}", usage(self.verb)))
    }

    fn take(&mut self, what: &str) -> Result<&'a str, ScriptError> {
        self.rest.next().ok_or_else(|| self.error(format!("`{}` without {what}", self.verb)))
    }

    fn finish(&mut self) -> Result<(), ScriptError> {
        match self.rest.next() {
            None => Ok(()),
            Some(word) => Err(self.error(format!("unexpected word `{word}`"))),
        }
    }

    /// Consumes the word if it is the next one.
    fn flag(&mut self, word: &str) -> bool {
        let mut ahead = self.rest.clone();
        let found = ahead.next() == Some(word);
        if found {
            self.rest = ahead;
        }
        found
    }

    /// Returns the word behind this one, if this is the next one.
    fn after(&mut self, word: &str) -> Result<Option<&'a str>, ScriptError> {
        if self.flag(word) {
            self.take(&format!("a word after `{word}`")).map(Some)
        } else {
            Ok(None)
        }
    }

    fn rest_or(&mut self, default: &str) -> String {
        let words: Vec<&str> = self.rest.by_ref().collect();
        if words.is_empty() { default.to_owned() } else { words.join(" ") }
    }

    fn number(&self, text: &str) -> Result<u32, ScriptError> {
        text.parse().map_err(|_| self.error(format!("`{text}` is not a whole number")))
    }

    fn parse_span(&self, text: &str) -> Result<Span, ScriptError> {
        let span = parse_span(text).map_err(|error| {
            self.error(format!("`{text}` is not a length of time: {}", error.label))
        })?;
        if span == Span(0) {
            Err(self.error("the length of time must be more than 0s"))
        } else {
            Ok(span)
        }
    }

    fn span(&mut self) -> Result<Span, ScriptError> {
        let text = self.take("a length of time")?;
        self.parse_span(text)
    }

    /// Parses `left`, `sweep[3]`, `left/1` or `sweep[3]/1`.
    fn job_ref(&mut self) -> Result<ScriptJobRef, ScriptError> {
        let text = self.take("a job")?;
        let (element, rank) = match text.split_once('/') {
            Some((element, rank)) => (element, Some(self.number(rank)?)),
            None => (text, None),
        };
        let (job, index) = match element.strip_suffix(']').and_then(|text| text.split_once('[')) {
            Some((job, index)) => (job, Some(self.number(index)?)),
            None => (element, None),
        };
        Ok(ScriptJobRef { job: job.to_owned(), index, rank })
    }

    /// Parses the same without a rank.
    fn element(&mut self) -> Result<ScriptJobRef, ScriptError> {
        let who = self.job_ref()?;
        match who.rank {
            None => Ok(who),
            Some(_) => {
                Err(self.error(format!("`{}` applies to all tasks; omit the rank", self.verb)))
            }
        }
    }

    /// Parses `3` or `2..6`.
    fn replicas(&mut self) -> Result<Replicas, ScriptError> {
        let text = self.take("a number of replicas")?;
        let (floor, ceiling) = parse_range(text).map_err(|error| {
            self.error(format!("`{text}` is not a number of replicas: {}", error.label))
        })?;
        match (u32::try_from(floor), u32::try_from(ceiling)) {
            (Ok(floor), Ok(ceiling)) => Ok(Replicas { guaranteed: floor, max: ceiling }),
            _ => Err(self.error(format!("`{text}` is not a number of replicas"))),
        }
    }

    /// Parses `exits 3`, `signal 9` or `out-of-memory`.
    fn exit(&mut self) -> Result<Option<TaskExit>, ScriptError> {
        if let Some(code) = self.after("exits")? {
            let code = self.number(code)?;
            let code = i32::try_from(code).ok().filter(|code| *code <= 255);
            let code = code.ok_or_else(|| self.error("an exit code is at most 255"))?;
            return Ok(Some(TaskExit::Code { code }));
        }
        if let Some(signal) = self.after("signal")? {
            let signal =
                i32::try_from(self.number(signal)?).map_err(|_| self.error("no such signal"))?;
            return Ok(Some(TaskExit::Signal { signal }));
        }
        Ok(self.flag("out-of-memory").then_some(TaskExit::OutOfMemory))
    }

    /// Parses `left old clock -2h step 7`; the rest is the label.
    fn save(&mut self) -> Result<ScriptCommand, ScriptError> {
        let who = self.job_ref()?;
        let age = match (self.flag("unasked"), self.flag("old")) {
            (true, _) => SaveAge::Unasked,
            (false, true) => SaveAge::Old,
            (false, false) => SaveAge::Asked,
        };
        let clock = match self.after("clock")? {
            None => 0,
            Some(text) => {
                let (sign, span) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
                    (Some(span), _) => (1, span),
                    (None, Some(span)) => (-1, span),
                    (None, None) => return Err(self.error("write `clock +2h` or `clock -2h`")),
                };
                sign * self.parse_span(span)?.0.cast_signed()
            }
        };
        let saved = ScriptCheckpoint { age, clock, label: self.rest_or("").into() };
        Ok(tasks(who, TaskEvent::ScriptCheckpoint(saved)))
    }

    fn node_names(&mut self) -> Result<Vec<String>, ScriptError> {
        let text = self.take("a node")?;
        expand_names(text).map_err(|error| {
            self.error(format!("`{text}` is not a list of nodes: {}", error.label))
        })
    }

    /// Parses a job and the rest of a request about it.
    fn request(
        &mut self,
        verb: impl FnOnce(&mut Self) -> Result<JobRequest, ScriptError>,
    ) -> Result<ScriptCommand, ScriptError> {
        let who = self.element()?;
        Ok(ScriptCommand::Happens(WorldEvent::JobRequest { verb: verb(self)?, who }))
    }

    fn nodes(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<NodeChange, ScriptError>,
    ) -> Result<ScriptCommand, ScriptError> {
        let names = self.node_names()?;
        let change = change(self)?;
        Ok(ScriptCommand::Happens(WorldEvent::Nodes { names, change }))
    }

    fn starts(
        &mut self,
        how: impl FnOnce(&mut Self) -> Result<StartBehaviour, ScriptError>,
    ) -> Result<ScriptCommand, ScriptError> {
        let names = self.node_names()?;
        let how = how(self)?;
        Ok(ScriptCommand::Arrange(WorldSetting::StartBehaviour { names, how }))
    }

    fn gpus(&mut self) -> Result<Vec<usize>, ScriptError> {
        let text = self.take("GPUs such as 0,2-3")?;
        let mut gpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first = self.number(first)? as usize;
            let last = self.number(last)? as usize;
            if first > last || last >= muster_model::DeviceSet::MAX_DEVICES {
                return Err(self.error(format!("`{part}` is not a range of GPUs")));
            }
            gpus.extend(first..=last);
        }
        Ok(gpus)
    }

    /// Parses `at +2h`, `stop`, and the reason.
    fn drain(&mut self, gpus: Option<DeviceSet>) -> Result<NodeChange, ScriptError> {
        let after = match self.after("at")? {
            None => Span(0),
            Some(text) => {
                let span = text.strip_prefix('+').ok_or_else(|| self.error("write `at +2h`"))?;
                self.parse_span(span)?
            }
        };
        let stop = self.flag("stop");
        Ok(NodeChange::Drain { gpus, after, stop, reason: self.rest_or("maintenance").into() })
    }

    /// Parses `night nodes n[1-2] at +6h for 8h every 1d users ann,bob`, in this order.
    fn reserve(&mut self) -> Result<ScriptCommand, ScriptError> {
        let name = self.take("a name")?;
        let what = match self.after("gpus")? {
            Some(count) => {
                let count = self.number(count)?;
                let model = self.after("of")?;
                ReservedResources::Gpus {
                    count,
                    model: model.map(Into::into),
                    labels: BTreeMap::new(),
                }
            }
            None => {
                let text =
                    self.after("nodes")?.ok_or_else(|| self.error("name `nodes` or `gpus`"))?;
                let names = expand_names(text).map_err(|error| self.error(error.label))?;
                ReservedResources::Nodes(names.into_iter().map(Into::into).collect())
            }
        };
        let ahead = self.after("at")?.map(|text| match text.strip_prefix('+') {
            Some("0s") => Ok(Span(0)),
            Some(span) => self.parse_span(span),
            None => Err(self.error("write `at +2h`")),
        });
        let after = ahead.transpose()?.unwrap_or(Span(0));
        let length = self
            .after("for")?
            .ok_or_else(|| self.error("the length is missing; write `for 2h`"))?;
        let length = self.parse_span(length)?;
        let every = self.after("every")?.map(|text| self.parse_span(text)).transpose()?;
        let count = self.after("times")?.map(|text| self.number(text)).transpose()?;
        let list = |text: Option<&str>| -> Vec<String> {
            text.into_iter().flat_map(|text| text.split(',')).map(str::to_owned).collect()
        };
        let users = list(self.after("users")?).into_iter().map(Into::into).collect();
        let queues = list(self.after("queues")?).into_iter().map(Into::into).collect();
        let stop = self.flag("stop");
        let window = AdvanceReservation {
            name: name.into(),
            users,
            queues,
            resources: what,
            times: AdvanceReservationTimes { start: Time(0), length, every, count },
            stop,
            by: Some("root".into()),
            reason: self.rest_or("").into(),
        };
        Ok(ScriptCommand::Happens(WorldEvent::Reserve { window: Box::new(window), after }))
    }

    /// Parses foreign use, which replaces the earlier one.
    fn foreign(&mut self) -> Result<NodeChange, ScriptError> {
        let mut gpus = Vec::new();
        let mut cpus = CpuMilli(0);
        let mut memory = Bytes(0);
        if self.flag("none") {
            return Ok(NodeChange::Foreign { gpus, cpus, memory });
        }
        let mut said = false;
        if self.flag("gpus") {
            (gpus, said) = (self.gpus()?, true);
        }
        if let Some(text) = self.after("cpus")? {
            cpus = parse_cpus(text).map_err(|error| self.error(error.label))?;
            said = true;
        }
        if let Some(text) = self.after("memory")? {
            memory = parse_bytes(text).map_err(|error| self.error(error.label))?;
            said = true;
        }
        if said {
            Ok(NodeChange::Foreign { gpus, cpus, memory })
        } else {
            Err(self.error("`foreign` names no resources"))
        }
    }

    fn until(&mut self) -> Result<ScriptCommand, ScriptError> {
        let text = self.take("a time of day")?;
        if text == "idle" {
            return Ok(ScriptCommand::UntilIdle);
        }
        let parts: Result<Vec<u64>, _> = text.split(':').map(str::parse).collect();
        match parts.as_deref() {
            Ok([hours @ 0..24, minutes @ 0..60]) => {
                Ok(ScriptCommand::Until(hours * 3600 + minutes * 60))
            }
            Ok([hours @ 0..24, minutes @ 0..60, seconds @ 0..60]) => {
                Ok(ScriptCommand::Until(hours * 3600 + minutes * 60 + seconds))
            }
            _ => Err(self.error(format!("`{text}` is not a time of day"))),
        }
    }

    fn crash(&mut self) -> Result<ScriptCommand, ScriptError> {
        let crash = match self.rest.next() {
            None => CrashPoint::Now,
            Some("before-write") => CrashPoint::BeforeWrite,
            Some("after-write") => CrashPoint::AfterWrite,
            Some(word) => {
                let known = ["before-write", "after-write"];
                return Err(ScriptError::at(self.line, format!("there is no crash `{word}`"))
                    .with_suggestion(word, known));
            }
        };
        Ok(ScriptCommand::Arrange(WorldSetting::CrashPoint(crash)))
    }
}
