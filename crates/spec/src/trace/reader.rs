//! Passes the lines of a trace to the module of its format, and counts them. A row that cannot be
//! read is returned as an error; the caller decides whether to continue.

use muster_model::Time;

use super::csv::{CsvTable, TableError};
use super::ids::{DuplicateIds, SeenIds};
use super::json::ObjectSplitter;
use super::kube::PodGroups;
use super::names::NameCache;
use super::value::decimal_text;
use super::{RowError, TraceFormat, TraceJob, philly, slurm_json, swf};

/// Error of a trace that cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct TraceRefusal {
    /// Number of the line, from 1.
    pub line: u64,
    /// Description of the problem, a lowercase fragment.
    pub message: String,
    /// Next step for the user.
    pub hint: String,
}

/// Reads a trace line by line.
#[derive(Clone, Debug)]
pub struct TraceReader {
    format: TraceFormat,
    rows: RowReader,
    line: u64,
    jobs: u64,
    header: swf::Header,
    names: NameCache,
    ids: SeenIds,
}

/// State of the reader of a format.
#[derive(Clone, Debug)]
enum RowReader {
    Swf,
    Table(Box<CsvTable>),
    Objects(Box<ObjectSplitter>, ReadObject),
    Kubernetes(Box<ObjectSplitter>, PodGroups),
}

/// Reader of an object, which returns a job, or `None` if the object is none.
type ReadObject = fn(&str) -> Result<Option<TraceJob>, String>;

impl TraceReader {
    /// Returns a reader at the first line.
    #[must_use]
    pub fn new(format: TraceFormat) -> Self {
        let objects = |under| Box::new(ObjectSplitter::new(under));
        let rows = match (format, format.layout()) {
            (_, Some(layout)) => RowReader::Table(Box::new(CsvTable::new(layout))),
            (TraceFormat::PhillyJson, _) => RowReader::Objects(objects("jobs"), philly::object),
            (TraceFormat::SacctJson, _) => RowReader::Objects(objects("jobs"), slurm_json::object),
            (TraceFormat::Kubernetes, _) => {
                RowReader::Kubernetes(objects("items"), PodGroups::default())
            }
            (_, None) => RowReader::Swf,
        };
        Self {
            format,
            rows,
            line: 0,
            jobs: 0,
            header: swf::Header::default(),
            names: NameCache::new(),
            ids: SeenIds::default(),
        }
    }

    /// Reads the next line, without its end, and passes every job that is complete with it to
    /// `found`: none for comments, headers and empty lines; several in some formats. Jobs that
    /// cannot be read are passed as errors.
    ///
    /// # Errors
    /// Nothing of this trace can be read in this format.
    pub fn read(
        &mut self,
        text: &str,
        found: &mut dyn FnMut(Result<TraceJob, RowError>),
    ) -> Result<(), TraceRefusal> {
        self.line += 1;
        let Self { format, line, jobs, ids, .. } = self;
        let line = *line;
        let mut answer = |line, row: Result<Option<TraceJob>, String>| match row {
            Ok(None) => {}
            Ok(Some(mut job)) => {
                *jobs += 1;
                // In a trace without ids, a job gets its number, from 1.
                if job.id.is_empty() {
                    job.id = decimal_text(*jobs, &mut [0; _]).into();
                }
                ids.add(*format, &job, line);
                found(Ok(job));
            }
            Err(message) => found(Err(RowError { line, message })),
        };
        let read = match &mut self.rows {
            RowReader::Swf => {
                answer(line, swf::read(text, &mut self.header, &mut self.names));
                Ok(())
            }
            RowReader::Table(table) => match table.read(text, &mut self.names) {
                Err(TableError::Column(name)) => Err(format!("the header has no column `{name}`")),
                Err(TableError::Row(message)) => {
                    answer(line, Err(message));
                    Ok(())
                }
                Ok(job) => {
                    answer(line, Ok(job));
                    Ok(())
                }
            },
            RowReader::Objects(objects, read) => {
                objects.read(line, text, &mut |line, text| answer(line, read(text)))
            }
            RowReader::Kubernetes(objects, groups) => {
                objects.read(line, text, &mut |line, text| answer(line, groups.object(text)))
            }
        };
        read.map_err(|message| self.refusal(message))
    }

    /// Ends the trace, and passes jobs that were waiting for more lines to `found`.
    ///
    /// # Errors
    /// Nothing of this trace can be read in this format, or it is cut off.
    pub fn finish(
        &mut self,
        found: &mut dyn FnMut(Result<TraceJob, RowError>),
    ) -> Result<(), TraceRefusal> {
        let end = match &mut self.rows {
            RowReader::Swf | RowReader::Table(_) => Ok(()),
            RowReader::Objects(objects, _) => objects.finish(),
            RowReader::Kubernetes(objects, groups) => {
                for job in groups.finish() {
                    self.ids.add(self.format, &job, self.line);
                    found(Ok(job));
                }
                objects.finish()
            }
        };
        end.map_err(|message| self.refusal(message))
    }

    /// Returns the jobs so far that have the id of an earlier one.
    #[must_use]
    pub fn duplicate_ids(&mut self) -> DuplicateIds {
        self.ids.duplicates()
    }

    /// Returns the number of processors of the machine; `None` if the header does not name it.
    #[must_use]
    pub fn procs(&self) -> Option<u32> {
        self.header.procs
    }

    /// Returns the trace's zero since the epoch; `None` if the header does not name it. Other
    /// traces count from the epoch, or their zero is unknown.
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
