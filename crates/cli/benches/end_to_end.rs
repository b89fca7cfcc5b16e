//! End-to-end benchmark of the built binary with real processes: submission to start, an array,
//! `muster ps`, long lists and a snapshot, a batch of advice. Prints a table, or JSON with
//! `--json`, with a goal for each figure. It uses its own home and stops its daemon; it asserts
//! nothing.
//!
//! `cargo bench -p muster --bench end_to_end [-- --json] [--samples N] [--only
//! submit,array,ps,long,advise]`

#![allow(clippy::unwrap_used, reason = "a bench that cannot unwrap has nothing to report")]

use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use muster_api::Client;
use muster_api::query::JobFilter;
use muster_api::types::SubmitRequest;
use muster_model::JobId;
use muster_model::view::JobState;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

/// First argument that makes this binary the job, which reports its start time first.
const STAMP: &str = "__stamp";
/// Number of GPUs of the daemon; the array runs on all of them at once.
const SLOTS: u32 = 64;
/// Number of GPUs of a small machine, on which each start is waited for.
const FEW_SLOTS: u32 = 2;
/// Number of elements of the array.
const ELEMENTS: u32 = 2_000;
/// Number of jobs that `ps` lists.
const KNOWN_JOBS: usize = 100;
/// Number of pending jobs while long lists are measured.
const LONG: [usize; 2] = [10_000, 100_000];
/// Largest number of documents in one text.
const TEXT: usize = 1_000;
/// Number of lines of facts in a batch.
const FACTS: usize = 10_000;
/// Longest wait for a job, so that the benchmark fails and does not hang.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let now = monotonic();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, socket] = args.as_slice()
        && word == STAMP
    {
        let _nobody_listens =
            UnixDatagram::unbound().and_then(|to| to.send_to(&now.to_ne_bytes(), socket));
        return ExitCode::SUCCESS;
    }
    let value = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1);
    let samples = value("--samples").map_or(200, |count| count.parse().unwrap());
    let wanted =
        |part: &str| value("--only").is_none_or(|only| only.split(',').any(|name| name == part));

    let bench = Bench::new();
    let mut rows = Vec::new();
    if wanted("submit") {
        rows.extend(bench.submit_to_running(samples));
    }
    if wanted("array") {
        rows.push(bench.array(FEW_SLOTS));
        rows.push(bench.array(SLOTS));
    }
    if wanted("ps") {
        rows.push(bench.ps(samples.min(100)));
    }
    if wanted("long") {
        rows.extend(bench.long());
    }
    if wanted("advise") {
        rows.extend(bench.advise());
    }
    rows.extend(bench.memory());
    if args.iter().any(|arg| arg == "--json") {
        println!("{}", serde_json::to_string_pretty(&json!({"rows": rows})).unwrap())
    } else {
        print_table(&rows)
    }
    ExitCode::SUCCESS
}

/// Returns the nanoseconds of the clock that all processes of the machine share.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Daemon in a home of its own, and a socket on which jobs report their start times.
struct Bench {
    home: tempfile::TempDir,
    stamps: UnixDatagram,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let stamps = UnixDatagram::bind(home.path().join("stamps")).unwrap();
        stamps.set_read_timeout(Some(PATIENCE)).unwrap();
        let client = Client::new(home.path().join("m/run/muster.sock"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bench = Self { home, stamps, client, runtime };
        let gpus = format!("--virtual-gpus={SLOTS}");
        let mut daemon = bench
            .command(&["serve", "--background", &gpus])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 1];
        daemon.stdout.take().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(said, *b"1", "the daemon did not start");
        // Reaps it when it ends.
        std::thread::spawn(move || daemon.wait());
        bench
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.home.path());
        command.env("MUSTER_HOME", self.home.path().join("m")).current_dir(self.home.path());
        command.stdin(Stdio::null());
        command
    }

    /// This binary as a job.
    fn stamp(&self) -> [String; 3] {
        let text = |path: PathBuf| path.into_os_string().into_string().unwrap();
        let own = std::env::current_exe().unwrap();
        [text(own), STAMP.to_owned(), text(self.home.path().join("stamps"))]
    }

    fn request(&self, key: &str, fields: &Value) -> SubmitRequest {
        let fields: Map<String, Value> = fields.as_object().cloned().unwrap();
        SubmitRequest {
            key: key.to_owned(),
            source: String::new(),
            file: None,
            overrides: fields,
            notify_file: None,
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            env_files: std::collections::BTreeMap::new(),
            workdir: self.home.path().display().to_string(),
            umask: 0o022,
            interactive: false,
            dry_run: false,
        }
    }

    fn submit(&self, key: &str, fields: &Value) -> JobId {
        let request = self.request(key, fields);
        self.runtime.block_on(self.client.submit(&request)).unwrap().jobs[0].job
    }

    /// Waits until the daemon reports no live job.
    fn until_idle(&self) {
        let deadline = Instant::now() + PATIENCE;
        let idle = async {
            loop {
                let list = self.client.jobs(JobFilter::default()).await.unwrap();
                if list.jobs.iter().all(|job| job.state.is_final()) {
                    return;
                }
                assert!(Instant::now() < deadline, "jobs still run after {PATIENCE:?}");
                self.client.changes(Some(list.revision), 5).await.unwrap();
            }
        };
        self.runtime.block_on(idle);
    }

    /// Measures the time from just before the call until the job's process runs, on an idle daemon.
    fn submit_to_running(&self, samples: usize) -> Vec<Row> {
        let stamp = self.stamp();
        let mut by_api = Vec::with_capacity(samples);
        for number in 0..samples {
            let from = monotonic();
            self.submit(&format!("api-{number}"), &json!({"run": stamp, "gpus": 1}));
            by_api.push(self.stamped_after(from));
            self.until_idle();
        }
        let mut by_cli = Vec::with_capacity(samples);
        let args = ["run", "--gpus", "1", "--", &stamp[0], &stamp[1], &stamp[2]];
        for _ in 0..samples {
            let from = monotonic();
            let said = self.command(&args).output().unwrap();
            assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
            by_cli.push(self.stamped_after(from));
            self.until_idle();
        }
        vec![
            Row::times("submit to running, API client", by_api, "<= 50 ms median"),
            Row::times("submit to running, `muster run`", by_cli, "<= 50 ms median"),
        ]
    }

    /// Returns the milliseconds from `from` until the next job ran.
    fn stamped_after(&self, from: u64) -> f64 {
        let mut bytes = [0; 8];
        self.stamps.recv(&mut bytes).unwrap();
        (u64::from_ne_bytes(bytes) - from) as f64 / 1e6
    }

    /// Measures the time from just before the call until the last element has ended.
    fn array(&self, slots: u32) -> Row {
        let array = format!("0-{}%{slots}", ELEMENTS - 1);
        let fields = json!({"run": ["true"], "gpus": 1, "array": array, "time": "1m"});
        let from = Instant::now();
        let job = self.submit(&format!("array-{slots}"), &fields);
        self.until_idle();
        let took = from.elapsed().as_secs_f64();
        let ended = self.runtime.block_on(self.client.job(job, None)).unwrap().job;
        assert_eq!(ended.state, JobState::Done, "{ended:?}");
        let per_second = f64::from(ELEMENTS) / took;
        Row {
            what: format!("array of {ELEMENTS} `true`, {slots} at a time"),
            values: vec![("tasks per second", per_second), ("seconds", took)],
            samples: 1,
            goal: ">= 300 tasks per second",
        }
    }

    /// Measures a new `muster ps` process from start to end.
    fn ps(&self, samples: usize) -> Row {
        for number in 0..KNOWN_JOBS {
            self.submit(&format!("held-{number}"), &json!({"run": ["true"], "hold": true}));
        }
        let times = (0..samples).map(|_| {
            let from = Instant::now();
            let said = self.command(&["ps"]).output().unwrap();
            let took = from.elapsed().as_secs_f64() * 1e3;
            let listed = said.stdout.iter().filter(|byte| **byte == b'\n').count();
            assert!(said.status.success() && listed >= KNOWN_JOBS, "{listed} lines");
            took
        });
        let times = times.collect();
        Row::times(&format!("`muster ps` of {KNOWN_JOBS} jobs, cold"), times, "<= 50 ms median")
    }

    /// Measures lists and a snapshot of many pending jobs, and the additional memory that each
    /// takes in the daemon.
    fn long(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut known = 0;
        for jobs in LONG {
            for number in (known..jobs).step_by(TEXT) {
                let name = |nth| {
                    format!("{{name: long-{nth}, gpus: 1, time: 1h, hold: true, run: 'true'}}")
                };
                let text: Vec<String> = (number..number + TEXT).map(name).collect();
                let mut request = self.request(&format!("long-{number}"), &json!({}));
                request.source = text.join("\n---\n");
                self.runtime.block_on(self.client.submit(&request)).unwrap();
            }
            known = jobs;
            let out = self.home.path().join("snapshot.json").display().to_string();
            let asked: [(&str, &[&str]); 4] = [
                ("ps", &["ps"]),
                ("ps --json", &["ps", "--json"]),
                ("ps -n 200", &["ps", "-n", "200"]),
                ("whatif --snapshot-out", &["whatif", "--snapshot-out", &out]),
            ];
            rows.extend(
                asked.iter().map(|(what, args)| self.beside(&format!("{what}, {jobs} jobs"), args)),
            );
        }
        rows
    }

    /// A verb five times and once more: how long it takes, how much memory of the daemon, and how
    /// long a question waits beside it at most.
    fn beside(&self, what: &str, args: &[&str]) -> Row {
        let pid = self.runtime.block_on(self.client.info()).unwrap().pid;
        let before = self.mib("VmRSS:").unwrap();
        std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
        let start =
            || self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let time = |_| {
            let from = Instant::now();
            assert!(start().wait().unwrap().success());
            from.elapsed().as_secs_f64() * 1e3
        };
        let mut times: Vec<f64> = (0..5).map(time).collect();
        // Once more, with questions beside it: they take time of the processor.
        let mut child = start();
        let mut waited = 0.0_f64;
        while child.try_wait().unwrap().is_none() {
            let from = Instant::now();
            self.runtime.block_on(self.client.queues()).unwrap();
            waited = waited.max(from.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let values = vec![
            ("median ms", times[2]),
            ("worst ms", times[4]),
            ("ms another waits at most", waited),
            ("MiB more in the daemon", self.mib("VmHWM:").unwrap() - before),
        ];
        Row { what: what.to_owned(), values, samples: 5, goal: "" }
    }

    /// A new `muster advise --batch` process from start to end: whole answers, and labels alone.
    fn advise(&self) -> [Row; 2] {
        // Every combination of flags, and numbers of nodes on both sides of every threshold.
        let flags = [
            "tightly_coupled",
            "bare_metal",
            "long_lived_services",
            "multi_tenant",
            "python_native_pipeline",
            "edge_or_dev",
        ];
        let line = |number: usize| {
            let flag =
                |(bit, name): (usize, &&str)| format!(",\"{name}\":{}", number >> bit & 1 == 1);
            let flags: String = flags.iter().enumerate().map(flag).collect();
            format!("{{\"nodes\":{}{flags}}}\n", number / 64 % 157 + 1)
        };
        let facts = self.home.path().join("facts.jsonl");
        std::fs::write(&facts, (0..FACTS).map(line).collect::<String>()).unwrap();
        let time = |args: &[&str]| {
            let input = std::fs::File::open(&facts).unwrap();
            let from = Instant::now();
            let said = self.command(args).stdin(input).output().unwrap();
            let took = from.elapsed().as_secs_f64() * 1e3;
            let lines = said.stdout.iter().filter(|byte| **byte == b'\n').count();
            assert!(said.status.success() && lines == FACTS, "{lines} lines");
            took
        };
        let row = |what: &str, args: &[&str]| {
            let times = (0..5).map(|_| time(args)).collect();
            Row::times(&format!("`muster advise --batch`, {FACTS} {what}"), times, "< 1 s")
        };
        [
            row("answers", &["advise", "--batch"]),
            row("labels", &["advise", "--batch", "--fields", "primary,addon,hybrid"]),
        ]
    }

    /// Returns a row with the memory in use by the daemon; `None` if it cannot be read.
    fn memory(&self) -> Option<Row> {
        let values = vec![("now MiB", self.mib("VmRSS:")?), ("peak MiB", self.mib("VmHWM:")?)];
        Some(Row {
            what: "memory of the daemon after that".to_owned(),
            values,
            samples: 1,
            goal: "",
        })
    }

    /// A figure of the daemon's memory in MiB.
    fn mib(&self, name: &str) -> Option<f64> {
        let info = self.runtime.block_on(self.client.info()).unwrap();
        let status =
            std::fs::read_to_string(Path::new("/proc").join(info.pid.to_string()).join("status"))
                .ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let stopped = self.command(&["stop-daemon", "--cancel"]).output();
        if !stopped.is_ok_and(|output| output.status.success()) {
            eprintln!("the daemon of {} did not stop", self.home.path().display());
        }
    }
}

/// A line of the table.
#[derive(serde::Serialize)]
struct Row {
    what: String,
    values: Vec<(&'static str, f64)>,
    samples: usize,
    goal: &'static str,
}

impl Row {
    /// Median, 90th percentile (nearest rank) and worst of times in milliseconds.
    fn times(what: &str, mut times: Vec<f64>, goal: &'static str) -> Self {
        times.sort_by(f64::total_cmp);
        let rank = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        let values = vec![("median ms", rank(50)), ("p90 ms", rank(90)), ("worst ms", rank(100))];
        Self { what: what.to_owned(), values, samples: times.len(), goal }
    }
}

fn print_table(rows: &[Row]) {
    for row in rows {
        let values: Vec<String> =
            row.values.iter().map(|(name, value)| format!("{value:.1} {name}")).collect();
        println!("{:<40} {:<52} n={:<5} {}", row.what, values.join("  "), row.samples, row.goal);
    }
}
