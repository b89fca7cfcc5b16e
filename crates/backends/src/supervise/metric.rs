//! The metric of a task of a sweep: reports that it writes to its pipe, or that a pattern finds in its output.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use muster_model::sweep::MetricReport;
use muster_sweep::MetricReader;

use super::checkpoints::{drain, make};
use crate::record::OrderRecord;

/// Pause between two reports to the daemon, which stores each.
const SEND_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two reads of the pipe, of 64 KiB each: a task that writes all the time must not keep its supervisor
/// from its other work.
const READ_PAUSE: Duration = Duration::from_millis(20);
/// Most reads at the end of the task: its processes are gone, but others may hold the pipe open.
const LAST_READS: usize = 64;

/// Reports of one task.
#[derive(Debug)]
pub(super) struct Reports {
    /// Pipe that the task writes to; `None` when its reports are in its output.
    pipe: Option<OwnedFd>,
    reader: MetricReader,
    newest: Option<MetricReport>,
    /// True when the newest one was not sent yet.
    is_news: bool,
    /// Time before which the pipe is not read.
    next_read: Duration,
    /// Time before which nothing is sent.
    next_send: Duration,
}

impl Reports {
    /// Makes the pipe that an order names; returns `None` for a task without a metric.
    pub(super) fn open(order: &OrderRecord) -> io::Result<Option<Self>> {
        let Some(metric) = order.metric.clone() else { return Ok(None) };
        // The daemon has checked the pattern; with one that cannot be read here nothing is reported.
        let Ok(reader) = MetricReader::new(metric) else { return Ok(None) };
        let owner = order.switch_user.then_some(&order.identity);
        let pipe = order.report_file.as_deref().map(|path| make(path, owner)).transpose()?;
        Ok(Some(Self {
            pipe,
            reader,
            newest: None,
            is_news: false,
            next_read: Duration::ZERO,
            next_send: Duration::ZERO,
        }))
    }

    /// Returns the pipe to poll, while it may be read.
    pub(super) fn poll_fd(&self, now: Duration) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| now >= self.next_read).map(AsFd::as_fd)
    }

    /// Returns the time at which something is to be done without further input.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        let sends = self.is_news.then_some(self.next_send);
        let reads = (self.pipe.is_some() && now < self.next_read).then_some(self.next_read);
        [sends, reads].into_iter().flatten().min()
    }

    /// Takes reports from output of the task, if that is where they are.
    pub(super) fn see_output(&mut self, bytes: &[u8]) {
        if self.pipe.is_none() {
            self.take(bytes);
        }
    }

    /// Reads the pipe once, if it is time to; returns the newest report if it is time to send it.
    pub(super) fn read(&mut self, now: Duration) -> Option<MetricReport> {
        if now >= self.next_read && self.read_once() {
            self.next_read = now + READ_PAUSE;
        }
        if now < self.next_send {
            return None;
        }
        self.unsent().inspect(|_| self.next_send = now + SEND_PAUSE)
    }

    /// Reads what is left at the end of the task; returns the newest report if it was not sent.
    pub(super) fn read_rest(&mut self) -> Option<MetricReport> {
        let mut reads = 0..LAST_READS;
        while reads.next().is_some() && self.read_once() {}
        self.unsent()
    }

    /// Reads up to 64 KiB of the pipe; returns false when it is empty.
    fn read_once(&mut self) -> bool {
        let Some(bytes) = self.pipe.as_ref().and_then(drain) else { return false };
        self.take(&bytes);
        true
    }

    /// Returns the newest report once.
    fn unsent(&mut self) -> Option<MetricReport> {
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
