//! Pool, gangs and order of arrivals, validated, and their jobs. It does not use the engine.

use muster_model::job::{GpuRequest, Resources};
use muster_model::node::Device;
use muster_model::proof::GangNeed;
use muster_model::{Bytes, CpuMilli, DeviceSet, JobSpec, NodeSpec, TaskGroup};

/// Most gangs, named by one letter each.
pub const MAX_GANGS: usize = 26;
/// Most pods of all gangs together: a walk through them takes well under a second.
pub const MAX_PODS: u32 = 1000;

/// A pool and the gangs that contend for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangScenario {
    gpus: u32,
    gpus_per_pod: u32,
    needs: Vec<u32>,
}

/// Arrivals of pods, each as the index of its gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalOrder(Vec<usize>);

/// Invalid scenario or order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The pool has no GPU.
    #[error("the pool has no GPU")]
    NoGpus,
    /// The pool has more GPUs than a node can have.
    #[error("the pool is one node of {gpus} GPUs; a node has at most {}", DeviceSet::MAX_DEVICES)]
    TooManyGpus {
        /// Requested number of GPUs.
        gpus: u32,
    },
    /// A pod without GPU contends for nothing.
    #[error("pods ask for no GPU")]
    NoGpuPerPod,
    /// A pod does not fit in the pool.
    #[error("a pod asks for {gpus_per_pod} GPUs, and the pool has {gpus}")]
    PodNeverFits {
        /// GPUs of the pool.
        gpus: u32,
        /// GPUs of a pod.
        gpus_per_pod: u32,
    },
    /// Too few gangs to contend, or too many for letters.
    #[error("gangs: {count}; there must be 2 to {MAX_GANGS}")]
    Gangs {
        /// Number of gangs in the scenario.
        count: usize,
    },
    /// A gang without pods.
    #[error("gang {gang} needs no pod")]
    NeedsNothing {
        /// Letter of the gang.
        gang: char,
    },
    /// The walk would take too long.
    #[error("the gangs have {pods} pods in total; at most {MAX_PODS} are supported")]
    TooManyPods {
        /// Number of pods of all gangs.
        pods: u64,
    },
    /// The order has no arrivals.
    #[error("the order is empty")]
    EmptyOrder,
    /// A letter that names no gang.
    #[error("the order names `{letter}` at place {at}, but there is no such gang")]
    UnknownGang {
        /// The letter without a gang.
        letter: char,
        /// Place in the order, from 1.
        at: usize,
        /// Letter of the last gang.
        last: char,
    },
    /// The order has more pods than the gang.
    #[error("the order has {letters} pods of gang {gang}, which needs {need}")]
    TooManyLetters {
        /// Letter of the gang.
        gang: char,
        /// Letters in the order.
        letters: u32,
        /// Pods of the gang.
        need: u32,
    },
}

impl ScenarioError {
    /// Returns the next step for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            ScenarioError::NoGpus | ScenarioError::TooManyGpus { .. } => {
                format!("a pool has 1 to {} GPUs", DeviceSet::MAX_DEVICES)
            }
            ScenarioError::NoGpuPerPod => "`--gpus-per-pod 1` is the default".to_owned(),
            ScenarioError::PodNeverFits { gpus, .. } => {
                format!("with `--gpus-per-pod {gpus}` or less, a pod fits")
            }
            ScenarioError::Gangs { .. } => {
                "`--need 5,5` is two gangs of 5 pods each, a and b".to_owned()
            }
            ScenarioError::NeedsNothing { gang } => {
                format!("leave {gang} out of `--need`, or give it at least 1")
            }
            ScenarioError::TooManyPods { .. } => {
                "use smaller numbers: the result depends on the ratio of the needs to the pool"
                    .to_owned()
            }
            ScenarioError::EmptyOrder => {
                "one letter per pod, as in `--order abab`; without `--order` the gangs take turns"
                    .to_owned()
            }
            ScenarioError::UnknownGang { last, .. } => {
                format!("the gangs of `--need` are a to {last}")
            }
            ScenarioError::TooManyLetters { gang, letters, need } => {
                format!(
                    "set the need of gang {gang} to {letters}, or write {gang} at most {need} times in the order"
                )
            }
        }
    }
}

impl GangScenario {
    /// Creates a pool of `gpus` and one gang per need; each pod asks for `gpus_per_pod`. A gang may
    /// be larger than the pool: the engine decides about it.
    ///
    /// # Errors
    /// The scenario is invalid.
    pub fn new(gpus: u32, gpus_per_pod: u32, needs: Vec<u32>) -> Result<Self, ScenarioError> {
        if gpus == 0 {
            return Err(ScenarioError::NoGpus);
        }
        if gpus as usize > DeviceSet::MAX_DEVICES {
            return Err(ScenarioError::TooManyGpus { gpus });
        }
        if gpus_per_pod == 0 {
            return Err(ScenarioError::NoGpuPerPod);
        }
        if gpus_per_pod > gpus {
            return Err(ScenarioError::PodNeverFits { gpus, gpus_per_pod });
        }
        if !(2..=MAX_GANGS).contains(&needs.len()) {
            return Err(ScenarioError::Gangs { count: needs.len() });
        }
        if let Some(gang) = needs.iter().position(|need| *need == 0) {
            return Err(ScenarioError::NeedsNothing { gang: letter(gang) });
        }
        let pods: u64 = needs.iter().map(|need| u64::from(*need)).sum();
        if pods > u64::from(MAX_PODS) {
            return Err(ScenarioError::TooManyPods { pods });
        }
        Ok(Self { gpus, gpus_per_pod, needs })
    }

    /// Returns the GPUs of the pool.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.gpus
    }

    /// Returns the GPUs of each pod.
    #[must_use]
    pub fn gpus_per_pod(&self) -> u32 {
        self.gpus_per_pod
    }

    /// Returns the pods that each gang needs.
    #[must_use]
    pub fn needs(&self) -> &[u32] {
        &self.needs
    }

    /// Parses an order: one letter per pod, at most as many of a gang as it has.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn order(&self, letters: &str) -> Result<ArrivalOrder, ScenarioError> {
        let mut order = Vec::new();
        let mut counts = vec![0u32; self.needs.len()];
        for (place, name) in letters.chars().enumerate() {
            let gang = (0..self.needs.len()).find(|gang| letter(*gang) == name);
            let last = letter(self.needs.len() - 1);
            let gang =
                gang.ok_or(ScenarioError::UnknownGang { letter: name, at: place + 1, last })?;
            counts[gang] += 1;
            order.push(gang);
        }
        for (gang, (letters, need)) in counts.into_iter().zip(&self.needs).enumerate() {
            if letters > *need {
                return Err(ScenarioError::TooManyLetters {
                    gang: letter(gang),
                    letters,
                    need: *need,
                });
            }
        }
        if order.is_empty() { Err(ScenarioError::EmptyOrder) } else { Ok(ArrivalOrder(order)) }
    }

    /// Returns all pods with the gangs in turn.
    #[must_use]
    pub fn in_turns(&self) -> ArrivalOrder {
        let rounds = self.needs.iter().copied().max().unwrap_or(0);
        let round =
            |round: u32| (0..self.needs.len()).filter(move |gang| self.needs[*gang] > round);
        ArrivalOrder((0..rounds).flat_map(round).collect())
    }

    /// Returns the gangs for reports.
    pub(super) fn gangs(&self) -> Vec<GangNeed> {
        let shown = |(gang, need): (usize, &u32)| GangNeed { gang: letter(gang), need_pods: *need };
        self.needs.iter().enumerate().map(shown).collect()
    }

    /// Returns the pool as a node: only GPUs limit it.
    pub(super) fn node(&self) -> NodeSpec {
        let device = Device::declared("virtual", Bytes(0));
        NodeSpec {
            devices: vec![device; self.gpus as usize],
            ..NodeSpec::plain("pool", CpuMilli(0), Bytes(0))
        }
    }

    /// Returns a job of `pods` pods of a gang, which must start together. All have the same user,
    /// so that only age orders them.
    pub(super) fn job(&self, gang: usize, pods: u32) -> JobSpec {
        let task = Resources { gpu: GpuRequest::whole(self.gpus_per_pod), ..Resources::default() };
        JobSpec::plain(letter(gang).to_string(), "anyone", vec![TaskGroup::of("main", pods, task)])
    }
}

impl ArrivalOrder {
    /// Returns gangs by index, in order of arrival.
    #[must_use]
    pub fn gangs(&self) -> &[usize] {
        &self.0
    }

    /// Returns one letter per pod.
    #[must_use]
    pub fn letters(&self) -> String {
        self.0.iter().map(|gang| letter(*gang)).collect()
    }
}

/// Returns the letter of a gang.
pub(super) fn letter(gang: usize) -> char {
    char::from(b'a' + (gang % MAX_GANGS) as u8)
}
