//! Reads what supervisors recorded of tasks that ended while no daemon ran, with the instants at
//! which it happened: a job is charged up to its end, and not up to when a daemon asks.

use muster_model::{Observation, Span, TaskReport, Time};

use super::adopt::{REBOOTED, lost, observation};
use super::state::Shared;
use crate::driver::{Expected, PastReport};
use crate::record::{Instant, TaskDir};

/// Returns the past of each expected task that is over, by what is on disk. Others are left to
/// their supervisors.
pub(super) fn past(shared: &Shared, expected: &[Expected]) -> Vec<PastReport> {
    let booted = shared.config.booted;
    let of_task = |task: &Expected| {
        let reports = recorded(&shared.dir(task.id, task.rank), booted);
        let (id, rank) = (task.id, task.rank);
        reports
            .into_iter()
            .map(move |(at, what)| PastReport { at, report: TaskReport { id, rank, what } })
    };
    expected.iter().flat_map(of_task).collect()
}

/// Returns what is recorded of a task that is over; nothing when it may still run, or when its
/// records cannot be read.
fn recorded(dir: &TaskDir, booted: Time) -> Vec<(Time, Observation)> {
    let Ok(Some(claim)) = dir.claimed() else { return Vec::new() };
    let is_of_this_boot = claim.supervisor.is_of_this_boot();
    // Time since boot cannot be set. That of an earlier boot says nothing now, and there is only
    // the wall clock.
    let time = |instant: Instant| match instant.boot_ms {
        Some(since) if is_of_this_boot => booted + Span(since),
        _ => Time(instant.at_ms),
    };
    let started = |instant: Option<Instant>| {
        let before = || dir.started_before().ok().flatten();
        instant.or_else(before).map(|instant| (time(instant), Observation::Started))
    };
    let (at, started, end, signalled) = match dir.ended() {
        Ok(Some(ended)) => {
            (time(ended.at), started(ended.started), observation(ended.end), ended.signalled)
        }
        // When the machine went down is not known; it had by this boot.
        Ok(None) if !is_of_this_boot => (booted, started(None), lost(REBOOTED.to_owned()), None),
        Ok(None) | Err(_) => return Vec::new(),
    };
    let saved = dir.checkpointed().ok().flatten();
    let words = [
        signalled.map(Observation::Signalled),
        saved.map(|saved| Observation::Checkpointed(saved.noted)),
        Some(end),
    ];
    started.into_iter().chain(words.into_iter().flatten().map(|what| (at, what))).collect()
}

#[cfg(test)]
mod tests {
    use muster_model::TaskExit;

    use super::*;
    use crate::process::{ProcessKey, boot_id};
    use crate::record::{End, Ended, Sync};

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
    fn an_end_is_told_with_when_it_came() {
        let exited = || Observation::Exited(TaskExit::Code { code: 0 });
        let (_temp, dir) = claimed(boot_id().unwrap());
        assert_eq!(recorded(&dir, BOOTED), [], "it may still run");
        ended(&dir, r#""at_ms":5"#);
        assert_eq!(recorded(&dir, BOOTED), [(Time(5), exited())], "an earlier version wrote it");
        ended(&dir, r#""at_ms":5,"boot_ms":70"#);
        assert_eq!(
            recorded(&dir, BOOTED),
            [(BOOTED + Span(70), exited())],
            "nobody can set this clock"
        );
        let started = Some(Instant { at_ms: 5, boot_ms: Some(60) });
        let end = Ended { started, ..Ended::now(End::Exited(TaskExit::Code { code: 0 })) };
        dir.write_ended(&end, Sync::No).unwrap();
        let (start, now) = (BOOTED + Span(60), BOOTED + Span(end.at.boot_ms.unwrap()));
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
    fn what_a_reboot_ended_had_ended_by_then() {
        let (_temp, dir) = claimed("another".to_owned());
        assert_eq!(recorded(&dir, BOOTED), [(BOOTED, lost(REBOOTED.to_owned()))]);
        ended(&dir, r#""at_ms":5,"boot_ms":70"#);
        assert_eq!(recorded(&dir, BOOTED)[0].0, Time(5), "time since another boot");
    }
}
