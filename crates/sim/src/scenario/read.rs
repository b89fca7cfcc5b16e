//! One line of a script and the mapping below it, to a [`Command`]. Mappings are read by
//! `muster-spec`, with the lines and columns of the script. It must not carry anything out.

use std::str::SplitWhitespace;

use muster_model::{
    Bytes, CpuMilli, DeviceSet, Replicas, Span, TaskExit, Time, Window, WindowTimes, WindowWhat,
};
use muster_spec::quantity::{parse_bytes, parse_cpus, parse_range, parse_span};
use muster_spec::{Colour, Diagnostics, expand_names};

use super::command::{
    Age, Arrangement, Command, Conduct, Crash, Deed, Happening, NodeChange, Question, Request,
    Save, Starts, VERBS, Who,
};
use super::mistake::Mistake;

/// What a job runs in a script that does not say: nothing ever runs it.
const NO_PROGRAM: &str = "true";

/// A line with the indented lines below it.
pub(crate) struct Written<'a> {
    /// Name of the script, for places in mappings.
    pub(crate) file: &'a str,
    /// Line of the verb, from 1.
    pub(crate) line: usize,
    /// Characters of the line before the verb.
    pub(crate) indent: usize,
    /// From the verb on, with all lines below.
    pub(crate) text: &'a str,
}

/// Reads a line.
pub(crate) fn command(written: &Written<'_>) -> Result<Command, Mistake> {
    let first = written.text.lines().next().unwrap_or_default();
    let end = first.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(first.len());
    let verb = &first[..end];
    if !VERBS.iter().any(|(known, _)| *known == verb) {
        let known = VERBS.iter().map(|(known, _)| *known);
        return Err(Mistake::at(written.line, format!("`{verb}` is not a word of this language"))
            .near(verb, known));
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
        return Err(Mistake::at(written.line + 1, format!("`{verb}` takes nothing below it"))
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

/// The verbs that are one line.
fn plain(verb: &str, words: &mut Words<'_>) -> Result<Command, Mistake> {
    let request = |verb, words: &mut Words<'_>| {
        Ok(Command::Happens(Happening::Request { verb, who: words.element()? }))
    };
    match verb {
        "cancel" => {
            let who = words.element()?;
            let by = words.after("by")?.map(str::to_owned);
            Ok(Command::Happens(Happening::Request { verb: Request::Cancel { by }, who }))
        }
        "scale" => {
            let who = words.element()?;
            let replicas = words.replicas()?;
            let by = words.after("by")?.map(str::to_owned);
            Ok(Command::Happens(Happening::Request { verb: Request::Scale { replicas, by }, who }))
        }
        "idles" => {
            Ok(Command::Happens(Happening::Tasks { who: words.element()?, deed: Deed::Idle }))
        }
        "hold" => request(Request::Hold, words),
        "release" => request(Request::Release, words),
        "requeue" => request(Request::Requeue, words),
        "ends" => Ok(Command::Happens(Happening::Tasks { who: words.element()?, deed: Deed::End })),
        "fails" => {
            let who = words.who()?;
            let exit = words.exit()?.unwrap_or(TaskExit::Code { code: 1 });
            Ok(Command::Happens(Happening::Tasks { who, deed: Deed::Fail(exit) }))
        }
        "loses" => Ok(Command::Happens(Happening::Tasks { who: words.who()?, deed: Deed::Lose })),
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
        "reserve" => words.reserve(),
        "unreserve" => {
            let name = words.take("a name")?.to_owned();
            Ok(Command::Happens(Happening::Unreserve { name }))
        }
        "foreign" => words.nodes(Words::foreign),
        "start-fails" => {
            words.starts(|words| Ok(Starts::Fails(words.rest_or("it cannot be started").into())))
        }
        "start-takes" => words.starts(|words| Ok(Starts::Takes(words.span()?))),
        "start-works" => words.starts(|_| Ok(Starts::Works)),
        "advance" => Ok(Command::Advance(words.span()?)),
        "until" => words.until(),
        "crash" => words.crash(),
        "restart" => Ok(Command::Restart),
        "disk-full" => Ok(Command::Arrange(Arrangement::Disk { full: true })),
        "disk-free" => Ok(Command::Arrange(Arrangement::Disk { full: false })),
        "explain" => Ok(Command::Ask(Question::Explain(words.element()?))),
        "ps" => {
            let all = words.flag("all");
            Ok(Command::Ask(Question::Ps { all }))
        }
        "queues" => Ok(Command::Ask(Question::Queues)),
        "usage" => Ok(Command::Ask(Question::Usage)),
        "nodes" => Ok(Command::Ask(Question::Nodes)),
        "reservations" => Ok(Command::Ask(Question::Reservations)),
        "windows" => Ok(Command::Ask(Question::Windows)),
        verb => Err(Mistake::at(words.line, format!("`{verb}` needs a mapping"))),
    }
}

/// The verbs with a mapping behind a colon.
fn with_mapping(written: &Written<'_>, verb: &str, first: &str) -> Result<Command, Mistake> {
    let Some(colon) = first.find(':') else {
        return Err(Mistake::at(written.line, format!("`{verb}` has no mapping"))
            .hint(format!("usage: {}", usage(verb))));
    };
    // The mapping as a text of its own in which every character stands where it stands in the
    // script.
    let before = "\n".repeat(written.line - 1) + &" ".repeat(written.indent + colon + 1);
    let text = before + &written.text[colon + 1..];
    let file = Some(written.file);
    let wrong = |diagnostics: Diagnostics| {
        let line = diagnostics.iter().map(|one| one.line as usize).find(|line| *line > 0);
        Mistake::at(line.unwrap_or(written.line), diagnostics.render(Colour::Never))
    };
    let mut words =
        Words { line: written.line, verb, rest: first[verb.len()..colon].split_whitespace() };
    let documents = || {
        // A field from outside replaces that of the text: only where the text has none.
        let has_program = text.contains("run:");
        let program = (!has_program).then(|| ("run".to_owned(), NO_PROGRAM.into()));
        muster_spec::parse(&text, file, &program.into_iter().collect()).map_err(wrong)
    };
    let command = match verb {
        "cluster" => Command::Happens(Happening::Cluster(
            muster_spec::parse_cluster(&text, file).map_err(wrong)?,
        )),
        "queues" => Command::Happens(Happening::Queues(
            muster_spec::parse_queues(&text, file).map_err(wrong)?,
        )),
        "would" => Command::Ask(Question::Would {
            user: words.take("a user")?.to_owned(),
            documents: documents()?,
        }),
        _ => {
            let user = words.take("a user")?.to_owned();
            let lasts = words.after("lasts")?;
            let lasts = lasts.map(|text| words.parse_span(text)).transpose()?;
            let exit = words.exit()?.unwrap_or(TaskExit::Code { code: 0 });
            let stubborn = words.flag("stubborn");
            let conduct = Conduct { lasts, exit, stubborn };
            words.finish()?;
            Command::Happens(Happening::Submit { user, conduct, documents: documents()? })
        }
    };
    words.finish()?;
    Ok(command)
}

/// Words of a line that are not read yet.
struct Words<'a> {
    line: usize,
    verb: &'a str,
    rest: SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn wrong(&self, message: impl Into<String>) -> Mistake {
        Mistake::at(self.line, message).hint(format!("usage: {}", usage(self.verb)))
    }

    fn take(&mut self, what: &str) -> Result<&'a str, Mistake> {
        self.rest.next().ok_or_else(|| self.wrong(format!("`{}` without {what}", self.verb)))
    }

    fn finish(&mut self) -> Result<(), Mistake> {
        match self.rest.next() {
            None => Ok(()),
            Some(word) => Err(self.wrong(format!("`{word}` means nothing here"))),
        }
    }

    /// The word, when it is the next one.
    fn flag(&mut self, word: &str) -> bool {
        let mut ahead = self.rest.clone();
        let found = ahead.next() == Some(word);
        if found {
            self.rest = ahead;
        }
        found
    }

    /// What stands behind a word, when that is the next one.
    fn after(&mut self, word: &str) -> Result<Option<&'a str>, Mistake> {
        match self.flag(word) {
            true => self.take(&format!("a word after `{word}`")).map(Some),
            false => Ok(None),
        }
    }

    fn rest_or(&mut self, default: &str) -> String {
        let words: Vec<&str> = self.rest.by_ref().collect();
        if words.is_empty() { default.to_owned() } else { words.join(" ") }
    }

    fn number(&self, text: &str) -> Result<u32, Mistake> {
        text.parse().map_err(|_| self.wrong(format!("`{text}` is not a whole number")))
    }

    fn parse_span(&self, text: &str) -> Result<Span, Mistake> {
        let span = parse_span(text).map_err(|error| {
            self.wrong(format!("`{text}` is not a length of time: {}", error.label))
        })?;
        if span == Span(0) { Err(self.wrong("no time passes in 0s")) } else { Ok(span) }
    }

    fn span(&mut self) -> Result<Span, Mistake> {
        let text = self.take("a length of time")?;
        self.parse_span(text)
    }

    /// `left`, `sweep[3]`, `left/1`, `sweep[3]/1`.
    fn who(&mut self) -> Result<Who, Mistake> {
        let text = self.take("a job")?;
        let (element, rank) = match text.split_once('/') {
            Some((element, rank)) => (element, Some(self.number(rank)?)),
            None => (text, None),
        };
        let (job, index) = match element.strip_suffix(']').and_then(|text| text.split_once('[')) {
            Some((job, index)) => (job, Some(self.number(index)?)),
            None => (element, None),
        };
        Ok(Who { job: job.to_owned(), index, rank })
    }

    /// The same without a rank.
    fn element(&mut self) -> Result<Who, Mistake> {
        let who = self.who()?;
        match who.rank {
            None => Ok(who),
            Some(_) => {
                Err(self.wrong(format!("`{}` is about all tasks; leave the rank out", self.verb)))
            }
        }
    }

    /// `3`, `2..6`.
    fn replicas(&mut self) -> Result<Replicas, Mistake> {
        let text = self.take("a number of replicas")?;
        let (floor, ceiling) = parse_range(text).map_err(|error| {
            self.wrong(format!("`{text}` is no number of replicas: {}", error.label))
        })?;
        match (u32::try_from(floor), u32::try_from(ceiling)) {
            (Ok(floor), Ok(ceiling)) => Ok(Replicas { floor, ceiling }),
            _ => Err(self.wrong(format!("`{text}` is no number of replicas"))),
        }
    }

    /// `exits 3`, `signal 9`, `out-of-memory`.
    fn exit(&mut self) -> Result<Option<TaskExit>, Mistake> {
        if let Some(code) = self.after("exits")? {
            let code = self.number(code)?;
            let code = i32::try_from(code).ok().filter(|code| *code <= 255);
            let code = code.ok_or_else(|| self.wrong("an exit code is at most 255"))?;
            return Ok(Some(TaskExit::Code { code }));
        }
        if let Some(signal) = self.after("signal")? {
            let signal =
                i32::try_from(self.number(signal)?).map_err(|_| self.wrong("no such signal"))?;
            return Ok(Some(TaskExit::Signal { signal }));
        }
        Ok(self.flag("out-of-memory").then_some(TaskExit::OutOfMemory))
    }

    /// `left old clock -2h step 7`; the rest is what it is called.
    fn save(&mut self) -> Result<Command, Mistake> {
        let who = self.who()?;
        let age = match (self.flag("unasked"), self.flag("old")) {
            (true, _) => Age::Unasked,
            (false, true) => Age::Old,
            (false, false) => Age::Asked,
        };
        let clock = match self.after("clock")? {
            None => 0,
            Some(text) => {
                let (sign, span) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
                    (Some(span), _) => (1, span),
                    (None, Some(span)) => (-1, span),
                    (None, None) => return Err(self.wrong("write `clock +2h` or `clock -2h`")),
                };
                sign * self.parse_span(span)?.0.cast_signed()
            }
        };
        let deed = Deed::Save(Save { age, clock, label: self.rest_or("").into() });
        Ok(Command::Happens(Happening::Tasks { who, deed }))
    }

    fn node_names(&mut self) -> Result<Vec<String>, Mistake> {
        let text = self.take("a node")?;
        expand_names(text)
            .map_err(|error| self.wrong(format!("`{text}` names no node: {}", error.label)))
    }

    fn nodes(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<NodeChange, Mistake>,
    ) -> Result<Command, Mistake> {
        let names = self.node_names()?;
        let change = change(self)?;
        Ok(Command::Happens(Happening::Nodes { names, change }))
    }

    fn starts(
        &mut self,
        how: impl FnOnce(&mut Self) -> Result<Starts, Mistake>,
    ) -> Result<Command, Mistake> {
        let names = self.node_names()?;
        let how = how(self)?;
        Ok(Command::Arrange(Arrangement::Starts { names, how }))
    }

    /// `0,2-3`.
    fn gpus(&mut self) -> Result<Vec<usize>, Mistake> {
        let text = self.take("GPUs such as 0,2-3")?;
        let mut gpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (self.number(first)? as usize, self.number(last)? as usize);
            if first > last || last >= muster_model::DeviceSet::MAX_DEVICES {
                return Err(self.wrong(format!("`{part}` is not a range of GPUs")));
            }
            gpus.extend(first..=last);
        }
        Ok(gpus)
    }

    /// `at +2h`, `stop`, and the rest is why.
    fn drain(&mut self, gpus: Option<DeviceSet>) -> Result<NodeChange, Mistake> {
        let after = match self.after("at")? {
            None => Span(0),
            Some(text) => {
                let span = text.strip_prefix('+').ok_or_else(|| self.wrong("write `at +2h`"))?;
                self.parse_span(span)?
            }
        };
        let stop = self.flag("stop");
        Ok(NodeChange::Drain { gpus, after, stop, reason: self.rest_or("maintenance").into() })
    }

    /// `night nodes n[1-2] at +6h for 8h every 1d users ann,bob`, in this order.
    fn reserve(&mut self) -> Result<Command, Mistake> {
        let name = self.take("a name")?;
        let what = match self.after("gpus")? {
            Some(count) => {
                let (count, model) = (self.number(count)?, self.after("of")?);
                WindowWhat::Gpus { count, model: model.map(Into::into) }
            }
            None => {
                let text =
                    self.after("nodes")?.ok_or_else(|| self.wrong("say `nodes` or `gpus`"))?;
                let names = expand_names(text).map_err(|error| self.wrong(error.label))?;
                WindowWhat::Nodes(names.into_iter().map(Into::into).collect())
            }
        };
        let ahead = self.after("at")?.map(|text| match text.strip_prefix('+') {
            Some("0s") => Ok(Span(0)),
            Some(span) => self.parse_span(span),
            None => Err(self.wrong("write `at +2h`")),
        });
        let after = ahead.transpose()?.unwrap_or(Span(0));
        let length = self.after("for")?.ok_or_else(|| self.wrong("how long? `for 2h`"))?;
        let length = self.parse_span(length)?;
        let every = self.after("every")?.map(|text| self.parse_span(text)).transpose()?;
        let count = self.after("times")?.map(|text| self.number(text)).transpose()?;
        let list = |text: Option<&str>| -> Vec<String> {
            text.into_iter().flat_map(|text| text.split(',')).map(str::to_owned).collect()
        };
        let users = list(self.after("users")?).into_iter().map(Into::into).collect();
        let queues = list(self.after("queues")?).into_iter().map(Into::into).collect();
        let stop = self.flag("stop");
        let window = Window {
            name: name.into(),
            users,
            queues,
            what,
            times: WindowTimes { start: Time(0), length, every, count },
            stop,
            by: Some("root".into()),
            reason: self.rest_or("").into(),
        };
        Ok(Command::Happens(Happening::Reserve { window: Box::new(window), after }))
    }

    /// Replaces what others held before.
    fn foreign(&mut self) -> Result<NodeChange, Mistake> {
        let (mut gpus, mut cpus, mut memory) = (Vec::new(), CpuMilli(0), Bytes(0));
        if self.flag("none") {
            return Ok(NodeChange::Foreign { gpus, cpus, memory });
        }
        let mut said = false;
        if self.flag("gpus") {
            (gpus, said) = (self.gpus()?, true);
        }
        if let Some(text) = self.after("cpus")? {
            cpus = parse_cpus(text).map_err(|error| self.wrong(error.label))?;
            said = true;
        }
        if let Some(text) = self.after("memory")? {
            memory = parse_bytes(text).map_err(|error| self.wrong(error.label))?;
            said = true;
        }
        if said {
            Ok(NodeChange::Foreign { gpus, cpus, memory })
        } else {
            Err(self.wrong("nothing is said to be held"))
        }
    }

    fn until(&mut self) -> Result<Command, Mistake> {
        let text = self.take("a time of day")?;
        if text == "idle" {
            return Ok(Command::UntilIdle);
        }
        let parts: Result<Vec<u64>, _> = text.split(':').map(str::parse).collect();
        match parts.as_deref() {
            Ok([hours @ 0..24, minutes @ 0..60]) => Ok(Command::Until(hours * 3600 + minutes * 60)),
            Ok([hours @ 0..24, minutes @ 0..60, seconds @ 0..60]) => {
                Ok(Command::Until(hours * 3600 + minutes * 60 + seconds))
            }
            _ => Err(self.wrong(format!("`{text}` is not a time of day"))),
        }
    }

    fn crash(&mut self) -> Result<Command, Mistake> {
        let crash = match self.rest.next() {
            None => Crash::Now,
            Some("before-write") => Crash::BeforeWrite,
            Some("after-write") => Crash::AfterWrite,
            Some(word) => {
                let known = ["before-write", "after-write"];
                return Err(
                    Mistake::at(self.line, format!("there is no crash `{word}`")).near(word, known)
                );
            }
        };
        Ok(Command::Arrange(Arrangement::Crash(crash)))
    }
}
