//! Hands the lines of a trace to the module of its format, and counts them. A row that cannot be read is an answer like
//! another: whoever asked decides whether to go on.

use super::{TraceFormat, TraceJob, swf};

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
    line: u64,
    procs: Option<u32>,
}

impl TraceReader {
    /// Before the first line.
    #[must_use]
    pub fn new(format: TraceFormat) -> Self {
        Self { format, line: 0, procs: None }
    }

    /// Takes the next line, without its end, and hands every job that is complete with it to `found`: none for comments,
    /// headers and empty lines; one or several where a format has them. Jobs that cannot be read are handed over as errors.
    ///
    /// # Errors
    /// Nothing of this trace can be read in this format.
    pub fn read(
        &mut self,
        text: &str,
        found: &mut dyn FnMut(Result<TraceJob, RowError>),
    ) -> Result<(), TraceRefusal> {
        self.line += 1;
        let row = match self.format {
            TraceFormat::Swf => swf::read(text, &mut self.procs),
        };
        if let Some(row) = row.transpose() {
            found(row.map_err(|message| RowError { line: self.line, message }));
        }
        Ok(())
    }

    /// Takes note that there are no more lines; what was waiting for them is handed to `found`.
    ///
    /// # Errors
    /// Nothing of this trace can be read in this format.
    pub fn finish(&mut self, found: &mut dyn FnMut(Result<TraceJob, RowError>)) -> Result<(), TraceRefusal> {
        let _ = found;
        Ok(())
    }

    /// Processors of the machine, where the header of the trace said so.
    #[must_use]
    pub fn procs(&self) -> Option<u32> {
        self.procs
    }
}
