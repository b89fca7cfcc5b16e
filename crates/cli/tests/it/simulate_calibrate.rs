//! `muster simulate --calibrate`: recorded beside simulated waits.

use muster_model::simulation::{CalibrationVerdict, FleetComparison};

use crate::home::Home;

const CLUSTER: &str = "nodes:\n- {name: n1, gpu: a100, gpus: 8, cpus: 64, memory: 512GiB}\n- {name: n2, gpu: a100, gpus: 8, cpus: 64, memory: 512GiB}\n";

/// A dump of 80 jobs of one node for an hour each, submitted every 10 minutes. On two nodes each
/// pair of jobs starts when the pair before it ends. The recorded waits are those, `slower` times.
/// One job was running when the dump was written, one was cancelled before it started.
fn dump(slower: u64) -> String {
    let mut text = "JobID|User|Partition|State|Submit|Start|Elapsed|Timelimit|NNodes|AllocCPUS|ReqTRES|AllocTRES\n".to_owned();
    let start_secs = 1_700_000_000;
    for job in 0..80u64 {
        let submit = start_secs + job * 600;
        // Jobs 0 and 1 start at once; job n starts an hour after job n - 2.
        let free = start_secs + (job % 2) * 600 + job / 2 * 3600;
        let start = submit + free.saturating_sub(submit) * slower;
        text += &format!(
            "{job}|ann|gpu|COMPLETED|{submit}|{start}|01:00:00|02:00:00|1|8|cpu=8,gres/gpu=8|cpu=8,gres/gpu=8,node=1\n"
        );
    }
    text += &format!(
        "80|bob|gpu|RUNNING|{start_secs}|{start_secs}|00:10:00|1-00:00:00|1|8|cpu=8,gres/gpu=8|cpu=8,gres/gpu=8,node=1\n"
    );
    text += &format!(
        "81|bob|gpu|CANCELLED|{start_secs}|None|00:00:00|1-00:00:00|1|0|cpu=8,gres/gpu=8|\n"
    );
    text
}

#[test]
fn a_replay_is_judged_by_the_recorded_waits_before_its_figures() {
    let home = Home::with_gpus(0);
    home.write("cluster.yaml", CLUSTER);
    home.write("sacct.txt", &dump(1));
    home.write("slow.txt", &dump(4));
    let asked =
        "simulate --cluster cluster.yaml --trace sacct.txt --calibrate --scheduler muster,slurm";
    // 1. The figures: under muster the waits are the recorded ones.
    let shown: FleetComparison = home.words(&format!("{asked} --json")).ok().json();
    let [muster, slurm] = &shown.calibration[..] else { panic!("two schedulers") };
    assert_eq!((muster.scheduler.as_str(), slurm.scheduler.as_str()), ("muster", "slurm"));
    assert_eq!((muster.jobs, muster.not_replayed, muster.without_start), (80, 1, 0));
    assert_eq!((muster.near, muster.verdict), (1.0, CalibrationVerdict::Close));
    assert_eq!(muster.recorded_secs, muster.simulated_secs);
    // 2. The text: the judgement comes before the figures.
    let text = home.words(asked).ok().stdout;
    let judged = text.find("muster: close to the record").unwrap();
    assert!(judged < text.find("TURNAROUND").unwrap(), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("; 1 ran in the trace but not in the replay"), "{text}");
    // 3. Four times the waits are another scheduler, or another cluster.
    let slow = asked.replace("sacct.txt", "slow.txt");
    let text = home.words(&slow).ok().stdout;
    assert!(text.contains("muster: unlike the record"), "{text}");
    home.words(&format!("{slow} --report-out page.html")).ok();
    assert!(home.read("page.html").contains("muster: unlike the record"));
    // 4. The recorded waits are those of one site.
    let reported = home.words(&format!("{asked} --add-nodes 2")).code(2).stderr;
    assert!(reported.contains("`--calibrate` takes one cluster and one queue file"), "{reported}");
    assert!(reported.contains("run it on the site as it was, alone"), "{reported}");
    let plain: FleetComparison = home.words(&asked.replace("--calibrate", "--json")).ok().json();
    assert!(plain.calibration.is_empty());
}

/// The jobs of [`dump`] that ended, as `kubectl get pods -o json` prints them: a pod's containers start a minute after
/// the pod could.
fn pods() -> String {
    let start_secs: i64 = 1_700_000_000;
    let date = |secs: i64| jiff::Timestamp::from_second(secs).unwrap().to_string();
    let pod = |at: i64| {
        let submit = start_secs + at * 600;
        let start = submit.max(start_secs + at % 2 * 600 + at / 2 * 3600) + 60;
        serde_json::json!({
            "kind": "Pod",
            "metadata": {"name": format!("p{at}"), "namespace": "nlp", "creationTimestamp": date(submit)},
            "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "8"}}}]},
            "status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated":
                {"startedAt": date(start), "finishedAt": date(start + 3540)}}}]},
        })
    };
    let items: Vec<_> = (0..80).map(pod).collect();
    serde_json::to_string_pretty(&serde_json::json!({"apiVersion": "v1", "items": items})).unwrap()
}

#[test]
fn pods_of_kubernetes_are_compared_by_the_starts_of_their_containers() {
    let home = Home::with_gpus(0);
    home.write("cluster.yaml", CLUSTER);
    home.write("pods.json", &pods());
    let asked = "simulate --cluster cluster.yaml --trace pods.json --calibrate --scheduler muster";
    let shown: FleetComparison = home.words(&format!("{asked} --json")).ok().json();
    let [muster] = &shown.calibration[..] else { panic!("one scheduler") };
    assert_eq!((muster.jobs, muster.not_replayed, muster.without_start), (80, 0, 0));
    assert_eq!((muster.near, muster.verdict), (1.0, CalibrationVerdict::Close));
    // An image was loaded for a minute, which the replay does not know, by each pod and by those before it.
    let differ = muster.recorded_secs.mean - muster.simulated_secs.mean;
    assert!((differ - (60.0 + 60.0 * 19.5)).abs() < 1e-6, "{differ}");
}

#[test]
fn a_trace_without_starts_says_which_formats_have_them() {
    let home = Home::with_gpus(0);
    home.write("cluster.yaml", CLUSTER);
    home.write("jobs.csv", "id,submit,runtime,gpus\na,0,60,8\n");
    let asked = "simulate --cluster cluster.yaml --trace jobs.csv --calibrate";
    let reported = home.words(asked).code(2).stderr;
    for said in ["jobs.csv (csv) records none", "sacct (column Start)", "the column started"] {
        assert!(reported.contains(said), "{said}: {reported}");
    }
    // With the column, there is something to compare, if little.
    home.write("jobs.csv", "id,submit,runtime,gpus,started\na,0,60,8,30\n");
    let text = home.words(asked).ok().stdout;
    assert!(text.contains("muster: only 0 jobs waited more than 10 minutes"), "{text}");
    for words in ["--at 5m", "--load 2", "--no-departures"] {
        let reported = home.words(&format!("{asked} {words}")).code(2).stderr;
        assert!(reported.contains("--calibrate"), "{words}: {reported}");
    }
}

#[test]
fn starts_before_the_submission_are_told_with_their_likely_cause() {
    let home = Home::with_gpus(0);
    home.write("cluster.yaml", CLUSTER);
    // The second has a wait in place of its start.
    let jobs = "id,submit,runtime,gpus,started\na,1000,60,8,1030\nb,1000,60,8,0\n";
    home.write("jobs.csv", jobs);
    let text = home
        .words("simulate --cluster cluster.yaml --trace jobs.csv --calibrate --scheduler muster")
        .ok()
        .stdout;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "1 job not compared, since the recorded start is before the submission",
        "dates in different time zones, or waits in place of start times",
    ] {
        assert!(flat.contains(said), "{said}: {text}");
    }
}
