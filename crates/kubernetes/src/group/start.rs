//! Terms of the start of a workload that its annotations name, beside its queue. A term that cannot be
//! read is an error: the workload waits.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use muster_model::{DependencyKind, Time};

use crate::group::{GroupKind, Progress};
use crate::instant;
use crate::names;
use crate::object::Metadata;

/// Kinds of objects that end, for which others can wait.
const ENDING: [GroupKind; 5] = [
    GroupKind::Job,
    GroupKind::JobSet,
    GroupKind::TrainJob,
    GroupKind::PyTorchJob,
    GroupKind::MpiJob,
];

/// Object of a namespace, as users name it: `job/prep`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Kind of the object.
    pub kind: GroupKind,
    /// Name within its namespace.
    pub name: Arc<str>,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.word(), self.name)
    }
}

impl FromStr for ObjectRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.trim().split_once('/').unwrap_or_default();
        let found = ENDING.into_iter().find(|one| one.word() == kind.to_ascii_lowercase());
        match found.filter(|_| !name.is_empty()) {
            Some(kind) => Ok(Self { kind, name: name.into() }),
            None => {
                let kinds: Vec<String> = ENDING.iter().map(|kind| kind.word()).collect();
                Err(format!(
                    "{text:?} is no object that ends; write {}/NAME",
                    kinds.join("/NAME, ")
                ))
            }
        }
    }
}

/// Dependency on an object of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDependency {
    /// Condition that satisfies it.
    pub kind: DependencyKind,
    /// Object to wait for.
    pub object: ObjectRef,
}

impl fmt::Display for ObjectDependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.word(), self.object)
    }
}

/// Terms that must be met before a workload starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartTerms {
    /// True while a user holds the workload.
    pub is_held: bool,
    /// Earliest start; `None` means at once.
    pub begin: Option<Time>,
    /// Objects that must have started or ended.
    pub after: Vec<ObjectDependency>,
    /// Last known stage of those of them that Muster has noted.
    pub noted: BTreeMap<ObjectRef, Progress>,
}

impl StartTerms {
    /// Reads the annotations of an object.
    ///
    /// # Errors
    /// Why one of them cannot be read, for users.
    pub(super) fn of(kind: GroupKind, metadata: &Metadata) -> Result<Self, String> {
        let value = |key| metadata.annotations.get(key).map(String::as_str);
        let after = value(names::AFTER).map(after).transpose()?.unwrap_or_default();
        let own = ObjectRef { kind, name: Arc::clone(&metadata.name) };
        if after.iter().any(|one| one.object == own) {
            return Err(format!("{} names the object itself; remove {own} from it", names::AFTER));
        }
        Ok(Self {
            is_held: value(names::HELD) == Some("true"),
            begin: value(names::BEGIN).map(begin).transpose()?,
            noted: value(names::AFTER_STATUS).map(noted).unwrap_or_default(),
            after,
        })
    }
}

/// Returns the stages of objects as text that is read back.
#[must_use]
pub fn text_of_stages(stages: &BTreeMap<ObjectRef, Progress>) -> String {
    let parts =
        stages.iter().filter_map(|(object, stage)| Some(format!("{object}={}", stage.word()?)));
    parts.collect::<Vec<_>>().join(",")
}

/// Reads what [`text_of_stages`] wrote; parts of other origin are left out.
fn noted(text: &str) -> BTreeMap<ObjectRef, Progress> {
    let read = |part: &str| {
        let (object, stage) = part.split_once('=')?;
        Some((object.parse().ok()?, Progress::of_word(stage)?))
    };
    text.split(',').filter_map(read).collect()
}

/// Reads `afterok:job/a,afterany:jobset/b`, as the field `after` of a job file is written: several
/// objects of one kind of dependency are `afterok:job/a:job/b`, and `job/a` alone means `afterok`.
fn after(text: &str) -> Result<Vec<ObjectDependency>, String> {
    let refuse = |what: String| format!("{} is {text:?}: {what}", names::AFTER);
    let mut found = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (word, objects) =
            part.split_once(':').unwrap_or((DependencyKind::AfterOk.word(), part));
        let word = word.trim().to_ascii_lowercase();
        let Some(kind) = DependencyKind::ALL.into_iter().find(|kind| kind.word() == word) else {
            let words = DependencyKind::ALL.map(DependencyKind::word).join(", ");
            return Err(refuse(format!("{word:?} is no kind of dependency; write one of {words}")));
        };
        for object in objects.split(':') {
            found.push(ObjectDependency { kind, object: object.parse().map_err(&refuse)? });
        }
    }
    Ok(found)
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
        let metadata =
            Metadata { name: "own".into(), annotations: pairs.collect(), ..Metadata::default() };
        StartTerms::of(GroupKind::Job, &metadata)
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

    #[test]
    fn dependencies_name_objects_that_end() {
        let after = |text| {
            let terms = read(&[(names::AFTER, text)])?;
            Ok::<_, String>(
                terms.after.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            )
        };
        assert_eq!(after("").as_deref(), Ok(""));
        assert_eq!(after("job/a").as_deref(), Ok("afterok:job/a"));
        assert_eq!(
            after("AfterOK:Job/a:jobset/b, afterany:trainjob/c,afternotok:mpijob/d").as_deref(),
            Ok("afterok:job/a afterok:jobset/b afterany:trainjob/c afternotok:mpijob/d")
        );
        for (text, expected) in [
            (
                "afterok",
                "muster.run/after is \"afterok\": \"afterok\" is no object that ends; write job/NAME, jobset/NAME, trainjob/NAME, pytorchjob/NAME, mpijob/NAME",
            ),
            ("raycluster/a", "\"raycluster/a\" is no object that ends"),
            ("job/", "\"job/\" is no object that ends"),
            (
                "before:job/a",
                "\"before\" is no kind of dependency; write one of afterok, afternotok, afterany, after",
            ),
            ("job/own", "muster.run/after names the object itself; remove job/own from it"),
        ] {
            let error = after(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(after("jobset/own").is_ok());
    }

    #[test]
    fn noted_stages_are_read_back() {
        let read = |text| read(&[(names::AFTER_STATUS, text)]).unwrap().noted;
        let stages = read("job/a=succeeded,job/b=ended,jobset/c=failed,x");
        assert_eq!(text_of_stages(&stages), "jobset/c=failed,job/a=succeeded");
        assert_eq!(read(&text_of_stages(&stages)), stages);
    }
}
