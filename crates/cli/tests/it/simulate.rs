//! `muster simulate` from the command line.

use muster_model::simulation::{FlatComparison, FleetComparison, FleetEvent, FleetEventKind};

use crate::home::Home;

/// 0 holds 6 of 10 until 100; 1 needs all; the others come behind it. 6 never ran, 7 is wider than
/// the machine.
const TRACE: &str = "; MaxProcs: 10
0 0 -1 100 6 -1 -1 6 100 -1 1 1 1 1 1 1 -1 -1
1 1 -1 10 10 -1 -1 10 10 -1 1 2 1 1 1 1 -1 -1
2 2 -1 90 4 -1 -1 4 98 -1 1 1 1 1 1 1 -1 -1
3 2 -1 10 4 -1 -1 4 10 -1 1 1 1 1 1 1 -1 -1
4 4 -1 200 2 -1 -1 2 200 -1 1 1 1 1 1 1 -1 -1
5 5 -1 5 2 -1 -1 2 5 -1 1 1 1 1 1 1 -1 -1
6 6 -1 -1 2 -1 -1 2 5 -1 5 1 1 1 1 1 -1 -1
7 7 -1 5 12 -1 -1 12 5 -1 1 1 1 1 1 1 -1 -1
";

#[test]
fn a_trace_is_replayed_and_its_schedule_written() {
    let home = Home::with_gpus(0);
    home.write("trace.swf", TRACE);
    let asked = "simulate --trace trace.swf --scheduler easy --schedule-out out.csv --json";
    let shown: FlatComparison = home.words(asked).ok().json();
    assert_eq!(
        (shown.procs, shown.jobs, shown.never_ran, shown.too_wide, shown.bad_rows),
        (10, 6, 1, 1, 0)
    );
    let run = &shown.runs[0];
    assert!(run.is_engine && !run.is_partial && run.begun == 6);
    assert_eq!((run.scheduler.as_str(), run.makespan_secs), ("easy", 310.0));
    // 0, 99, 0, 108, 106 and 87 seconds.
    assert!((run.wait_secs.mean - 400.0 / 6.0).abs() < 1e-9, "{:?}", run.wait_secs);
    assert_eq!(
        home.read("out.csv"),
        "job_id,submit,wait,start,runtime,procs\n0,0,0,0,100,6\n1,1,99,100,10,10\n2,2,0,2,90,4\n\
         3,2,108,110,10,4\n4,4,106,110,200,2\n5,5,87,92,5,2\n"
    );
    // Twice as fast, 5 and 4 come while 2 has not begun.
    let faster: FlatComparison =
        home.words("simulate --trace trace.swf --load 2 --json").ok().json();
    assert_eq!(
        faster.runs.iter().map(|run| run.scheduler.as_str()).collect::<Vec<_>>(),
        ["fcfs", "easy"]
    );
    assert!(faster.runs[1].wait_secs.mean > run.wait_secs.mean);
}

#[test]
fn schedulers_stand_side_by_side() {
    let home = Home::with_gpus(0);
    home.write("trace.swf", TRACE);
    let shown = home
        .words("simulate --trace trace.swf --scheduler fcfs,easy,easy-sjf,sjf,srtf,conservative")
        .ok()
        .stdout;
    assert!(
        shown.starts_with("6 jobs on 10 processors\nleft out: 1 that have no known runtime\n"),
        "{shown}"
    );
    for (scheduler, by) in
        [("fcfs", "the engine"), ("easy-sjf", "a model"), ("conservative", "the engine")]
    {
        let row =
            shown.lines().filter(|line| line.starts_with(&format!("{scheduler} "))).nth(1).unwrap();
        assert!(row.ends_with(by), "{row}");
    }
    assert!(shown.contains("under srtf jobs wait"), "{shown}");
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let home = Home::with_gpus(0);
    home.write("trace.swf", TRACE);
    home.write("unsized.swf", TRACE.split_once('\n').unwrap().1);
    home.write("bad.swf", &format!("{TRACE}8 x 1\n"));
    for (words, said, hint) in [
        ("--trace nowhere.swf", "nowhere.swf", ""),
        ("--trace unsized.swf", "does not say how many processors", "--procs N"),
        ("--trace trace.swf --procs 1", "no job of the trace can run", "7 need more than 1"),
        ("--trace trace.swf --scheduler eazy", "eazy", "easy"),
        ("--trace trace.swf --format philly", "philly", ""),
        ("--trace trace.swf --procs 0", "0", ""),
        ("--trace trace.swf --load nan", "0.01 to 100", ""),
        ("--trace trace.swf --schedule-out out.csv", "takes one scheduler", "once per scheduler"),
        ("--trace bad.swf --strict", "1 of 9 rows cannot be parsed", "--strict"),
    ] {
        let reported = home.words(&format!("simulate {words}")).code(2).stderr;
        assert!(reported.contains(said) && reported.contains(hint), "{words}: {reported}");
    }
    let warned = home.words("simulate --trace bad.swf --scheduler easy").ok();
    assert!(
        warned.stderr.contains("skipped 1 row that cannot be parsed; the first is line 10"),
        "{}",
        warned.stderr
    );
}

const CLUSTER: &str =
    "nodes:\n- name: gpu1\n  gpu: a100\n  gpus: 8\n  cpus: 64\n  memory: 512GiB\n";
/// Two gangs of five single GPUs, one after the other.
const GANGS: &str =
    "id,submit,runtime,tasks,gpus,user\na,0,600,5,1,ann\nb,1,600,5,1,bob\nwide,2,60,9,1,ann\n";

#[test]
fn control_planes_are_compared_on_a_cluster() {
    let home = Home::with_gpus(0);
    home.write("cluster.yaml", CLUSTER);
    home.write("gangs.csv", GANGS);
    let asked = "simulate --cluster cluster.yaml --trace gangs.csv";
    // 1. The figures.
    let json = format!("{asked} --scheduler kube-default,muster --json");
    let shown: FleetComparison = home.words(&json).ok().json();
    assert_eq!(
        (shown.nodes, shown.jobs, shown.too_large, shown.command),
        (1, 2, 1, format!("muster {json}"))
    );
    let [stock, muster] = &shown.runs[..] else { panic!("two runs") };
    assert_eq!((stock.is_engine, muster.is_engine), (false, true));
    // Three GPUs are held for 599 seconds by a gang that waits for two more.
    assert!((stock.hours.held_idle - 3.0 * 599.0 / 3600.0).abs() < 1e-9, "{:?}", stock.hours);
    assert!(muster.hours.held_idle < 1e-9 && muster.ended == 2, "{muster:?}");
    assert!((muster.waited_secs.max - 599.0).abs() < 1e-9, "{:?}", muster.waited_secs);
    // 2. The page, the events, several seeds.
    let page = home.words(&format!("{asked} --seeds 3 --report-out report.html")).ok();
    assert!(
        page.stdout.contains("muster") && page.stderr.contains("wrote the plots to report.html"),
        "{page:?}"
    );
    assert!(home.read("report.html").contains("kube-default"));
    let noisy = format!("{asked} --scheduler slurm --estimates noisy --seeds 3 --json");
    let noisy: FleetComparison = home.words(&noisy).ok().json();
    let means: Vec<&str> =
        noisy.runs[0].intervals.iter().map(|interval| interval.figure.as_str()).collect();
    assert!(noisy.seeds == [42, 43, 44] && means.contains(&"turnaround_secs.mean"), "{means:?}");
    home.words(&format!("{asked} --scheduler muster --events-out events.jsonl")).ok();
    let events: Vec<FleetEvent> =
        home.read("events.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let began = FleetEvent { at_ms: 600_000, what: FleetEventKind::Began { job: "b".to_owned() } };
    assert!(events.contains(&began), "{events:?}");
    // 3. The state at an instant, with reasons.
    let reported = home.words(&format!("{asked} --at 5m --explain a")).ok().stdout;
    for said in [
        "muster, 5m after the first submission: 2 jobs arrived, 0 ended, 1 run, 1 wait; 62 % is held",
        "kube-default, 5m after the first submission: 2 jobs arrived, 0 ended, 1 run, 1 wait; 100 % is held",
        "3 of its 5 pods have a node and hold it",
        "has run for",
    ] {
        assert!(reported.contains(said), "{said}: {reported}");
    }
}

/// Muster's scheduler rejects a job that can never start under a quota, and this is reported; a
/// model leaves it pending. Ctrl-C shows the results so far, marked as partial.
#[test]
fn a_run_that_is_interrupted_says_how_far_it_came() {
    let home = Home::with_gpus(0);
    home.write("cluster.yaml", CLUSTER);
    let jobs = 300_000;
    let rows: String = (0..jobs).map(|job| format!("{job},{job},8,1,8,ann\n")).collect();
    home.write("long.csv", &format!("id,submit,runtime,tasks,gpus,user\n{rows}"));
    let asked = "simulate --cluster cluster.yaml --trace long.csv --scheduler muster --events-out events.jsonl";
    let run = home.spawn(&asked.split(' ').collect::<Vec<_>>());
    let written = || std::fs::metadata(home.path("events.jsonl")).map_or(0, |file| file.len());
    home.until("it is well under way", || written() > 100_000);
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let reported = String::from_utf8(output.stdout).unwrap();
    assert!(reported.contains("muster was interrupted (*): of 300,000 jobs "), "{reported}");
    assert!(reported.contains("muster*"), "{reported}");
    let arrived = home.read("events.jsonl").lines().filter(|line| line.contains("arrived")).count();
    assert!(arrived > 0 && arrived < jobs, "{arrived} of {jobs} jobs had arrived");
}

#[test]
fn what_a_queue_file_refuses_is_counted() {
    let home = Home::with_gpus(0);
    home.write("cluster.yaml", CLUSTER);
    home.write("gangs.csv", GANGS);
    home.write("queues.yaml", "queues:\n- name: small\n  quota: {a100: 4}\n  borrow: 0\n");
    let asked = "simulate --cluster cluster.yaml --trace gangs.csv --queues queues.yaml --scheduler muster,kueue";
    let shown: FleetComparison = home.words(&format!("{asked} --json")).ok().json();
    let counts: Vec<(u64, u64)> = shown.runs.iter().map(|run| (run.refused, run.left)).collect();
    assert_eq!(counts, [(2, 0), (0, 2)]);
    let reported = home.words(asked).ok().stdout;
    assert!(
        reported.contains("muster refused 2 jobs")
            && reported.contains("warning: 2 of 2 jobs (100.0 %) name no time limit"),
        "{reported}"
    );
}

#[test]
fn jobs_end_at_their_limits_where_that_is_asked_for() {
    let home = Home::with_gpus(0);
    home.write("cluster.yaml", CLUSTER);
    home.write("late.csv", "id,submit,runtime,requested,gpus\na,0,600,60,1\nb,0,30,60,1\n");
    let asked = "--trace late.csv --estimates actual --json --scheduler";
    for (words, longest) in [
        ("--procs 8", 600.0),
        ("--procs 8 --end-at-limit", 60.0),
        ("--cluster cluster.yaml", 600.0),
        ("--cluster cluster.yaml --end-at-limit", 60.0),
    ] {
        let scheduler = if words.contains("cluster") { "muster" } else { "fcfs" };
        let shown: serde_json::Value =
            home.words(&format!("simulate {words} {asked} {scheduler}")).ok().json();
        assert_eq!(shown["runs"][0]["turnaround_secs"]["max"], longest, "{words}");
    }
}

#[test]
fn mistakes_about_a_fleet_are_told() {
    let home = Home::with_gpus(0);
    home.write("cluster.yaml", CLUSTER);
    home.write("gangs.csv", GANGS);
    home.write("queues.yaml", "queues:\n- name: x\n  quota: {a100: many}\n");
    for (words, code, said) in [
        ("--scheduler easy", 2, "`--scheduler easy` is for another kind of simulation"),
        ("--scheduler muster --procs 8", 2, "--procs"),
        ("--events-out e.jsonl", 2, "one scheduler and one seed"),
        ("--explain a", 2, "--at"),
        ("--at 5m --explain nobody", 4, "no job `nobody`"),
        ("--queues queues.yaml", 2, "quota"),
        ("--queues nowhere.yaml", 2, "nowhere.yaml"),
        ("--node-mtbf soon", 2, "soon"),
        ("--gpu-mtbf 0s", 2, "above zero"),
        ("--no-departures --report-out r.html", 2, "--report-out"),
        ("--no-departures --slurm-conf slurm.conf", 2, "--slurm-conf"),
        ("--no-departures --exec-timeout 5s", 2, "--exec-timeout"),
        // Noticed before the run, which fails only later here.
        (
            "--explain nobody --at 5m --events-out nowhere/e.jsonl",
            1,
            "cannot write nowhere/e.jsonl",
        ),
    ] {
        let asked = format!("simulate --cluster cluster.yaml --trace gangs.csv {words}");
        let reported = home.words(&asked).code(code).stderr;
        assert!(reported.contains(said), "{words}: {reported}");
    }
    let reported =
        home.words("simulate --trace gangs.csv --procs 8 --scheduler muster").code(2).stderr;
    assert!(reported.contains("--cluster"), "{reported}");
}
