//! The end of a job: time limit, checkpoint before it, grace, restarts.

use muster_model::Span;
use muster_model::job::{AfterCheckpoint, Checkpoint, CheckpointBy, CheckpointTo, Restart};

use crate::diagnostic::{Problem, Problems};
use crate::field::Located;
use crate::job::document::{CheckpointDocument, JobDocument};
use crate::job::kind::KindValue;

/// Default time between SIGTERM and SIGKILL; as Slurm's `KillWait` and Kubernetes' pods.
const DEFAULT_GRACE: Span = Span::from_secs(30);

/// Longest such time: resources stay held for as long.
const MAX_GRACE: Span = Span::from_secs(86_400);

pub(super) fn time_limit(job: &JobDocument, problems: &mut Problems) -> Option<Span> {
    let time = job.time.as_ref()?;
    if time.value.0 == Some(Span(0)) {
        let hint = "for no limit write `time: none`".to_owned();
        problems.add(Problem::new("`time` is 0").at(time.place, "the smallest is 1ms").hint(hint));
    }
    time.value.0
}

pub(super) fn checkpoint(
    job: &JobDocument,
    word: KindValue,
    limit: Option<Span>,
    problems: &mut Problems,
) -> Option<Checkpoint> {
    const KILL: i32 = 9;
    const STOP: i32 = 19;
    const USR1: i32 = 10;
    let written = job.checkpoint.as_ref()?;
    let signal = written.value.signal.as_ref();
    if let Some(signal) = signal.filter(|signal| [KILL, STOP].contains(&signal.value.0)) {
        let label = "a program cannot catch this signal";
        let hint = "write `signal: USR1` or `signal: TERM`".to_owned();
        problems.add(
            Problem::new("`checkpoint` cannot work with this signal")
                .at(signal.place, label)
                .hint(hint),
        );
    }
    let lead = written.value.grace.as_ref()?;
    let then = written.value.then.as_ref().map_or(AfterCheckpoint::Continue, |then| then.value.0);
    match (limit, &job.time) {
        (Some(limit), Some(time)) if lead.value.0 >= limit => problems.add(
            Problem::new("`checkpoint` would come before the start")
                .at(lead.place, "this long before the limit")
                .also(time.place, format!("the limit is {limit}")),
        ),
        (None, _) if then != AfterCheckpoint::Continue => problems.add(
            Problem::new("`then` of `checkpoint` needs a time limit")
                .at(written.key, "before which limit?")
                .hint("add `time: 12h`".to_owned()),
        ),
        _ => {}
    }
    if lead.value.0 == Span(0) {
        problems
            .add(Problem::new("`checkpoint` gives no time").at(lead.place, "the smallest is 1ms"));
    }
    Some(Checkpoint {
        signal: signal.map_or(USR1, |signal| signal.value.0),
        lead: lead.value.0,
        by: written.value.by.as_ref().map_or(CheckpointBy::First, |by| by.value.0),
        then,
        to: receivers(word, written, problems),
    })
}

/// Returns the processes that get the checkpoint signal: of a Ray node the launcher, which passes it to the
/// program. Ray's own processes must not get it.
fn receivers(
    word: KindValue,
    written: &Located<CheckpointDocument>,
    problems: &mut Problems,
) -> CheckpointTo {
    let fields = &written.value;
    if word != KindValue::Ray {
        return fields.to.as_ref().map_or(CheckpointTo::Handlers, |to| to.value.0);
    }
    if let Some(to) = &fields.to {
        problems.add(
            Problem::new("a Ray job cannot choose the receivers of the checkpoint signal")
                .at(to.key, "its program gets the signal")
                .hint("remove `to`".to_owned()),
        );
    }
    if let Some(by) = fields.by.as_ref().filter(|by| by.value.0 == CheckpointBy::All) {
        problems.add(
            Problem::new("only rank 0 of a Ray job acknowledges checkpoints")
                .at(by.place, "the other ranks have no program")
                .hint("remove `by`".to_owned()),
        );
    }
    const FREE_SIGNALS: [i32; 2] = [10, 12];
    let signal = fields.signal.as_ref();
    if let Some(signal) = signal.filter(|signal| !FREE_SIGNALS.contains(&signal.value.0)) {
        problems.add(
            Problem::new("a Ray job cannot have this checkpoint signal")
                .at(signal.place, "Ray's own processes may handle it")
                .hint("write `signal: USR1` or `signal: USR2`".to_owned()),
        );
    }
    CheckpointTo::Outermost
}

pub(super) fn restart(job: &JobDocument, problems: &mut Problems) -> Restart {
    let Some(written) = &job.restart else { return Restart::NEVER };
    let restart = written.value.resolve();
    if restart.backoff > Restart::BACKOFF_CAP {
        let label = format!("the wait before a restart is at most {}", Restart::BACKOFF_CAP);
        problems.add(Problem::new("`restart` waits too long").at(written.place, label));
    }
    restart
}

pub(super) fn grace(job: &JobDocument, problems: &mut Problems) -> Span {
    let Some(written) = &job.grace else { return DEFAULT_GRACE };
    if written.value.0 > MAX_GRACE {
        let label = "at most 1d, because the job holds its GPUs for that time";
        problems.add(Problem::new("`grace` is too long").at(written.place, label));
    }
    written.value.0
}
