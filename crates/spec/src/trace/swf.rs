//! Standard Workload Format 2.2 (Chapin et al., 1999; Parallel Workloads Archive): 18 numbers per
//! job, -1 for unknown, header comments behind `;`.

use muster_model::job::Resources;
use muster_model::{Bytes, CpuMilli, Span, Time};

use super::names::NameCache;
use super::value::decimal_text;
use super::{JobEnd, TraceJob};

/// Number of fields of a row. Later versions may add some at its end.
const FIELDS: usize = 18;
/// Text of an unknown number.
const UNKNOWN: &[u8] = b"-1";
/// Number of digits with which any number fits 64 bits.
const MAX_DIGITS: usize = 18;

/// Values for the whole trace from comments at its top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Processors of the machine.
    pub(super) procs: Option<u32>,
    /// The trace's zero, since the epoch.
    pub(super) zero: Option<Time>,
}

impl Header {
    fn note(&mut self, name: &str, value: &str) {
        match name {
            "MaxProcs" => self.procs = value.parse().ok().filter(|procs| *procs > 0).or(self.procs),
            "UnixStartTime" => {
                let secs: Option<u64> = value.parse().ok().filter(|secs| *secs > 0);
                self.zero = secs.map(|secs| Time(0) + Span::from_secs(secs)).or(self.zero);
            }
            _ => {}
        }
    }
}

/// Reads a row; `None` for a comment, whose values are stored in `header`.
pub(super) fn read(
    text: &str,
    header: &mut Header,
    names: &mut NameCache,
) -> Result<Option<TraceJob>, String> {
    let text = text.trim();
    if let Some(comment) = text.strip_prefix(';') {
        if let Some((name, value)) = comment.split_once(':') {
            header.note(name.trim(), value.trim());
        }
        return Ok(None);
    }
    if text.is_empty() {
        return Ok(None);
    }
    // 1. Eighteen numbers.
    let [
        id,
        submit,
        wait,
        run,
        allocated,
        _,
        _,
        asked,
        limit,
        memory_kib,
        status,
        user,
        _,
        _,
        queue,
        partition,
        ..,
    ] = numbers(text)?;

    // 2. Required fields.
    let id = id.ok_or("field 1, the number of the job, is missing")?;
    let submit = submit.ok_or("field 2, the submit time, is missing")?;
    let held = allocated.filter(|procs| *procs > 0);
    let runtime = run.filter(|secs| !is_never_started(status, *secs, held)).map(Span::from_secs);
    let tasks = asked.filter(|procs| *procs > 0).or(held);
    let tasks = tasks.ok_or("fields 5 and 8 name no processors")?;
    let tasks = u32::try_from(tasks).map_err(|_| format!("{tasks} processors"))?;
    let mut name = |number| names.shared(decimal_text(number, &mut [0; _]));
    let submit = Time(0) + Span::from_secs(submit);
    let waited = wait.filter(|_| runtime.is_some()).map(Span::from_secs);
    Ok(Some(TraceJob {
        id: decimal_text(id, &mut [0; _]).into(),
        submit,
        runtime,
        started: waited.map(|waited| submit + waited),
        requested: limit.filter(|secs| *secs > 0).map(Span::from_secs),
        tasks,
        task: Resources {
            cpus: CpuMilli(1000),
            memory: Bytes(memory_kib.unwrap_or(0).saturating_mul(1024)),
            ..Resources::default()
        },
        user: user.map(&mut name),
        queue: queue.or(partition).map(&mut name),
        priority: 0,
        ended: match status {
            Some(1) => JobEnd::Completed,
            Some(0) => JobEnd::Failed,
            Some(5) => JobEnd::Cancelled,
            _ => JobEnd::Unknown,
        },
    }))
}

/// Returns whether a job was cancelled before it started: some logs give it a runtime of zero.
fn is_never_started(status: Option<u64>, run_secs: u64, held: Option<u64>) -> bool {
    status == Some(5) && run_secs == 0 && held.is_none()
}

/// Parses the numbers of a row, with a fast path for the usual case: only digits, or unknown.
fn numbers(text: &str) -> Result<[Option<u64>; FIELDS], String> {
    let mut fields = [None; FIELDS];
    let mut rest = text.as_bytes();
    for (at, field) in fields.iter_mut().enumerate() {
        rest = rest.trim_ascii_start();
        let is_end = |len: usize| rest.get(len).is_none_or(u8::is_ascii_whitespace);
        let (digits, whole) = leading_digits(rest);
        if (1..=MAX_DIGITS).contains(&digits) && is_end(digits) {
            (*field, rest) = (Some(whole), &rest[digits..]);
        } else if rest.starts_with(UNKNOWN) && is_end(UNKNOWN.len()) {
            rest = &rest[UNKNOWN.len()..];
        } else {
            let word = text[text.len() - rest.len()..].split_ascii_whitespace().next();
            let word = word.ok_or_else(|| format!("{at} fields of {FIELDS}"))?;
            *field = number(word).ok_or_else(|| {
                format!("field {} is `{}`, not a number", at + 1, word.escape_debug())
            })?;
            rest = &rest[word.len()..];
        }
    }
    Ok(fields)
}

/// Returns the number of leading digits, and their value if it fits.
fn leading_digits(text: &[u8]) -> (usize, u64) {
    let mut digits = 0;
    let mut whole = 0u64;
    for byte in text.iter().take_while(|byte| byte.is_ascii_digit()) {
        whole = whole.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        digits += 1;
    }
    (digits, whole)
}

/// Parses a number, rounded down; `Some(None)` for negative ones, which mean unknown.
fn number(word: &str) -> Option<Option<u64>> {
    if let Ok(whole) = word.parse::<i64>() {
        return Some(u64::try_from(whole).ok());
    }
    // Average CPU times have fractions.
    let parsed: f64 = word.parse().ok().filter(|parsed: &f64| parsed.is_finite())?;
    Some((parsed >= 0.0).then_some(parsed as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_with_what_is_unknown_left_open() {
        let mut header = Header::default();
        let mut names = NameCache::new();
        assert_eq!(read("; MaxProcs: 128", &mut header, &mut names), Ok(None));
        assert_eq!(read(";UnixStartTime: 843480031", &mut header, &mut names), Ok(None));
        assert_eq!(header, Header { procs: Some(128), zero: Some(Time(843_480_031_000)) });
        let row = "60003 43359178   8033     38    4   2.50    -1    -1    600    -1  1   3   3 29604  3 -1 -1 -1";
        let job = read(row, &mut header, &mut names).unwrap().unwrap();
        assert_eq!(
            (&*job.id, job.submit, job.tasks),
            ("60003", Time(43_359_178_000), 4),
            "allocated where not asked"
        );
        assert_eq!((job.runtime, job.requested), (Some(Span(38_000)), Some(Span(600_000))));
        assert_eq!(job.started.map(|start| start.since(job.submit)), Some(Span(8_033_000)));
        assert_eq!(
            (job.user.as_deref(), job.queue.as_deref(), job.ended),
            (Some("3"), Some("3"), JobEnd::Completed)
        );
        let never =
            read("1 0 -1 -1 -1 -1 -1 8 -1 -1 5 -1 -1 -1 -1 -1 -1 -1", &mut header, &mut names)
                .unwrap()
                .unwrap();
        assert_eq!((never.runtime, never.requested, never.user), (None, None, None));
        assert_eq!(never.started, None);
        let mut times = |row: &str| {
            let job = read(row, &mut header, &mut names).unwrap().unwrap();
            (job.runtime, job.started)
        };
        let cancelled = "1 0 600 0 -1 -1 -1 8 -1 -1 5 -1 -1 -1 -1 -1 -1 -1";
        assert_eq!(times(cancelled), (None, None), "cancelled while pending");
        assert_eq!(times(&cancelled.replace("0 -1 -1", "0 0 -1")), (None, None));
        let short = (Some(Span(0)), Some(Time(600_000)));
        assert_eq!(times(&cancelled.replace("0 -1 -1", "0 8 -1")), short, "it held processors");
        assert_eq!(times(&cancelled.replace(" 5 ", " 1 ")), short, "it completed");
    }

    #[test]
    fn a_row_that_is_none_says_why() {
        let read = |text| read(text, &mut Header::default(), &mut NameCache::new()).unwrap_err();
        assert_eq!(read("1 2 3"), "3 fields of 18");
        assert_eq!(read("1 0 x 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"), "field 3 is `x`, not a number");
        assert_eq!(
            read("1 -1 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"),
            "field 2, the submit time, is missing"
        );
        assert_eq!(
            read("1 0 0 1 -1 1 1 0 1 1 1 1 1 1 1 1 1 1"),
            "fields 5 and 8 name no processors"
        );
    }

    #[test]
    fn numbers_are_read_alike_however_they_are_written() {
        let check = |word: &str, expected: Option<u64>| {
            let row = format!("1\t0 0  {word} 1 -1 -1 1 1 -1 1 1 1 -1 1 -1 -1 {word}");
            let job = read(&row, &mut Header::default(), &mut NameCache::new()).unwrap().unwrap();
            assert_eq!(job.runtime, expected.map(Span::from_secs), "{word}");
            assert_eq!(number(word), Some(expected), "{word}");
        };
        check("0", Some(0));
        check("007", Some(7));
        check("+7", Some(7));
        check("-0", Some(0));
        check("-1", None);
        check("-1.5", None);
        check("-10", None);
        check("2.99", Some(2));
        check("1e3", Some(1000));
        check("9999999999999999", Some(9_999_999_999_999_999));
        let id = |word: &str| {
            let row = format!("{word} 0 0 1 1 -1 -1 1 1 -1 1 1 1 -1 1 -1 -1 -1");
            read(&row, &mut Header::default(), &mut NameCache::new())
                .map(|job| job.unwrap().id.to_string())
        };
        assert_eq!(id("0012").unwrap(), "12");
        assert_eq!(id("999999999999999999").unwrap(), "999999999999999999");
        assert_eq!(id("9223372036854775807").unwrap(), "9223372036854775807");
        assert_eq!(id("9223372036854775808").unwrap(), "9223372036854775808");
        assert_eq!(id("99999999999999999999").unwrap(), u64::MAX.to_string());
        assert_eq!(id("12é").unwrap_err(), "field 1 is `12é`, not a number");
        assert_eq!(id("-1é").unwrap_err(), "field 1 is `-1é`, not a number");
        assert_eq!(id("-").unwrap_err(), "field 1 is `-`, not a number");
        assert_eq!(id("-1").unwrap_err(), "field 1, the number of the job, is missing");
    }
}
