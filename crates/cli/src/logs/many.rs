//! Output of several tasks of a job: of all ranks, and of all elements of an array or service. Without following, task
//! by task; with it, as the lines are written.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream, SelectAll};
use muster_api::query::LogQuery;
use muster_api::types::{JobDetail, JobList};
use muster_api::{Client, ClientError};
use muster_model::output;
use muster_model::view::{ArrayView, ElementRow, ElementView, JobView};

use super::lines::{LinePrinter, Prefix, TaskKey};
use super::{OutputSelection, broken, named, stored};
use crate::app::App;
use crate::exit::Failure;
use crate::jobref::JobTarget;
use crate::named_file::{self, Stream};
use crate::track::{PATIENCE, Tracker};

/// Most tasks that are followed at once: each takes a connection.
const MAX_FOLLOWED: usize = 256;

/// Shortest time between two lists of all elements of an array, as a multiple of the time that one takes.
const LIST_PAUSE: u32 = 10;

/// Returns the number of tasks of an element, as far as the job shows it.
pub fn tasks(job: &JobView) -> u32 {
    let placed = job.elements.iter().map(|element| element.tasks.len()).max().unwrap_or(0);
    job.tasks.max(u32::try_from(placed).unwrap_or(u32::MAX)).max(1)
}

/// Copies the lines of all tasks, or of one rank of all elements, each prefixed with its task.
pub async fn print(
    app: &App,
    client: &Client,
    target: JobTarget,
    detail: JobDetail,
    which: &OutputSelection,
    rank: Option<u32>,
) -> Result<()> {
    let opener = Opener::new(client, target, detail, which, rank).await?;
    if opener.is_shared() {
        app.ui.status("all ranks write to one file; its lines are shown without ranks");
    }
    let printer = LinePrinter::new(app, which.filter.as_ref(), opener.prefix());
    if which.follow {
        Follower::new(app, opener, printer).run().await
    } else {
        print_present(app, opener, printer).await
    }
}

/// Copies what is there, task by task.
async fn print_present(
    app: &App,
    mut opener: Opener<'_>,
    mut printer: LinePrinter<'_>,
) -> Result<()> {
    let mut absent = 0;
    let tasks = tasks(&opener.detail.job);
    for element in opener.elements.clone().into_iter().filter(|one| one.has_started) {
        for task in opener.tasks_of(element.index, tasks) {
            let queued = QueuedTask { key: task, is_new: false };
            let Some(source) = opener.source(queued)? else { continue };
            let mut stream = match source.open().await? {
                Opened::Stream(stream) => stream,
                Opened::Absent(why) => {
                    opener.absent.get_or_insert(why);
                    absent += 1;
                    continue;
                }
            };
            opener.has_output = true;
            while let Some(bytes) = stream.next().await {
                let bytes = bytes.map_err(|error| broken(error, opener.target, opener.client))?;
                printer.add(task, &bytes)?;
            }
            printer.end(task)?;
        }
    }
    opener.warn_of_gaps(app, absent);
    opener.finish().await
}

/// Task whose output is to be shown.
#[derive(Clone, Copy)]
struct QueuedTask {
    key: TaskKey,
    /// True if it started after the command began to follow.
    is_new: bool,
}

/// Output of a task that is not yet open.
struct OutputSource {
    client: Client,
    target: JobTarget,
    query: LogQuery,
    /// File that the user named; `None` where Muster stores the output.
    file: Option<PathBuf>,
}

impl OutputSource {
    /// Opens the output. If the query follows, this waits until the task starts.
    async fn open(self) -> Result<Opened> {
        let Self { client, target, query, file } = self;
        if let Some(file) = file {
            return Ok(Opened::Stream(named_file::open(&client, target, file, &query).await?));
        }
        match stored(&client, target, query).await {
            Ok(stream) => Ok(Opened::Stream(stream)),
            Err(ClientError::Api(body)) if ["not_found", "conflict"].contains(&&*body.code) => {
                Ok(Opened::Absent(ClientError::Api(body).into()))
            }
            Err(error) => Err(broken(error, target, &client).into()),
        }
    }
}

/// Output of a task, or why it has none.
enum Opened {
    Stream(Stream),
    Absent(Failure),
}

/// Element as it is listed.
#[derive(Clone, Copy)]
struct ListedElement {
    index: u32,
    has_started: bool,
}

/// Lists the elements of which output is shown.
async fn list_elements(
    client: &Client,
    target: JobTarget,
    job: &JobView,
) -> Result<Vec<ListedElement>> {
    if let Some(index) = target.index {
        return Ok(vec![ListedElement { index, has_started: true }]);
    }
    if job.array.is_none() {
        let element = |one: &ElementView| ListedElement {
            index: one.element.index,
            has_started: one.attempt > 0,
        };
        return Ok(job.elements.iter().map(element).collect());
    }
    let list = client.elements(target.job).await.map_err(Failure::from)?;
    let element =
        |row: &ElementRow| ListedElement { index: row.index, has_started: row.attempt > 0 };
    Ok(list.elements.iter().map(element).collect())
}

/// Opens the outputs of the tasks of a job.
struct Opener<'a> {
    client: &'a Client,
    target: JobTarget,
    detail: JobDetail,
    which: &'a OutputSelection,
    /// Rank that is shown of each element; `None` is all.
    rank: Option<u32>,
    /// Elements, by index, as last listed.
    elements: Vec<ListedElement>,
    /// Pattern of the files that the user named.
    pattern: Option<String>,
    /// True once a task was found to have output.
    has_output: bool,
    /// Files that are open, or were: several tasks may write to one.
    files: BTreeSet<PathBuf>,
    /// First reason why a task has no output.
    absent: Option<Failure>,
}

impl<'a> Opener<'a> {
    async fn new(
        client: &'a Client,
        target: JobTarget,
        detail: JobDetail,
        which: &'a OutputSelection,
        rank: Option<u32>,
    ) -> Result<Self> {
        let elements = list_elements(client, target, &detail.job).await?;
        let pattern = detail.files.as_ref().and_then(|files| files.output.clone());
        let pattern = pattern.filter(|_| client.socket().is_some());
        Ok(Self {
            client,
            target,
            detail,
            which,
            rank,
            elements,
            pattern,
            has_output: false,
            files: BTreeSet::new(),
            absent: None,
        })
    }

    fn has_elements(&self) -> bool {
        let job = &self.detail.job;
        self.target.index.is_none() && (job.array.is_some() || job.service.is_some())
    }

    /// Returns whether ranks that are shown write to the same file.
    fn is_shared(&self) -> bool {
        self.rank.is_none() && self.pattern.as_deref().is_some_and(|one| !output::is_per_rank(one))
    }

    /// Returns the prefix of lines: what tells the streams apart.
    fn prefix(&self) -> Prefix {
        let job = &self.detail.job;
        let per_element = self.pattern.as_deref().is_none_or(output::is_per_element);
        let last = self.elements.iter().map(|element| element.index).max().unwrap_or(0);
        let index = (self.has_elements() && per_element).then(|| format!("[{last}]").len());
        let rank =
            (self.rank.is_none() && !self.is_shared()).then(|| (tasks(job) - 1).to_string().len());
        Prefix { index, rank }
    }

    /// Returns the tasks of an element that are shown, of so many.
    fn tasks_of(&self, index: u32, tasks: u32) -> impl Iterator<Item = TaskKey> + use<> {
        let ranks = match self.rank {
            Some(rank) => rank..rank + 1,
            None => 0..tasks,
        };
        ranks.map(move |rank| TaskKey { index, rank })
    }

    /// Finds the output of a task; `None` where its file is open, or does not exist and is not waited for.
    fn source(&mut self, task: QueuedTask) -> Result<Option<OutputSource>> {
        let key = task.key;
        let index = (self.has_elements() || self.target.index.is_some()).then_some(key.index);
        let mut query = self.which.query(index, key.rank);
        if task.is_new {
            // All of it was written since.
            query.tail = None;
        }
        let target = JobTarget { index, ..self.target };
        let client = self.client.clone();
        let Some(file) = named(self.client, &self.detail, &query)? else {
            return Ok(Some(OutputSource { client, target, query, file: None }));
        };
        if !self.files.insert(file.clone()) {
            return Ok(None);
        }
        if !query.follow && !file.exists() {
            let text = format!("there is no output so far: {} does not exist", file.display());
            self.absent.get_or_insert_with(|| Failure::not_found(text));
            return Ok(None);
        }
        // Of a file that all elements write to, the end is that of the job.
        let per_element = self.pattern.as_deref().is_some_and(output::is_per_element);
        let target = if per_element { target } else { self.target };
        let index = index.filter(|_| per_element);
        Ok(Some(OutputSource {
            client,
            target,
            query: LogQuery { index, ..query },
            file: Some(file),
        }))
    }

    /// Warns if some tasks of an ended job have no output, which those of a job that runs may still get.
    fn warn_of_gaps(&self, app: &App, absent: u32) {
        let has_ended = self.detail.job.state.is_final();
        if let Some(why) = self.absent.as_ref().filter(|_| self.has_output && has_ended) {
            let tasks = if absent == 1 { "1 task".to_owned() } else { format!("{absent} tasks") };
            app.ui.warning(&format!("the output of {tasks} is not shown: {why}"));
        }
    }

    /// Returns why there was no output at all.
    async fn finish(mut self) -> Result<()> {
        if !self.has_output && self.absent.is_none() {
            // No element has started: the answer for one of them says so.
            let query = OutputSelection { follow: false, ..self.which.clone() }
                .query(self.target.index, self.rank.unwrap_or(0));
            let answer = stored(self.client, self.target, query).await;
            self.absent = answer.err().map(Failure::from);
        }
        match self.absent {
            Some(why) if !self.has_output => Err(why.into()),
            _ => Ok(()),
        }
    }
}

/// Event of a task that is followed.
enum TaskEvent {
    Output(Vec<u8>),
    Ended,
}

type TaskEvents = BoxStream<'static, Result<(TaskKey, TaskEvent)>>;

/// Returns the output of a task as it is written, followed by its end.
fn events(key: TaskKey, source: OutputSource) -> TaskEvents {
    let client = source.client.clone();
    let target = source.target;
    let output = stream::once(source.open()).map(|opened| match opened {
        Ok(Opened::Stream(stream)) => stream.map(Ok).boxed(),
        Ok(Opened::Absent(_)) => stream::empty().boxed(),
        Err(error) => stream::once(async move { Err(error) }).boxed(),
    });
    let output = output.flatten().map(move |bytes| match bytes? {
        Ok(bytes) => Ok((key, TaskEvent::Output(bytes))),
        Err(error) => Err(broken(error, target, &client).into()),
    });
    output.chain(stream::once(async move { Ok((key, TaskEvent::Ended)) })).boxed()
}

/// Copies lines as they are written, until all tasks have ended.
struct Follower<'a> {
    app: &'a App,
    opener: Opener<'a>,
    printer: LinePrinter<'a>,
    /// Elements that were seen, with their ranks.
    elements: BTreeMap<u32, BTreeSet<u32>>,
    /// Tasks that have started and are not yet open.
    queue: VecDeque<QueuedTask>,
    /// Number of ended elements when all elements were last listed.
    ended_when_listed: u32,
    /// True after the tasks that had started before the command are queued.
    has_begun: bool,
    /// True after the message that more tasks run than are followed.
    has_warned: bool,
}

impl<'a> Follower<'a> {
    fn new(app: &'a App, opener: Opener<'a>, printer: LinePrinter<'a>) -> Self {
        Self {
            app,
            opener,
            printer,
            elements: BTreeMap::new(),
            queue: VecDeque::new(),
            ended_when_listed: 0,
            has_begun: false,
            has_warned: false,
        }
    }

    async fn run(mut self) -> Result<()> {
        let mut open: SelectAll<TaskEvents> = SelectAll::new();
        let mut changes = Box::pin(changes(self.opener.client, self.opener.target));
        // The tasks of one element are followed from before their start to their end.
        let mut has_ended = self.opener.target.index.is_some();
        if let Some(index) = self.opener.target.index {
            self.add(index, tasks(&self.opener.detail.job));
        }
        let mut next_list = Instant::now();
        loop {
            self.open_queued(&mut open)?;
            tokio::select! {
                Some(event) = open.next(), if !open.is_empty() => match event? {
                    (task, TaskEvent::Output(bytes)) => {
                        self.opener.has_output = true;
                        self.printer.add(task, &bytes)?;
                    }
                    (task, TaskEvent::Ended) => self.printer.end(task)?,
                },
                Some(list) = changes.next(), if !has_ended => {
                    let Some(job) = list?.jobs.into_iter().next() else { break };
                    has_ended = job.state.is_final();
                    self.queue_active(&job);
                    if self.has_missed(&job) && (has_ended || Instant::now() >= next_list) {
                        let begun = Instant::now();
                        self.queue_started(&job).await?;
                        next_list = begun + begun.elapsed() * LIST_PAUSE;
                    }
                    self.has_begun = true;
                }
                else => if self.queue.is_empty() { break },
            }
        }
        self.opener.finish().await
    }

    /// Opens the outputs of tasks that have started, as many as may be open.
    fn open_queued(&mut self, open: &mut SelectAll<TaskEvents>) -> Result<()> {
        while open.len() < MAX_FOLLOWED
            && let Some(task) = self.queue.pop_front()
        {
            open.extend(self.opener.source(task)?.map(|source| events(task.key, source)));
        }
        if !self.queue.is_empty() && !std::mem::replace(&mut self.has_warned, true) {
            self.app.ui.status(&format!(
                "more than {MAX_FOLLOWED} tasks run; the others are shown as these end"
            ));
        }
        Ok(())
    }

    /// Queues the tasks that a view of the job shows.
    fn queue_active(&mut self, job: &JobView) {
        let elements = job.elements.iter().filter(|element| element.attempt > 0);
        for element in elements {
            let placed = u32::try_from(element.tasks.len()).unwrap_or(u32::MAX);
            self.add(element.element.index, placed.max(job.tasks));
        }
    }

    fn add(&mut self, index: u32, tasks: u32) {
        let seen = self.elements.entry(index).or_default();
        let new = self.opener.tasks_of(index, tasks).filter(|task| seen.insert(task.rank));
        let is_new = self.has_begun;
        self.queue.extend(new.map(|key| QueuedTask { key, is_new }));
    }

    /// Returns whether elements started and ended between two views of the job, since all were last listed.
    fn has_missed(&self, job: &JobView) -> bool {
        let Some(array) = job.array else { return false };
        let ended = ended(array);
        ended > self.ended_when_listed && self.elements.len() < ended as usize + job.elements.len()
    }

    /// Queues the tasks of all elements that have started.
    async fn queue_started(&mut self, job: &JobView) -> Result<()> {
        self.ended_when_listed = job.array.map_or(0, ended);
        let elements = list_elements(self.opener.client, self.opener.target, job).await?;
        for element in elements.into_iter().filter(|one| one.has_started) {
            self.add(element.index, job.tasks);
        }
        Ok(())
    }
}

fn ended(array: ArrayView) -> u32 {
    array.succeeded + array.failed
}

/// Returns the list of the one job, at first and after each change.
fn changes(
    client: &Client,
    target: JobTarget,
) -> impl futures_util::Stream<Item = Result<JobList>> + use<> {
    let tracker = Tracker::looking_at(client, &[target.job]);
    stream::unfold(tracker, |mut tracker| async move {
        let list = tracker.next(PATIENCE).await;
        Some((list, tracker))
    })
}
