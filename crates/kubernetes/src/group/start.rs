//! Terms of the start of a workload that its annotations name, beside its queue. A term that cannot be
//! read is an error: the workload waits.

use muster_model::Time;

use crate::instant;
use crate::names;
use crate::object::Metadata;

/// Terms that must be met before a workload starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartTerms {
    /// True until a user releases it.
    pub is_held: bool,
    /// Earliest start; `None` means at once.
    pub begin: Option<Time>,
}

impl StartTerms {
    /// Reads the annotations of an object.
    ///
    /// # Errors
    /// Why one of them cannot be read, for users.
    pub(super) fn of(metadata: &Metadata) -> Result<Self, String> {
        let value = |key| metadata.annotations.get(key).map(String::as_str);
        Ok(Self {
            is_held: value(names::HELD) == Some("true"),
            begin: value(names::BEGIN).map(begin).transpose()?,
        })
    }
}

fn begin(text: &str) -> Result<Time, String> {
    instant::of_user(text).ok_or_else(|| {
        let name = names::BEGIN;
        format!("{name} is {text:?}; write an instant such as 2026-08-01T06:00:00Z")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Result<StartTerms, String> {
        let pairs = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        StartTerms::of(&Metadata { annotations: pairs.collect(), ..Metadata::default() })
    }

    #[test]
    fn a_hold_is_the_word_true() {
        for (value, is_held) in [("true", true), ("false", false), ("", false), ("yes", false)] {
            assert_eq!(read(&[(names::HELD, value)]).unwrap().is_held, is_held, "{value}");
        }
        assert_eq!(read(&[]), Ok(StartTerms::default()));
    }

    #[test]
    fn an_earliest_start_is_an_instant() {
        let begin = |text| read(&[(names::BEGIN, text)]).map(|terms| terms.begin);
        assert_eq!(begin("2026-11-20T13:00:00.5+01:00"), Ok(Some(Time(1_795_176_000_500))));
        assert_eq!(
            begin("tomorrow"),
            Err("muster.run/begin is \"tomorrow\"; write an instant such as 2026-08-01T06:00:00Z"
                .to_owned())
        );
    }
}
