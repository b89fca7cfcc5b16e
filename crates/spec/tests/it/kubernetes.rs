//! The section `kubernetes` of job files: what each field becomes, and which values are rejected.

use muster_model::kubernetes::{
    ClaimMount, EnvSource, GangScheduler, GitSource, KubernetesOptions,
};
use muster_model::unit::Bytes;

use crate::support::{check, complaint};

#[test]
fn every_field_is_read() {
    let text = "\
kind: ray
run: a
kubernetes:
  image: registry.example.com/train:1
  namespace: vision
  service-account: trainer
  pull-secrets: registry
  volumes: [data:/data, models:/models:ro]
  send: ./code
  env-from: [secret/wandb, configmap/settings]
  shm: 16GB
  gpu-resource: amd.com/gpu
  host-network: true
  scheduler: pod-groups
  priority-class: high
  runtime-class: nvidia
  kuberay: true
  trainer: true
  annotations: {example.com/team: vision}
";
    let mount = |claim: &str, path: &str, is_read_only| ClaimMount {
        claim: claim.into(),
        path: path.into(),
        is_read_only,
    };
    let expected = KubernetesOptions {
        image: Some("registry.example.com/train:1".into()),
        namespace: Some("vision".into()),
        service_account: Some("trainer".into()),
        pull_secrets: vec!["registry".into()],
        volumes: vec![mount("data", "/data", false), mount("models", "/models", true)],
        send: Some("./code".into()),
        git: None,
        env_from: vec![EnvSource::Secret("wandb".into()), EnvSource::ConfigMap("settings".into())],
        shm_bytes: Some(Bytes(16_000_000_000)),
        gpu_resource: Some("amd.com/gpu".into()),
        host_network: true,
        scheduler: Some(GangScheduler::PodGroups),
        priority_class: Some("high".into()),
        runtime_class: Some("nvidia".into()),
        is_kuberay: true,
        is_kserve: false,
        is_train_job: true,
        annotations: [("example.com/team".into(), "vision".into())].into(),
    };
    assert_eq!(check(text).unwrap()[0].kubernetes, expected);
    assert_eq!(check("run: a").unwrap()[0].kubernetes, KubernetesOptions::default());
}

#[test]
fn a_repository_is_an_address_and_what_else_it_needs() {
    let git = |section: &str| {
        let text = format!("run: a\nkubernetes: {{git: {{{section}}}}}\n");
        check(&text).unwrap()[0].kubernetes.git.clone().unwrap()
    };
    let source =
        |url: &str| GitSource { url: url.into(), reference: None, image: None, secret: None };
    for url in ["https://git.example.com/a.git", "git@git.example.com:a.git", "https://u@h/a"] {
        assert_eq!(git(&format!("url: '{url}'")), source(url));
    }
    let all = git("url: ssh://git.example.com/a, ref: v1.2, image: git, secret: key");
    let expected = GitSource {
        reference: Some("v1.2".into()),
        image: Some("git".into()),
        secret: Some("key".into()),
        ..source("ssh://git.example.com/a")
    };
    assert_eq!(all, expected);
    assert!(!all.is_fixed());
    assert!(git(&format!("url: 'https://h/a', ref: {}", "a1".repeat(20))).is_fixed());

    let address = "expected an address such as `https://git.example.com/team/train.git`";
    check_rejected("git: {url: train}", "`url` cannot be passed to Kubernetes", address);
    check_rejected(
        "git: {url: '--upload-pack=x:y'}",
        "`url` cannot be passed to Kubernetes",
        "it begins with `-`",
    );
    check_rejected(
        "git: {url: 'https://ann:secret@h/a'}",
        "`url` has a password, which all users who may read pods could read",
        "secret: NAME",
    );
    check_rejected(
        "send: ., git: {url: 'https://h/a'}",
        "`send` and `git` exclude each other",
        "both put files into the working directory",
    );
    check_rejected("git: {ref: v1}", "`url` is missing", "`git` needs it");
}

/// Checks the first line and the label of what is printed for a section.
fn check_rejected(section: &str, what: &str, label: &str) {
    let text = complaint(&format!("run: a\nkubernetes: {{{section}}}\n"));
    assert!(text.starts_with(&format!("error: {what}\n")), "{section}:\n{text}");
    assert!(text.contains(label), "{section}:\n{text}");
}

#[test]
fn values_that_cannot_be_a_name_or_a_path_are_rejected() {
    let volumes = "`volumes` cannot be passed to Kubernetes";
    let mount = "expected `CLAIM:/path`, with `:ro` where it must not be written to";
    for text in ["data", "data:data", ":/data", "data:/d:rw", "a/b:/data"] {
        check_rejected(&format!("volumes: '{text}'"), volumes, mount);
    }
    let env_from = "`env-from` cannot be passed to Kubernetes";
    let source = "expected `secret/NAME` or `configmap/NAME`";
    for text in ["wandb", "secret/", "pod/wandb"] {
        check_rejected(&format!("env-from: '{text}'"), env_from, source);
    }
    for name in ["image", "namespace", "service-account", "pull-secrets", "runtime-class"] {
        let what = format!("`{name}` cannot be passed to Kubernetes");
        check_rejected(&format!("{name}: 'a b'"), &what, "expected one word");
        check_rejected(&format!("{name}: ''"), &what, "expected one word");
    }
    check_rejected(
        "kuberay: true",
        "`kuberay` needs `kind: ray`",
        "KubeRay runs Ray clusters only",
    );
    check_rejected("kserve: true", "`kserve` needs `kind: service`", "KServe runs services only");
    check_rejected("scheduler: kay", "`scheduler: kay` is unknown", "no scheduler of gangs");
    let text = complaint("run: a\nkubernetes: {serviceAccountName: x}\n");
    assert!(text.contains("service-account"), "{text}");
}
