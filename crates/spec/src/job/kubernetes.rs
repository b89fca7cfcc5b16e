//! The section `kubernetes` of a job: options in Kubernetes' own terms. The API server validates them;
//! only values that cannot be a name or a path are rejected here.

use std::sync::Arc;

use muster_model::kubernetes::{
    ClaimMount, EnvSource, GangScheduler, GitSource, KubernetesOptions,
};

use crate::diagnostic::{Problem, Problems};
use crate::field::{Flag, Located, OneOrMany, Text};
use crate::job::document::{JobDocument, KubernetesDocument};
use crate::source::Place;

/// Returns the options of the job.
pub(super) fn of_job(job: &JobDocument, problems: &mut Problems) -> KubernetesOptions {
    let section = job.kubernetes.as_ref();
    section.map(|section| options(job, &section.value, problems)).unwrap_or_default()
}

fn options(
    job: &JobDocument,
    written: &KubernetesDocument,
    problems: &mut Problems,
) -> KubernetesOptions {
    let one = |field: &Option<Located<Text>>, name: &str, problems: &mut Problems| {
        let field = field.as_ref()?;
        word((&field.value.0, field.place), name, problems)
    };
    let annotations = written.annotations.iter().flat_map(|field| &field.value.0);
    KubernetesOptions {
        image: one(&written.image, "image", problems),
        namespace: one(&written.namespace, "namespace", problems),
        service_account: one(&written.service_account, "service-account", problems),
        pull_secrets: all(written.pull_secrets.as_ref())
            .filter_map(|item| word(item, "pull-secrets", problems))
            .collect(),
        volumes: all(written.volumes.as_ref())
            .filter_map(|item| {
                let mount = mount(item.0);
                let label = "expected `CLAIM:/path`, with `:ro` where it must not be written to";
                refuse_unless(mount.is_some(), "volumes", item, label, problems);
                mount
            })
            .collect(),
        send: one(&written.send, "send", problems),
        git: git(written, problems),
        env_from: all(written.env_from.as_ref())
            .filter_map(|item| {
                let source = env_source(item.0);
                let label = "expected `secret/NAME` or `configmap/NAME`";
                refuse_unless(source.is_some(), "env-from", item, label, problems);
                source
            })
            .collect(),
        shm_bytes: written.shm.as_ref().map(|size| size.value.0),
        gpu_resource: one(&written.gpu_resource, "gpu-resource", problems),
        host_network: written.host_network.as_ref().is_some_and(|flag| flag.value.0),
        scheduler: scheduler(written, problems),
        priority_class: one(&written.priority_class, "priority-class", problems),
        runtime_class: one(&written.runtime_class, "runtime-class", problems),
        is_kuberay: for_kind(job, &written.kuberay, &KUBERAY, problems),
        is_kserve: for_kind(job, &written.kserve, &KSERVE, problems),
        is_train_job: written.trainer.as_ref().is_some_and(|flag| flag.value.0),
        annotations: annotations
            .map(|item| (item.name.as_str().into(), item.value.0.as_str().into()))
            .collect(),
    }
}

/// Returns the scheduler that the job names.
fn scheduler(written: &KubernetesDocument, problems: &mut Problems) -> Option<GangScheduler> {
    let field = written.scheduler.as_ref()?;
    let known = GangScheduler::named(&field.value.0);
    if known.is_none() {
        let words: Vec<&str> = GangScheduler::ALL.into_iter().map(GangScheduler::word).collect();
        problems.add(
            Problem::new(format!("`scheduler: {}` is unknown", field.value.0))
                .at(field.place, "no scheduler of gangs")
                .hint(format!("it is one of {}", words.join(", "))),
        );
    }
    known
}

/// Returns the repository that the job names.
fn git(written: &KubernetesDocument, problems: &mut Problems) -> Option<GitSource> {
    let section = written.git.as_ref()?;
    if let Some(send) = &written.send {
        problems.add(
            Problem::new("`send` and `git` exclude each other")
                .at(send.key, "both put files into the working directory")
                .hint("remove one of them".to_owned()),
        );
    }
    let mut one = |field: &Option<Located<Text>>, name: &str| {
        let field = field.as_ref()?;
        let text = word((&field.value.0, field.place), name, problems)?;
        let written = (&*text, field.place);
        // git and sh would take it for an option.
        let is_option = text.starts_with('-');
        refuse_unless(!is_option, name, written, "it begins with `-`", problems);
        (!is_option).then_some(text)
    };
    let git = &section.value;
    let url = one(&git.url, "url");
    let reference = one(&git.reference, "ref");
    let image = one(&git.image, "image");
    let secret = one(&git.secret, "secret");
    let source = GitSource { url: url?, reference, image, secret };
    let place = git.url.as_ref().map(|url| url.place)?;
    if has_password(&source.url) {
        problems.add(
            Problem::new("`url` has a password, which all users who may read pods could read")
                .at(place, "remove it")
                .hint("name a secret that has it: `git: {url: …, secret: NAME}`".to_owned()),
        );
        return None;
    }
    let is_remote = source.url.contains(':');
    let label = "expected an address such as `https://git.example.com/team/train.git`";
    refuse_unless(is_remote, "url", (&source.url, place), label, problems);
    is_remote.then_some(source)
}

/// Returns true if an address has a password between its scheme and its host.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map(|(_, rest)| rest);
    let authority = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// Flag that has another controller run a job of one kind.
struct ControllerFlag {
    name: &'static str,
    kind: &'static str,
    label: &'static str,
}

const KUBERAY: ControllerFlag =
    ControllerFlag { name: "kuberay", kind: "ray", label: "KubeRay runs Ray clusters only" };
const KSERVE: ControllerFlag =
    ControllerFlag { name: "kserve", kind: "service", label: "KServe runs services only" };

/// Returns the value of a flag; true is a problem for a job of another kind.
fn for_kind(
    job: &JobDocument,
    written: &Option<Located<Flag>>,
    flag: &ControllerFlag,
    problems: &mut Problems,
) -> bool {
    let Some(written) = written.as_ref().filter(|flag| flag.value.0) else { return false };
    let ControllerFlag { name, kind, label } = flag;
    if job.kind.as_ref().is_none_or(|written| written.value.0 != *kind) {
        problems.add(
            Problem::new(format!("`{name}` needs `kind: {kind}`"))
                .at(written.key, *label)
                .hint(format!("add `kind: {kind}`, or remove it")),
        );
    }
    true
}

/// A text, and where it is written.
type Written<'a> = (&'a str, Place);

fn all(field: Option<&Located<OneOrMany<Text>>>) -> impl Iterator<Item = Written<'_>> {
    let items = field.into_iter().flat_map(|field| &field.value.0);
    items.map(|item| (item.value.0.as_str(), item.place))
}

/// Returns a value that is one word, or adds a problem.
fn word(written: Written<'_>, name: &str, problems: &mut Problems) -> Option<Arc<str>> {
    let text = written.0;
    let is_word = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    refuse_unless(is_word, name, written, "expected one word", problems);
    is_word.then(|| text.into())
}

fn refuse_unless(
    is_valid: bool,
    name: &str,
    (_, place): Written<'_>,
    label: &str,
    problems: &mut Problems,
) {
    if !is_valid {
        let problem = Problem::new(format!("`{name}` cannot be passed to Kubernetes"));
        problems.add(problem.at(place, label));
    }
}

fn mount(text: &str) -> Option<ClaimMount> {
    let (claim, path, is_read_only) = match text.split(':').collect::<Vec<_>>()[..] {
        [claim, path] => (claim, path, false),
        [claim, path, "ro"] => (claim, path, true),
        _ => return None,
    };
    let is_name = !claim.is_empty() && !claim.contains(['/', ' ']);
    (is_name && path.starts_with('/')).then(|| ClaimMount {
        claim: claim.into(),
        path: path.into(),
        is_read_only,
    })
}

fn env_source(text: &str) -> Option<EnvSource> {
    match text.split_once('/')? {
        (_, "") => None,
        ("secret", name) => Some(EnvSource::Secret(name.into())),
        ("configmap", name) => Some(EnvSource::ConfigMap(name.into())),
        _ => None,
    }
}
