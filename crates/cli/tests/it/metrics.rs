//! `muster metrics`: what is printed and served, and that the shipped rules and dashboard ask for nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use muster_model::view::JobState;
use regex::Regex;

use crate::home::Home;

/// Process that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Reads the text format strictly: help and type before the values of each metric, which are together; returns the
/// values by name and labels.
fn read(text: &str) -> BTreeMap<String, f64> {
    let sample = Regex::new(
        r#"^([a-z_]+)(\{[a-z_]+="(?:[^"\\]|\\.)*"(?:,[a-z_]+="(?:[^"\\]|\\.)*")*\})? (\S+)$"#,
    )
    .unwrap();
    let mut values = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut current = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            current = help.split_once(' ').unwrap().0.to_owned();
            assert!(seen.insert(current.clone()), "{current} comes twice");
            let kind = lines.next().unwrap();
            let kind = kind.strip_prefix(&format!("# TYPE {current} ")).unwrap();
            assert!(["gauge", "counter"].contains(&kind), "{kind}");
            assert_eq!(current.ends_with("_total"), kind == "counter", "{current}");
            continue;
        }
        let found = sample.captures(line).unwrap_or_else(|| panic!("no sample: {line}"));
        assert_eq!(&found[1], current);
        let labels = found.get(2).map_or("", |labels| labels.as_str());
        let value = found[3].parse().unwrap();
        assert!(values.insert(format!("{current}{labels}"), value).is_none(), "{line} comes twice");
    }
    values
}

#[test]
fn figures_of_a_site_are_printed_and_served() {
    let home = Home::with_gpus(4);
    let held = home.sh("--gpus 3 --name held", &home.gate("go"));
    home.until_state(held, JobState::Running);
    home.words("run --gpus 4 --array 0-4 --time 1h -- true").ok();
    let text = home.words("metrics").ok().stdout;
    let values = read(&text);
    let value = |name: &str| *values.get(name).unwrap_or_else(|| panic!("{name} in\n{text}"));
    assert_eq!(value(r#"muster_jobs{queue="default",state="running"}"#), 1.0);
    assert_eq!(value(r#"muster_waiting_elements{queue="default",reason="capacity"}"#), 5.0);
    assert_eq!(value("muster_starts_total"), 1.0);
    assert_eq!(value("muster_store_failures_total"), 0.0);
    assert!(value("muster_passes_total") >= 2.0 && value("muster_pass_seconds_total") > 0.0);
    let gpus = |state: &str| {
        let label = format!("state=\"{state}\"");
        let of_state = values
            .iter()
            .filter(|(name, _)| name.starts_with("muster_gpus") && name.contains(&label));
        of_state.map(|(_, value)| value).sum::<f64>()
    };
    assert_eq!((gpus("held"), gpus("free")), (3.0, 1.0));
    assert!(!text.contains("gpu_busy"), "virtual GPUs have no load: {text}");

    let mut server = home.command(&["metrics", "--listen", "127.0.0.1:0"]);
    let mut server = Ended(server.stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.strip_prefix("serving http://").and_then(|rest| rest.split('/').next());
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address.unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = get("/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(read(body).contains_key("muster_starts_total"));
    assert!(get("/other").starts_with("HTTP/1.1 404"));
    home.words("metrics --listen 192.0.2.1:9").code(1);
    home.words("stop-daemon").ok();
    assert!(get("/metrics").starts_with("HTTP/1.1 502"));
    home.open("go");
}

#[test]
fn shipped_rules_and_dashboard_ask_only_for_figures_that_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let sources = ["report/src/metrics.rs", "scheduler/src/metrics.rs", "operator/src/health.rs"];
    let source = sources
        .map(|file| std::fs::read_to_string(format!("{root}/crates/{file}")).unwrap())
        .concat();
    let name = Regex::new("muster_[a-z_]+").unwrap();
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = std::fs::read_to_string(format!("{root}/packaging/prometheus/{file}")).unwrap();
        let names: BTreeSet<&str> = name.find_iter(&text).map(|found| found.as_str()).collect();
        assert!(names.len() > 8, "{names:?}");
        for name in names {
            let quoted = format!("\"{}\"", name.strip_prefix("muster_").unwrap());
            assert!(source.contains(&quoted), "{file} asks for {name}");
        }
    }
    let dashboard = std::fs::read_to_string(format!("{root}/packaging/prometheus/dashboard.json"));
    serde_json::from_str::<serde_json::Value>(&dashboard.unwrap()).unwrap();
}
