//! Epochs identify a lineage of the daemon's state. A new epoch begins whenever job numbers could
//! be reused: with a new database, with a restored one, and when the task directories were lost.
//!
//! Task directories, sockets, control groups, environment tags and orders carry the epoch of their
//! job, so a task of a lost state never shares a path with a task of the state that replaced it.

use std::fmt;

use muster_model::JobId;
use serde::{Deserialize, Serialize};

/// Number of digits in an epoch's name.
const DIGITS: usize = 8;

/// The name of an epoch: eight hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(String);

impl Epoch {
    /// Returns the epoch with this number.
    #[must_use]
    pub fn of(number: u32) -> Self {
        Self(format!("{number:0DIGITS$x}"))
    }

    /// Parses the name of an epoch; `None` for any other text.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (name.len() == DIGITS && name.bytes().all(is_digit)).then(|| Self(name.to_owned()))
    }

    /// Returns its name, as in paths.
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

/// The epochs of one state, oldest first. Each job number belongs to one of them; numbers before
/// the first epoch, from versions without epochs, belong to none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epochs(Vec<Beginning>);

/// An epoch and its first job number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Beginning {
    from: u64,
    epoch: Epoch,
}

impl Epochs {
    /// Returns the epoch of a job.
    #[must_use]
    pub fn of(&self, job: JobId) -> Option<&Epoch> {
        self.0
            .iter()
            .rev()
            .find(|beginning| beginning.from <= job.0)
            .map(|beginning| &beginning.epoch)
    }

    /// Returns the newest epoch.
    #[must_use]
    pub fn newest(&self) -> Option<&Epoch> {
        self.0.last().map(|beginning| &beginning.epoch)
    }

    /// Begins an epoch for all job numbers from this one on.
    pub fn begin(&mut self, from: u64, epoch: Epoch) {
        // An epoch without any job number is replaced.
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
        let first = Epoch::of(1);
        let second = Epoch::of(0xfeed_beef);
        let third = Epoch::of(3);
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
