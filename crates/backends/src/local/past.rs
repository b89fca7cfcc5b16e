//! Reads the records of tasks that ended while no daemon ran, with the times of the events: a job
//! is charged up to its end, not up to the restart of the daemon.

use muster_model::{Observation, Span, TaskReport, Time};

use super::state::Shared;
use super::status::{REBOOTED, lost, observation};
use super::unrecorded;
use crate::driver::{ExpectedTask, PastReport};
use crate::record::{Instant, TaskDir};

/// Returns the recorded events of each expected task that is over, and the loss of those without
/// records. Other tasks are reported by their supervisors.
pub(super) fn past(shared: &Shared, expected: &[ExpectedTask]) -> Vec<PastReport> {
    let booted = shared.config.booted;
    let now = Instant::now();
    let now = now.boot_ms.map_or(Time(now.at_ms), |since| booted + Span(since));
    let lost = unrecorded::end_unrecorded(shared, expected)
        .into_iter()
        .map(|report| PastReport { at: now, report });
    let of_task = |task: &ExpectedTask| {
        let reports = recorded(&shared.dir(task.id, task.rank), booted);
        let id = task.id;
        let rank = task.rank;
        reports.into_iter().map(move |(at, what)| PastReport {
            at,
            report: TaskReport { id, rank, observation: what },
        })
    };
    lost.chain(expected.iter().flat_map(of_task)).collect()
}

/// Returns the recorded events of a task that is over; none when it may still run, or when its
/// records cannot be read.
fn recorded(dir: &TaskDir, booted: Time) -> Vec<(Time, Observation)> {
    let Ok(Some(claim)) = dir.claimed() else { return Vec::new() };
    let is_of_this_boot = claim.supervisor.is_of_this_boot();
    // Time since boot cannot be changed by users, so it is preferred. For an earlier boot it is
    // meaningless, and only the wall clock remains.
    let time = |instant: Instant| match instant.boot_ms {
        Some(since) if is_of_this_boot => booted + Span(since),
        _ => Time(instant.at_ms),
    };
    let started = |instant: Option<Instant>| {
        let before = || dir.started_before().ok().flatten();
        instant.or_else(before).map(|instant| (time(instant), Observation::Started))
    };
    let (at, started, end, signalled) = match dir.exit() {
        Ok(Some(ended)) => {
            (time(ended.at), started(ended.started), observation(ended.end), ended.signalled)
        }
        // The time of the shutdown is unknown; it was at the latest at this boot.
        Ok(None) if !is_of_this_boot => (booted, started(None), lost(REBOOTED.to_owned()), None),
        Ok(None) | Err(_) => return Vec::new(),
    };
    let saved = dir.checkpoint().ok().flatten();
    let observations = [
        signalled.map(Observation::Signalled),
        saved.map(|saved| Observation::Checkpointed(saved.checkpoint)),
        Some(end),
    ];
    started.into_iter().chain(observations.into_iter().flatten().map(|what| (at, what))).collect()
}

#[cfg(test)]
mod tests {
    use muster_model::TaskExit;

    use super::*;
    use crate::process::{ProcessKey, boot_id};
    use crate::record::{ExitRecord, Sync, TaskEnd};

    const BOOTED: Time = Time(1_000_000);

    fn claimed(boot_id: String) -> (tempfile::TempDir, TaskDir) {
        let temp = tempfile::tempdir().unwrap();
        let dir = TaskDir::at(temp.path().to_owned());
        dir.claim(ProcessKey { pid: 7, start_ticks: 9, boot_id }).unwrap();
        (temp, dir)
    }

    fn ended(dir: &TaskDir, times: &str) {
        let text =
            format!(r#"{{"version":1,"end":{{"exited":{{"kind":"code","code":0}}}},{times}}}"#);
        std::fs::write(dir.path().join(crate::record::EXIT), text).unwrap();
    }

    #[test]
    fn an_end_is_reported_with_its_time() {
        let exited = || Observation::Exited(TaskExit::Code { code: 0 });
        let (_temp, dir) = claimed(boot_id().unwrap());
        assert_eq!(recorded(&dir, BOOTED), [], "it may still run");
        ended(&dir, r#""at_ms":5"#);
        assert_eq!(recorded(&dir, BOOTED), [(Time(5), exited())], "an earlier version wrote it");
        ended(&dir, r#""at_ms":5,"boot_ms":70"#);
        assert_eq!(
            recorded(&dir, BOOTED),
            [(BOOTED + Span(70), exited())],
            "users cannot set this clock"
        );
        let started = Some(Instant { at_ms: 5, boot_ms: Some(60) });
        let end =
            ExitRecord { started, ..ExitRecord::now(TaskEnd::Exited(TaskExit::Code { code: 0 })) };
        dir.write_exit(&end, Sync::No).unwrap();
        let start = BOOTED + Span(60);
        let now = BOOTED + Span(end.at.boot_ms.unwrap());
        assert_eq!(recorded(&dir, BOOTED), [(start, Observation::Started), (now, exited())]);
    }

    #[test]
    fn the_start_of_a_task_of_an_earlier_version_is_known() {
        let (_temp, dir) = claimed(boot_id().unwrap());
        let main = r#"{"pid":7,"start_ticks":9,"boot_id":"b"}"#;
        let started = format!(r#"{{"version":1,"main":{main},"at_ms":5,"boot_ms":60}}"#);
        std::fs::write(dir.path().join("started.json"), started).unwrap();
        ended(&dir, r#""at_ms":5,"boot_ms":70"#);
        assert_eq!(recorded(&dir, BOOTED)[0], (BOOTED + Span(60), Observation::Started));
    }

    #[test]
    fn a_task_lost_in_a_reboot_ended_at_the_boot_time() {
        let (_temp, dir) = claimed("another".to_owned());
        assert_eq!(recorded(&dir, BOOTED), [(BOOTED, lost(REBOOTED.to_owned()))]);
        ended(&dir, r#""at_ms":5,"boot_ms":70"#);
        assert_eq!(recorded(&dir, BOOTED)[0].0, Time(5), "time since another boot");
    }
}
