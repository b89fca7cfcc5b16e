//! Elements of an array or sweep on Kubernetes: states from the object and its pods, values from the object, and reports
//! from the output of the pods.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;

use futures_util::{AsyncRead, AsyncReadExt, StreamExt, stream};
use muster_api::types::ElementList;
use muster_kubernetes::job;
use muster_model::JobId;
use muster_model::sweep::{Metric, MetricReport};
use muster_sweep::MetricReader;

use super::list::FoundJob;
use super::logs::log_path;
use super::{KubernetesScheduler, RequestError, Result};
use crate::route::now;

/// Newest lines of an output that are read first: more than most programs print between two reports.
const NEWEST_LINES: usize = 2_000;

/// Outputs that are read at once.
const AT_ONCE: usize = 16;

/// Bytes per read of an output.
const CHUNK_BYTES: usize = 64 << 10;

/// Reports in a part of an output.
#[derive(Debug, Default, PartialEq)]
struct FoundReports {
    newest: Option<MetricReport>,
    /// True if the step of the newest one is its number among those that were read.
    is_counted: bool,
    /// Lines that were read.
    lines: usize,
}

impl KubernetesScheduler {
    /// Lists the elements of a job.
    pub(super) async fn elements(&self, job: JobId) -> Result<ElementList> {
        let found = self.find(job).await?;
        let namespace = &self.server().await?.namespace;
        let mut elements = job::elements(found.job(), &found.pods(), namespace);
        let sweep = found.job().sweep();
        if let Some(metric) = sweep.as_ref().and_then(|sweep| sweep.metric.as_ref()) {
            let reports = self.reports(&found, metric).await;
            for row in &mut elements {
                row.report = reports.get(&row.index).copied();
            }
        }
        Ok(ElementList::new(now(), sweep.as_ref(), elements))
    }

    /// Returns the newest report of each element whose output can be read; of the others, a warning says why.
    async fn reports(&self, found: &FoundJob, metric: &Metric) -> BTreeMap<u32, MetricReport> {
        let pods = found.pods();
        let roles = job::present_roles(found.job(), &pods);
        let array = found.job().array();
        let outputs = job::tasks(found.job(), &roles, &pods).into_iter();
        let outputs = outputs.filter(|task| task.rank == 0 && task.has_started()).map(|task| {
            let index = array.as_ref().map_or(task.ordinal, |array| array.index_of(task.ordinal));
            let pod = task.pod["metadata"]["name"].as_str().unwrap_or_default();
            (index, log_path(found, pod, task.container))
        });
        let outputs: Vec<(u32, String)> = outputs.collect();
        let read = stream::iter(outputs)
            .map(|(index, path)| async move { (index, self.newest_report(&path, metric).await) });
        let read: Vec<_> = read.buffer_unordered(AT_ONCE).collect().await;
        let mut reports = BTreeMap::new();
        let mut unread: Vec<RequestError> = Vec::new();
        for (index, report) in read {
            match report {
                Ok(report) => reports.extend(report.map(|report| (index, report))),
                Err(error) => unread.push(error),
            }
        }
        if let Some(error) = unread.first() {
            let count = unread.len();
            (self.settings.warn)(&format!("the output of {count} elements is missing: {error}"));
        }
        reports
    }

    /// Returns the newest report in an output; reads all of it only if its newest lines do not say it.
    async fn newest_report(&self, path: &str, metric: &Metric) -> Result<Option<MetricReport>> {
        let newest = self.read_reports(&format!("{path}&tailLines={NEWEST_LINES}"), metric).await?;
        if newest.lines < NEWEST_LINES || newest.newest.is_some() && !newest.is_counted {
            return Ok(newest.newest);
        }
        Ok(self.read_reports(path, metric).await?.newest)
    }

    async fn read_reports(&self, path: &str, metric: &Metric) -> Result<FoundReports> {
        // Anyone may write the annotation with the pattern.
        let Ok(reader) = MetricReader::new(metric.clone()) else {
            return Ok(FoundReports::default());
        };
        let output = self.server().await?.stream(path).await?;
        let read = reports_in(output, reader.of_output()).await;
        read.map_err(|error| RequestError::unavailable(error.to_string()))
    }
}

/// Reads the reports of an output.
async fn reports_in(output: impl AsyncRead, mut reader: MetricReader) -> io::Result<FoundReports> {
    let mut output = pin!(output);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut found = FoundReports::default();
    loop {
        let length = output.read(&mut chunk).await?;
        if length == 0 {
            return Ok(found);
        }
        found.lines += chunk[..length].iter().filter(|byte| **byte == b'\n').count();
        found.newest = reader.read(&chunk[..length]).pop().or(found.newest);
        found.is_counted = reader.is_counted();
    }
}

#[cfg(test)]
mod tests {
    use muster_model::sweep::Goal;

    use super::*;

    #[tokio::test]
    async fn the_newest_report_is_found_beside_other_output() {
        let metric =
            Metric { name: "loss".into(), goal: Goal::Min, pattern: None, step: "step".into() };
        let found = async |text: &str| {
            let reader = MetricReader::new(metric.clone()).unwrap().of_output();
            reports_in(text.as_bytes(), reader).await.unwrap()
        };
        let report = |step, value| Some(MetricReport { step, value });
        let read = found("start\n{\"loss\": 2, \"step\": 3}\n 10% {\"loss\": 1}\nend\n").await;
        assert_eq!(read, FoundReports { newest: report(4, 1.0), is_counted: true, lines: 4 });
        let read = found("{\"loss\": 2}\n{\"loss\": 1.5, \"step\": 3}\n").await;
        assert_eq!(read, FoundReports { newest: report(3, 1.5), is_counted: false, lines: 2 });
        assert_eq!(found("").await, FoundReports::default());
    }
}
