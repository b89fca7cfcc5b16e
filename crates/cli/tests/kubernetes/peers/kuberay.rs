//! RayJobs and RayClusters with the real operator of KubeRay and real Ray in their pods; Muster's scheduler places them.

mod clusters;
mod jobs;

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::conform::JobPlace;
use crate::real_nodes::target::{KubernetesTarget, submit};

/// Image that `start kuberay` gives to the nodes.
const IMAGE: &str = "localhost/ray:2.60.0";

/// Longest wait for a cluster of Ray to start, or to end; usually half a minute.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until a condition holds, which asks the cluster each time.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
    }
}

/// Program that counts its starts in a file, says on which nodes its actors run, and waits for its end. Arguments: the
/// folder, its name, the number of actors, the GPUs of each, and its exit code.
const PROGRAM: &str = "\
import os, sys, time
import ray

folder, name, count, gpus, code = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
with open(f'{folder}/{name}.starts', 'a') as starts:
    starts.write('x')
ray.init()


@ray.remote(num_gpus=gpus)
class Actor:
    def node(self):
        return ray.get_runtime_context().get_node_id()


actors = [Actor.remote() for _ in range(count)]
nodes = set(ray.get([actor.node.remote() for actor in actors]))
print(f'{count} actors on {len(nodes)} nodes', flush=True)
open(f'{folder}/{name}.runs', 'w').close()
while not os.path.exists(f'{folder}/{name}.may-end'):
    time.sleep(0.1)
sys.exit(code)
";

/// Job with a program that waits until it may end.
struct RayProgram<'a> {
    place: &'a KubernetesTarget,
    name: &'static str,
    /// Name of its RayJob.
    object: String,
}

impl<'a> RayProgram<'a> {
    /// Submits it as a RayJob with so many tasks, or a range of them, of some GPUs, and an actor on each of the most.
    fn submit(
        place: &'a KubernetesTarget,
        name: &'static str,
        (tasks, gpus): (&str, u32),
        code: u8,
        more: &str,
    ) -> Self {
        let folder = place.folder();
        let actors = tasks.rsplit('.').next().unwrap();
        fs::write(folder.join("program.py"), PROGRAM).unwrap();
        let folder = folder.display();
        let run = format!("python {folder}/program.py {folder} {name} {actors} {gpus} {code}");
        let options = format!("kuberay: true, image: '{IMAGE}', volumes: ['shared:{folder}']");
        let job = format!(
            "kind: ray\ntasks: {tasks}\ngpus-per-task: {gpus}\ntime: 30m\ngrace: 1s\n{more}"
        );
        submit(place, &format!("name: {name}\n{job}run: {run}\nkubernetes: {{{options}}}\n"));
        let objects = place.namespace.objects("rayjobs", "");
        let mut names = objects.iter().map(|job| job["metadata"]["name"].as_str().unwrap());
        let object = names.find(|one| one.starts_with(&format!("{name}-"))).unwrap().to_owned();
        Self { place, name, object }
    }

    fn path(&self, what: &str) -> std::path::PathBuf {
        self.place.folder().join(format!("{}.{what}", self.name))
    }

    /// Waits until its actors run, and this is seen from outside.
    fn runs(&self) {
        until("its actors run", || self.path("runs").exists());
        until("it is shown as running", || self.state() == "running");
    }

    /// Waits until its output has this line, which Ray passes on after a while.
    fn says(&self, line: &str) {
        until("it says so", || self.place.call(&["logs", self.name, "-r", "0"]).1.contains(line));
    }

    fn starts(&self) -> usize {
        fs::read_to_string(self.path("starts")).unwrap_or_default().len()
    }

    fn may_end(&self) {
        fs::write(self.path("may-end"), "").unwrap();
    }

    /// Returns the job as `show` does.
    fn shown(&self) -> Value {
        let shown: Value =
            serde_json::from_str(&self.place.ok(&["show", self.name, "--json"])).unwrap();
        shown["job"].clone()
    }

    fn state(&self) -> String {
        self.shown()["state"].as_str().unwrap().to_owned()
    }

    fn object(&self) -> Value {
        let namespace = &self.place.namespace;
        let object = format!("rayjob/{}", self.object);
        namespace.cluster().get(&[&object, "--namespace", namespace.name()])
    }

    /// Returns the pods of its clusters, those that end, too.
    fn pods(&self) -> Vec<Value> {
        self.place.namespace.list(&format!("muster.run/job={}", self.object))
    }
}

/// Returns true if none of these pods has a node.
fn have_no_nodes(pods: &[Value]) -> bool {
    pods.iter().all(|pod| pod["spec"]["nodeName"].is_null())
}
