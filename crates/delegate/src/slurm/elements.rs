//! Elements of an array or sweep on Slurm: states from the controller and the accounting, values from the record of the
//! submission, and reports from the files that the elements write.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use muster_api::types::ElementList;
use muster_model::JobId;
use muster_model::sweep::{Metric, MetricReport};
use muster_model::view::ElementRow;
use muster_slurm::job::NativeJob;
use muster_sweep::MetricReader;

use super::output::rank_file;
use super::{RequestError, Result, SlurmScheduler, view};
use crate::route::now;

/// Bytes per read of a file with reports.
const CHUNK_BYTES: usize = 64 << 10;

/// Name of the report file in the directory of an element.
const REPORT: &str = "report";

impl SlurmScheduler {
    /// Lists the elements of a job.
    pub(super) async fn elements(&self, job: JobId) -> Result<ElementList> {
        let (rows, record) = self.rows_of(job).await?;
        let mut elements = rows_of_elements(job, &rows);
        if elements.is_empty() {
            let view = self.detail(job, None).await?.job;
            elements = view.elements.iter().map(ElementRow::of).collect();
        }
        let Some(record) = record else { return Ok(ElementList::new(now(), None, elements)) };
        let metric = record.sweep.as_ref().and_then(|sweep| sweep.metric.clone());
        if let Some(metric) = metric {
            let dir = self.records().await?.dir(&record.id);
            let started: Vec<u32> =
                elements.iter().filter(|row| row.attempt > 0).map(|row| row.index).collect();
            // Files of thousands of elements, maybe on a slow file system.
            let reports = tokio::task::spawn_blocking(move || reports(&dir, &metric, &started));
            let reports =
                reports.await.map_err(|error| RequestError::internal(error.to_string()))?;
            for row in &mut elements {
                row.report = reports.get(&row.index).copied();
            }
        }
        Ok(ElementList::new(now(), record.sweep.as_ref(), elements))
    }
}

/// Returns a row for each element of an array that Slurm has, by index; none for other jobs. Of the many elements that
/// wait in one row, those count that Slurm names.
fn rows_of_elements(job: JobId, rows: &[NativeJob]) -> Vec<ElementRow> {
    let mut found: BTreeMap<u32, ElementRow> = BTreeMap::new();
    // An element that has left the common row is in its own, too.
    let mut rows: Vec<&NativeJob> = rows.iter().filter(|row| row.array.is_some()).collect();
    rows.sort_by_key(|row| view::elements_of(row));
    for row in rows {
        for index in view::indices(row) {
            found.entry(index).or_insert_with(|| view::element_row(job, row, index));
        }
    }
    found.into_values().collect()
}

/// Returns the newest report of each element.
fn reports(dir: &Path, metric: &Metric, elements: &[u32]) -> BTreeMap<u32, MetricReport> {
    let newest = |index: &u32| {
        let element = dir.join(index.to_string());
        // The pattern was checked before the submission.
        let reader = MetricReader::new(metric.clone()).ok()?;
        let path = if reader.reads_output() {
            rank_file(&element, None, 0)?
        } else {
            element.join(REPORT)
        };
        let file = File::open(path).ok()?;
        Some((*index, last_report(file, reader).ok().flatten()?))
    };
    elements.iter().filter_map(newest).collect()
}

fn last_report(mut file: impl Read, mut reader: MetricReader) -> io::Result<Option<MetricReport>> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut last = None;
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(last),
            length => last = reader.read(&chunk[..length]).pop().or(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_model::sweep::Goal;

    use super::*;

    #[test]
    fn the_newest_report_is_read_from_file_or_output() {
        let dir = tempfile::tempdir().unwrap();
        let metric = |pattern: Option<&str>| Metric {
            name: "loss".into(),
            goal: Goal::Min,
            pattern: pattern.map(Arc::from),
            step: "step".into(),
        };
        for (path, text) in [
            ("0/report", "{\"loss\": 2, \"step\": 3}\n{\"loss\": 1.5, \"step\": 4}\n{\"los"),
            ("2/report", "nothing\n"),
            ("0/1/rank-0.log", "loss 9\n"),
            ("0/2/rank-0.log", "loss 8\nloss 7\nend\n"),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let of_file = reports(dir.path(), &metric(None), &[0, 1, 2]);
        assert_eq!(of_file, [(0, MetricReport { step: 4, value: 1.5 })].into());
        let of_output = reports(dir.path(), &metric(Some("loss (.*)")), &[0, 1]);
        assert_eq!(of_output, [(0, MetricReport { step: 2, value: 7.0 })].into());
    }
}
