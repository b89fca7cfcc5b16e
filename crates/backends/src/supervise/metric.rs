//! The metric of a task of a sweep: reports that it writes to its pipe, or that a pattern finds in its output.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use muster_model::sweep::MetricReport;
use muster_sweep::MetricReader;

use super::checkpoints::{drain, make};
use crate::record::OrderRecord;

/// Pause between two reports to the daemon, which stores each.
const PAUSE: Duration = Duration::from_secs(1);

/// Reports of one task.
#[derive(Debug)]
pub(super) struct Reports {
    /// Pipe that the task writes to; `None` when its reports are in its output.
    pipe: Option<OwnedFd>,
    reader: MetricReader,
    newest: Option<MetricReport>,
    /// True when the newest one was not sent yet.
    is_news: bool,
    /// Time before which nothing is read from the pipe or sent.
    next: Duration,
}

impl Reports {
    /// Makes the pipe that an order names; returns `None` for a task without a metric.
    pub(super) fn open(order: &OrderRecord) -> io::Result<Option<Self>> {
        let Some(metric) = order.metric.clone() else { return Ok(None) };
        // The daemon has checked the pattern; with one that cannot be read here nothing is reported.
        let Ok(reader) = MetricReader::new(metric) else { return Ok(None) };
        let owner = order.switch_user.then_some(&order.identity);
        let pipe = order.report_file.as_deref().map(|path| make(path, owner)).transpose()?;
        Ok(Some(Self { pipe, reader, newest: None, is_news: false, next: Duration::ZERO }))
    }

    /// Returns the pipe to poll, while it may be read.
    pub(super) fn poll_fd(&self, now: Duration) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| now >= self.next).map(AsFd::as_fd)
    }

    /// Returns the time at which something is to be done without further input.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        let waits = self.is_news || self.pipe.is_some() && now < self.next;
        waits.then_some(self.next)
    }

    /// Takes reports from output of the task, if that is where they are.
    pub(super) fn see_output(&mut self, bytes: &[u8]) {
        if self.pipe.is_none() {
            self.take(bytes);
        }
    }

    /// Reads the pipe; returns the newest report if it is time to send it.
    pub(super) fn read(&mut self, now: Duration) -> Option<MetricReport> {
        if now < self.next {
            return None;
        }
        self.read_rest().inspect(|_| self.next = now + PAUSE)
    }

    /// Reads what is left; returns the newest report if it was not sent.
    pub(super) fn read_rest(&mut self) -> Option<MetricReport> {
        while let Some(bytes) = self.pipe.as_ref().and_then(drain) {
            self.take(&bytes);
        }
        std::mem::take(&mut self.is_news).then_some(self.newest).flatten()
    }

    /// Returns the newest report, sent or not.
    pub(super) fn newest(&self) -> Option<MetricReport> {
        self.newest
    }

    fn take(&mut self, bytes: &[u8]) {
        if let Some(report) = self.reader.read(bytes).pop() {
            self.newest = Some(report);
            self.is_news = true;
        }
    }
}
