//! Setting aside: brings the advance reservations of the engine in line with the objects that ask for
//! them. One that is refused is tried again, since pods that are in its way may end.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::EventRefusal;
use muster_kubernetes::reservation::{MAX_NODES, ReservationFacts};
use muster_kubernetes::rule::NodeRule;
use muster_model::{
    AdvanceReservation, AdvanceReservationName, DeviceSet, ElementId, Event, JobSpec, NodeName,
    ReservedPlace, ReservedResources, Span, Time,
};

use crate::gang::GangKey;
use crate::reservations::{ReservationStage, ReservationState, ReservationStatus, Tracked};
use crate::rules::YES;
use crate::scheduler::Scheduler;

/// Time after which a refused reservation is tried again.
const RETRY_AFTER: Span = Span::from_secs(5);
/// Most gangs that a refusal names.
const MAX_NAMED: usize = 5;

impl Scheduler {
    /// Returns all advance reservations, by name.
    #[must_use]
    pub fn reservations(&self, now: Time) -> Vec<ReservationStatus> {
        if self.reservations.known.is_empty() {
            return Vec::new();
        }
        let views = self.engine.advance_reservations(now.max(self.last)).into_iter();
        let mut views: BTreeMap<_, _> = views.map(|view| (view.name.clone(), view)).collect();
        let mut state = |name, known: &Tracked| match &known.stage {
            ReservationStage::New => None,
            ReservationStage::InForce => {
                views.remove(name).map(Box::new).map(ReservationState::InForce)
            }
            ReservationStage::Refused(defect) => Some(ReservationState::Refused(defect.clone())),
            ReservationStage::Over => Some(ReservationState::Over),
        };
        let known = self.reservations.known.iter();
        known
            .filter_map(|(name, known)| {
                let generation = known.facts.generation;
                Some(ReservationStatus {
                    name: name.clone(),
                    generation,
                    state: state(name, known)?,
                })
            })
            .collect()
    }

    /// Notes a reservation as its object describes it. A change of the status alone changes nothing.
    pub(crate) fn note_reservation(&mut self, facts: ReservationFacts) {
        let mut kept = Vec::new();
        if let Some(known) = self.reservations.known.get_mut(&facts.name) {
            if known.facts.asked == facts.asked && known.facts.node_selector == facts.node_selector
            {
                known.facts.generation = facts.generation;
                return;
            }
            if known.stage == ReservationStage::InForce {
                kept = self.reserved_places(&facts.name);
            }
        }
        let known = Tracked { stage: ReservationStage::New, kept, facts };
        self.reservations.known.insert(known.facts.name.clone(), known);
        self.reservations.is_changed = true;
    }

    /// Returns true if the pods of a gang name an advance reservation, and there are any.
    pub(crate) fn names_reservation(&self, gang: &GangKey) -> bool {
        if self.reservations.known.is_empty() {
            return false;
        }
        let first = self.gangs.get(gang).and_then(|gang| gang.pods.first());
        let facts = first.and_then(|pod| self.pods.get(pod)).map(|pod| &pod.facts);
        facts.is_some_and(|facts| self.groups.wishes(facts).reservation.is_some())
    }

    /// Sets, changes and removes the engine's reservations. Returns true if there may be a change.
    pub(crate) fn sync_reservations(&mut self, now: Time) -> bool {
        let is_due = self.reservations.retry_at.is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.reservations.is_changed) && !is_due {
            return false;
        }
        // 1. Those that are gone, or ask for something else.
        for view in self.engine.advance_reservations(now) {
            let known = self.reservations.known.get(&view.name);
            if known.is_none_or(|known| known.stage != ReservationStage::InForce) {
                let event =
                    Event::AdvanceReservationRemoved { advance_reservation: view.name, by: None };
                self.engine.apply(now, &event);
            }
        }
        // 2. Those that are not in force.
        let is_to_try = |stage: &ReservationStage| {
            matches!(stage, ReservationStage::New | ReservationStage::Refused(_))
        };
        let known = self.reservations.known.iter();
        let to_try: Vec<AdvanceReservationName> = known
            .filter(|(_, known)| is_to_try(&known.stage))
            .map(|(name, _)| name.clone())
            .collect();
        let mut may_change = false;
        for name in to_try {
            let Some(stage) = self.try_reservation(now, &name) else { continue };
            let Some(known) = self.reservations.known.get_mut(&name) else { continue };
            may_change |=
                matches!(stage, ReservationStage::Refused(_)) && known.facts.asked.is_ok();
            known.stage = stage;
        }
        self.reservations.retry_at = may_change.then(|| now + RETRY_AFTER);
        // 3. Their GPUs, which are chosen before pods that name them are looked at.
        for event in self.engine.due_events(now) {
            if matches!(event, Event::AdvanceReservationPlaced { .. }) {
                self.engine.apply(now, &event);
            }
        }
        self.note_reserved_devices(now);
        true
    }

    /// Applies what is due by time in the engine. Pods that did not fit into a reservation may fit into its
    /// new places.
    pub(crate) fn apply_due_events(&mut self, now: Time) {
        let due = self.engine.due_events(now);
        for event in &due {
            self.engine.apply(now, event);
        }
        let changes_places = |event: &Event| {
            let removed = matches!(event, Event::AdvanceReservationRemoved { .. });
            removed || matches!(event, Event::AdvanceReservationPlaced { .. })
        };
        if due.iter().any(changes_places) {
            self.reservations.retry_at = Some(now);
            self.note_reserved_devices(now);
            self.note_ended_reservations();
        }
    }

    fn try_reservation(
        &mut self,
        now: Time,
        name: &AdvanceReservationName,
    ) -> Option<ReservationStage> {
        let known = self.reservations.known.get(name)?;
        let facts = known.facts.clone();
        let kept = known.kept.clone();
        let asked = match self.with_selected_nodes(now, &facts) {
            Ok(asked) => asked,
            Err(defect) => return Some(ReservationStage::Refused(defect)),
        };
        if asked.times.end() <= now {
            return Some(ReservationStage::Over);
        }
        // What another process has put into force is not refused.
        let was_in_force = !self.is_started && !facts.places.is_empty();
        let mut places =
            if kept.is_empty() { self.earlier_places(&asked, &facts.places) } else { kept };
        if !facts.is_status_current || self.is_started {
            places.retain(|place| self.nodes.has_labels(&place.node, &facts.node_selector));
        }
        let event = Event::AdvanceReservationSet(Box::new(asked));
        match self.engine.validate(&event) {
            Err(EventRefusal::ReservationConflict { .. }) if was_in_force => {}
            Err(refusal) => {
                return Some(ReservationStage::Refused(self.reservation_refusal(&refusal)));
            }
            Ok(()) => {}
        }
        self.engine.apply(now, &event);
        if !places.is_empty() {
            let advance_reservation = name.clone();
            let event = Event::AdvanceReservationPlaced { advance_reservation, places };
            self.engine.apply(now, &event);
        }
        Some(ReservationStage::InForce)
    }

    /// Returns what an object asks for, with the nodes that have its labels now: whole nodes by name, and
    /// for GPUs the label of their rule, by which the engine chooses others later. A process that starts
    /// takes the nodes that its predecessor has chosen.
    ///
    /// # Errors
    /// The defect of the settings, or that no node has the labels.
    fn with_selected_nodes(
        &mut self,
        now: Time,
        facts: &ReservationFacts,
    ) -> Result<AdvanceReservation, String> {
        let mut asked = facts.asked.clone()?;
        let selector = &facts.node_selector;
        if selector.is_empty() {
            return Ok(asked);
        }
        let none = || {
            let labels = labels_text(selector);
            format!("no node has the labels {labels}; `kubectl get nodes --show-labels` lists them")
        };
        match &mut asked.resources {
            ReservedResources::Gpus { labels, .. } => {
                if facts.places.is_empty() && self.nodes.with_labels(selector).is_empty() {
                    return Err(none());
                }
                let rule = self.nodes.rule(&NodeRule::of_labels(selector));
                *labels = BTreeMap::from([(rule.key(), YES.into())]);
                self.sync_nodes(now);
            }
            ReservedResources::Nodes(names) => {
                let was_chosen = !self.is_started && facts.is_status_current;
                let chosen = facts.places.iter().filter(|_| was_chosen);
                *names = chosen.map(|(node, _)| node.clone()).collect();
                if names.is_empty() {
                    *names = self.nodes.with_labels(selector);
                }
                if names.is_empty() {
                    return Err(none());
                }
                if names.len() > MAX_NODES {
                    let text = labels_text(selector);
                    return Err(format!("more than {MAX_NODES} nodes have the labels {text}"));
                }
            }
        }
        Ok(asked)
    }

    /// Returns as many devices of each node as the status of a reservation names, that no pod has. Their
    /// numbers may be others than before: only how many there are means something to the kubelet.
    fn earlier_places(
        &self,
        asked: &AdvanceReservation,
        places: &[(NodeName, Option<u32>)],
    ) -> Vec<ReservedPlace> {
        let ReservedResources::Gpus { model, .. } = &asked.resources else { return Vec::new() };
        let place = |(node, gpus): &(NodeName, Option<u32>)| {
            let devices = self.nodes.unheld(node, model.as_ref()).lowest((*gpus)?);
            let place = ReservedPlace { node: node.clone(), devices: Some(devices) };
            (!devices.is_empty()).then_some(place)
        };
        places.iter().filter_map(place).collect()
    }

    /// Returns the devices that a reservation of a number of GPUs has now.
    fn reserved_places(&self, name: &AdvanceReservationName) -> Vec<ReservedPlace> {
        let all = self.reservations.devices.iter();
        let own = |(node, reserved): (&NodeName, &Vec<(AdvanceReservationName, DeviceSet)>)| {
            let (_, devices) = reserved.iter().find(|(one, _)| one == name)?;
            Some(ReservedPlace { node: node.clone(), devices: Some(*devices) })
        };
        all.filter_map(own).collect()
    }

    /// Notes which devices are set aside.
    fn note_reserved_devices(&mut self, now: Time) {
        self.reservations.devices.clear();
        let views = self.engine.advance_reservations(now).into_iter();
        for view in views.filter(|view| view.gpus.is_some()) {
            for place in view.places {
                let devices = place.devices.into_iter().map(usize::from).collect();
                let there = self.reservations.devices.entry(place.node).or_default();
                there.push((view.name.clone(), devices));
            }
        }
    }

    /// Returns the devices of a node that a running job should not be adopted with: those that are set
    /// aside for others, and where it runs in a reservation, all others.
    pub(crate) fn unsuitable_devices(&self, spec: &JobSpec, node: &NodeName) -> DeviceSet {
        let Some(reserved) = self.reservations.devices.get(node) else { return DeviceSet::EMPTY };
        let is_own = |name| spec.constraint.advance_reservation.as_ref() == Some(name);
        match reserved.iter().find(|(name, _)| is_own(name)) {
            Some((_, own)) => DeviceSet(u128::MAX).minus(*own),
            None => reserved.iter().fold(DeviceSet::EMPTY, |all, (_, one)| all.or(*one)),
        }
    }

    /// Notes the reservations that the engine has ended.
    fn note_ended_reservations(&mut self) {
        let last = self.last;
        for known in self.reservations.known.values_mut() {
            let ended = known.facts.asked.as_ref().is_ok_and(|asked| asked.times.end() <= last);
            if known.stage == ReservationStage::InForce && ended {
                known.stage = ReservationStage::Over;
            }
        }
    }

    /// Returns a refusal of the engine as text for users.
    fn reservation_refusal(&self, refusal: &EventRefusal) -> String {
        match refusal {
            EventRefusal::InvalidReservation(defect) => (*defect).to_owned(),
            EventRefusal::ReservationConflict { gpus, conflicts } => {
                let what = match gpus {
                    Some((asked, found)) => {
                        format!("only {found} of {asked} GPUs can be set aside then")
                    }
                    None => "not all of its nodes are free then".to_owned(),
                };
                match self.named_holders(conflicts) {
                    Some(holders) => format!(
                        "{what}: {holders} may still run; give them a shorter time limit, set `stop: true`, or \
                         start later"
                    ),
                    None => what,
                }
            }
            other => other.to_string(),
        }
    }

    /// Returns the gangs of jobs as text; `None` without any.
    fn named_holders(&self, elements: &[ElementId]) -> Option<String> {
        let name = |element: &ElementId| {
            let batch = self.batches.get(&element.job)?;
            Some(format!("{}/{}", batch.spec.user, batch.gang))
        };
        let gangs: BTreeSet<String> = elements.iter().filter_map(name).collect();
        let more = match gangs.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named: Vec<String> = gangs.into_iter().take(MAX_NAMED).collect();
        (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
    }
}

/// Returns labels with their values as text.
fn labels_text(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.join(", ")
}
