//! Epochs: the identity of a state's lineage. A new one begins whenever numbers could be given
//! again: with a new database, with a restored one, and when the task directories were lost.
//!
//! Task directories, sockets, control groups, environment tags and orders carry the epoch of their
//! job. A task of a state that was lost therefore never shares a path with a task of the state that
//! replaced it, even while it runs.

use std::fmt;

use muster_model::JobId;
use serde::{Deserialize, Serialize};

/// Digits of an epoch's name.
const DIGITS: usize = 8;

/// The name of an epoch: eight hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(String);

impl Epoch {
    /// The epoch of this number.
    #[must_use]
    pub fn of(number: u32) -> Self {
        Self(format!("{number:0DIGITS$x}"))
    }

    /// The epoch with this name; `None` for anything else.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (name.len() == DIGITS && name.bytes().all(is_digit)).then(|| Self(name.to_owned()))
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The epochs of one state, oldest first. Each job number belongs to one of them; numbers from
/// before the first epoch, given by versions that had none, belong to no epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epochs(Vec<Beginning>);

/// From which number on an epoch holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Beginning {
    from: u64,
    epoch: Epoch,
}

impl Epochs {
    /// The epoch of a job.
    #[must_use]
    pub fn of(&self, job: JobId) -> Option<&Epoch> {
        self.0
            .iter()
            .rev()
            .find(|beginning| beginning.from <= job.0)
            .map(|beginning| &beginning.epoch)
    }

    /// The newest epoch.
    #[must_use]
    pub fn newest(&self) -> Option<&Epoch> {
        self.0.last().map(|beginning| &beginning.epoch)
    }

    /// Begins an epoch for all jobs from this number on.
    pub fn begin(&mut self, from: u64, epoch: Epoch) {
        // An epoch in which no number was given is replaced.
        self.0.retain(|beginning| beginning.from < from);
        self.0.push(Beginning { from, epoch });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_belongs_to_the_newest_epoch_that_had_begun() {
        let mut epochs = Epochs::default();
        assert_eq!(epochs.of(JobId(5)), None);
        let (first, second, third) = (Epoch::of(1), Epoch::of(0xfeed_beef), Epoch::of(3));
        epochs.begin(10, first.clone());
        epochs.begin(20, second);
        epochs.begin(20, third.clone());
        let of = |job| epochs.of(JobId(job));
        assert_eq!([of(9), of(10), of(19)], [None, Some(&first), Some(&first)]);
        assert_eq!((of(20), epochs.newest()), (Some(&third), Some(&third)));
        let text = serde_json::to_string(&epochs).unwrap();
        assert_eq!(serde_json::from_str::<Epochs>(&text).unwrap(), epochs);
    }

    #[test]
    fn only_eight_hexadecimal_digits_name_an_epoch() {
        assert_eq!(Epoch::parse("0000beef"), Some(Epoch::of(0xbeef)));
        for wrong in ["", "12", "0000BEEF", "000000000", ".live...", "0000000g"] {
            assert_eq!(Epoch::parse(wrong), None, "{wrong}");
        }
    }
}
