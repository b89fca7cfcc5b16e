//! Schedulers that are tried beside the advised one, and the model of each.

use muster_model::advice::{ControlPlane, FactChanges, Flip, Label, ProvedRole};

use crate::fleet::SchedulerKind;

/// A control plane as labels name it, and its model.
struct PlaneModel {
    plane: ControlPlane,
    /// Part of the addon that distinguishes this entry from others of the same plane.
    with: &'static str,
    scheduler: SchedulerKind,
    /// Parts of the addon that the model covers.
    has: &'static [&'static str],
}

/// Models of control planes; the first that matches a label applies.
///
/// On Kubernetes and k3s the scheduling addon selects the model: KAI stands for Run:ai, whose
/// scheduler it comes from. Volcano both places gangs and manages queues, since no model combines
/// it with Kueue. k3s runs the same schedulers as Kubernetes. Addons that are not in `has` are not
/// modelled, and are reported as such.
const MODELS: [PlaneModel; 10] = [
    PlaneModel {
        plane: ControlPlane::Slurm,
        with: "",
        scheduler: SchedulerKind::Slurm,
        has: &["slurmdbd for fair share and limits"],
    },
    PlaneModel {
        plane: ControlPlane::Kubernetes,
        with: "Run:ai",
        scheduler: SchedulerKind::Kai,
        has: &["Run:ai gang scheduling (REQUIRED)", "Run:ai"],
    },
    PlaneModel {
        plane: ControlPlane::Kubernetes,
        with: "KAI",
        scheduler: SchedulerKind::Kai,
        has: &["KAI gang scheduler (REQUIRED)"],
    },
    PlaneModel {
        plane: ControlPlane::Kubernetes,
        with: "Volcano",
        scheduler: SchedulerKind::Volcano,
        has: &["Volcano gang scheduler (REQUIRED)"],
    },
    PlaneModel {
        plane: ControlPlane::Kubernetes,
        with: "Kueue",
        scheduler: SchedulerKind::Kueue,
        has: &["Kueue"],
    },
    PlaneModel {
        plane: ControlPlane::Kubernetes,
        with: "",
        scheduler: SchedulerKind::KubeDefault,
        has: &[],
    },
    PlaneModel {
        plane: ControlPlane::K3s,
        with: "Volcano",
        scheduler: SchedulerKind::Volcano,
        has: &["Volcano gang scheduler (REQUIRED)"],
    },
    PlaneModel {
        plane: ControlPlane::K3s,
        with: "Kueue",
        scheduler: SchedulerKind::Kueue,
        has: &["Kueue"],
    },
    PlaneModel {
        plane: ControlPlane::K3s,
        with: "",
        scheduler: SchedulerKind::KubeDefault,
        has: &[],
    },
    PlaneModel {
        plane: ControlPlane::Ray,
        with: "",
        scheduler: SchedulerKind::Ray,
        has: &["standalone, started by its owner"],
    },
];

/// No control plane: people with ssh.
const NO_SCHEDULER: PlaneModel = PlaneModel {
    plane: ControlPlane::None,
    with: "",
    scheduler: SchedulerKind::None,
    has: &["ssh, tmux, nvidia-smi and a page of conventions"],
};

impl PlaneModel {
    fn of(label: &Label) -> &'static Self {
        let fits =
            |model: &&PlaneModel| model.plane == label.primary && label.addon.contains(model.with);
        MODELS.iter().find(fits).unwrap_or(&NO_SCHEDULER)
    }

    fn name(&self) -> String {
        match (self.plane, self.with) {
            (ControlPlane::None, _) => "no scheduler".to_owned(),
            (plane, "") => plane.to_string(),
            (plane, with) => format!("{plane} with {with}"),
        }
    }
}

/// A scheduler that is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name as shown in the comparison.
    pub name: String,
    /// Reason why it is tried.
    pub role: ProvedRole,
    /// Change of facts that leads to it.
    pub change: Option<FactChanges>,
    /// Scheduler or model that runs.
    pub scheduler: SchedulerKind,
    /// Parts of its label that no model covers.
    pub without_model: Vec<String>,
}

impl Candidate {
    fn of(label: &Label, role: ProvedRole, change: Option<FactChanges>) -> Self {
        let model = PlaneModel::of(label);
        let parts = label.addon.split(" + ").filter(|part| !part.is_empty());
        let without = parts.filter(|part| !model.has.contains(part)).chain(label.hybrid.as_deref());
        Self {
            name: model.name(),
            role,
            change,
            scheduler: model.scheduler,
            without_model: without.map(str::to_owned).collect(),
        }
    }
}

/// Returns the advised control plane, those that flips lead to, all others that could be advised,
/// and Muster's own engine. Each model appears once.
#[must_use]
pub fn candidates(advice_proof: &Label, flips: &[Flip]) -> Vec<Candidate> {
    let mut all = vec![Candidate::of(advice_proof, ProvedRole::Advised, None)];
    let mut add = |contender: Candidate| {
        if all.iter().all(|known| known.scheduler != contender.scheduler) {
            all.push(contender);
        }
    };
    for flip in flips {
        add(Candidate::of(&flip.label, ProvedRole::RunnerUp, Some(flip.change.clone())));
    }
    let others = MODELS.iter().chain([&NO_SCHEDULER]).map(|model| (model.name(), model.scheduler));
    let other = ProvedRole::Other;
    let engine = ProvedRole::Muster;
    let others = others.map(|(name, scheduler)| (name, other, scheduler));
    for (name, role, scheduler) in
        others.chain([("Muster's engine".to_owned(), engine, SchedulerKind::Muster)])
    {
        add(Candidate { name, role, change: None, scheduler, without_model: Vec::new() });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(primary: ControlPlane, addon: &str) -> Label {
        Label { primary, addon: addon.to_owned(), hybrid: None }
    }

    #[test]
    fn every_label_has_a_model_or_a_named_gap() {
        let check = |plane, addon, scheduler: SchedulerKind, name: &str, without: &[&str]| {
            let found = Candidate::of(&label(plane, addon), ProvedRole::Advised, None);
            assert_eq!((found.scheduler, found.name.as_str()), (scheduler, name), "{addon}");
            assert_eq!(found.without_model, without, "{addon}");
        };
        check(
            ControlPlane::None,
            "ssh, tmux, nvidia-smi and a page of conventions",
            SchedulerKind::None,
            "no scheduler",
            &[],
        );
        check(ControlPlane::Slurm, "", SchedulerKind::Slurm, "slurm", &[]);
        check(
            ControlPlane::Slurm,
            "topology.conf for rail-aware placement + slurmdbd for fair share and limits",
            SchedulerKind::Slurm,
            "slurm",
            &["topology.conf for rail-aware placement"],
        );
        check(
            ControlPlane::Kubernetes,
            "Volcano gang scheduler (REQUIRED) + GPU Operator + Kueue",
            SchedulerKind::Volcano,
            "kubernetes with Volcano",
            &["GPU Operator", "Kueue"],
        );
        check(
            ControlPlane::Kubernetes,
            "Kueue",
            SchedulerKind::Kueue,
            "kubernetes with Kueue",
            &[],
        );
        check(ControlPlane::Kubernetes, "", SchedulerKind::KubeDefault, "kubernetes", &[]);
        check(
            ControlPlane::Kubernetes,
            "Run:ai gang scheduling (REQUIRED) + Run:ai",
            SchedulerKind::Kai,
            "kubernetes with Run:ai",
            &[],
        );
        check(
            ControlPlane::Kubernetes,
            "KAI gang scheduler (REQUIRED) + GPU Operator",
            SchedulerKind::Kai,
            "kubernetes with KAI",
            &["GPU Operator"],
        );
        check(
            ControlPlane::K3s,
            "GPU Operator",
            SchedulerKind::KubeDefault,
            "k3s",
            &["GPU Operator"],
        );
        check(
            ControlPlane::Ray,
            "standalone, started by its owner",
            SchedulerKind::Ray,
            "ray",
            &[],
        );
        let split =
            Label { hybrid: Some("two pools".to_owned()), ..label(ControlPlane::Slurm, "") };
        assert_eq!(Candidate::of(&split, ProvedRole::Advised, None).without_model, ["two pools"]);
    }

    #[test]
    fn advised_scheduler_first_then_flips_then_the_others_once() {
        let flip = |label| Flip { change: FactChanges::default(), label };
        let flips = [
            flip(label(ControlPlane::K3s, "GPU Operator + Kueue")),
            flip(label(ControlPlane::Kubernetes, "Kueue")),
            flip(label(ControlPlane::Slurm, "slurmdbd for fair share and limits")),
        ];
        let found = candidates(&label(ControlPlane::Slurm, ""), &flips);
        let shown: Vec<(&str, &str)> =
            found.iter().map(|found| (found.name.as_str(), found.scheduler.name())).collect();
        assert_eq!(
            shown,
            [
                ("slurm", "slurm"),
                ("k3s with Kueue", "kueue"),
                ("kubernetes with Run:ai", "kai"),
                ("kubernetes with Volcano", "volcano"),
                ("kubernetes", "kube-default"),
                ("ray", "ray"),
                ("no scheduler", "none"),
                ("Muster's engine", "muster"),
            ]
        );
        let roles: Vec<ProvedRole> = found.iter().map(|found| found.role).collect();
        assert_eq!(roles[..3], [ProvedRole::Advised, ProvedRole::RunnerUp, ProvedRole::Other]);
        assert_eq!((roles[7], found[1].change.is_some()), (ProvedRole::Muster, true));
    }
}
