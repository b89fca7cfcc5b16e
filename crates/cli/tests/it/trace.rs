//! `muster trace`: summaries of all formats, stable JSON, exact error messages, and the figures of
//! public traces if these are available. No daemon is started.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use muster_model::trace::{TraceSummary, TraceUnit};
use serde_json::Value;

use crate::home::{Home, HomeRun};

const OWN: &str = "\
# three jobs, one of which never ran
id,submit,runtime,requested,tasks,gpus,user,queue,ended
a,2026-03-01T09:00:00Z,2h,4h,2,8,ann,prod,completed
b,2026-03-01T10:30:00Z,60,1h,1,1,bob,prod,failed
c,2026-03-02T11:00:00Z,,1h,1,1,bob,dev,cancelled
";

#[test]
fn our_own_table_is_summed_up() {
    let home = Home::new();
    home.write("own.csv", OWN);
    let run = home.words("trace summary own.csv").ok();
    for part in [
        "trace     own.csv, csv\njobs      3 jobs, 1 without a runtime\nspan      1d02h, 2026-03-01 to 2026-03-02",
        "held      32 GPU-hours; 1.2 GPUs on average",
        "users     2; ann 99.9%, bob <0.1% of GPU-hours",
        "ended     completed 33.3% (99.9% of GPU-hours), failed 33.3%",
        "arrivals by hour of day, UTC",
    ] {
        assert!(run.stdout.contains(part), "{part} is not in:\n{}", run.stdout);
    }
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 100 && line.trim_end() == line));
    assert_eq!(run.stderr, "");

    let summary: TraceSummary = home.words("trace summary own.csv --json").json();
    assert_eq!(
        (summary.rows.jobs, summary.held_unit_secs, summary.unit),
        (3, 16 * 7200 + 60, TraceUnit::Gpus)
    );
    assert_eq!(
        (summary.arrivals.by_hour[9], summary.arrivals.by_hour[10], summary.arrivals.by_hour[11]),
        (1, 1, 1)
    );
    assert_eq!(summary.used_percent.p50, 1);
    assert!(!home.path("m").exists());
}

#[test]
fn json_keeps_to_its_schema() {
    let home = Home::new();
    home.write("own.csv", OWN);
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/trace-summary.schema.json");
    let published: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let printed: Value = home.words("schema trace-summary").json();
    assert_eq!(printed, published, "cargo xtask gen");
    let schema = jsonschema::validator_for(&published).unwrap();
    let answer: Value = home.words("trace summary own.csv --json").json();
    let wrong: Vec<String> = schema.iter_errors(&answer).map(|error| error.to_string()).collect();
    assert_eq!(wrong, Vec::<String>::new());
    for key in answer.as_object().unwrap().keys().filter(|key| *key != "machine_processors") {
        let mut less = answer.clone();
        less.as_object_mut().unwrap().remove(key);
        assert!(!schema.is_valid(&less), "without {key}");
    }
}

#[test]
fn packed_files_and_stdin_are_read_and_the_format_is_found() {
    let home = Home::new();
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(OWN.as_bytes()).unwrap();
    std::fs::write(home.path("own"), packed.finish().unwrap()).unwrap();
    assert_eq!(home.words("trace summary own --json").json::<TraceSummary>().rows.jobs, 3);

    let check = |text: &str, format: &str, jobs: u64| {
        let summary: TraceSummary =
            home.with_stdin(&["trace", "summary", "-", "--json"], text).json();
        assert_eq!((&*summary.format, summary.rows.jobs), (format, jobs), "{text}");
    };
    check(
        "JobID|State|Submit|Elapsed\n1|COMPLETED|2026-03-01T09:00:00|01:00\n1.0|COMPLETED||01:00\n",
        "sacct",
        1,
    );
    check(
        r#"{"apiVersion":"v1","items":[{"kind":"Pod","metadata":{"name":"a","creationTimestamp":"2026-03-01T09:00:00Z"},"spec":{}}]}"#,
        "kubernetes",
        1,
    );
    check("; MaxProcs: 4\n1 0 0 10 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n", "swf", 1);
}

#[test]
fn what_cannot_be_read_is_counted_shown_and_refused_on_demand() {
    let home = Home::new();
    home.write("own.csv", &OWN.replace("60,1h", "soon,1h"));
    let run = home.words("trace summary own.csv").ok();
    let shown = "1 row that cannot be read\n  line 4: `runtime` is `soon`, not seconds, or a time such as 2h\n";
    assert!(run.stdout.ends_with(shown), "{}", run.stdout);
    let refused = |words: &str, expected: &str| {
        let HomeRun { stderr, .. } = home.words(words).code(2);
        assert_eq!(stderr.trim_end(), expected.trim_end(), "{words}");
    };
    refused(
        "trace summary own.csv --strict",
        "error: own.csv: 1 of 3 rows cannot be parsed; the first error is on line 4: `runtime` is `soon`, not seconds, or a time such as 2h\n\
         hint: without `--strict` they are skipped with a warning",
    );
    home.write("short.csv", "timestamp,num_gpus,cluster\n");
    refused(
        "trace summary short.csv",
        "error: short.csv: line 1: the header has no column `duration`\n\
         hint: a trace in the format philly has a header with timestamp, duration, num_gpus; `--format` names another format",
    );
    home.write("endless.csv", "id,submit,gpus\na,0,1\n");
    refused(
        "trace summary endless.csv",
        "error: endless.csv: line 1: the header has no column `runtime`\n\
         hint: a trace in the format csv has a header with submit, runtime; `--format` names another format",
    );
    home.write("empty", "\n");
    refused(
        "trace summary empty",
        "error: empty has no jobs\nhint: a trace has one job per line; docs/traces.md describes the formats",
    );
    home.write(
        "cut.json",
        "[{\"status\": \"Pass\", \"submitted_time\": \"2017-10-07 01:00:00\", \"jobid\": \"a\"},\n{",
    );
    refused(
        "trace summary cut.json",
        "error: cut.json: line 2: it ends in the middle of the list\n\
         hint: it was read as philly-json; `--format` names another format",
    );
    let unknown = home.words("trace summary own.csv --format swff").code(2);
    assert!(unknown.stderr.contains("a similar value exists: 'swf'"), "{}", unknown.stderr);
}

#[test]
fn jobs_with_one_id_are_counted_kept_and_said() {
    let home = Home::new();
    home.write("twice.csv", "id,submit,runtime\na,0,10\nb,0,10\na,5,10\na,5,10\n");
    let warning =
        "warning: 2 jobs have the id of an earlier one, the first on line 4; all are kept";
    let run = home.words("trace summary twice.csv").ok();
    assert!(run.stderr.starts_with(warning), "{}", run.stderr);
    assert!(run.stdout.contains("4 jobs, 2 with a repeated id\n"), "{}", run.stdout);
    let summary: TraceSummary = home.words("trace summary twice.csv --json").json();
    assert_eq!((summary.rows.jobs, summary.rows.duplicate_ids), (4, 2));
    home.write("cluster.yaml", "nodes:\n- {name: n1, cpus: 4, memory: 8GiB}\n");
    for words in ["--procs 4", "--cluster cluster.yaml --scheduler muster"] {
        let run = home.words(&format!("simulate --trace twice.csv {words} --json")).ok();
        assert!(run.stderr.starts_with(warning), "{}", run.stderr);
        let shown: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!((&shown["jobs"], &shown["duplicate_ids"]), (&4.into(), &2.into()), "{words}");
    }
}

const RECIPE: &str = "\
jobs: 500
every: 2m
start: 2026-03-02T00:00:00Z
users: 5
classes:
- {name: small, weight: 9, gpus: 1, runtime: {median: 10m, p95: 6h}, overestimate: 3}
- {name: gang, gpus: 8, tasks: [2, 4], runtime: 1h, requested: 2h, failed: 50}
";

#[test]
fn a_trace_is_made_by_its_seed_and_reads_back() {
    let home = Home::new();
    home.write("recipe.yaml", RECIPE);
    let first = home.words("trace generate recipe.yaml --seed 7").ok();
    assert_eq!(first.stdout, home.words("trace generate recipe.yaml --seed 7").ok().stdout);
    assert_ne!(first.stdout, home.words("trace generate recipe.yaml --seed 8").ok().stdout);
    assert_eq!(first.stderr, "500 jobs\n");
    let summary: TraceSummary =
        home.with_stdin(&["trace", "summary", "-", "--strict", "--json"], &first.stdout).json();
    assert_eq!((summary.rows.jobs, summary.users.count, summary.rows.out_of_order), (500, 5, 0));
    assert_eq!(summary.span.zero_ms, Some(0));

    home.words("trace generate recipe.yaml --jobs 20 -o made.csv.gz").ok();
    assert!(std::fs::read(home.path("made.csv.gz")).unwrap().starts_with(b"\x1f\x8b"));
    assert_eq!(home.words("trace summary made.csv.gz --json").json::<TraceSummary>().rows.jobs, 20);
    let again = home.words("trace generate recipe.yaml -o made.csv.gz").code(2);
    assert!(again.stderr.contains("already exists"), "{}", again.stderr);

    home.write("wrong.yaml", &RECIPE.replace("every: 2m", "evry: 2m"));
    let wrong = home.words("trace generate wrong.yaml").code(2);
    assert!(wrong.stderr.contains("did you mean `every`?"), "{}", wrong.stderr);
}

/// 15,000 workloads, as Kueue's own measurements count them; the large ones hold 20 CPUs.
#[test]
fn the_generator_of_kueue_makes_what_its_test_creates() {
    let Some(path) = public("kueue/baseline-generator.yaml") else { return };
    let home = Home::new();
    let made = home.muster(&["trace", "generate", &path.display().to_string()]).ok();
    let found: TraceSummary =
        home.with_stdin(&["trace", "summary", "-", "--strict", "--json"], &made.stdout).json();
    let sizes: Vec<(u64, u64)> =
        found.sizes.iter().map(|size| (size.to_milli / 1000, size.jobs)).collect();
    assert_eq!(sizes, [(1, 10_500), (5, 3000), (20, 1500)]);
    assert_eq!(
        (found.queues.count, found.span.first_submit_ms, found.span.last_submit_ms),
        (30, 100, 60_000)
    );
}

/// A public trace: in the folder that `MUSTER_TRACES` names, or in the project's shared data beside
/// the checkout.
fn public(name: &str) -> Option<PathBuf> {
    let beside: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "..", "..", "shared", "traces"].iter().collect();
    let folder = std::env::var_os("MUSTER_TRACES").map_or(beside, PathBuf::from);
    let path = folder.join(name);
    let is_there = path.is_file();
    if !is_there {
        eprintln!("not tested, since {} is not there", path.display());
    }
    is_there.then_some(path)
}

fn summary(path: &Path) -> TraceSummary {
    Home::new()
        .muster(&["trace", "summary", "--strict", "--json", &path.display().to_string()])
        .json()
}

/// Figures of the research page on traces; it counts 82,248 rows of this file, of which the last is
/// empty.
#[test]
fn philly_has_the_figures_that_are_known_of_it() {
    let Some(path) = public("philly/philly.csv.gz") else { return };
    let found = summary(&path);
    let sizes: Vec<(u64, u64)> =
        found.sizes.iter().map(|size| (size.to_milli / 1000, size.jobs)).collect();
    assert_eq!(sizes[..4], [(1, 76_627), (2, 1818), (4, 1870), (8, 1643)]);
    assert_eq!(sizes[4..].iter().map(|(_, jobs)| jobs).sum::<u64>(), 289);
    assert_eq!((sizes.last().map(|(gpus, _)| *gpus), found.rows.jobs), (Some(128), 82_247));
    let runtime = found.runtime_ms;
    assert_eq!(
        (runtime.p50 / 1000, (runtime.mean + 500) / 1000, runtime.p95 / 1000),
        (1144, 13_136, 43_648)
    );
    assert_eq!((found.held_unit_secs / 3600, found.mean_load_milli / 1000), (978_078, 374));
    assert_eq!((found.queues.count, found.users.count), (15, 0));
}

#[test]
fn kth_and_sdsc_have_the_figures_that_are_known_of_them() {
    if let Some(path) = public("swf/KTH-SP2-filtered-predictsim.swf.gz") {
        let found = summary(&path);
        assert_eq!(
            (found.rows.jobs, found.users.count, found.machine_processors),
            (28_481, 214, Some(100))
        );
        assert_eq!(
            (found.rows.without_runtime, found.over_requested),
            (0, 0),
            "the filter cut runtimes"
        );
        assert_eq!((found.unit, found.held_unit_secs / 3600), (TraceUnit::Processors, 559_224));
    }
    if let Some(path) = public("swf/SDSC-SP2-last10k-ppt.swf.gz") {
        let found = summary(&path);
        assert_eq!(
            (found.rows.jobs, found.rows.without_runtime, found.machine_processors),
            (9548, 1038, Some(128))
        );
    }
}

#[test]
fn openb_has_the_figures_that_are_known_of_it() {
    let Some(path) = public("openb/openb_pod_list_default.csv.gz") else { return };
    let found = summary(&path);
    let sizes: Vec<(u64, u64, u64)> =
        found.sizes.iter().map(|size| (size.from_milli, size.to_milli, size.jobs)).collect();
    assert_eq!((sizes[0], sizes[1].2, found.rows.jobs), ((0, 0, 1088), 3078, 8152));
    assert_eq!(
        sizes[2..],
        [(1000, 1000, 3911), (2000, 2000, 16), (4000, 4000, 15), (8000, 8000, 44)]
    );
    assert_eq!(found.span.zero_ms, None);
}
