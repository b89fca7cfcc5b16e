//! Jobs of kind `ray`: as a Job with the launcher, whose secret is an object, and as a RayJob of KubeRay.

use muster_model::payload::{RayGrowth, RayTask};
use muster_model::{Bytes, Checkpoint};

use super::*;

/// Job with a head without GPUs and four workers of 8 GPUs.
fn tune() -> JobSpec {
    let memory = Bytes(16_000_000_000);
    let head = Resources { cpus: CpuMilli(4000), memory, ..Resources::default() };
    let worker = Resources { gpu: GpuRequest::whole(8), ..Resources::default() };
    JobSpec {
        time_limit: Some(Span::from_secs(7200)),
        grace: Span::from_secs(30),
        queue: "research/vision".into(),
        restart: Restart {
            on_failure: true,
            max_restarts: 2,
            backoff: Restart::DEFAULT_BACKOFF,
            always: false,
        },
        ..JobSpec::plain(
            "Tune_1",
            "ann",
            vec![TaskGroup::of("head", 1, head), TaskGroup::of("worker", 4, worker)],
        )
    }
}

/// Returns the Ray node of a group.
fn node(spec: &JobSpec, group: &TaskGroup, driver: &str) -> RayTask {
    RayTask {
        nodes: spec.min_tasks(),
        gpus: group.task.gpu.devices,
        cpus: group.task.cpus,
        memory: group.task.memory,
        version: Some("2.60.0".to_owned()),
        ..RayTask::new(Some(TaskCommand::Script(driver.to_owned())))
    }
}

/// Renders a Ray job, whose nodes are changed first.
fn ray(
    spec: &JobSpec,
    change: impl Fn(&mut RayTask),
    scheduler: GangScheduler,
    form: JobForm,
) -> Result<RenderedJob, Vec<Unsupported>> {
    let commands = spec.groups.iter().map(|group| {
        let mut task = node(spec, group, "python train.py");
        change(&mut task);
        (Arc::clone(&group.name), TaskCommand::Ray(Box::new(task)))
    });
    let env = [("A", "b"), ("RAY_AUTH_TOKEN", "s3cret")];
    let image = Some("rayproject/ray:2.60.0-gpu".into());
    render(&RenderInput {
        env: &env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        scheduler,
        form,
        ..RenderInput::plain(spec, &commands.collect(), &KubernetesOptions { image, ..options() })
    })
}

fn ray_job(spec: &JobSpec, scheduler: GangScheduler) -> Value {
    let rendered = ray(spec, |_| {}, scheduler, JobForm::RayJob).unwrap();
    rendered.objects.last().unwrap().clone()
}

#[test]
fn the_secret_of_a_cluster_is_an_object() {
    let spec = JobSpec { groups: vec![tune().groups[1].clone()], ..tune() };
    let rendered = ray(&spec, |_| {}, GangScheduler::Muster, JobForm::Simplest).unwrap();
    let text = yaml(&rendered.objects);
    assert_eq!(text.matches("s3cret").count(), 1, "{text}");
    let secret = &rendered.objects[0];
    assert_eq!(
        (&secret["kind"], &secret["stringData"]["token"]),
        (&json!("Secret"), &json!("s3cret"))
    );
    let job = rendered.objects.last().unwrap();
    let pod = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].clone();
    let reference = json!({"secretKeyRef": {"name": secret["metadata"]["name"], "key": "token"}});
    let expected =
        json!([{"name": "A", "value": "b"}, {"name": "RAY_AUTH_TOKEN", "valueFrom": reference}]);
    assert_eq!(pod["containers"][0]["env"], expected);
    // A variable of this name means nothing in other jobs.
    let env = BTreeMap::from([("RAY_AUTH_TOKEN".to_owned(), "x".to_owned())]);
    let run = TaskCommand::Script("true".into());
    let plain = render(&RenderInput {
        env: &env,
        ..RenderInput::plain(&one_pod(), &BTreeMap::from([(Arc::from("main"), run)]), &options())
    });
    assert_eq!(plain.unwrap().objects.len(), 1);
}

#[test]
fn a_ray_job_of_kuberay() {
    let rendered = ray(&tune(), |_| {}, GangScheduler::Kueue, JobForm::RayJob).unwrap();
    assert_eq!(rendered.warnings.len(), 1, "{:?}", rendered.warnings);
    insta::assert_snapshot!(yaml(&rendered.objects[1..]));
    let files = rendered.objects[0]["data"].as_object().unwrap();
    assert!(files["wait.py"].as_str().unwrap().starts_with("#!/usr/bin/env python3\n"));
    assert_eq!(files.len(), 1);
}

#[test]
fn a_ray_job_in_a_queue_of_muster_waits_suspended() {
    let rendered = ray(&tune(), |_| {}, GangScheduler::Muster, JobForm::RayJob).unwrap();
    let of_time = |warning: &String| warning.contains("`time`");
    assert!(!rendered.warnings.iter().any(of_time), "{:?}", rendered.warnings);
    let job = rendered.objects.last().unwrap();
    assert_eq!(job["spec"]["suspend"], true);
    assert_eq!(job["metadata"]["labels"]["muster.run/queue"], "research.vision");
    // A hold is one that the scheduler knows, too.
    let held = JobSpec { held: true, queue: "default".into(), ..tune() };
    let job = ray_job(&held, GangScheduler::Muster);
    assert_eq!(job["spec"]["suspend"], true);
    assert_eq!(job["metadata"]["annotations"]["muster.run/held"], "true");
    assert_eq!(job["metadata"]["labels"]["muster.run/queue"], "");
}

#[test]
fn the_first_task_is_the_head() {
    let mut spec = tune();
    spec.groups =
        vec![TaskGroup::of("head", 3, spec.groups[1].task.clone()), spec.groups[0].clone()];
    spec.groups[1].name = "cpu".into();
    let cluster = ray_job(&spec, GangScheduler::Muster)["spec"]["rayClusterSpec"].clone();
    assert_eq!(cluster["headGroupSpec"]["rayStartParams"]["num-gpus"], "8");
    let groups = cluster["workerGroupSpecs"].as_array().unwrap();
    let sizes: Vec<(&str, u64)> = groups
        .iter()
        .map(|one| (one["groupName"].as_str().unwrap(), one["replicas"].as_u64().unwrap()))
        .collect();
    assert_eq!(sizes, [("head-workers", 2), ("cpu", 1)]);
    // Also on one node the end of the program may have to be held back.
    spec.groups = vec![TaskGroup::of("main", 1, spec.groups[0].task.clone())];
    let alone = ray(&spec, |task| task.nodes = 1, GangScheduler::None, JobForm::RayJob).unwrap();
    let [files, alone] = &alone.objects[..] else { panic!("two objects") };
    assert_eq!(files["kind"], "ConfigMap");
    let line = "python3 /muster/ray/wait.py 1 python train.py || { sleep 15; false; }";
    assert_eq!(alone["spec"]["entrypoint"], line);
    assert_eq!(alone["spec"]["rayClusterSpec"]["workerGroupSpecs"], json!([]));
}

#[test]
fn a_range_of_sizes_is_for_the_autoscaler() {
    let spec = tune();
    let grows = |task: &mut RayTask| {
        task.growth = Some(RayGrowth {
            group: Arc::clone(&tune().groups[1].name),
            nodes: 4,
            gpus: 8,
            cpus: CpuMilli(0),
            memory: Bytes(0),
            job: "{}".to_owned(),
            time_limit: None,
        });
    };
    let rendered = ray(&spec, grows, GangScheduler::Volcano, JobForm::RayJob).unwrap();
    let job = &rendered.objects[rendered.objects.len() - 1];
    let cluster = &job["spec"]["rayClusterSpec"];
    let group = &cluster["workerGroupSpecs"][0];
    let bounds =
        ["replicas", "minReplicas", "maxReplicas"].map(|field| group[field].as_u64().unwrap());
    assert_eq!((bounds, &cluster["enableInTreeAutoscaling"]), ([4, 4, 8], &json!(true)));
    assert_eq!(cluster["autoscalerOptions"], json!({"version": "v2"}));
    assert_eq!(job["metadata"]["labels"]["volcano.sh/queue-name"], "research.vision");
    // Kueue admits a size.
    let kueue = ray(&spec, grows, GangScheduler::Kueue, JobForm::RayJob).unwrap();
    let cluster = &kueue.objects[1]["spec"]["rayClusterSpec"];
    assert!(cluster.get("enableInTreeAutoscaling").is_none());
    assert_eq!(cluster["workerGroupSpecs"][0]["maxReplicas"], 4);
    assert!(kueue.warnings.iter().any(|one| one.contains("keeps its smallest size")));
}

#[test]
fn what_kuberay_cannot_do_is_said() {
    use GangScheduler::{Kai, Kueue, Muster, PodGroups};
    let warned = |spec: &JobSpec, change: &dyn Fn(&mut RayTask), scheduler, expected: &str| {
        let found = ray(spec, change, scheduler, JobForm::RayJob).unwrap().warnings;
        assert!(found.iter().any(|one| one.contains(expected)), "{expected}: {found:?}");
    };
    let same = |_: &mut RayTask| {};
    let checkpoint = Checkpoint {
        signal: 10,
        lead: Span::from_secs(60),
        by: CheckpointBy::First,
        then: AfterCheckpoint::Continue,
        to: CheckpointTo::Handlers,
    };
    let saves = JobSpec { checkpoint: Some(checkpoint), ..tune() };
    warned(&saves, &same, Kueue, "`checkpoint` is ignored");
    warned(&saves, &same, Kueue, "`grace`");
    let job = ray_job(&saves, Kueue);
    assert!(job["metadata"]["annotations"].get(crate::names::CHECKPOINT).is_none());
    let without_queue = JobSpec { queue: "default".into(), ..tune() };
    warned(&without_queue, &same, Muster, "`time` counts");
    assert_eq!(ray_job(&without_queue, Muster)["spec"].get("suspend"), None);
    warned(&tune(), &same, Kai, "--batch-scheduler=kai-scheduler");
    warned(&tune(), &|task| task.python = "/venv/bin/python".to_owned(), Kueue, "`python`");
    warned(&tune(), &|task| task.has_dashboard = false, Kueue, "`dashboard: false`");
    warned(&tune(), &|task| task.version = Some("2.40.0".to_owned()), Kueue, "before 2.52");
    warned(&tune(), &|task| task.version = Some("2.58.0".to_owned()), Kueue, "version 2.60.0");
    let refused = |spec: &JobSpec, scheduler, expected: &str| {
        let found = ray(spec, |_| {}, scheduler, JobForm::RayJob).unwrap_err();
        assert!(found.iter().any(|one| one.what.contains(expected)), "{expected}: {found:?}");
    };
    refused(&tune(), PodGroups, "this scheduler");
    refused(&tune(), GangScheduler::None, "one by one");
    let later = JobSpec { begin: Some(Time(1)), ..tune() };
    refused(&later, Muster, "`begin` and `after`");
    let mut packed = tune();
    packed.groups[1].tasks_per_node = Some(2);
    refused(&packed, Kueue, "one Ray node");
    for (runtime_env, expected) in [
        (r#"{"working_dir":"code"}"#, "the path `code`"),
        (r#"{"py_modules":["s3://a","lib"]}"#, "the path `lib`"),
        (r#"{"pip":"requirements.txt"}"#, "the path `requirements.txt`"),
        (r#"{"conda":"env.yml"}"#, "the path `env.yml`"),
        (r#"{"env_vars":{"A":"$HOME"}}"#, "would expand"),
    ] {
        let change = |task: &mut RayTask| task.runtime_env = Some(runtime_env.to_owned());
        let found = ray(&tune(), change, Kueue, JobForm::RayJob).unwrap_err();
        assert!(found[0].what.contains(expected), "{found:?}");
    }
    let remote = r#"{"conda":"base","env_vars":{"A":"b"},"pip":["a"],"working_dir":"https://example.com/code.zip"}"#;
    let change = |task: &mut RayTask| task.runtime_env = Some(remote.to_owned());
    let rendered = ray(&tune(), change, Kueue, JobForm::RayJob).unwrap();
    assert_eq!(rendered.objects.last().unwrap()["spec"]["runtimeEnvYAML"], remote);
    let other = render(&RenderInput {
        scheduler: Kueue,
        form: JobForm::RayJob,
        ..RenderInput::plain(
            &one_pod(),
            &BTreeMap::from([(Arc::from("main"), TaskCommand::Script("true".into()))]),
            &options(),
        )
    });
    assert!(other.unwrap_err()[0].hint.contains("kind: ray"));
}

#[test]
fn the_version_of_ray_is_in_the_tag_of_its_images() {
    let version = super::super::ray_job::version_of_image;
    assert_eq!(version("rayproject/ray:2.60.0-py312-gpu").as_deref(), Some("2.60.0"));
    assert_eq!(version("registry:5000/ray-ml:2.9.3").as_deref(), Some("2.9.3"));
    for other in [
        "rayproject/ray",
        "rayproject/ray:latest",
        "r/train:2.60.0",
        "rayproject/ray:nightly-py311",
    ] {
        assert_eq!(version(other), None, "{other}");
    }
}
