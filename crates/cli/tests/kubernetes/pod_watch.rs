//! Watches the pods of a namespace from outside, and measures how long gangs are half started, and
//! which pods were bound to nodes that were full.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use muster_kubernetes::instant;
use muster_model::{Span, Time};
use serde_json::Value;

use crate::cluster::KubernetesCluster;

/// Time within which a binding of the rival and one of ours count as a race: a binding without an
/// answer is tried again after up to 5 seconds, and the rival may have filled the node meanwhile.
const RACE: Span = Span::from_secs(10);

/// Measurements of a watch.
#[derive(Clone, Debug, Default)]
pub struct SeenPods {
    /// Pods of gangs that got a node.
    pub bindings: usize,
    /// Longest time for which a part of a gang was bound while the rest waited.
    pub longest_half: Duration,
    /// Pods of gangs that their node refused, being full.
    pub rejected: usize,
    /// Such pods to whose node no pod of another scheduler was bound just before, each with what was
    /// bound to the node.
    pub overcommitted: Vec<String>,
}

/// Running watch of `kubectl`, started again whenever the API server ends it.
pub struct PodWatch {
    is_over: Arc<AtomicBool>,
    child: Arc<Mutex<Option<Child>>>,
    thread: JoinHandle<SeenPods>,
}

impl PodWatch {
    pub fn start(cluster: &KubernetesCluster, namespace: &'static str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let child = Arc::new(Mutex::new(None));
        let start = {
            let mut words = vec!["get", "pods", "--watch", "--output-watch-events"];
            words.extend(["--output=json", "--namespace", namespace]);
            let mut command = cluster.kubectl_command(&words);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            move || command.spawn().unwrap()
        };
        let thread = std::thread::spawn({
            let (is_over, child) = (Arc::clone(&is_over), Arc::clone(&child));
            move || follow(start, &is_over, &child)
        });
        Self { is_over, child, thread }
    }

    /// Ends the watch; returns what it measured.
    pub fn end(self) -> SeenPods {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(child) = self.child.lock().unwrap().as_mut() {
            // It may have ended by itself.
            let _ = child.kill();
        }
        self.thread.join().unwrap()
    }
}

fn follow(
    mut start: impl FnMut() -> Child,
    is_over: &AtomicBool,
    running: &Mutex<Option<Child>>,
) -> SeenPods {
    let mut view = View::default();
    while !is_over.load(Ordering::SeqCst) {
        let mut child = start();
        let output = BufReader::new(child.stdout.take().unwrap());
        *running.lock().unwrap() = Some(child);
        // A new watch begins with all pods that exist.
        view.pods.clear();
        for event in serde_json::Deserializer::from_reader(output).into_iter::<Value>() {
            let Ok(event) = event else { break };
            view.take_in(&event, Instant::now());
        }
        if let Some(child) = running.lock().unwrap().as_mut() {
            let _ = child.wait();
        }
    }
    view.seen
}

/// Pods as they were last seen.
#[derive(Default)]
struct View {
    pods: BTreeMap<String, KnownPod>,
    /// Start of the present half start, by gang.
    half_since: BTreeMap<String, Instant>,
    /// Bindings of other schedulers, by node.
    rivals: BTreeMap<String, BTreeSet<Time>>,
    /// Ids of pods whose binding, and whose end, has been counted: each new watch reports them again.
    counted: [BTreeSet<String>; 2],
    seen: SeenPods,
}

/// A pod of a gang.
struct KnownPod {
    gang: String,
    size: usize,
    is_bound: bool,
    has_ended: bool,
    is_going: bool,
    node: Option<String>,
    bound_at: Option<Time>,
}

impl View {
    fn take_in(&mut self, event: &Value, now: Instant) {
        let pod = &event["object"];
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let node = pod["spec"]["nodeName"].as_str();
        let labels = &pod["metadata"]["labels"];
        let names = ["batch.kubernetes.io/job-name", "muster.run/gang"];
        let Some(gang) = names.iter().find_map(|name| labels[name].as_str()) else {
            if let Some(node) = node {
                self.rivals.entry(node.to_owned()).or_default().extend(bound_at(pod));
            }
            return;
        };
        if event["type"] == "DELETED" {
            self.pods.remove(&name);
        } else {
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            let known = KnownPod {
                gang: gang.to_owned(),
                size: ["gang-size", "muster.run/gang-size"]
                    .iter()
                    .find_map(|name| pod["metadata"]["annotations"][name].as_str())
                    .map_or(0, |size| size.parse().unwrap()),
                is_bound: node.is_some(),
                has_ended: ["Succeeded", "Failed"].contains(&phase),
                is_going: !pod["metadata"]["deletionTimestamp"].is_null(),
                node: node.map(str::to_owned),
                bound_at: bound_at(pod),
            };
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
            let [bound, ended] = &mut self.counted;
            self.seen.bindings += usize::from(known.is_bound && bound.insert(uid.to_owned()));
            if known.has_ended && ended.insert(uid.to_owned()) {
                let reason = pod["status"]["reason"].as_str().unwrap_or_default();
                self.note_end(reason, &name, node, bound_at(pod));
            }
            self.pods.insert(name, known);
        }
        self.measure(gang, now);
    }

    /// Counts a pod that its node refused for want of room. It was a race if a rival bound a pod at about
    /// the same time, however late the kubelet refuses one of them, and the watch sees it.
    fn note_end(&mut self, reason: &str, name: &str, node: Option<&str>, bound_at: Option<Time>) {
        if !reason.starts_with("OutOf") {
            return;
        }
        self.seen.rejected += 1;
        let rivals = node.and_then(|node| self.rivals.get(node));
        let is_near = |at: &Time, own: Time| at.0.abs_diff(own.0) < RACE.0;
        let is_race = bound_at.is_some_and(|own| {
            rivals.is_some_and(|rivals| rivals.iter().any(|at| is_near(at, own)))
        });
        if !is_race {
            let others = self.pods.iter().filter(|(_, pod)| pod.node.as_deref() == node);
            let others: Vec<String> = others
                .map(|(name, pod)| {
                    format!(
                        "{name} at {:?}{}",
                        pod.bound_at,
                        if pod.has_ended { ", ended" } else { "" }
                    )
                })
                .collect();
            self.seen.overcommitted.push(format!(
                "{name} on {node:?} at {bound_at:?}; rivals at {rivals:?}; gangs: {}",
                others.join("; ")
            ));
        }
    }

    /// Measures the half start of a gang. Pods that have ended belong to no half start: what is left
    /// then are replacements.
    fn measure(&mut self, gang: &str, now: Instant) {
        let pods: Vec<&KnownPod> = self.pods.values().filter(|pod| pod.gang == gang).collect();
        let bound = pods.iter().filter(|pod| pod.is_bound && !pod.is_going).count();
        let has_change = pods.iter().any(|pod| pod.has_ended || pod.is_going);
        let size = pods.iter().map(|pod| pod.size).max().unwrap_or_default();
        if bound > 0 && bound < size && !has_change {
            self.half_since.entry(gang.to_owned()).or_insert(now);
        } else if let Some(since) = self.half_since.remove(gang) {
            self.seen.longest_half = self.seen.longest_half.max(now.duration_since(since));
        }
    }
}

/// Returns when the API server bound a pod to its node.
fn bound_at(pod: &Value) -> Option<Time> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let bound = |one: &&Value| one["type"] == "PodScheduled" && one["status"] == "True";
    instant::parse(conditions.iter().find(bound)?["lastTransitionTime"].as_str()?)
}
