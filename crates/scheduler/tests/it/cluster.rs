//! An API server and its kubelets in memory, with one scheduler. Time moves only by [`Cluster::run`].

use std::collections::{BTreeMap, BTreeSet};

use muster_kubernetes::gpu_share;
use muster_kubernetes::group::{GroupFacts, GroupKind, GroupText};
use muster_kubernetes::kueue::{self, Objects};
use muster_kubernetes::node::NodeFacts;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::{PodFacts, PodPhase, PodText};
use muster_kubernetes::priority::{PriorityClass, PriorityClassText};
use muster_kubernetes::reservation::{ReservationText, status};
use muster_model::{NodeName, QueueTree, Time};
use muster_scheduler::{Action, Level, Observation, PodId, ReservationState, Scheduler};

use serde_json::{Value, json};

use crate::devices;
use crate::objects::{JobBuilder, PodBuilder, pod};

/// Namespace of the scheduler, and of the pods that hold GPUs for others.
pub const SYSTEM: &str = "muster-system";

/// The cluster and the scheduler under test.
pub struct Cluster {
    pub scheduler: Scheduler,
    pub now: Time,
    pub nodes: BTreeMap<NodeName, NodeFacts>,
    pub pods: BTreeMap<ObjectKey, PodFacts>,
    pub groups: Vec<GroupFacts>,
    /// Explanation of each pod that was told last.
    pub reported: BTreeMap<ObjectKey, String>,
    /// Number of explanations since the start.
    pub tellings: usize,
    /// Bindings that the server refuses, by pod name.
    pub refuse: BTreeSet<String>,
    /// Jobs as the server has them.
    pub jobs: BTreeMap<ObjectKey, Value>,
    /// Explanation of each suspended Job that was told last.
    pub told_jobs: BTreeMap<ObjectKey, String>,
    /// Texts on PodGroups without pods.
    pub told_groups: BTreeMap<ObjectKey, String>,
    /// Reason of each suspension that was requested, and its Job.
    pub suspensions: Vec<(String, String)>,
    /// True while the Job controller works.
    pub has_controller: bool,
    /// Priority classes of the cluster.
    pub classes: Vec<PriorityClass>,
    /// Advance reservations, with the status that was written last.
    pub reservations: BTreeMap<String, Value>,
    /// Reasons of evictions, by pod name.
    pub evictions: BTreeMap<String, String>,
    /// Reports for the scheduler, while they are diverted.
    diverted: Option<Vec<Observation>>,
    levels: Vec<Level>,
    tree: QueueTree,
    /// Kueue's objects, where they describe the queues.
    kueue: Option<Objects>,
    made: u64,
    /// Devices that pods claim.
    pub devices: devices::Objects,
    /// True while the client cannot take back what it did before a refused binding.
    pub is_stuck: bool,
}

impl Cluster {
    pub fn new(nodes: impl IntoIterator<Item = NodeFacts>) -> Self {
        Self::with(nodes, &[], QueueTree::single())
    }

    pub fn with(
        nodes: impl IntoIterator<Item = NodeFacts>,
        levels: &[(&str, &str)],
        tree: QueueTree,
    ) -> Self {
        let levels: Vec<Level> = levels
            .iter()
            .map(|(name, label)| Level { name: (*name).into(), label: (*label).to_owned() })
            .collect();
        let mut cluster = Self {
            scheduler: Scheduler::new(levels.clone(), tree.clone()).unwrap().with_holders(SYSTEM),
            now: Time(1_000_000),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            groups: Vec::new(),
            reported: BTreeMap::new(),
            tellings: 0,
            refuse: BTreeSet::new(),
            jobs: BTreeMap::new(),
            told_jobs: BTreeMap::new(),
            told_groups: BTreeMap::new(),
            suspensions: Vec::new(),
            has_controller: true,
            classes: Vec::new(),
            reservations: BTreeMap::new(),
            evictions: BTreeMap::new(),
            diverted: None,
            levels,
            tree,
            kueue: None,
            made: 0,
            devices: devices::Objects::default(),
            is_stuck: false,
        };
        for node in nodes {
            cluster.set_node(node);
        }
        cluster
    }

    /// Makes a cluster with the queues of Kueue.
    pub fn with_kueue(nodes: impl IntoIterator<Item = NodeFacts>, objects: Objects) -> Self {
        let mut cluster = Self::new([]);
        cluster.kueue = Some(objects.clone());
        cluster.restart_scheduler();
        for node in nodes {
            cluster.set_node(node);
        }
        cluster.settle();
        cluster.set_kueue(objects);
        cluster
    }

    /// Changes Kueue's objects, which are read with the nodes that the scheduler knows.
    pub fn set_kueue(&mut self, objects: Objects) {
        let models = |labels: &_, resource: &str| self.scheduler.models_on(labels, resource);
        let reading = kueue::read(&objects, &models);
        self.scheduler.check_queues(&reading.tree).unwrap();
        self.kueue = Some(objects);
        self.report(Observation::Queues(Box::new(reading.tree)));
        self.report(Observation::LocalQueues(Box::new(reading.local_queues)));
    }

    /// Tells the scheduler of a change, or keeps the report while reports are diverted.
    pub fn report(&mut self, observation: Observation) {
        match &mut self.diverted {
            Some(reports) => reports.push(observation),
            None => self.scheduler.observe(observation),
        }
    }

    /// Changes the cluster without telling the scheduler; the reports go into `reports`.
    pub fn divert(&mut self, reports: &mut Vec<Observation>, change: impl FnOnce(&mut Self)) {
        self.diverted = Some(Vec::new());
        change(self);
        reports.extend(self.diverted.take().unwrap_or_default());
    }

    // ---- what users and controllers do ----

    pub fn set_node(&mut self, node: NodeFacts) {
        self.nodes.insert(node.name.clone(), node.clone());
        self.report(Observation::Node(Box::new(node)));
    }

    /// Removes a node; its pods that run are deleted, as by the garbage collector.
    pub fn remove_node(&mut self, name: &str) {
        let name = NodeName::from(name);
        self.nodes.remove(&name);
        self.report(Observation::NodeGone(name.clone()));
        let there: Vec<ObjectKey> = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.node.as_ref() == Some(&name) && pod.phase == PodPhase::Active)
            .map(|(key, _)| key.clone())
            .collect();
        for key in there {
            self.delete(&key);
        }
    }

    pub fn set_group(&mut self, group: GroupFacts) {
        self.groups.retain(|one| (one.kind, &one.key) != (group.kind, &group.key));
        self.groups.push(group.clone());
        self.report(Observation::Group(Box::new(group)));
    }

    /// Returns a number that no other object has.
    pub fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub fn set_priority_class(&mut self, name: &str, value: i32) {
        let class = json!({"metadata": {"name": name}, "value": value});
        let class = serde_json::from_value::<PriorityClassText>(class).unwrap().facts();
        self.classes.push(class.clone());
        self.report(Observation::PriorityClass(class));
    }

    /// Creates or changes an advance reservation.
    pub fn set_reservation(&mut self, name: &str, spec: Value) {
        let created = self.timestamp();
        let known = self.reservations.entry(name.to_owned()).or_insert_with(
            || json!({"metadata": {"name": name, "creationTimestamp": created}, "status": {}}),
        );
        known["spec"] = spec;
        let generation = known["metadata"]["generation"].as_u64().unwrap_or_default() + 1;
        known["metadata"]["generation"] = generation.into();
        let observation = reservation(known);
        self.report(observation);
    }

    pub fn delete_reservation(&mut self, name: &str) {
        self.reservations.remove(name);
        self.report(Observation::ReservationGone(name.into()));
    }

    /// Returns what became of an advance reservation.
    pub fn reservation(&self, name: &str) -> ReservationState {
        let all = self.scheduler.reservations(self.now).into_iter();
        let found = all.filter(|one| one.name.as_str() == name).map(|one| one.state).next();
        found.unwrap()
    }

    /// Writes the statuses of all advance reservations, as the client does.
    fn write_statuses(&mut self) {
        for one in self.scheduler.reservations(self.now) {
            let Some(known) = self.reservations.get_mut(one.name.as_str()) else { continue };
            known["status"] = match &one.state {
                ReservationState::InForce(view) => status::in_force(view),
                ReservationState::Refused(_) => json!({}),
                ReservationState::Over => json!({}),
            };
            known["status"]["observedGeneration"] = one.generation.into();
        }
    }

    pub fn create_job(&mut self, job: &JobBuilder) -> ObjectKey {
        self.made += 1;
        let mut object = job.0.clone();
        object["metadata"]["uid"] = json!(format!("uid-{}", self.made));
        object["metadata"]["creationTimestamp"] = json!(self.timestamp());
        let key = ObjectKey::new("team", object["metadata"]["name"].as_str().unwrap());
        self.jobs.insert(key.clone(), object);
        self.report_job(&key);
        key
    }

    /// Changes a Job, as users and controllers do.
    pub fn change_job(&mut self, key: &ObjectKey, change: impl FnOnce(&mut Value)) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        let spec = job["spec"].clone();
        change(job);
        if job["spec"] != spec {
            job["metadata"]["generation"] =
                json!(job["metadata"]["generation"].as_u64().unwrap() + 1);
        }
        self.report_job(key);
    }

    /// Sets an annotation of a Job, or removes it.
    pub fn annotate_job(&mut self, name: &str, annotation: &str, value: Option<&str>) {
        self.change_job(&ObjectKey::new("team", name), |job| {
            let annotations = job["metadata"]["annotations"].as_object_mut().unwrap();
            match value {
                Some(value) => drop(annotations.insert(annotation.to_owned(), json!(value))),
                None => drop(annotations.remove(annotation)),
            }
        });
    }

    /// Deletes a Job and its pods.
    pub fn delete_job(&mut self, name: &str) {
        let key = ObjectKey::new("team", name);
        self.jobs.remove(&key);
        self.report(Observation::GroupGone(GroupKind::Job, key));
        self.delete_pods_of(name);
    }

    fn delete_pods_of(&mut self, job: &str) {
        for pod in self.pods_of(job) {
            self.delete(&pod);
        }
    }

    /// Returns the pods of a Job that have not ended.
    pub fn pods_of(&self, job: &str) -> Vec<ObjectKey> {
        let is_of_it = |pod: &&PodFacts| {
            let gang = pod.gang.as_ref().map(|gang| &gang.object);
            gang == Some(&ObjectKey::new("team", job)) && pod.phase == PodPhase::Active
        };
        self.pods.values().filter(is_of_it).map(|pod| pod.key.clone()).collect()
    }

    pub fn is_suspended(&self, name: &str) -> bool {
        self.jobs[&ObjectKey::new("team", name)]["spec"]["suspend"] == json!(true)
    }

    pub fn job_facts(&self, key: &ObjectKey) -> GroupFacts {
        serde_json::from_value::<GroupText>(self.jobs[key].clone()).unwrap().facts(GroupKind::Job)
    }

    fn report_job(&mut self, key: &ObjectKey) {
        let facts = self.job_facts(key);
        self.report(Observation::Group(Box::new(facts)));
    }

    /// Works as the Job controller: deletes the pods of suspended Jobs, makes those that others lack,
    /// and completes those whose pods have succeeded. Returns true if it changed something.
    pub fn control_jobs(&mut self) -> bool {
        let jobs: Vec<ObjectKey> = self.jobs.keys().cloned().collect();
        let changes = jobs.iter().filter(|job| self.control_job(job, usize::MAX)).count();
        changes > 0
    }

    /// Does so for one Job, with at most `most` new pods.
    pub fn control_job(&mut self, key: &ObjectKey, most: usize) -> bool {
        let Some(job) = self.jobs.get(key).cloned() else { return false };
        if job["status"]["conditions"].is_array() {
            return false;
        }
        let active = self.pods_of(&key.name);
        let number = |path: &str| job.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        if job["spec"]["suspend"] == json!(true) {
            for pod in &active {
                self.delete(pod);
            }
            return !active.is_empty();
        }
        // 1. Pods that have ended are counted, once.
        let ended: Vec<PodFacts> = self
            .pods
            .values()
            .filter(|pod| pod.phase != PodPhase::Active)
            .filter(|pod| pod.gang.as_ref().is_some_and(|gang| gang.object == *key))
            .cloned()
            .collect();
        let succeeded = number("/status/succeeded")
            + ended.iter().filter(|pod| pod.phase == PodPhase::Succeeded).count() as u64;
        if !ended.is_empty() {
            self.change_job(key, |job| {
                job["status"]["succeeded"] = json!(succeeded);
                if succeeded >= number("/spec/completions") {
                    job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
                }
            });
            for pod in &ended {
                self.delete(&pod.key);
            }
        }
        // 2. Pods that are lacking are made.
        let left = number("/spec/completions").saturating_sub(succeeded);
        let wanted = left.min(number("/spec/parallelism")) as usize;
        for at in (active.len()..wanted).take(most) {
            self.made += 1;
            let name = format!("{}-{at}-{}", key.name, self.made);
            let pod = self.pod_of_job(key, &job, &name);
            self.create(&pod);
        }
        !ended.is_empty() || active.len() < wanted
    }

    pub fn is_complete(&self, job: &str) -> bool {
        self.jobs[&ObjectKey::new("team", job)]["status"]["conditions"].is_array()
    }

    /// Makes a pod of a Job, as its controller and the admission plugins of the API server do.
    fn pod_of_job(&self, key: &ObjectKey, job: &Value, name: &str) -> PodBuilder {
        let template = &job["spec"]["template"];
        let mut pod = pod(name, 0);
        pod.0["spec"] = template["spec"].clone();
        pod.0["metadata"]["annotations"] = template["metadata"]["annotations"].clone();
        pod.0["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": *key.name, "controller": true}]);
        pod.0["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]);
        if let Some(name) = template["spec"]["priorityClassName"].as_str() {
            let class = self.classes.iter().find(|class| *class.name == *name).unwrap();
            pod.0["spec"]["priority"] = json!(class.value);
        }
        pod
    }

    pub fn create(&mut self, pod: &PodBuilder) -> ObjectKey {
        let mut facts = pod.text().facts();
        self.made += 1;
        facts.uid = format!("uid-{}", self.made).into();
        facts.created = self.timestamp();
        let key = facts.key.clone();
        self.put(facts);
        key
    }

    pub fn create_all(&mut self, pods: impl IntoIterator<Item = PodBuilder>) {
        for pod in pods {
            self.create(&pod);
        }
    }

    pub fn end(&mut self, name: &str, phase: PodPhase) {
        let mut facts = self.pod(name).clone();
        facts.phase = phase;
        self.put(facts);
    }

    pub fn delete_by_name(&mut self, name: &str) {
        self.delete(&ObjectKey::new("team", name));
    }

    pub fn delete(&mut self, key: &ObjectKey) {
        if self.pods.remove(key).is_some() {
            self.reported.remove(key);
            self.report(Observation::PodGone(key.clone()));
        }
    }

    /// Starts another scheduler process, which lists everything anew.
    pub fn restart_scheduler(&mut self) {
        self.restart_with_lists(|_| {});
    }

    /// Starts a new scheduler, which gets all objects in an order that is arranged for it: lists of
    /// different kinds come in any order.
    pub fn restart_with_lists(&mut self, arrange: impl FnOnce(&mut Vec<Observation>)) {
        self.write_statuses();
        let scheduler = Scheduler::new(self.levels.clone(), self.tree.clone()).unwrap();
        let scheduler = scheduler.with_holders(SYSTEM);
        let by_local_queues = self.kueue.is_some();
        self.scheduler = if by_local_queues { scheduler.by_local_queues() } else { scheduler };
        let mut listed = self.listed();
        arrange(&mut listed);
        for observation in listed {
            self.scheduler.observe(observation);
        }
        if let Some(objects) = self.kueue.clone() {
            // Read again with the nodes, before anything is planned.
            self.set_kueue(objects.clone());
            self.scheduler.take_in_all(self.now);
            self.set_kueue(objects);
        }
    }

    /// Returns all objects as a scheduler that starts is told of them, but for queues.
    fn listed(&self) -> Vec<Observation> {
        let nodes = self.nodes.values().map(|node| Observation::Node(Box::new(node.clone())));
        let groups = self.groups.iter().cloned();
        let groups = groups.chain(self.jobs.keys().map(|key| self.job_facts(key)));
        let groups = groups.map(|group| Observation::Group(Box::new(group)));
        let classes = self.classes.iter().cloned().map(Observation::PriorityClass);
        let pods = self.pods.values().map(|pod| Observation::Pod(Box::new(pod.clone())));
        let reservations = self.reservations.values().map(reservation);
        let devices = self.devices.reports().into_iter().chain(reservations);
        devices.chain(nodes).chain(groups).chain(classes).chain(pods).collect()
    }

    /// Writes a pod, as the API server reports it.
    pub fn put(&mut self, facts: PodFacts) {
        self.pods.insert(facts.key.clone(), facts.clone());
        self.report(Observation::Pod(Box::new(facts)));
    }

    // ---- time ----

    /// Lets the scheduler and the Job controller work until nothing changes at this instant. Requests
    /// are carried out at once.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            let actions = self.scheduler.step(self.now);
            let mut is_quiet = actions.is_empty();
            for action in actions {
                self.carry_out(action);
            }
            if self.has_controller {
                is_quiet &= !self.control_jobs();
                is_quiet &= !self.control_claims();
            }
            if is_quiet {
                return;
            }
        }
        panic!("the scheduler never comes to rest");
    }

    /// Lets time pass, with a look whenever the scheduler asks for one.
    pub fn run(&mut self, millis: u64) {
        let end = Time(self.now.0 + millis);
        self.settle();
        while let Some(next) = self.scheduler.next_wake().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.settle();
            if self.now == next && self.scheduler.next_wake() == Some(next) {
                self.now = Time(self.now.0 + 1);
            }
        }
        self.now = end;
        self.settle();
    }

    pub fn carry_out(&mut self, action: Action) {
        match action {
            Action::Bind { pod, node, claims, gpu } => {
                let is_held = gpu.is_none_or(|number| self.hold_gpu(&node, number));
                let is_reserved = is_held && claims.iter().all(|claim| self.reserve(&pod, claim));
                let is_bound = is_reserved && self.bind(&pod, &node, gpu);
                if !is_bound {
                    let is_stuck = self.is_stuck;
                    for one in claims.iter().filter(|_| !is_stuck) {
                        self.free_claim(&one.claim, &pod);
                    }
                    self.report(Observation::BindRefused(pod, "refused".into()));
                }
            }
            Action::FreeClaim { claim, pod } => self.free_claim(&claim, &pod),
            Action::FreeGpu { holder } => {
                if self.pods.get(&holder.key).is_some_and(|known| known.uid == holder.uid) {
                    self.delete(&holder.key);
                }
            }
            Action::Evict { pod, reason } => {
                self.evictions.insert(pod.key.name.to_string(), reason.to_string());
                let found = self.pods.get(&pod.key).filter(|known| known.uid == pod.uid);
                if found.is_some_and(|known| known.phase == PodPhase::Active) {
                    self.delete(&pod.key);
                }
            }
            Action::Explain { pods, text } => {
                self.tellings += 1;
                self.reported.extend(pods.into_iter().map(|pod| (pod.key, text.to_string())));
            }
            Action::NoteEmptyGroup { group, text } => {
                self.told_groups.insert(group.key, text.to_string());
            }
            Action::ExplainWorkload { workload, text } => {
                self.tellings += 1;
                self.told_jobs.insert(workload.key, text.to_string());
            }
            Action::NoteStages { workload, text } => {
                let is_same = |job: &&Value| job["metadata"]["uid"] == json!(*workload.uid);
                if self.jobs.get(&workload.key).filter(is_same).is_some() {
                    self.annotate_job(&workload.key.name, "muster.run/after-status", Some(&text));
                }
            }
            Action::Resume { workload, generation } => {
                let is_same = |job: &&Value| {
                    job["metadata"]["uid"] == json!(*workload.uid)
                        && job["metadata"]["generation"] == json!(generation)
                        && job["metadata"]["annotations"]["muster.run/held"] != json!("true")
                        && job["metadata"]["annotations"]["muster.run/cancelled"].is_null()
                };
                if self.jobs.get(&workload.key).filter(is_same).is_none() {
                    self.report(Observation::Refused(workload));
                    return;
                }
                let at = self.timestamp();
                self.change_job(&workload.key, |job| {
                    job["spec"]["suspend"] = json!(false);
                    job["metadata"]["annotations"]["muster.run/admitted"] = json!(at);
                });
                self.report(Observation::Done(workload));
            }
            Action::Suspend { workload, reason } => {
                let is_same = |job: &&Value| job["metadata"]["uid"] == json!(*workload.uid);
                if self.jobs.get(&workload.key).filter(is_same).is_none() {
                    self.report(Observation::Refused(workload));
                    return;
                }
                self.suspensions.push((workload.key.name.to_string(), reason.to_string()));
                self.change_job(&workload.key, |job| {
                    job["spec"]["suspend"] = json!(true);
                    job["metadata"]["annotations"]
                        .as_object_mut()
                        .unwrap()
                        .remove("muster.run/admitted");
                });
                self.report(Observation::Done(workload));
            }
        }
    }

    /// Has a GPU held for pods with shares of it, as the client does; false where the kubelet has none.
    fn hold_gpu(&mut self, node: &NodeName, number: usize) -> bool {
        let key = gpu_share::holder_key(SYSTEM, node.as_str(), number);
        if self.pods.contains_key(&key) {
            return true;
        }
        if self.free_gpus(node) == 0 {
            return false;
        }
        let mut holder = gpu_share::holder(&key, node.as_str(), number, "muster:1");
        holder["metadata"]["uid"] = json!(format!("uid-{}", self.number()));
        self.put(serde_json::from_value::<PodText>(holder).unwrap().facts());
        true
    }

    /// Returns the GPUs of a node that the kubelet has given to no pod.
    pub fn free_gpus(&self, node: &NodeName) -> u64 {
        let Some(known) = self.nodes.get(node) else { return 0 };
        let there = self
            .pods
            .values()
            .filter(|pod| pod.node.as_ref() == Some(node) && pod.phase == PodPhase::Active);
        let used: u64 = there.map(|pod| pod.requests.get(gpu_share::RESOURCE)).sum();
        known.allocatable.get(gpu_share::RESOURCE).saturating_sub(used)
    }

    /// Returns the pods that hold GPUs for others.
    pub fn holders(&self) -> Vec<ObjectKey> {
        self.pods.keys().filter(|key| *key.namespace == *SYSTEM).cloned().collect()
    }

    /// Returns the thousandths that are given of each shared GPU, by node and number.
    pub fn shares(&self) -> BTreeMap<(NodeName, usize), u32> {
        let mut sums = BTreeMap::new();
        for pod in self.pods.values().filter(|pod| pod.phase == PodPhase::Active) {
            if let (Some(node), Some(number), Some(asked)) =
                (&pod.node, pod.shared_gpu, pod.gpu_share)
            {
                *sums.entry((node.clone(), number)).or_default() += asked.share.0;
            }
        }
        sums
    }

    /// Binds a pod, as the API server does: it refuses a pod that is bound, gone or ending, and
    /// looks at no capacity. Returns false if it refused.
    pub fn bind(&mut self, id: &PodId, node: &NodeName, gpu: Option<usize>) -> bool {
        let is_refused = self.refuse.contains(&*id.key.name);
        let at = self.timestamp();
        let found = self.pods.get_mut(&id.key).filter(|pod| {
            pod.uid == id.uid && pod.node.is_none() && !pod.is_terminating && !is_refused
        });
        match found {
            Some(pod) => {
                pod.node = Some(node.clone());
                pod.bound_at = Some(at);
                pod.shared_gpu = gpu;
                let facts = pod.clone();
                self.assert_has_devices(&facts);
                self.report(Observation::Bound(id.clone()));
                self.report(Observation::Pod(Box::new(facts)));
                true
            }
            None => false,
        }
    }

    /// Returns the present time as the API server prints it: text order is time order.
    pub fn timestamp(&self) -> String {
        let secs = self.now.0 / 1000;
        let day = secs / 86_400 + 1;
        assert!(day <= 31, "a test lasts for less than a month");
        let hours = secs / 3600 % 24;
        let minutes = secs / 60 % 60;
        format!("1970-01-{day:02}T{hours:02}:{minutes:02}:{:02}Z", secs % 60)
    }

    // ---- questions ----

    pub fn pod(&self, name: &str) -> &PodFacts {
        &self.pods[&ObjectKey::new("team", name)]
    }

    pub fn reported(&self, name: &str) -> &str {
        self.reported.get(&ObjectKey::new("team", name)).map_or("", String::as_str)
    }

    /// Returns the number of bound pods that have not ended, of those whose name starts so.
    pub fn bound(&self, prefix: &str) -> usize {
        self.pods
            .values()
            .filter(|pod| pod.key.name.starts_with(prefix))
            .filter(|pod| pod.node.is_some() && pod.phase == PodPhase::Active)
            .count()
    }

    /// Returns `pod=node` of the bound pods, by name.
    pub fn places(&self, prefix: &str) -> Vec<String> {
        let pods = self.pods.values().filter(|pod| pod.key.name.starts_with(prefix));
        pods.filter_map(|pod| Some(format!("{}={}", pod.key.name, pod.node.as_ref()?))).collect()
    }

    /// Panics when the pods of this scheduler hold more of a node than it has.
    pub fn assert_no_overcommit(&self) {
        let mut used: BTreeMap<(&NodeName, &str), u64> = BTreeMap::new();
        let is_ours = |pod: &&PodFacts| pod.is_ours || pod.held_gpu.is_some();
        for pod in self.pods.values().filter(is_ours).filter(|pod| pod.phase == PodPhase::Active) {
            let Some(node) = &pod.node else { continue };
            for (resource, units) in &pod.requests.0 {
                *used.entry((node, &**resource)).or_default() += units;
            }
        }
        for ((node, resource), units) in used {
            let Some(known) = self.nodes.get(node) else { continue };
            let capacity = known.allocatable.get(resource);
            assert!(units <= capacity, "{node} has {capacity} {resource}, and {units} are used");
        }
    }
}

fn reservation(object: &Value) -> Observation {
    let text: ReservationText = serde_json::from_value(object.clone()).unwrap();
    Observation::Reservation(Box::new(text.facts()))
}
