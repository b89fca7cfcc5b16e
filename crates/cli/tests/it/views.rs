//! Output of the listing subcommands for a real daemon, with times redacted, and that their JSON is
//! that of the API.

use muster_api::types::{
    ExplainResponse, JobDetail, JobList, NodeList, QueueList, SubmitResponse, UsageList,
};
use muster_model::view::{JobState, JobView};

use crate::home::Home;

/// Redacts what differs from run to run, and folds blanks.
fn redacted(home: &Home, text: &str) -> String {
    let host = home.words("nodes --json").json::<NodeList>().nodes[0].name.to_string();
    let user = home.jobs()[0].user.to_string();
    let dir = home.path("").display().to_string();
    let dir = dir.trim_end_matches('/');
    let mut lines = Vec::new();
    // The enforced isolation depends on the machine's cgroups.
    let isolation = |line: &str| {
        ["memory:", "cpus:", "gpus:", "kill:", "processes:"]
            .iter()
            .any(|start| line.contains(start))
    };
    let epoch = epoch_of(text);
    for line in text
        .replace(dir, "[home]")
        .replace(&epoch, "[epoch]")
        .replace(&host, "[host]")
        .lines()
        .filter(|line| !isolation(line))
    {
        let words = line.split_whitespace().map(|word| {
            let bare = word.trim_end_matches([';', ',', ')']);
            let end = &word[bare.len()..];
            let is_clock =
                bare.len() == 8 && bare.bytes().filter(|byte| *byte == b':').count() == 2;
            let is_span = bare.ends_with('s') && bare.starts_with(|c: char| c.is_ascii_digit());
            match () {
                () if is_clock => format!("[clock]{end}"),
                () if is_span => format!("[span]{end}"),
                () if bare == user => format!("[user]{end}"),
                () => word.to_owned(),
            }
        });
        lines.push(without_dates(words.collect()).join(" "));
    }
    lines.join("\n")
}

/// The epoch in the path of a log; otherwise something that no text holds.
fn epoch_of(text: &str) -> String {
    let epoch = text.split_once("/m/jobs/").and_then(|(_, rest)| rest.split('/').next());
    epoch.unwrap_or("no path").to_owned()
}

/// Five of eight GPUs are held, five more are asked for, one job is done.
fn busy() -> Home {
    let home = Home::with_gpus(8);
    let gate = home.gate("go");
    home.run("--name quick --gpus 1 --wait", &["true"]);
    home.sh("--name left --tasks 5 --gpus-per-task 1 --time 10m", &gate);
    home.until_state(2, JobState::Running);
    home.run("--name right --tasks 5 --gpus-per-task 1 --time 10m", &["true"]);
    home
}

/// Replaces instants of another day, such as `Nov 26 00:07`: shortly before midnight, times to come
/// have a date.
fn without_dates(words: Vec<String>) -> Vec<String> {
    const MONTHS: &str = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    let is_date = |words: &[String]| {
        let [month, day, clock, ..] = words else { return false };
        month.len() == 3
            && MONTHS.contains(month.as_str())
            && day.parse::<u8>().is_ok()
            && clock.split_once(':').is_some_and(|(hours, _)| hours.parse::<u8>().is_ok())
    };
    let mut kept = Vec::new();
    let mut rest = &words[..];
    while let [word, tail @ ..] = rest {
        if is_date(rest) {
            kept.push("[clock]".to_owned());
            rest = &rest[3..];
        } else {
            kept.push(word.clone());
            rest = tail;
        }
    }
    kept
}

#[test]
fn the_views_of_two_gangs_that_contend() {
    let home = busy();
    let text = |words: &str| redacted(&home, &home.words(words).ok().stdout);
    insta::assert_snapshot!(text("ps"), @r"
    JOB NAME STATE GPUS WAITED RAN NOTE
    2 left running 0-4 [span] [span] 5 of 5 ranks
    3 right pending 0 of 5 [span] needs 5 GPUs together, 3 are free; starts in about [span], when 2 ends
    ");
    insta::assert_snapshot!(text("ps -a"), @r"
    JOB NAME STATE GPUS WAITED RAN NOTE
    1 quick done 0 [span] [span]
    2 left running 0-4 [span] [span] 5 of 5 ranks
    3 right pending 0 of 5 [span] needs 5 GPUs together, 3 are free; starts in about [span], when 2 ends
    ");
    insta::assert_snapshot!(text("explain right"), @r"
    right is pending: capacity
    needs 5 GPUs together (one gang), any model
    free now 3 of 8; left (2) holds 5 until [clock] (its time limit and grace)
    preempt no job can be preempted: left (2) has no lower priority
    queue 1st of 1 in default; quota is not the limit
    starts [clock] at the latest, reserved; backfill cannot delay it
    sooner with tasks: 3 it would start now muster run … --tasks 3
    ");
    insta::assert_snapshot!(text("show left"), @r"
    job 2: left
    state running
    user [user]
    queue default, priority 0
    asks for 5 tasks, 5 GPUs, at most 10m
    submitted [clock]
    started [clock] after waiting [span]
    ends by [clock] (time limit and grace)
    runs sh -c 'while [ ! -e [home]/go ]; do sleep 0.02; done'
    in [home]
    logs [home]/m/jobs/[epoch]/2/0/1/0/output.log
    [home]/m/jobs/[epoch]/2/0/1/1/output.log
    [home]/m/jobs/[epoch]/2/0/1/2/output.log
    [home]/m/jobs/[epoch]/2/0/1/3/output.log
    [home]/m/jobs/[epoch]/2/0/1/4/output.log

    RANK NODE GPUS STAGE
    0 [host] 0 running
    1 [host] 1 running
    2 [host] 2 running
    3 [host] 3 running
    4 [host] 4 running
    ");
    insta::assert_snapshot!(text("queues"), @r"
    QUEUE WEIGHT GPUS WAITING RUNNING GPU-HOURS SHARE
    default 1 5 virtual 1 1 0.0 62.5%
    ");
    insta::assert_snapshot!(text("nodes").lines().skip(3).collect::<Vec<_>>().join("\n"), @r"
    GPU MODEL USED BY
    0 virtual 1 2
    1 virtual 1 2
    2 virtual 1 2
    3 virtual 1 2
    4 virtual 1 2
    5 virtual 0
    6 virtual 0
    7 virtual 0
    ");
    assert_eq!(home.words("ps --state running").ok().stdout.lines().count(), 2);
    assert!(home.words("ps --state held").ok().stdout.is_empty());
    assert!(home.words("ps --user nobody-here").ok().stdout.is_empty());
    assert!(home.words("usage").ok().stdout.starts_with("USER"));
}

#[test]
fn json_is_what_the_api_says() {
    let home = busy();
    let list: JobList = home.words("ps --json").json();
    assert_eq!(
        list.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(),
        ["left", "right"]
    );
    let same: JobList = home.words("ps -o json").json();
    assert_eq!(same.jobs.len(), 2);
    let all: JobList = home.words("ps -a -o json").json();
    assert_eq!(all.jobs.len(), 3);
    let detail: JobDetail = home.words("show left --json").json();
    assert_eq!(detail.job.state, JobState::Running);
    assert!(detail.commands.is_some() && detail.logs.len() == 5);
    let why: ExplainResponse = home.words("explain right --json").json();
    assert!(why.explanation.eta.is_some_and(|eta| eta.reserved && eta.start > why.now));
    let _queues: QueueList = home.words("queues --json").json();
    let _usage: UsageList = home.words("usage --json").json();
    let nodes: NodeList = home.words("nodes --json").json();
    assert!(nodes.nodes[0].devices.iter().all(|device| device.is_virtual));
    let submitted: SubmitResponse = home.words("run --json --hold -- true").json();
    assert_eq!(submitted.jobs[0].job.0, 4);
    let acted: serde_json::Value = home.words("cancel 4 --json").json();
    assert_eq!(acted[0]["job"], 4);
    let waited = home.words("wait 1 --json").json::<Vec<JobView>>();
    assert_eq!(waited[0].state, JobState::Done);
    let schema: serde_json::Value = home.words("schema").json();
    assert!(schema["properties"]["gpus"].is_object());
    let queues: serde_json::Value = home.words("schema queues").json();
    assert!(queues["properties"]["half-life"].is_object());
    let cluster: serde_json::Value = home.words("schema cluster").json();
    assert!(cluster["properties"]["nodes"].is_object());
}

#[test]
fn a_dry_run_says_what_would_happen_and_does_nothing() {
    let home = busy();
    let now = home.words("run --dry-run --gpus 1 -- true").ok();
    assert_eq!(now.stdout, "true would start now in default\n");
    let later = home.words("run --dry-run --tasks 4 --gpus-per-task 1 -- true").ok();
    assert!(later.stdout.starts_with("true would wait: capacity\n"), "{}", later.stdout);
    assert_eq!(later.stderr, "nothing was submitted\n");
    let resolved: SubmitResponse = home.words("run --dry-run --json --gpus 1 -- true").json();
    assert!(resolved.jobs[0].resolved.is_some());
    assert_eq!(home.jobs().len(), 3);
}

#[test]
fn a_sooner_line_tells_the_truth() {
    let home = busy();
    let why = home.words("explain right").ok().stdout;
    let line = why.lines().find(|line| line.trim_start().starts_with("sooner")).expect(&why);
    assert!(line.contains("with tasks: 3 it would start now"), "{line}");
    home.words("run --wait --tasks 3 --gpus-per-task 1 --time 10m -- true").ok();
    assert_eq!(home.job(3).state, JobState::Pending);
}
