//! Jobs to objects and back: a generated job becomes the same job again, and the same objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::kubernetes::{ClaimMount, EnvSource, GitSource, KubernetesOptions};
use muster_model::payload::TaskCommand;
use muster_model::{
    AfterCheckpoint, Array, Bytes, Checkpoint, CheckpointBy, CheckpointTo, CpuMilli, JobSpec,
    QueueName, Replicas, Restart, Service, Span, TaskGroup, Time, Topology, TopologyRule, UserName,
    WorkloadKind,
};
use muster_spec::{CheckedJob, SubmissionSite};
use proptest::prelude::*;

use super::super::import;
use crate::render::{GangScheduler, JobForm, RenderInput, SentFile, render, yaml};

#[derive(Clone, Debug)]
struct Generated {
    spec: JobSpec,
    commands: BTreeMap<Arc<str>, TaskCommand>,
    env: BTreeMap<String, String>,
    workdir: Option<String>,
    options: KubernetesOptions,
    scheduler: GangScheduler,
    form: JobForm,
    files: Vec<SentFile>,
}

impl Generated {
    /// Reads a job file, of a job for the same cluster that sends the same files.
    fn of(checked: &CheckedJob, job: &Generated) -> Self {
        Self {
            spec: checked.spec.clone(),
            commands: checked.commands.clone(),
            env: checked.env.clone(),
            workdir: checked.workdir.as_ref().map(|dir| dir.to_string_lossy().into_owned()),
            options: checked.kubernetes.clone(),
            scheduler: job.scheduler,
            form: job.form,
            files: job.files.clone(),
        }
    }

    fn objects(&self) -> String {
        let rendered = render(&RenderInput {
            env: &self.env,
            workdir: self.workdir.as_deref(),
            files: &self.files,
            scheduler: self.scheduler,
            form: self.form,
            ..RenderInput::plain(&self.spec, &self.commands, &self.options)
        });
        yaml(&rendered.unwrap().objects)
    }
}

/// Returns the jobs of a job file that passes all checks.
pub(super) fn checked(job: &str) -> Vec<CheckedJob> {
    let queue = QueueName::from("default");
    let site = SubmissionSite::unknown(UserName::from("nobody"), &queue);
    let documents = muster_spec::parse(job, Some("job.yaml"), &serde_json::Map::new())
        .unwrap_or_else(|error| panic!("{job}\n{error:?}"));
    muster_spec::check_all(&documents, &site).unwrap_or_else(|error| panic!("{job}\n{error:?}"))
}

/// Returns the objects of a job for Muster's scheduler.
pub(super) fn rendered(checked: &CheckedJob, form: JobForm) -> String {
    let job = Generated {
        spec: checked.spec.clone(),
        commands: checked.commands.clone(),
        env: [(muster_ray::TOKEN.to_owned(), "s3cret".to_owned())].into(),
        workdir: None,
        options: checked.kubernetes.clone(),
        scheduler: GangScheduler::Muster,
        form,
        files: Vec::new(),
    };
    job.objects()
}

fn program() -> impl Strategy<Value = TaskCommand> {
    let texts = [
        "torchrun train.py",
        "set -e\npython a.py \\\n  --lr=1e-3\n\n# end",
        "echo $(hostname) $$ '$(X)' \"$RANK\"",
        "#!/usr/bin/env python3\nprint('héllo: {}')",
        "  indented: yes",
        "yes",
        "a: b # c",
        "export MUSTER_JOB_NAME=other\n\ttab",
    ];
    let words = ["python", "train.py", "--name=a b", "$(X) $$", "", "1", "null", "- x", "é\n"];
    let word = proptest::sample::select(words.to_vec()).prop_map(str::to_owned);
    prop_oneof![
        proptest::sample::select(texts.to_vec())
            .prop_map(|text| TaskCommand::Script(text.to_owned())),
        proptest::collection::vec(word, 0..4).prop_map(|rest| {
            let words = ["prog".to_owned()].into_iter().chain(rest);
            TaskCommand::Argv(words.collect())
        }),
    ]
}

fn resources() -> impl Strategy<Value = Resources> {
    (0..=8u32, 0..20u32, 0..5u64, proptest::bool::ANY).prop_map(|(gpus, cpus, memory, has_rdma)| {
        Resources {
            gpu: GpuRequest::whole(gpus),
            cpus: CpuMilli(cpus * 500),
            memory: Bytes(memory * 1_500_000_001),
            extras: has_rdma.then(|| (Arc::from("rdma/hca"), 2)).into_iter().collect(),
        }
    })
}

fn group(name: &'static str) -> impl Strategy<Value = TaskGroup> {
    (1..5u32, proptest::option::of(1..4u32), resources()).prop_map(
        move |(count, per_node, task)| {
            let tasks = count * per_node.unwrap_or(1);
            TaskGroup { tasks_per_node: per_node, ..TaskGroup::of(name, tasks, task) }
        },
    )
}

fn options() -> impl Strategy<Value = KubernetesOptions> {
    (proptest::bool::ANY, proptest::bool::ANY).prop_map(|(has_all, is_amd)| {
        let claim = |claim: &str, is_read_only| ClaimMount {
            claim: claim.into(),
            path: format!("/{claim}").as_str().into(),
            is_read_only,
        };
        let image = Some("registry.example.com/train:1".into());
        let gpu_resource = is_amd.then(|| "amd.com/gpu".into());
        if !has_all {
            return KubernetesOptions { image, ..KubernetesOptions::default() };
        }
        KubernetesOptions {
            image,
            namespace: Some("team".into()),
            service_account: Some("trainer".into()),
            pull_secrets: vec!["one".into(), "two".into()],
            volumes: vec![claim("data", false), claim("models", true)],
            env_from: vec![EnvSource::Secret("a".into()), EnvSource::ConfigMap("b".into())],
            shm_bytes: Some(Bytes(16 << 30)),
            gpu_resource,
            host_network: true,
            priority_class: Some("high".into()),
            runtime_class: Some("nvidia".into()),
            annotations: [("example.com/a".into(), "1".into())].into(),
            send: None,
            git: None,
            is_kuberay: false,
            is_kserve: false,
            is_train_job: false,
            scheduler: None,
        }
    })
}

/// Terms of start and end, and rules for nodes.
fn with_terms(spec: JobSpec) -> impl Strategy<Value = JobSpec> {
    let array = prop_oneof![
        3 => Just(None),
        1 => Just(Some(Array::range(1, 9, 2, Some(2)))),
        1 => Just(Array::list(vec![1, 3, 7, 8], None)),
    ];
    let topology = proptest::option::of(prop_oneof![
        Just(TopologyRule::Required("rack".into())),
        Just(TopologyRule::Preferred("block".into())),
    ]);
    let queue = proptest::sample::select(&["default", "research/vision"][..]);
    let secs = proptest::option::of(1..100_000u64);
    (secs, 1..200u64, array, topology, queue, 0..4u32, proptest::bool::ANY, proptest::bool::ANY)
        .prop_map(move |(secs, grace, array, rule, queue, restarts, is_held, has_rules)| {
            let mut spec = spec.clone();
            spec.time_limit = secs.map(Span::from_secs);
            spec.grace = Span::from_secs(grace);
            let is_one_pod = spec.groups.len() == 1
                && spec.groups[0].min_tasks == spec.groups[0].tasks_per_node.unwrap_or(1);
            spec.array = array.filter(|_| is_one_pod);
            spec.queue = queue.into();
            spec.held = is_held;
            let saves = has_rules && secs.is_none_or(|secs| secs > grace);
            spec.checkpoint = saves.then_some(Checkpoint {
                signal: 12,
                lead: Span::from_secs(grace),
                by: CheckpointBy::All,
                then: AfterCheckpoint::Continue,
                to: CheckpointTo::Outermost,
            });
            spec.begin = (is_held && has_rules).then_some(Time(1_795_176_000_000));
            if restarts > 0 {
                spec.restart = Restart {
                    on_failure: true,
                    max_restarts: restarts,
                    backoff: Restart::DEFAULT_BACKOFF,
                    always: false,
                };
            }
            spec.constraint.topology = rule.map(|rule| Topology { rule, segment: None });
            if has_rules {
                spec.constraint.labels = [("pool".into(), "a".into())].into();
                spec.constraint.exclude = vec!["node7".into(), "node9".into()];
                spec.constraint.advance_reservation = Some("exam".into());
            }
            spec
        })
}

/// Makes a service of a job of one task.
fn as_service(mut job: Generated, guaranteed: u32, more: u32, port: Option<u16>) -> Generated {
    let spec = &mut job.spec;
    let replicas = Replicas { guaranteed, max: guaranteed + more };
    spec.kind = WorkloadKind::Service(Service { replicas, port });
    spec.restart = Restart::ALWAYS;
    spec.groups = vec![TaskGroup::of("main", 1, spec.groups[0].task.clone())];
    // Their load says how many there are.
    spec.groups[0].task.cpus = CpuMilli(1500);
    (spec.array, spec.time_limit, spec.held, spec.begin) = (None, None, false, None);
    job
}

/// Makes a TrainJob of a job.
fn as_train_job(mut job: Generated) -> Generated {
    job.form = JobForm::TrainJob;
    job.spec.array = None;
    if matches!(job.scheduler, GangScheduler::Kai | GangScheduler::PodGroups) {
        job.scheduler = GangScheduler::Muster;
    }
    job
}

/// Removes what a scheduler cannot do.
fn fit(mut job: Generated) -> Generated {
    let spec = &mut job.spec;
    if job.scheduler != GangScheduler::Muster {
        (spec.begin, spec.constraint.topology) = (None, None);
        spec.constraint.advance_reservation = None;
    }
    if matches!(job.scheduler, GangScheduler::Kueue | GangScheduler::Volcano) {
        spec.held = false;
    }
    if job.scheduler == GangScheduler::Volcano {
        spec.array = None;
    }
    job
}

fn job(groups: Vec<TaskGroup>) -> impl Strategy<Value = Generated> {
    let names: Vec<Arc<str>> = groups.iter().map(|group| Arc::clone(&group.name)).collect();
    let spec = JobSpec::plain("Train_1", "nobody", groups);
    let commands = proptest::collection::vec(program(), names.len());
    let env = proptest::bool::ANY.prop_map(|has| {
        let pairs = [("PRICE", "$(5) $$"), ("EMPTY", ""), ("N", "08")];
        pairs.into_iter().filter(|_| has).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    });
    let scheduler = proptest::sample::select(&SCHEDULERS[..]);
    let workdir = proptest::option::of(Just("/srv/run".to_owned()));
    let brought = (files(), proptest::option::of(repository()));
    (with_terms(spec), commands, env, workdir, options(), scheduler, brought).prop_map(
        move |(spec, commands, env, workdir, mut options, scheduler, (files, source))| {
            let commands = names.iter().cloned().zip(commands).collect();
            let form = JobForm::Simplest;
            options.send = (!files.is_empty()).then(|| "code".into());
            // Both bring files to the same place.
            options.git = source.filter(|_| files.is_empty());
            fit(Generated { spec, commands, env, workdir, options, scheduler, form, files })
        },
    )
}

/// Repository whose files a job runs.
fn repository() -> impl Strategy<Value = GitSource> {
    let text = |text: &str| proptest::option::of(Just(Arc::from(text)));
    (text("v1.2"), text("registry.example.com/git:2"), text("deploy-key")).prop_map(
        |(reference, image, secret)| GitSource {
            url: "https://git.example.com/team/train.git".into(),
            reference,
            image,
            secret,
        },
    )
}

/// Files that a job sends: none, or a program and data that is no text.
fn files() -> impl Strategy<Value = Vec<SentFile>> {
    proptest::bool::ANY.prop_map(|has| {
        let file = |path: &str, content: &[u8], is_executable| SentFile {
            path: path.to_owned(),
            content: content.to_vec(),
            is_executable,
        };
        let all = [file("train.py", b"print(1)\n", true), file("a/net.bin", &[255, 0], false)];
        all.into_iter().filter(|_| has).collect()
    })
}

const SCHEDULERS: [GangScheduler; 5] = [
    GangScheduler::Muster,
    GangScheduler::Kueue,
    GangScheduler::Volcano,
    GangScheduler::Kai,
    GangScheduler::PodGroups,
];

/// Returns the job without what the objects do not carry.
fn carried(mut job: Generated) -> Generated {
    let spec = &mut job.spec;
    for group in &mut spec.groups {
        // Tasks of one pod have one node.
        if group.min_tasks == 1 {
            group.tasks_per_node = None;
        }
    }
    if spec.groups.iter().all(|group| group.task.gpu.devices == 0) {
        job.options.gpu_resource = None;
    }
    let queue = spec.queue.as_str();
    match job.scheduler {
        // A LocalQueue has no path.
        GangScheduler::Kueue => spec.queue = queue.rsplit('/').next().unwrap_or_default().into(),
        GangScheduler::PodGroups | GangScheduler::None => spec.queue = "default".into(),
        GangScheduler::Muster | GangScheduler::Volcano | GangScheduler::Kai => {}
    }
    for command in job.commands.values_mut() {
        if let TaskCommand::Script(text) = command
            && !text.starts_with("#!")
        {
            *text = format!("{}\n", text.trim_end());
        }
    }
    job
}

fn check(job: Generated) {
    let objects = job.objects();
    let report = import(&objects, "objects.yaml", None).unwrap();
    let lost: Vec<_> = report
        .options
        .iter()
        .filter(|option| option.becomes == muster_model::imported::ImportOutcome::NotMapped)
        .collect();
    assert!(lost.is_empty(), "{objects}\n{lost:#?}");
    let [again] = &checked(&report.job)[..] else { panic!("one job\n{}", report.job) };
    let again = Generated::of(again, &job);
    let job = carried(job);
    assert_eq!(again.spec, job.spec, "{objects}\n{}", report.job);
    assert_eq!(again.commands, job.commands, "{objects}\n{}", report.job);
    assert_eq!((&again.env, &again.workdir), (&job.env, &job.workdir), "{}", report.job);
    assert_eq!(again.options, job.options, "{objects}\n{}", report.job);
    assert_eq!(again.objects(), objects, "{}", report.job);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_job_of_one_role_comes_back(job in group("main").prop_flat_map(|group| job(vec![group]))) {
        check(job);
    }

    #[test]
    fn a_train_job_comes_back(job in group("main").prop_flat_map(|group| job(vec![group]))) {
        check(as_train_job(job));
    }

    #[test]
    fn a_service_comes_back(
        job in group("main").prop_flat_map(|group| job(vec![group])),
        guaranteed in 1..4u32,
        more in 0..3u32,
        port in proptest::option::of(1024..60_000u16),
    ) {
        check(as_service(job, guaranteed, more, port));
    }

    #[test]
    fn a_job_of_several_roles_comes_back(
        job in (group("trainer"), group("rollout")).prop_flat_map(|(one, two)| job(vec![one, two]))
    ) {
        check(job);
    }
}
