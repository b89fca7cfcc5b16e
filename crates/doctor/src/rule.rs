//! The shape of a rule: what it looks at, what it says, and the three outcomes. The rules
//! themselves stand in `rules`.

use muster_model::check::{CheckPlace, Severity};

use crate::evidence::{Evidence, Said, Untested};

/// One rule. Its id never changes once published: baselines hold it.
pub(crate) struct Rule {
    pub(crate) id: &'static str,
    pub(crate) severity: Severity,
    /// What is wrong where it fails, as a fragment.
    pub(crate) title: &'static str,
    /// What follows from it.
    pub(crate) meaning: &'static str,
    /// What to do.
    pub(crate) cure: &'static str,
    pub(crate) page: Page,
    pub(crate) check: fn(&Evidence) -> Judged,
}

/// A page of Slurm's documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Page {
    /// A manual page of section 5, and the entry in it.
    Man(&'static str, &'static str),
    /// A guide of the site.
    Guide(&'static str),
}

impl Page {
    /// As people name it.
    pub(crate) fn name(self) -> String {
        match self {
            Page::Man(page, entry) => format!("{page}(5), {entry}"),
            Page::Guide(_) => self.url(),
        }
    }

    /// Where it is.
    pub(crate) fn url(self) -> String {
        let (Page::Man(page, _) | Page::Guide(page)) = self;
        format!("https://slurm.schedmd.com/{page}.html")
    }
}

/// What a rule came to; the third outcome is the error.
pub(crate) type Judged = Result<Verdict, Untested>;

/// What a rule that could be judged came to.
pub(crate) enum Verdict {
    /// Nothing is wrong: what was seen.
    Pass(String),
    /// What is wrong, each thing by itself; never empty.
    Fail(Vec<Trip>),
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trip {
    /// What it is about, such as a key or the name of a partition. Part of the fingerprint.
    pub(crate) key: String,
    /// What was seen.
    pub(crate) says: String,
    pub(crate) place: Option<CheckPlace>,
}

/// Fails when there is anything to say.
pub(crate) fn none_of(trips: Vec<Trip>, pass: impl Into<String>) -> Judged {
    Ok(match trips.is_empty() {
        true => Verdict::Pass(pass.into()),
        false => Verdict::Fail(trips),
    })
}

/// Passes with what was said when it is right, fails with the same when it is not.
pub(crate) fn right(said: &Said, is_right: bool) -> Judged {
    none_of(if is_right { Vec::new() } else { vec![said.trip()] }, said.text())
}

impl Said {
    /// `MaxTime=UNLIMITED`, or that it is not set.
    pub(crate) fn text(&self) -> String {
        match (&self.place, self.value.as_str()) {
            (_, "") => format!("{} is not set", self.key),
            (None, value) => format!("{} is not set; its default is {value}", self.key),
            (Some(_), value) => format!("{}={value}", self.key),
        }
    }

    /// A trip about this setting.
    pub(crate) fn trip(&self) -> Trip {
        Trip { key: self.key.to_ascii_lowercase(), says: self.text(), place: self.place.clone() }
    }

    /// The same word, whatever its case.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.value.eq_ignore_ascii_case(word)
    }

    /// True when the list holds the word, whatever its case.
    pub(crate) fn lists(&self, word: &str) -> bool {
        self.value.split(',').any(|own| own.trim().eq_ignore_ascii_case(word))
    }

    /// The number that it begins with: `30 sec` is 30. `None` where it begins with none.
    pub(crate) fn number(&self) -> Option<u64> {
        let digits: String = self.value.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }

    /// The value behind `word=` in a list such as that of SchedulerParameters.
    pub(crate) fn option(&self, word: &str) -> Option<&str> {
        let of = |own: &'_ str| {
            own.split_once('=').is_some_and(|(key, _)| key.trim().eq_ignore_ascii_case(word))
        };
        self.value
            .split(',')
            .find(|own| of(own))
            .and_then(|own| own.split_once('='))
            .map(|(_, value)| value)
    }

    /// Yes, in the words of cgroup.conf.
    pub(crate) fn is_yes(&self) -> bool {
        ["yes", "true", "1"].iter().any(|word| self.is(word))
    }
}

/// A length of time as Slurm writes it, in minutes: `30`, `30:00`, `1:00:00`, `2-0`, `2-12:30:00`.
/// `None` where it is without end or not understood; a limit that is not understood is none.
#[must_use]
pub fn minutes(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days.parse::<u64>().ok()?), clock),
        None => (None, text),
    };
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (hours, minutes) = match (days, parts.as_slice()) {
        (Some(_), [hours]) => (*hours, 0),
        (Some(_), [hours, minutes] | [hours, minutes, _]) | (None, [hours, minutes, _]) => {
            (*hours, *minutes)
        }
        (None, [minutes] | [minutes, _]) => (0, *minutes),
        _ => return None,
    };
    days.unwrap_or(0)
        .checked_mul(24 * 60)?
        .checked_add(hours.checked_mul(60)?)?
        .checked_add(minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_slurm_writes_them() {
        for (text, expected) in [
            ("30", Some(30)),
            ("90:00", Some(90)),
            ("48:00:00", Some(2880)),
            ("2-0", Some(2880)),
            ("1-02:30", Some(1590)),
            ("2-00:00:00", Some(2880)),
            ("UNLIMITED", None),
            ("INFINITE", None),
            ("", None),
            ("99999999999999999999-0", None),
        ] {
            assert_eq!(minutes(text), expected, "{text}");
        }
    }
}
