//! Which control planes are tried beside an advised one, and what stands for each in a simulation.

use muster_model::advice::{Changes, Flip, Label, Plane, ProvedRole};

use crate::fleet::Scheduler;

/// A control plane as labels name it, and its model.
struct Stand {
    plane: Plane,
    /// A part of the addon that tells it from others of this plane.
    with: &'static str,
    scheduler: Scheduler,
    /// Parts of the addon that the model has.
    has: &'static [&'static str],
}

/// What stands for what; the first that fits a label does.
///
/// Of Kubernetes and k3s, the addon that decides who starts decides: Run:ai is sold with the
/// scheduler that KAI came from; where Volcano must place the gangs it also holds the queues, as no
/// model has Kueue in front of it. k3s runs what Kubernetes runs. What is not in `has` is in no
/// model, and said to be.
const STANDS: [Stand; 9] = [
    Stand {
        plane: Plane::Slurm,
        with: "",
        scheduler: Scheduler::Slurm,
        has: &["slurmdbd for fair share and limits"],
    },
    Stand {
        plane: Plane::Kubernetes,
        with: "Run:ai",
        scheduler: Scheduler::Kai,
        has: &["Run:ai gang scheduling (REQUIRED)", "Run:ai"],
    },
    Stand {
        plane: Plane::Kubernetes,
        with: "Volcano",
        scheduler: Scheduler::Volcano,
        has: &["Volcano gang scheduler (REQUIRED)"],
    },
    Stand { plane: Plane::Kubernetes, with: "Kueue", scheduler: Scheduler::Kueue, has: &["Kueue"] },
    Stand { plane: Plane::Kubernetes, with: "", scheduler: Scheduler::KubeDefault, has: &[] },
    Stand {
        plane: Plane::K3s,
        with: "Volcano",
        scheduler: Scheduler::Volcano,
        has: &["Volcano gang scheduler (REQUIRED)"],
    },
    Stand { plane: Plane::K3s, with: "Kueue", scheduler: Scheduler::Kueue, has: &["Kueue"] },
    Stand { plane: Plane::K3s, with: "", scheduler: Scheduler::KubeDefault, has: &[] },
    Stand {
        plane: Plane::Ray,
        with: "",
        scheduler: Scheduler::Ray,
        has: &["standalone, started by its owner"],
    },
];

/// People, who stand for themselves.
const NOBODY: Stand = Stand {
    plane: Plane::None,
    with: "",
    scheduler: Scheduler::None,
    has: &["ssh, tmux, nvidia-smi and a page of conventions"],
};

impl Stand {
    fn of(label: &Label) -> &'static Self {
        let fits =
            |stand: &&Stand| stand.plane == label.primary && label.addon.contains(stand.with);
        STANDS.iter().find(fits).unwrap_or(&NOBODY)
    }

    fn name(&self) -> String {
        match (self.plane, self.with) {
            (Plane::None, _) => "no scheduler".to_owned(),
            (plane, "") => plane.to_string(),
            (plane, with) => format!("{plane} with {with}"),
        }
    }
}

/// A control plane that is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// What it is.
    pub name: String,
    /// Why it is tried.
    pub role: ProvedRole,
    /// The change of facts that leads to it.
    pub change: Option<Changes>,
    /// What stands for it.
    pub scheduler: Scheduler,
    /// Parts of its label that no model has.
    pub without_model: Vec<String>,
}

impl Contender {
    fn of(label: &Label, role: ProvedRole, change: Option<Changes>) -> Self {
        let stand = Stand::of(label);
        let parts = label.addon.split(" + ").filter(|part| !part.is_empty());
        let without = parts.filter(|part| !stand.has.contains(part)).chain(label.hybrid.as_deref());
        Self {
            name: stand.name(),
            role,
            change,
            scheduler: stand.scheduler,
            without_model: without.map(str::to_owned).collect(),
        }
    }
}

/// The advised control plane; those that flips lead to; all others that could be advised to
/// somebody; and Muster's own engine. Each model is there once.
#[must_use]
pub fn contenders(advised: &Label, flips: &[Flip]) -> Vec<Contender> {
    let mut all = vec![Contender::of(advised, ProvedRole::Advised, None)];
    let mut add = |contender: Contender| {
        if all.iter().all(|known| known.scheduler != contender.scheduler) {
            all.push(contender);
        }
    };
    for flip in flips {
        add(Contender::of(&flip.label, ProvedRole::RunnerUp, Some(flip.change.clone())));
    }
    let others = STANDS.iter().chain([&NOBODY]).map(|stand| (stand.name(), stand.scheduler));
    let (other, engine) = (ProvedRole::Other, ProvedRole::Muster);
    let others = others.map(|(name, scheduler)| (name, other, scheduler));
    for (name, role, scheduler) in
        others.chain([("Muster's engine".to_owned(), engine, Scheduler::Muster)])
    {
        add(Contender { name, role, change: None, scheduler, without_model: Vec::new() });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(primary: Plane, addon: &str) -> Label {
        Label { primary, addon: addon.to_owned(), hybrid: None }
    }

    #[test]
    fn every_label_has_a_model_and_what_it_lacks_is_named() {
        let check = |plane, addon, scheduler: Scheduler, name: &str, without: &[&str]| {
            let found = Contender::of(&label(plane, addon), ProvedRole::Advised, None);
            assert_eq!((found.scheduler, found.name.as_str()), (scheduler, name), "{addon}");
            assert_eq!(found.without_model, without, "{addon}");
        };
        check(
            Plane::None,
            "ssh, tmux, nvidia-smi and a page of conventions",
            Scheduler::None,
            "no scheduler",
            &[],
        );
        check(Plane::Slurm, "", Scheduler::Slurm, "slurm", &[]);
        check(
            Plane::Slurm,
            "topology.conf for rail-aware placement + slurmdbd for fair share and limits",
            Scheduler::Slurm,
            "slurm",
            &["topology.conf for rail-aware placement"],
        );
        check(
            Plane::Kubernetes,
            "Volcano gang scheduler (REQUIRED) + GPU Operator + Kueue",
            Scheduler::Volcano,
            "kubernetes with Volcano",
            &["GPU Operator", "Kueue"],
        );
        check(Plane::Kubernetes, "Kueue", Scheduler::Kueue, "kubernetes with Kueue", &[]);
        check(Plane::Kubernetes, "", Scheduler::KubeDefault, "kubernetes", &[]);
        check(
            Plane::Kubernetes,
            "Run:ai gang scheduling (REQUIRED) + Run:ai",
            Scheduler::Kai,
            "kubernetes with Run:ai",
            &[],
        );
        check(Plane::K3s, "GPU Operator", Scheduler::KubeDefault, "k3s", &["GPU Operator"]);
        check(Plane::Ray, "standalone, started by its owner", Scheduler::Ray, "ray", &[]);
        let split = Label { hybrid: Some("two pools".to_owned()), ..label(Plane::Slurm, "") };
        assert_eq!(Contender::of(&split, ProvedRole::Advised, None).without_model, ["two pools"]);
    }

    #[test]
    fn the_advised_comes_first_then_where_flips_lead_then_all_others_once() {
        let flip = |label| Flip { change: Changes::default(), label };
        let flips = [
            flip(label(Plane::K3s, "GPU Operator + Kueue")),
            flip(label(Plane::Kubernetes, "Kueue")),
            flip(label(Plane::Slurm, "slurmdbd for fair share and limits")),
        ];
        let found = contenders(&label(Plane::Slurm, ""), &flips);
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
