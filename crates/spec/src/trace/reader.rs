//! Hands the lines of a trace to the module of its format, and counts them. A row that cannot be
//! read is an answer like another: whoever asked decides whether to go on.

use muster_model::Time;

use super::csv::{Table, Wrong};
use super::json::Objects;
use super::kube::Groups;
use super::names::Names;
use super::value::decimal_text;
use super::{TraceFormat, TraceJob, philly, slurm_json, swf};

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RowError {
    /// From 1.
    pub line: u64,
    /// A lowercase fragment that names the field.
    pub message: String,
}

/// Why nothing of a trace can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct TraceRefusal {
    /// From 1.
    pub line: u64,
    /// A lowercase fragment.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Reads a trace line by line.
#[derive(Clone, Debug)]
pub struct TraceReader {
    format: TraceFormat,
    rows: Rows,
    line: u64,
    jobs: u64,
    header: swf::Header,
    names: Names,
}

/// How jobs stand in lines.
#[derive(Clone, Debug)]
enum Rows {
    Swf,
    Table(Box<Table>),
    Objects(Box<Objects>, ReadObject),
    Kubernetes(Box<Objects>, Groups),
}

/// What makes a job of an object.
type ReadObject = fn(&str) -> Result<Option<TraceJob>, String>;

impl TraceReader {
    /// Before the first line.
    #[must_use]
    pub fn new(format: TraceFormat) -> Self {
        let objects = |under| Box::new(Objects::new(under));
        let rows = match (format, format.layout()) {
            (_, Some(layout)) => Rows::Table(Box::new(Table::new(layout))),
            (TraceFormat::PhillyJson, _) => Rows::Objects(objects("jobs"), philly::object),
            (TraceFormat::SacctJson, _) => Rows::Objects(objects("jobs"), slurm_json::object),
            (TraceFormat::Kubernetes, _) => Rows::Kubernetes(objects("items"), Groups::default()),
            (_, None) => Rows::Swf,
        };
        Self { format, rows, line: 0, jobs: 0, header: swf::Header::default(), names: Names::new() }
    }

    /// Takes the next line, without its end, and hands every job that is complete with it to
    /// `found`: none for comments, headers and empty lines; one or several where a format has them.
    /// Jobs that cannot be read are handed over as errors.
    ///
    /// # Errors
    /// Nothing of this trace can be read in this format.
    pub fn read(
        &mut self,
        text: &str,
        found: &mut dyn FnMut(Result<TraceJob, RowError>),
    ) -> Result<(), TraceRefusal> {
        self.line += 1;
        let (line, jobs) = (self.line, &mut self.jobs);
        let mut answer = |line, row: Result<Option<TraceJob>, String>| match row {
            Ok(None) => {}
            Ok(Some(mut job)) => {
                *jobs += 1;
                // A job of a trace without ids is called by its number, from 1.
                if job.id.is_empty() {
                    job.id = decimal_text(*jobs, &mut [0; _]).into();
                }
                found(Ok(job));
            }
            Err(message) => found(Err(RowError { line, message })),
        };
        let read = match &mut self.rows {
            Rows::Swf => {
                answer(line, swf::read(text, &mut self.header, &mut self.names));
                Ok(())
            }
            Rows::Table(table) => match table.read(text, &mut self.names) {
                Err(Wrong::Column(name)) => Err(format!("the header has no column `{name}`")),
                Err(Wrong::Row(message)) => {
                    answer(line, Err(message));
                    Ok(())
                }
                Ok(job) => {
                    answer(line, Ok(job));
                    Ok(())
                }
            },
            Rows::Objects(objects, read) => {
                objects.read(line, text, &mut |line, text| answer(line, read(text)))
            }
            Rows::Kubernetes(objects, groups) => {
                objects.read(line, text, &mut |line, text| answer(line, groups.object(text)))
            }
        };
        read.map_err(|message| self.refusal(message))
    }

    /// Takes note that there are no more lines; what was waiting for them is handed to `found`.
    ///
    /// # Errors
    /// Nothing of this trace can be read in this format, or it is cut off.
    pub fn finish(
        &mut self,
        found: &mut dyn FnMut(Result<TraceJob, RowError>),
    ) -> Result<(), TraceRefusal> {
        let end = match &mut self.rows {
            Rows::Swf | Rows::Table(_) => Ok(()),
            Rows::Objects(objects, _) => objects.finish(),
            Rows::Kubernetes(objects, groups) => {
                groups.finish().for_each(|job| found(Ok(job)));
                objects.finish()
            }
        };
        end.map_err(|message| self.refusal(message))
    }

    /// Processors of the machine, where the header of the trace said so.
    #[must_use]
    pub fn procs(&self) -> Option<u32> {
        self.header.procs
    }

    /// The trace's zero since the epoch, where its header said so; other traces count from the
    /// epoch, or nobody knows.
    #[must_use]
    pub fn zero(&self) -> Option<Time> {
        self.header.zero
    }

    fn refusal(&self, message: String) -> TraceRefusal {
        let format = self.format.name();
        let hint = match self.format.layout() {
            Some(layout) => format!(
                "a trace in the format {format} has a header with {}; `--format` names another format",
                layout.needed.join(", ")
            ),
            None => format!("it was read as {format}; `--format` names another format"),
        };
        TraceRefusal { line: self.line, message, hint }
    }
}
