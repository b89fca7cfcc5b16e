//! Pods and gang objects as users name them: `pod/train-0`, `job/train`, or a name alone.

use std::fmt;
use std::str::FromStr;

use muster_kubernetes::group::{APIS, GroupKind};
use muster_kubernetes::object::ObjectKey;
use muster_scheduler::Subject;

/// Other words for kinds, as kubectl has them; gangs of a label have no kind of their own.
const SHORT: [(&str, &str); 3] = [("po", "pod"), ("lws", "leaderworkerset"), ("gangs", "gang")];

/// Name of a pod or gang object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// Kind in lower case; `None` for a name alone.
    kind: Option<String>,
    /// Name within a namespace.
    pub(crate) name: String,
}

impl FromStr for ObjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (Some(kind), name),
            None => (None, text),
        };
        let is_name = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c));
        if !is_name {
            return Err(format!("`{name}` is not the name of a Kubernetes object"));
        }
        let named = Self { kind: kind.map(word_of), name: name.to_owned() };
        if named.kind.is_some() && !named.may_be_pod() && named.groups().next().is_none() {
            return Err(format!(
                "`{}` is not a kind of pods that start together; there are: {}",
                kind.unwrap_or_default(),
                kinds().join(", ")
            ));
        }
        Ok(named)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "{kind}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl ObjectName {
    /// Returns true if it may be a pod.
    pub(crate) fn may_be_pod(&self) -> bool {
        self.kind.as_deref().is_none_or(|kind| kind == "pod")
    }

    /// Returns the kinds of gang objects that it may be.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupKind> {
        let kind = self.kind.as_deref();
        let is_meant = move |word: &str| kind.is_none_or(|kind| kind == word);
        let objects = APIS.iter().filter(move |api| is_meant(&api.name.to_lowercase()));
        let label = Some(GroupKind::Annotated).filter(|_| kind.is_none_or(|kind| kind == "gang"));
        objects.map(|api| api.kind).chain(label)
    }

    /// Returns the object of this kind; `None` means a pod.
    pub(crate) fn subject(&self, kind: Option<GroupKind>, namespace: &str) -> Subject {
        let key = ObjectKey::new(namespace, &self.name);
        match kind {
            None => Subject::Pod(key),
            Some(kind) => Subject::Group(kind, key),
        }
    }
}

/// Returns the kind in the singular and lower case: of `PyTorchJob`, `jobs.batch`, `po`.
fn word_of(kind: &str) -> String {
    let lower = kind.to_lowercase();
    let word = lower.split('.').next().unwrap_or_default();
    let singular =
        kinds().into_iter().find(|known| word == *known || word.strip_suffix('s') == Some(known));
    let short = SHORT.iter().find(|(short, _)| *short == word).map(|(_, long)| (*long).to_owned());
    short.or(singular).unwrap_or_else(|| word.to_owned())
}

/// Returns all kinds, each once.
fn kinds() -> Vec<String> {
    let mut kinds: Vec<String> = APIS.iter().map(|api| api.name.to_lowercase()).collect();
    kinds.extend(["pod", "gang"].map(str::to_owned));
    kinds.sort();
    kinds.dedup();
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, is_pod: bool, groups: &[GroupKind]) {
        let name: ObjectName = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(name.may_be_pod(), is_pod, "{text}");
        assert_eq!(name.groups().collect::<Vec<_>>(), groups, "{text}");
        assert!(text.ends_with(&name.name), "{text}");
    }

    #[test]
    fn kinds_are_those_of_kubectl() {
        check("pod/train-0", true, &[]);
        check("po/train-0", true, &[]);
        check("job/train", false, &[GroupKind::Job]);
        check("jobs.batch/train", false, &[GroupKind::Job]);
        check("PyTorchJob/train", false, &[GroupKind::PyTorchJob]);
        check("lws/serve", false, &[GroupKind::LeaderWorkerSet]);
        check("gang/a", false, &[GroupKind::Annotated]);
        check(
            "podgroup/a",
            false,
            &[GroupKind::Native, GroupKind::Coscheduling, GroupKind::Volcano, GroupKind::Kai],
        );
        let bare: ObjectName = "train".parse().expect("a name");
        assert!(bare.may_be_pod());
        assert_eq!(bare.groups().count(), APIS.len() + 1);
        for (text, expected) in [
            ("deployment/web", "`deployment` is not a kind of pods that start together"),
            ("Train", "`Train` is not the name of a Kubernetes object"),
            ("job/", "`` is not the name of a Kubernetes object"),
            ("", "`` is not the name of a Kubernetes object"),
        ] {
            let error = text.parse::<ObjectName>().expect_err(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
