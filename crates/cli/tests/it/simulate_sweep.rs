//! `muster simulate` at several loads and with several kinds of time limits, and with parts of the trace drawn
//! anew for each seed.

use muster_model::simulation::{FleetComparison, Resampled, TimeLimits};

use crate::home::Home;

const CLUSTER: &str = "nodes: [{name: n1, gpu: a100, gpus: 4, cpus: 64, memory: 512GiB}]\n";

/// A home with a trace of three weeks: every hour a job of one GPU that runs for three and a half hours in the
/// first week, and for one in the others. Two users take turns.
fn home() -> Home {
    let home = Home::with_gpus(0);
    home.write("one, \"two\".yaml", CLUSTER);
    let mut jobs = "id,submit,runtime,requested,tasks,gpus,user\n".to_owned();
    for hour in 0..3 * 168 {
        let runtime = if hour < 168 { 12_600 } else { 3_600 };
        let user = if hour % 2 == 0 { "ann" } else { "bob" };
        jobs.push_str(&format!("{hour},{},{runtime},86400,1,1,{user}\n", hour * 3600));
    }
    home.write("jobs.csv", &jobs);
    home
}

#[test]
fn a_sweep_has_a_row_for_every_load_limit_and_scheduler() {
    let home = home();
    let mut words = "simulate --trace jobs.csv --scheduler muster,kube-gang --load 1,2 --estimates requested,actual"
        .split(' ')
        .collect::<Vec<_>>();
    words.extend([
        "--cluster",
        "one, \"two\".yaml",
        "--table-out",
        "t.csv",
        "--report-out",
        "t.html",
    ]);
    let run = home.muster(&words).ok();
    assert_eq!(run.stderr, "wrote the table to t.csv\nwrote the page to t.html\n");
    let rows: Vec<Vec<&str>> = run
        .stdout
        .lines()
        .skip_while(|line| !line.contains("LOAD"))
        .skip(1)
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    let mut expected = Vec::new();
    for limits in ["requested", "actual"] {
        for load in ["1", "2"] {
            for scheduler in ["muster", "kube-gang"] {
                expected.push(vec![load, limits, scheduler]);
            }
        }
    }
    assert_eq!(rows, expected);

    // The same as JSON: a list of comparisons, one for each load and kind of limits.
    words.extend(["--json"]);
    let all: Vec<FleetComparison> = home.muster(&words).ok().json();
    let points: Vec<(f64, TimeLimits)> = all.iter().map(|one| (one.load, one.limits)).collect();
    let at = |load, limits| (load, limits);
    assert_eq!(
        points,
        [
            at(1.0, TimeLimits::Requested),
            at(2.0, TimeLimits::Requested),
            at(1.0, TimeLimits::Actual),
            at(2.0, TimeLimits::Actual)
        ]
    );
    let waited = |one: &FleetComparison| one.runs[0].waited_secs.mean;
    assert!(waited(&all[1]) > waited(&all[0]), "twice the load waits longer");

    // And as CSV, with the figures of the JSON.
    let table = home.read("t.csv");
    let lines: Vec<&str> = table.lines().collect();
    let header: Vec<&str> = lines[0].split(',').collect();
    assert_eq!(lines.len(), 9, "{table}");
    let quoted = "jobs.csv,\"one, \"\"two\"\".yaml\",,,1,requested,muster,,1,504,false,";
    assert!(lines[1].starts_with(quoted), "{}", lines[1]);
    let column = header.iter().position(|name| *name == "waited_secs.mean").unwrap();
    // The cluster's name has a comma of its own.
    let cell = lines[3].split(',').nth(column + 1).unwrap();
    assert_eq!(cell.parse::<f64>().unwrap(), waited(&all[1]));
    let page = home.read("t.html");
    assert!(page.matches("<tr>").count() == 9 && !page.contains("<script"), "{page}");
    assert!(page.contains("one, &quot;two&quot;.yaml"), "{page}");
}

#[test]
fn a_table_is_parquet_by_its_name() {
    let home = home();
    home.write("c.yaml", CLUSTER);
    let asked = "simulate --trace jobs.csv --cluster c.yaml --scheduler muster,kube-gang --json";
    let run = home.words(&format!("{asked} --table-out t.Parquet")).ok();
    assert_eq!(run.stderr, "wrote the table to t.Parquet\n");
    let shown: FleetComparison = run.json();
    let file = std::fs::read(home.path("t.Parquet")).unwrap();
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    // Values of a column are together: a double has eight bytes, text its length before it.
    let mean = |run: usize| shown.runs[run].waited_secs.mean.to_le_bytes();
    let waits = [mean(0), mean(1)].concat();
    let names = b"\x06\0\0\0muster\x09\0\0\0kube-gang";
    for column in [waits.as_slice(), names] {
        assert!(file.windows(column.len()).any(|part| part == column), "{column:?}");
    }
}

#[test]
fn a_sweep_warns_once() {
    let home = home();
    home.write("c.yaml", CLUSTER);
    let rows = home.read("jobs.csv").replacen("0,0,12600", "0,0,long", 1);
    home.write("bad.csv", &rows);
    let run =
        home.words("simulate --trace bad.csv --cluster c.yaml --scheduler muster --load 1,2,3");
    assert_eq!(run.ok().stderr.matches("cannot be parsed").count(), 1);
}

#[test]
fn each_seed_draws_the_weeks_anew_and_alike_for_all() {
    let home = home();
    home.write("c.yaml", CLUSTER);
    let asked = "simulate --trace jobs.csv --cluster c.yaml --scheduler muster,kube-gang --seeds 8";
    let plain: FleetComparison = home.words(&format!("{asked} --json")).ok().json();
    let drawn: FleetComparison =
        home.words(&format!("{asked} --resample weeks --json")).ok().json();
    let margin = |one: &FleetComparison| {
        let name = "turnaround_secs.mean";
        one.runs[0].intervals.iter().find(|interval| interval.figure == name).unwrap().margin
    };
    // The engine makes no random choice: only the weeks differ.
    assert_eq!((plain.resampled, margin(&plain)), (None, 0.0));
    assert_eq!(drawn.resampled, Some(Resampled::Weeks));
    assert!(margin(&drawn) > 60.0, "{}", margin(&drawn));
    let again: FleetComparison =
        home.words(&format!("{asked} --resample weeks --json")).ok().json();
    assert_eq!(drawn.runs, again.runs);
    let said = home.words(&format!("{asked} --resample users")).ok().stdout;
    let words = "means of 8 runs, one for each seed, which draws the users of the trace anew";
    assert!(said.contains(words), "{said}");
}

#[test]
fn mistakes_lead_on() {
    let home = home();
    home.write("c.yaml", CLUSTER);
    let check = |words: &str, error: &str| {
        let said = home.words(&format!("simulate --trace jobs.csv {words}")).code(2).stderr;
        assert!(said.contains(error), "{words}: {said}");
    };
    check("--load 1,2", "several values of `--load` or `--estimates` need `--cluster`");
    check(
        "--cluster c.yaml --resample weeks",
        "`--resample` draws for each seed, and there is one seed",
    );
    check(
        "--cluster c.yaml --scheduler muster --load 1,2 --events-out e",
        "`--events-out`, `--at` and `--calibrate` take one load and one kind of limits",
    );
    check("--cluster c.yaml --load 1,0", "expected a number from 0.01 to 100");
    home.write("short.csv", "id,submit,runtime,tasks,gpus,user\na,0,60,1,1,ann\nb,9,60,1,1,ann\n");
    let short = "simulate --trace short.csv --cluster c.yaml --seeds 2 --resample";
    let said = home.words(&format!("{short} weeks")).code(2).stderr;
    assert!(
        said.contains("`--resample weeks` draws from 0 weeks, which leaves no choice"),
        "{said}"
    );
    let said = home.words(&format!("{short} users")).code(2).stderr;
    assert!(
        said.contains("`--resample users` draws from 1 user, which leaves no choice"),
        "{said}"
    );
}
