//! Tests of the Slurm front end with fake programs in place of Slurm's: the calls that they
//! receive, the scripts, and the handling of their answers. The tests of the command line use a
//! real Slurm.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_api::query::{JobFilter, LogQuery};
use muster_api::types::{
    ActionRequest, BulkAction, BulkRequest, BulkTarget, SubmitRequest, SubmitResponse,
};
use muster_api::{Client, ClientError, JobAction, WaitMode};
use muster_delegate::slurm::rest::RestClient;
use muster_delegate::slurm::tool::Tools;
use muster_delegate::slurm::{SlurmFrontConfig, SlurmScheduler};
use muster_model::JobId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

/// Warnings beside the answers, of all tests.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Directory of fake programs, and a client of the front end that uses them.
struct FakeSlurm {
    dir: tempfile::TempDir,
    client: Client,
}

impl FakeSlurm {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(rest: Option<RestClient>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tools = Tools::new().in_folder(dir.path().join("bin"));
        let root = dir.path().join("state");
        let program = "/shared/bin/muster".into();
        let settings = SlurmFrontConfig {
            tools,
            rest,
            warn: |text| WARNINGS.lock().unwrap().push(text.to_owned()),
            program,
            user: "ada".into(),
            root,
            poll_interval: Duration::from_millis(20),
        };
        let fake =
            Self { client: Client::in_process(Arc::new(SlurmScheduler::new(settings))), dir };
        std::fs::create_dir(fake.dir.path().join("bin")).unwrap();
        fake.program("scontrol", "echo 'ClusterName             = lab'");
        fake.program("squeue", "echo '{\"jobs\": []}'");
        fake.program("sacct", "true");
        fake
    }

    /// Writes a program that records its calls.
    fn program(&self, name: &str, body: &str) {
        let path = self.dir.path().join("bin").join(name);
        let calls = self.dir.path().join(format!("{name}.calls"));
        std::fs::write(&path, format!("#!/bin/sh\necho \"$*\" >> {}\n{body}\n", calls.display()))
            .unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn calls(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join(format!("{name}.calls")))
            .unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("state/lab")
    }

    async fn submit(&self, source: &str, dry_run: bool) -> Result<SubmitResponse, ClientError> {
        let request = SubmitRequest {
            key: "5eed5eed5eed5eed5eed5eed5eed5eed".to_owned(),
            source: source.to_owned(),
            file: Some("job.yaml".to_owned()),
            overrides: serde_json::Map::new(),
            notify_file: None,
            env: [].into(),
            env_files: std::collections::BTreeMap::new(),
            workdir: "/home/ada/my project".to_owned(),
            umask: 0o22,
            interactive: false,
            dry_run,
        };
        self.client.submit(&request).await
    }

    /// Returns the script of a job, without the temporary directory of this test.
    async fn script(&self, source: &str) -> String {
        let response = self.submit(source, true).await.unwrap();
        let scripts: Vec<String> = response.jobs.into_iter().filter_map(|job| job.native).collect();
        let said: String =
            response.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
        (said + &scripts.join("\n")).replace(&self.root().display().to_string(), "/state/lab")
    }

    /// Returns the error message and hint for a job that is refused.
    async fn refusal(&self, source: &str) -> String {
        match self.submit(source, true).await {
            Err(ClientError::Api(body)) => {
                format!("{}\nhint: {}", body.message, body.hints.join("\nhint: "))
            }
            other => panic!("not refused: {other:?}"),
        }
    }
}

#[tokio::test]
async fn the_script_of_two_nodes() {
    let script = FakeSlurm::new()
        .script("name: fsdp\nnodes: 2\ngpus: 8\ntime: 12h\nrun: torchrun train.py\n")
        .await;
    insta::assert_snapshot!(script);
}

#[tokio::test]
async fn the_script_with_everything_that_slurm_has_words_for() {
    let source = r#"
name: all
nodes: 4
min-nodes: 2
tasks-per-node: 2
gpus: 8
gpu: h100
cpus: 7.5
memory: 10GB
extras: {nic: 2}
time: 1h30s
queue: lab/vision
priority: -5
after: [12, "afterany:13"]
hold: true
checkpoint: {signal: USR2, grace: 90s}
restart: {max: 2}
grace: 2m
exclude: node[01-02]
reservation: exam
topology: {required: leaf}
labels: {partition: gpu, features: "ib,nvme"}
env: {NCCL_DEBUG: INFO, QUOTE: "it's \"$HOME\""}
workdir: sub
slurm:
  qos: high
  licenses: [matlab, "ansys:2"]
  exclusive: true
  modules: [cuda/12.4, nccl]
  conda: torch
  setup: ulimit -l unlimited
  options: [--mail-type=END, "--comment-not=a b"]
run: [python, -c, "print('it''s')"]
"#;
    let fake = FakeSlurm::new();
    let job = |number: u32| {
        format!(r#"{{"job_id": {number}, "job_state": "RUNNING", "user_name": "ada"}}"#)
    };
    fake.program("squeue", &format!("echo '{{\"jobs\": [{}, {}]}}'", job(12), job(13)));
    insta::assert_snapshot!(fake.script(source).await);
}

#[tokio::test]
async fn roles_share_a_request_where_they_need_the_same_and_are_components_where_not() {
    let alike = r#"
name: alike
time: 1h
groups:
  - {name: a, tasks: 2, gpus-per-task: 1, run: ./a}
  - {name: b, tasks: 3, gpus-per-task: 1, run: ./b}
"#;
    let different = r##"
name: different
time: 1h
groups:
  - {name: trainer, tasks: 2, gpus-per-task: 4, run: ./trainer}
  - {name: rollout, tasks: 3, gpus-per-task: 1, run: "#!/usr/bin/env python3\nprint('MUSTER')\n"}
"##;
    let fake = FakeSlurm::new();
    insta::assert_snapshot!(format!(
        "{}\n----\n{}",
        fake.script(alike).await,
        fake.script(different).await
    ));
}

#[tokio::test]
async fn what_slurm_cannot_do_is_refused_or_said() {
    let fake = FakeSlurm::new();
    let mut text = String::new();
    for source in [
        "kind: service\nrun: serve\n",
        "gpus: 0.5\nrun: x\n",
        "gpus: 1\ngpu: [a100, h100]\nrun: x\n",
        "labels: {pool: train}\nrun: x\n",
        "nodes: 2\ntopology: {spread: leaf}\nrun: x\n",
        "array: 0-3\ngroups: [{name: a, gpus: 1, run: x}, {name: b, gpus: 2, run: y}]\n",
        "env: {a-b: c}\nrun: x\n",
        "tasks: 3\nextras: {nic: 1}\nrun: x\n",
        "time: 1h\ncheckpoint: {grace: 1m, then: requeue}\nslurm: {requeue: false}\nrun: x\n",
    ] {
        text.push_str(&format!("{source}{}\n\n", fake.refusal(source).await));
    }
    for source in [
        "kind: service\nreplicas: 2..4\nport: 8000\ntime: 24h\nrun: serve\n",
        "kind: service\ntime: 24h\nrun: serve\n",
        "kind: notebook\nrun: jupyter lab\n",
        "time: 1h\ncheckpoint: {grace: 1m, then: stop}\nprotect: 30m\nrestart: {max: 1, backoff: 30s}\nrun: x\n",
        "tasks: 2..8\ngpus-per-task: 1\nrestart: on-failure\ncheckpoint: {grace: 1m}\npriority: 5\nrun: x\n",
    ] {
        let script = fake.script(source).await;
        let said: String = script
            .lines()
            .filter(|line| line.starts_with("warning"))
            .map(|line| format!("{line}\n"))
            .collect();
        text.push_str(&format!("{source}{said}\n"));
    }
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn groups_wait_where_they_say_and_count_memory_alike() {
    let fake = FakeSlurm::new();
    let groups = |server: &str, client: &str| {
        format!(
            "time: 5m\nslurm: {{partition: any}}\ngroups:\n  - {{name: server, {server}, run: a}}\n  - {{name: client, {client}, run: b}}\n"
        )
    };
    let asked = async |server: &str, client: &str| -> String {
        let script = fake.script(&groups(server, client)).await;
        let kept = ["partition", "constraint", "mem", "mem-per-cpu"];
        let lines = script.lines().filter_map(|line| line.strip_prefix("#SBATCH "));
        let lines = lines.filter(|line| {
            let name = line.trim_start_matches("--").split('=').next().unwrap_or_default();
            *line == "hetjob" || kept.contains(&name)
        });
        lines.collect::<Vec<_>>().join(" ")
    };
    for (server, client, expected) in [
        ("cpus: 2", "gpus: 1", "--partition=any hetjob --partition=any"),
        (
            "cpus: 2, slurm: {partition: [cpu, short]}",
            "gpus: 1, slurm: {partition: gpu, constraint: \"a100|h100\"}",
            "--partition=cpu,short hetjob --partition=gpu --constraint=a100|h100",
        ),
        // The same resources in other partitions are separate components.
        ("gpus: 1, slurm: {partition: a}", "gpus: 1", "--partition=a hetjob --partition=any"),
        (
            "gpus: 1, memory: 1GiB",
            "nodes: 2, memory: 1GiB",
            "--mem=1024M --partition=any hetjob --mem=1024M --partition=any",
        ),
        // sbatch refuses memory per node together with memory per CPU.
        (
            "cpus: 2, memory: 1GiB",
            "tasks: 4, gpus-per-task: 1, memory: 1GiB",
            "--mem-per-cpu=512M --partition=any hetjob --mem-per-cpu=1024M --partition=any",
        ),
    ] {
        assert_eq!(asked(server, client).await, expected, "{server} {client}");
    }
}

#[tokio::test]
async fn raw_options_cannot_break_the_script() {
    let fake = FakeSlurm::new();
    for option in [
        "--mail-type=END\n#SBATCH --uid=0",
        "--x=\"a",
        "-N2",
        "--time=1",
        "--tim=1",
        "rm -rf",
        "--wrap=x",
        "--output=/x",
        "--name=a'b",
        "--name=a #b",
        "--gres=gpu:3",
        "--gres=nic:1,gpu:h100:1",
        "--gpus-per-socket=2",
        "--tres-per-task=cpu:8,gres/gpu:1",
        "--tres-per-node=gres:gpu",
    ] {
        let source = format!("run: x\nslurm:\n  options: [{}]\n", serde_json::Value::from(option));
        match fake.submit(&source, true).await {
            Err(ClientError::Api(body)) => assert_eq!(body.code, "invalid_spec", "{option:?}"),
            other => panic!("{option:?} went through: {other:?}"),
        }
    }
    for option in [
        "--gres=nic:1",
        "--gres=shard:2",
        "--gres-flags=enforce-binding",
        "--tres-bind=gres/gpu:closest",
        "--tres-per-task=license:a:1",
    ] {
        let script = fake.script(&format!("run: x\nslurm: {{options: [\"{option}\"]}}\n")).await;
        assert!(script.contains(&format!("#SBATCH {option}\n")), "{option}: {script}");
    }
    for value in ["a b", "x\ny", "--x", "a\"b", "#"] {
        let source = format!("run: x\nslurm: {{partition: {}}}\n", serde_json::Value::from(value));
        assert!(fake.submit(&source, true).await.is_err(), "{value:?} went through");
    }
}

#[tokio::test]
async fn a_submission_is_handed_on_once_however_often_it_is_sent() {
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    let first = fake.submit("run: x\n", false).await.unwrap();
    let again = fake.submit("run: x\n", false).await.unwrap();
    assert_eq!((first.jobs[0].job, again.jobs[0].job), (JobId(41), JobId(41)));
    assert_eq!(fake.calls("sbatch").len(), 1);
}

#[tokio::test]
async fn documents_are_handed_on_in_order_or_none_is() {
    let fake = FakeSlurm::new();
    let counter = fake.dir.path().join("count");
    fake.program("sbatch", &format!("echo x >> {0}; grep -c x {0}", counter.display()));
    let source = "name: prepare\nrun: x\n---\nname: train\nafter: prepare\nrun: y\n";
    let response = fake.submit(source, false).await.unwrap();
    assert_eq!(response.jobs.iter().map(|job| job.job.0).collect::<Vec<_>>(), [1, 2]);
    let script =
        std::fs::read_to_string(fake.calls("sbatch")[1].trim_start_matches("--parsable ")).unwrap();
    assert!(script.contains("#SBATCH --dependency=afterok:1\n"), "{script}");
    // The second is rejected: the first is cancelled.
    let fake = FakeSlurm::new();
    let refuse = "case \"$2\" in *1/script.sh) echo 'sbatch: error: Batch job submission failed: Invalid qos specification' >&2; exit 1;; esac\necho 7";
    fake.program("sbatch", refuse);
    fake.program("scancel", "true");
    match fake.submit(source, false).await {
        Err(ClientError::Api(body)) => {
            assert_eq!(body.message, "Slurm rejected the job: Invalid qos specification");
            assert!(
                body.hints.iter().any(|hint| hint.contains("7 of the same job file")),
                "{:?}",
                body.hints
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fake.calls("scancel"), ["7"]);
}

#[tokio::test]
async fn an_acknowledgement_that_was_lost_is_looked_for() {
    let fake = FakeSlurm::new();
    // The job arrives, but its acknowledgement does not.
    fake.program("sbatch", "kill -9 $$");
    let row = r#"{"jobs": [{"job_id": 9, "user_name": "ada", "job_state": "PENDING", "comment": "muster:5eed5eed5eed5eed5eed5eed0"}]}"#;
    let arrived = fake.dir.path().join("sbatch.calls");
    fake.program(
        "squeue",
        &format!("[ -s {} ] && echo '{row}' || echo '{{\"jobs\": []}}'", arrived.display()),
    );
    assert_eq!(fake.submit("run: x\n", false).await.unwrap().jobs[0].job, JobId(9));
    // Sent again with the same key: the job is found.
    assert_eq!(fake.submit("run: x\n", false).await.unwrap().jobs[0].job, JobId(9));
    assert_eq!(fake.calls("sbatch").len(), 1);
}

#[tokio::test]
async fn variables_of_the_environment_do_not_overrule_the_script() {
    let fake = FakeSlurm::new();
    fake.program(
        "sbatch",
        "echo 3; [ -z \"$SBATCH_TIMELIMIT$SBATCH_NO_REQUEUE\" ] && [ \"$SBATCH_DEBUG\" = kept ]",
    );
    // Variables of this process reach sbatch; they are set only for a child process.
    let exe = std::env::current_exe().unwrap();
    if std::env::var_os("SBATCH_DEBUG").is_none() {
        let status = std::process::Command::new(exe)
            .args(["--exact", "variables_of_the_environment_do_not_overrule_the_script"])
            .envs([("SBATCH_TIMELIMIT", "1"), ("SBATCH_NO_REQUEUE", "1"), ("SBATCH_DEBUG", "kept")])
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    fake.submit("time: 1h\nrestart: {max: 1}\nrun: x\n", false).await.unwrap();
}

#[tokio::test]
async fn one_that_slurm_lost_before_it_started_is_handed_on_again_and_answers_to_its_number() {
    let fake = FakeSlurm::new();
    let count = fake.dir.path().join("count");
    fake.program("sbatch", &format!("echo x >> {0}; expr 40 + $(grep -c x {0})", count.display()));
    fake.submit("name: lost\nrun: x\n", false).await.unwrap();
    // Neither the controller nor the accounting has 41; 42 is its new number.
    let row = |number: u64, id: &str| {
        format!(
            r#"echo '{{"jobs": [{{"job_id": {number}, "name": "n", "user_name": "ada", "job_state": "RUNNING", "comment": "muster:{id}"}}]}}'"#
        )
    };
    fake.program(
        "squeue",
        &format!(
            "[ $(grep -c x {}) = 1 ] && echo '{{\"jobs\": []}}' && exit; {}",
            count.display(),
            row(42, "5eed5eed5eed5eed5eed5eed0")
        ),
    );
    // Queries alone resubmit nothing.
    let named = || JobFilter { ids: Some("41".to_owned()), ..JobFilter::default() };
    fake.client.jobs(JobFilter::default()).await.unwrap();
    let view = fake.client.job(JobId(41), None).await.unwrap().job;
    assert_eq!((view.job, view.state.word()), (JobId(41), "unknown"));
    fake.client.set_wait_mode(WaitMode::Watch);
    assert_eq!(fake.client.jobs(named()).await.unwrap().jobs[0].state.word(), "unknown");
    assert_eq!(fake.calls("sbatch").len(), 1);
    // A client that waits for the job resubmits it.
    fake.client.set_wait_mode(WaitMode::WaitForJobs);
    let view = fake.client.jobs(named()).await.unwrap().jobs.remove(0);
    assert_eq!((view.job, view.state.word()), (JobId(41), "running"));
    assert_eq!(fake.calls("sbatch").len(), 2);
    // The job is in the queue: it is not submitted a third time.
    fake.client.jobs(named()).await.unwrap();
    assert_eq!(fake.calls("sbatch").len(), 2);
    // Its number belongs to another job now, which is not mistaken for it.
    fake.program("squeue", &row(41, "other"));
    let listed = fake
        .client
        .jobs(JobFilter { user: Some("ada".to_owned()), ..JobFilter::default() })
        .await
        .unwrap();
    assert_eq!(listed.jobs.len(), 1);
}

#[tokio::test]
async fn one_that_started_and_that_nobody_knows_any_more_is_unknown_and_not_run_twice() {
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    fake.submit("name: lost\nrun: x\n", false).await.unwrap();
    let element = fake.root().join("5eed5eed5eed5eed5eed5eed0/0");
    std::fs::create_dir(&element).unwrap();
    std::fs::write(element.join("starts"), "41 1 1795370642 node1 1\n").unwrap();
    let view = fake.client.job(JobId(41), None).await.unwrap().job;
    assert_eq!((view.state.word(), view.name.as_str()), ("unknown", "lost"));
    assert_eq!(fake.calls("sbatch").len(), 1);
    assert!(
        matches!(fake.client.job(JobId(42), None).await, Err(ClientError::Api(body)) if body.code == "not_found")
    );
}

#[tokio::test]
async fn what_was_cancelled_and_what_nobody_can_say_is_not_handed_on_again() {
    // Without accounting it is unknown whether the job has ended.
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    fake.program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
    fake.submit("run: x\n", false).await.unwrap();
    fake.client.jobs(JobFilter::default()).await.unwrap();
    assert_eq!(fake.calls("sbatch").len(), 1);
    // Cancelled while pending, and forgotten by the controller.
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    fake.program("scancel", "true");
    let row = r#"{"jobs": [{"job_id": 41, "user_name": "ada", "job_state": "PENDING", "comment": "muster:5eed5eed5eed5eed5eed5eed0"}]}"#;
    fake.program("squeue", &format!("echo '{row}'"));
    fake.submit("run: x\n", false).await.unwrap();
    fake.client.act(JobId(41), JobAction::Cancel, ActionRequest { index: None }).await.unwrap();
    fake.program("squeue", "echo '{\"jobs\": []}'");
    fake.client.jobs(JobFilter::default()).await.unwrap();
    assert_eq!(fake.calls("sbatch").len(), 1, "a cancelled job is not resubmitted");
    // The number belongs to another job now, which is not touched.
    fake.program("squeue", &format!("echo '{}'", row.replace("5eed5eed", "other")));
    let other = fake.client.act(JobId(41), JobAction::Cancel, ActionRequest { index: None }).await;
    assert!(matches!(&other, Err(ClientError::Api(body)) if body.code == "refused"), "{other:?}");
}

#[tokio::test]
async fn a_submission_waits_for_a_controller_that_is_away_and_arrives_once() {
    let fake = FakeSlurm::new();
    let count = fake.dir.path().join("count");
    let away = "echo 'sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)' >&2; exit 1";
    fake.program(
        "sbatch",
        &format!(
            "echo x >> {0}; [ $(grep -c x {0}) -lt 3 ] && {{ {away}; }}; echo 7",
            count.display()
        ),
    );
    assert_eq!(fake.submit("run: x\n", false).await.unwrap().jobs[0].job, JobId(7));
    assert_eq!(fake.calls("sbatch").len(), 3);
}

#[tokio::test]
async fn a_failure_is_its_own_code_unless_a_step_says_more() {
    let fake = FakeSlurm::new();
    let row = r#"{"jobs": [{"job_id": 5, "user_name": "ada", "job_state": "FAILED", "state_reason": "NonZeroExitCode", "exit_code": 768, "comment": "muster:x"}]}"#;
    fake.program("squeue", &format!("echo '{row}'"));
    let code = async || {
        let view = fake.client.job(JobId(5), None).await.unwrap().job;
        view.elements[0].outcome.as_ref().map(muster_model::Outcome::exit_code)
    };
    assert_eq!(code().await, Some(3));
    fake.program(
        "sacct",
        "case \"$*\" in *JobIDRaw,State) printf '5|FAILED\\n5.batch|FAILED\\n5.0|OUT_OF_MEMORY\\n';; esac",
    );
    assert_eq!(code().await, Some(137));
}

#[tokio::test]
async fn any_number_of_watchers_asks_slurm_once_per_look() {
    let fake = FakeSlurm::new();
    let watch = async || {
        for _ in 0..3 {
            let changes = fake.client.changes(None, 1).await.unwrap();
            fake.client.jobs(JobFilter::default()).await.unwrap();
            fake.client.changes(Some(changes.revision), 1).await.unwrap();
        }
    };
    let begun = std::time::Instant::now();
    futures_util::future::join_all((0..8).map(|_| watch())).await;
    let looks = begun.elapsed().as_millis() / 20 + 1;
    let calls = fake.calls("squeue").len() as u128;
    assert!(calls <= looks + 8, "{calls} queries in {looks} refreshes of 8 watchers");
}

#[tokio::test]
async fn an_old_squeue_is_asked_in_the_words_that_it_knows() {
    let fake = FakeSlurm::new();
    let line = [
        "5",
        "5",
        "",
        "old",
        "ada",
        "vision",
        "gpu",
        "normal",
        "RUNNING",
        "None",
        "",
        "1795370667",
        "1795370700",
        "1795370900",
        "30:00",
        "node1",
        "1",
        "1",
        "3",
        "",
        "/work",
        "gres:gpu:2",
    ]
    .join("\u{1f}");
    fake.program("squeue", &format!("case \"$*\" in *--Format*) echo 'squeue: error: Invalid job format specification: JobID:' >&2; exit 1;; esac\nprintf '%s\\n' '{line}'"));
    let list = fake.client.jobs(JobFilter::default()).await.unwrap();
    assert_eq!((list.jobs[0].name.as_str(), list.jobs[0].gpus.0), ("old", 2000));
}

#[tokio::test]
async fn refusals_of_slurm_say_what_to_do() {
    let fake = FakeSlurm::new();
    fake.program("scancel", "true");
    fake.program("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
    let cancel = fake.client.act(JobId(8), JobAction::Cancel, ActionRequest { index: None }).await;
    assert!(
        matches!(&cancel, Err(ClientError::Api(body)) if body.code == "not_found"),
        "{cancel:?}"
    );
    let logs = fake.client.logs(JobId(8), LogQuery::default()).await.err();
    assert!(matches!(&logs, Some(ClientError::Api(body)) if body.code == "not_found"), "{logs:?}");
    fake.program("sbatch", "echo 'sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified' >&2; exit 1");
    match fake.submit("run: x\n", false).await {
        Err(ClientError::Api(body)) => {
            assert!(body.hints[0].contains("sacctmgr"), "{:?}", body.hints)
        }
        other => panic!("{other:?}"),
    }
    let nodes = fake
        .client
        .scale(JobId(8), &muster_api::types::ScaleRequest { guaranteed: 1, max: 1 })
        .await;
    assert!(matches!(&nodes, Err(ClientError::Api(body)) if body.code == "refused"), "{nodes:?}");
}

#[tokio::test]
async fn many_are_cancelled_by_one_call_and_each_is_told_what_became_of_it() {
    let fake = FakeSlurm::new();
    let row = |id: u64, state: &str| {
        format!(r#"{{"job_id": {id}, "user_name": "ada", "job_state": "{state}"}}"#)
    };
    let rows: Vec<String> =
        (1..=6).map(|id| row(id, if id == 5 { "COMPLETED" } else { "PENDING" })).collect();
    let json = rows.join(",");
    fake.program("squeue", &format!("echo '{{\"jobs\": [{json}]}}'"));
    fake.program(
        "scancel",
        "echo 'scancel: error: Kill job error on job id 3: Access/permission denied' >&2; exit 1",
    );
    let request = |action, jobs: &[u64]| BulkRequest {
        action,
        targets: jobs.iter().map(|job| BulkTarget { job: JobId(*job), index: None }).collect(),
    };
    let results = fake
        .client
        .act_on_many(&request(BulkAction::Cancel, &[1, 2, 3, 4, 5]))
        .await
        .unwrap()
        .results;
    let said: Vec<(bool, &str)> =
        results.iter().map(|one| (one.done, one.message.as_str())).collect();
    assert_eq!(
        said,
        [
            (true, "cancelled"),
            (true, "cancelled"),
            (false, "job 3 is not yours"),
            (true, "cancelled"),
            (true, "job 5 had already ended: done"),
        ]
    );
    assert_eq!(fake.calls("scancel"), ["1 2 3 4"]);
    assert_eq!(
        fake.calls("squeue").len(),
        2,
        "one query for all of them, and one for the ended one"
    );
    assert_eq!(results[2].code.as_deref(), Some("refused"));
}

#[tokio::test]
async fn what_ended_long_ago_is_asked_of_the_accounting_before_anything_waits_for_it() {
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    let source = "name: late\ntime: 1m\nafter: 12\nrun: x\n";
    // 1. No program has the job, and without accounting its end is unknown.
    let refusal = fake.refusal(source).await;
    assert!(
        refusal
            .starts_with("the job depends on job 12, which is unknown or ended long ago\nhint: "),
        "{refusal}"
    );
    fake.program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
    let refusal = fake.refusal(source).await;
    assert!(refusal.contains("without accounting"), "{refusal}");
    fake.program(
        "sacct",
        "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1",
    );
    let refusal = fake.refusal(source).await;
    assert!(refusal.contains("the accounting does not answer"), "{refusal}");
    // 2. Failed: the dependency can never be met. Ended well: it is met, and is not passed on to
    // Slurm.
    let ended = |state: &str| {
        let who = ["12", "12", "prepare", "ada", "vision", "batch", "normal", state, "0:0"];
        let when = ["1795370667", "1795370668", "1795370669", "UNLIMITED", "node1", "1", "1", "1"];
        [who.as_slice(), &when, &["", "", "", "1", "/", "None"]].concat().join("\u{1f}")
    };
    fake.program("sacct", &format!("printf '%s\\n' '{}'", ended("FAILED")));
    let refusal = fake.refusal(source).await;
    assert!(refusal.starts_with("the job can never start: job 12 is failed"), "{refusal}");
    assert!(fake.calls("sbatch").is_empty());
    fake.program("sacct", &format!("printf '%s\\n' '{}'", ended("COMPLETED")));
    let script = fake.script(source).await;
    assert!(!script.contains("--dependency"), "{script}");
}

#[tokio::test]
async fn the_script_of_a_job_that_takes_turns() {
    let source = "name: turns\nnodes: 2\ngpus: 1\ntime: 1h\ncheckpoint: {signal: USR2, grace: 1m, by: all, then: requeue}\nrun: x\n";
    insta::assert_snapshot!(FakeSlurm::new().script(source).await);
}

#[tokio::test]
async fn a_job_that_names_no_signal_gets_none() {
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    fake.submit("name: plain\ntime: 1m\nrun: x\n", false).await.unwrap();
    for job in [41, 42] {
        match fake
            .client
            .act(JobId(job), JobAction::Checkpoint, ActionRequest { index: None })
            .await
        {
            Err(ClientError::Api(body)) => {
                assert_eq!(body.message, format!("job {job} has no checkpoint signal"));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(fake.calls("scancel").is_empty());
}

#[tokio::test]
async fn a_request_to_save_is_noted_when_it_was_heard_and_only_who_has_begun_is_asked() {
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    fake.submit("name: saves\ntime: 1m\ncheckpoint: {grace: 5s}\nrun: x\n", false).await.unwrap();
    let id = "5eed5eed5eed5eed5eed5eed0";
    let row = format!(
        r#"{{"job_id": 41, "user_name": "ada", "job_state": "RUNNING", "comment": "muster:{id}", "restart_cnt": 1}}"#
    );
    fake.program("squeue", &format!("echo '{{\"jobs\": [{row}]}}'"));
    let ask = async || {
        let asked =
            fake.client.act(JobId(41), JobAction::Checkpoint, ActionRequest { index: None }).await;
        asked.map(|answer| answer.message).map_err(|error| match error {
            ClientError::Api(body) => body.message,
            other => panic!("{other:?}"),
        })
    };
    // 1. Slurm reports it as running, but no script of this attempt has begun.
    assert_eq!(ask().await, Err("job 41 has not started yet".to_owned()));
    let folder = fake.root().join(id).join("0");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("starts"), "41 1 100 node1 1\n").unwrap();
    assert_eq!(ask().await, Err("job 41 has not started yet".to_owned()));
    assert!(fake.calls("scancel").is_empty());
    // 2. It has begun, but the signal is not delivered.
    std::fs::write(folder.join("starts"), "41 1 100 node1 1\n41 2 200 node1 1\n").unwrap();
    let open = || folder.join("asked.json").exists();
    fake.program("scancel", "echo 'scancel: error: Access/permission denied' >&2; exit 1");
    assert_eq!((ask().await, open()), (Err("job 41 is not yours".to_owned()), false));
    // 3. The signal is delivered; a later failure undoes nothing of that.
    fake.program("scancel", "true");
    assert_eq!((ask().await, open()), (Ok("checkpoint requested".to_owned()), true));
    let noted = std::fs::read_to_string(folder.join("asked.json")).unwrap();
    fake.program("scancel", "exit 1");
    assert!(ask().await.is_err());
    assert_eq!(std::fs::read_to_string(folder.join("asked.json")).unwrap(), noted);
}

/// Starts a job's script as Slurm does, and returns its exit code.
fn start(fake: &FakeSlurm, restarts: u32) -> Option<i32> {
    let path =
        format!("{}:{}", fake.dir.path().join("bin").display(), std::env::var("PATH").unwrap());
    let mut script = std::process::Command::new("bash");
    script.arg(fake.root().join("5eed5eed5eed5eed5eed5eed0/script.sh"));
    script
        .env_clear()
        .env("PATH", path)
        .env("SLURM_JOB_ID", "41")
        .env("SLURM_RESTART_COUNT", restarts.to_string());
    script
        .env("SLURM_JOB_NODELIST", "localhost")
        .env("SLURM_JOB_NUM_NODES", "1")
        .env("SLURM_PROCID", "0");
    script.env("SLURM_LOCALID", "0").env("SLURM_NODEID", "0").env("SLURM_STEP_NUM_TASKS", "1");
    script.status().unwrap().code()
}

#[tokio::test]
async fn what_ended_well_runs_again_only_when_its_user_asks() {
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    // Runs the last argument, as srun does.
    fake.program("srun", "for last; do :; done; exec bash -c \"$last\"");
    let ran = fake.dir.path().join("ran");
    let source =
        |run: &str| format!("name: once\nworkdir: {}\nrun: {run}\n", fake.dir.path().display());
    let runs = || std::fs::read_to_string(&ran).unwrap_or_default().lines().count();
    fake.submit(&source("echo ran >> ran"), false).await.unwrap();

    // 1. A controller that was down when it ended queues it again.
    assert_eq!((start(&fake, 0), runs()), (Some(0), 1));
    assert_eq!((start(&fake, 1), runs()), (Some(0), 1));

    // 2. Its user requeues it.
    let row = r#"{"jobs": [{"job_id": 41, "user_name": "ada", "job_state": "COMPLETED", "comment": "muster:5eed5eed5eed5eed5eed5eed0"}]}"#;
    fake.program("squeue", &format!("echo '{row}'"));
    fake.client.act(JobId(41), JobAction::Requeue, ActionRequest { index: None }).await.unwrap();
    assert!(fake.calls("scontrol").contains(&"requeue 41".to_owned()));
    assert_eq!((start(&fake, 2), runs()), (Some(0), 2));
    assert_eq!((start(&fake, 3), runs()), (Some(0), 2));
}

#[tokio::test]
async fn what_failed_or_was_told_to_end_runs_again() {
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    // The program ends well after its job was told to end.
    fake.program("srun", "kill -TERM $PPID; for last; do :; done; exec bash -c \"$last\"");
    let ran = fake.dir.path().join("ran");
    let source =
        format!("name: told\nworkdir: {}\nrun: echo ran >> ran\n", fake.dir.path().display());
    fake.submit(&source, false).await.unwrap();
    let runs = || std::fs::read_to_string(&ran).unwrap_or_default().lines().count();
    assert_eq!((start(&fake, 0), runs()), (Some(0), 1));
    assert_eq!((start(&fake, 1), runs()), (Some(0), 2));
    // A start is never repeated.
    assert_eq!((start(&fake, 1), runs()), (Some(0), 2));
    // A failed start is repeated, too.
    fake.program("srun", "echo ran >> ran; exit 3");
    assert_eq!((start(&fake, 2), runs()), (Some(3), 3));
    assert_eq!((start(&fake, 3), runs()), (Some(3), 4));
}

/// Runs a job in a container and returns the arguments of each rank's program.
async fn contained(fake: &FakeSlurm) -> (Option<i32>, String) {
    fake.program("sbatch", "echo 41");
    let run = "echo started >> ran";
    let slurm = "{container: nvcr.io/nvidia/pytorch:24.05-py3, container-mounts: [/data:/data:ro]}";
    let dir = fake.dir.path().display();
    fake.submit(
        &format!("name: boxed\nworkdir: {dir}\ngpus: 1\nslurm: {slurm}\nrun: {run}\n"),
        false,
    )
    .await
    .unwrap();
    let code = start(fake, 0);
    (code, std::fs::read_to_string(fake.dir.path().join("ran")).unwrap_or_default())
}

#[tokio::test]
async fn a_container_is_pyxis_where_srun_has_it() {
    let fake = FakeSlurm::new();
    fake.program(
        "srun",
        "[ \"$1\" != --help ] || { echo '  --container-image=[USER@][REGISTRY#]IMAGE'; exit; }\n\
         for last; do :; done; exec bash -c \"$last\"",
    );
    assert_eq!(contained(&fake).await, (Some(0), "started\n".to_owned()));
    let call = fake.calls("srun").into_iter().find(|call| !call.starts_with("--help")).unwrap();
    assert!(
        call.contains("--container-image=nvcr.io#nvidia/pytorch:24.05-py3 --container-mounts="),
        "{call}"
    );
    let dir = fake.dir.path().display();
    assert!(
        call.contains(&format!(",{dir}:{dir},/data:/data:ro --container-workdir={dir} ")),
        "{call}"
    );
}

#[tokio::test]
async fn a_container_is_apptainer_where_srun_has_none_and_else_a_failure() {
    let without = FakeSlurm::new();
    without.program("srun", "for last; do :; done; exec bash -c \"$last\"");
    assert_eq!(contained(&without).await, (Some(1), String::new()));

    let fake = FakeSlurm::new();
    fake.program("srun", "for last; do :; done; exec bash -c \"$last\"");
    // Arguments as apptainer takes them: options, an image, and the program's words.
    fake.program("apptainer", "while [ $# -gt 3 ]; do shift; done; exec \"$@\"");
    assert_eq!(contained(&fake).await, (Some(0), "started\n".to_owned()));
    let [call] = fake.calls("apptainer").try_into().unwrap();
    let (options, program) =
        call.split_once(" docker://nvcr.io/nvidia/pytorch:24.05-py3 ").unwrap();
    assert!(
        options.starts_with("exec --nv --bind ")
            && options.contains("--bind /data:/data:ro --pwd "),
        "{call}"
    );
    assert_eq!(program, "/bin/sh -c echo started >> ran");
}

#[tokio::test]
async fn output_that_is_followed_goes_on_with_the_next_start() {
    use futures_util::StreamExt;
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    fake.submit("name: twice\nrun: x\n", false).await.unwrap();
    let element = fake.root().join("5eed5eed5eed5eed5eed5eed0/0");
    let write = |attempt: u32, text: &str| {
        let dir = element.join(attempt.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("rank-0.log"), text).unwrap();
    };
    fake.program("squeue", "echo RUNNING");
    write(1, "first\n");
    let query = LogQuery { follow: true, ..LogQuery::default() };
    let mut stream = fake.client.logs(JobId(41), query).await.unwrap();
    let mut read = String::new();
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    read.push_str(&text(stream.next().await.unwrap().unwrap()));

    // The last output of the first start precedes that of the second.
    write(1, "first\nits end\n");
    write(2, "second\n");
    fake.program("squeue", "true");
    while let Some(bytes) = stream.next().await {
        read.push_str(&text(bytes.unwrap()));
    }
    assert_eq!(read, "first\nits end\nsecond\n");
}

/// Starts a fake slurmrestd with one row, which refuses once `refuses` is set.
fn slurmrestd(sockets: &tempfile::TempDir, row: &'static str, refuses: &Arc<AtomicBool>) {
    let listener = UnixListener::bind(sockets.path().join("rest")).unwrap();
    let has_changed = Arc::clone(refuses);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                head.push(char::from(stream.read_u8().await.unwrap()));
            }
            let (status, body) = match head.split(' ').nth(1).unwrap() {
                _ if has_changed.load(Ordering::Relaxed) => {
                    ("401 UNAUTHORIZED", "expired".to_owned())
                }
                "/openapi/v3" => ("200 OK", r#"{"paths": {"/slurm/v0.0.38/jobs": {}}}"#.to_owned()),
                _ => ("200 OK", format!(r#"{{"errors": [], "jobs": [{row}]}}"#)),
            };
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
}

#[tokio::test]
async fn what_waits_of_an_array_is_held_by_all_its_indices_also_where_slurmrestd_leaves_some_out() {
    let row = r#"{"job_id": 7, "user_name": "ada", "job_state": "PENDING", "cluster": "lab", "name": "wide", "array_job_id": 7, "array_task_string": "1,3,..."}"#;
    let sockets = tempfile::tempdir().unwrap();
    slurmrestd(&sockets, row, &Arc::new(AtomicBool::new(false)));
    let address = format!("unix:{}/rest", sockets.path().display());
    let fake = FakeSlurm::with(Some(RestClient::new(&address, "ada", None, None).unwrap()));
    let full = row.replace("...", "5,7%2");
    fake.program(
        "squeue",
        &format!("[ \"$SLURM_BITSTR_LEN\" = 0 ] && echo '{{\"jobs\": [{full}]}}'"),
    );
    fake.client.act(JobId(7), JobAction::Hold, ActionRequest { index: None }).await.unwrap();
    assert!(
        fake.calls("scontrol").contains(&"hold 7_[1,3,5,7]".to_owned()),
        "{:?}",
        fake.calls("scontrol")
    );
}

#[tokio::test]
async fn the_queue_is_read_through_slurmrestd_until_that_refuses_and_then_with_one_warning_from_squeue()
 {
    let row = r#"{"job_id": 7, "user_name": "ada", "job_state": "RUNNING", "cluster": "lab", "name": "rest"}"#;
    let sockets = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicBool::new(false));
    slurmrestd(&sockets, row, &refuses);
    let address = format!("unix:{}/rest", sockets.path().display());
    let fake = FakeSlurm::with(Some(RestClient::new(&address, "ada", None, None).unwrap()));
    fake.program("squeue", &format!("echo '{{\"jobs\": [{}]}}'", row.replace("rest", "squeue")));
    let names = async || {
        let list = fake.client.jobs(JobFilter::default()).await.unwrap();
        let shown = fake.client.job(JobId(7), None).await.unwrap().job.name;
        (list.jobs[0].name.clone(), shown)
    };
    assert_eq!(names().await, ("rest".into(), "rest".into()));
    assert_eq!(fake.calls("squeue"), [""; 0]);
    refuses.store(true, Ordering::Relaxed);
    assert_eq!(names().await, ("squeue".into(), "squeue".into()));
    let warnings = WARNINGS.lock().unwrap().clone();
    let warnings: Vec<String> =
        warnings.into_iter().filter(|warning| warning.starts_with("slurmrestd: ")).collect();
    assert_eq!(
        warnings,
        ["slurmrestd: it refused with 401: expired; using Slurm's programs instead"]
    );
}

/// Returns the message and hints of an error that Slurm does not answer.
fn silence<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> String {
    match answer {
        Err(ClientError::Api(body)) if body.code == "unavailable" => body.message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_slurm_that_does_not_answer_is_no_empty_queue_and_who_waits_asks_again() {
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    fake.submit("name: there\nrun: x\n", false).await.unwrap();
    let down = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1";
    let errors =
        r#"echo '{"errors": [{"error_number": -1, "error": "Unspecified error"}], "jobs": []}'"#;
    for says in [down, errors] {
        fake.program("squeue", says);
        for words in [
            silence(fake.client.jobs(JobFilter::default()).await),
            silence(fake.client.job(JobId(41), None).await),
            silence(
                fake.client.act(JobId(41), JobAction::Cancel, ActionRequest { index: None }).await,
            ),
        ] {
            assert!(words.contains("Slurm"), "{words}");
        }
    }
    // It answers the third query.
    let count = fake.dir.path().join("asked");
    let row = r#"{"jobs": [{"job_id": 41, "name": "there", "user_name": "ada", "job_state": "RUNNING", "comment": "muster:5eed5eed5eed5eed5eed5eed0"}]}"#;
    fake.program(
        "squeue",
        &format!(
            "echo x >> {0}; [ $(grep -c x {0}) -lt 3 ] && {{ {down}; }}; echo '{row}'",
            count.display()
        ),
    );
    fake.client.set_wait_mode(WaitMode::WaitForJobs);
    assert_eq!(fake.client.job(JobId(41), None).await.unwrap().job.state.word(), "running");
    // slurmdbd is down and the controller has forgotten the job: an error, not an unknown job.
    fake.client.set_wait_mode(WaitMode::Once);
    fake.program("squeue", "true");
    fake.program(
        "sacct",
        "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1",
    );
    assert!(
        silence(fake.client.job(JobId(41), None).await).contains("the accounting does not answer")
    );
    assert!(silence(fake.client.job(JobId(99), None).await).contains("does not answer"));
}

#[tokio::test]
async fn a_submission_that_was_withdrawn_runs_nothing_though_it_arrives() {
    let fake = FakeSlurm::new();
    let gate = fake.dir.path().join("gate");
    fake.program(
        "sbatch",
        &format!("while [ ! -e {} ]; do sleep 0.01; done; echo 41", gate.display()),
    );
    fake.program("scancel", "true");
    fake.program("srun", "echo ran >> ran");
    let submits = fake.submit("name: withdrawn\nrun: x\n", false);
    let withdraws = async {
        while fake.calls("sbatch").is_empty() {
            tokio::task::yield_now().await;
        }
        fake.client.withdraw();
        std::fs::write(&gate, "").unwrap();
    };
    let (answer, ()) = futures_util::future::join(submits, withdraws).await;
    assert!(
        matches!(&answer, Err(ClientError::Api(body)) if body.code == "interrupted"),
        "{answer:?}"
    );
    assert_eq!(fake.calls("scancel"), ["41"]);
    assert_eq!(start(&fake, 0), Some(130));
    assert!(fake.calls("srun").is_empty());
    // The job is no longer reconciled.
    fake.client.jobs(JobFilter::default()).await.unwrap();
    assert_eq!(fake.calls("sbatch").len(), 1);
}

#[tokio::test]
async fn a_verb_asks_slurm_no_more_than_its_own_commands_do() {
    let fake = FakeSlurm::new();
    fake.program("sbatch", "echo 41");
    fake.program("scancel", "true");
    fake.submit("name: first\nrun: x\n", false).await.unwrap();
    let row = r#"{"jobs": [{"job_id": 41, "name": "first", "user_name": "ada", "job_state": "PENDING", "comment": "muster:5eed5eed5eed5eed5eed5eed0"}]}"#;
    fake.program("squeue", &format!("echo '{row}'"));
    let programs = ["squeue", "scontrol", "sacct", "sbatch", "scancel"];
    let counts = || programs.map(|program| fake.calls(program).len());
    let since =
        |before: [usize; 5]| std::array::from_fn::<usize, 5, _>(|at| counts()[at] - before[at]);
    let before = counts();
    fake.client.jobs(JobFilter::default()).await.unwrap();
    assert_eq!(since(before), [1, 0, 0, 0, 0], "ps");
    let before = counts();
    fake.client.job(JobId(41), None).await.unwrap();
    assert_eq!(since(before), [1, 0, 0, 0, 0], "show");
    let before = counts();
    fake.client
        .jobs(JobFilter { ids: Some("41".to_owned()), ..JobFilter::default() })
        .await
        .unwrap();
    assert_eq!(since(before), [1, 0, 0, 0, 0], "one refresh of wait");
    let before = counts();
    fake.client.act(JobId(41), JobAction::Cancel, ActionRequest { index: None }).await.unwrap();
    assert_eq!(
        since(before),
        [1, 0, 0, 0, 1],
        "cancel: one query whether the number is still the job's, and scancel"
    );
}
