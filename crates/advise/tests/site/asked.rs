//! Answers to stated needs: each need has one, in the order of the site; products, operations and the first
//! week follow the facts.

use muster_advise::{advise_site, document};
use muster_model::GpuModel;
use muster_model::advice::{ControlPlane, Fact, Ruleset, SiteProfile};

use crate::rows::{ask, said, site};

fn needs() -> Vec<Fact> {
    let of_needs = |fact: &&Fact| fact.name().starts_with("needs.");
    let derived = [Fact::CoupledTraining, Fact::MainlyCoupled];
    Fact::SITE.iter().filter(of_needs).copied().filter(|fact| !derived.contains(fact)).collect()
}

/// Sites that lead to every control plane.
fn sites() -> Vec<SiteProfile> {
    use Fact::{
        FleetBareMetal, FleetEdge, FleetGpus, FleetNodes, OperatesKubernetes, OperatesSlurm,
        PlatformFte, Rl, Talk, Users, Works,
    };
    let large = [(FleetNodes, 16), (FleetGpus, 128), (Users, 30), (PlatformFte, 100)];
    vec![
        site(&[Talk], &[(FleetGpus, 4), (Users, 2)]),
        site(&[OperatesSlurm, Works, FleetBareMetal], &large),
        site(&[OperatesKubernetes, Works], &large),
        site(&[FleetEdge], &[(FleetNodes, 4), (FleetGpus, 4), (Users, 3)]),
        site(&[Rl], &[(FleetNodes, 4), (FleetGpus, 32), (Users, 1)]),
    ]
}

#[test]
fn every_need_is_answered_under_every_control_plane() {
    let mut planes = Vec::new();
    for base in sites() {
        for need in needs() {
            let facts = base.facts.with(need, 1);
            let asked = SiteProfile { facts, stated: vec![need], ..base.clone() };
            let advice = advise_site(&asked, Ruleset::Corrected);
            planes.push(advice.advice.label.primary);
            let answers: Vec<_> = advice.asked.iter().filter(|one| one.need == need).collect();
            assert_eq!(answers.len(), 1, "{need} under {}", advice.advice.label.primary);
        }
    }
    planes.sort_unstable();
    planes.dedup();
    assert_eq!(planes, ControlPlane::ALL);
}

/// Entries of the document, of which every one is an answer that some site gets.
#[test]
fn every_answer_fits_on_a_line() {
    let text = document();
    let (_, from) = text.split_once("\n## Answers to needs of a site\n").unwrap();
    let (part, _) = from.split_once("\n## ").unwrap();
    let sentences: Vec<&str> =
        part.split("\n### ").skip(1).filter_map(|entry| entry.lines().nth(2)).collect();
    assert!(sentences.len() > 90, "{}", sentences.len());
    for sentence in sentences {
        let length = sentence.trim_end_matches('.').chars().count();
        assert!(length <= 87, "{sentence}: {length} characters are more than a line");
    }
}

#[test]
fn needs_are_answered_in_the_order_of_the_site() {
    let stated = vec![Fact::Spark, Fact::Notebooks, Fact::Batch];
    let facts = stated.iter().fold(sites()[1].facts, |facts, need| facts.with(*need, 1));
    let site = SiteProfile { facts, stated: stated.clone(), ..SiteProfile::default() };
    let answered: Vec<Fact> =
        advise_site(&site, Ruleset::Corrected).asked.iter().map(|one| one.need).collect();
    assert_eq!(answered[..3], stated);
}

#[test]
fn ray_is_refused_where_nothing_needs_it_and_what_works_is_the_reason() {
    let ask = |base: &SiteProfile, more: &[Fact]| {
        let facts = more.iter().fold(base.facts, |facts, fact| facts.with(*fact, 1));
        let advice = advise_site(&SiteProfile { facts, ..base.clone() }, Ruleset::Corrected);
        let ray = advice.asked.iter().find(|one| one.need == Fact::Ray);
        ray.map(|one| one.sentence).unwrap_or_default()
    };
    let slurm = &sites()[1];
    assert!(ask(slurm, &[Fact::Ray]).contains("no; what you operate works"));
    assert!(ask(slurm, &[Fact::Ray, Fact::Rl]).contains("yes, inside a Slurm allocation"));
    assert!(ask(slurm, &[Fact::Ray, Fact::OperatesRay]).contains("keep what runs"));
}

#[test]
fn every_product_says_what_staying_costs() {
    let products = Fact::SITE.iter().filter(|fact| {
        fact.name().starts_with("people.operates-")
            && ![
                Fact::OperatesSlurm,
                Fact::OperatesKubernetes,
                Fact::OperatesK3s,
                Fact::OperatesRay,
            ]
            .contains(fact)
    });
    let mut count = 0;
    for product in products {
        let large = [(Fact::FleetNodes, 16), (Fact::FleetGpus, 128), (Fact::Users, 20)];
        let advice = ask(&site(&[*product, Fact::Batch], &large));
        assert_eq!(advice.staying.len(), 1, "{product}");
        assert!(advice.staying[0].sentence.contains("staying costs"), "{product}");
        // A product that works keeps the control plane that it runs on, or is stayed with in words.
        let works = ask(&site(&[*product, Fact::Works, Fact::Batch], &large));
        let plane = works.advice.label.primary;
        let facts = site(&[*product], &large).facts;
        let expected = match product {
            _ if facts.is(Fact::OperatesSlurm) => ControlPlane::Slurm,
            _ if facts.is(Fact::OperatesKubernetes) => ControlPlane::Kubernetes,
            _ => {
                assert!(works.staying[0].id.ends_with("-works"), "{product}");
                assert!(works.staying[0].sentence.contains("works: stay with it"), "{product}");
                assert!(said(&works).contains(&"working-batch-scheduler"), "{product}");
                ControlPlane::Slurm
            }
        };
        assert_eq!(plane, expected, "{product}");
        count += 1;
    }
    assert_eq!(count, 10);
}

#[test]
fn operations_grow_with_nodes_and_users() {
    let staff = |nodes, users| {
        let facts = sites()[1].facts.with(Fact::FleetNodes, nodes).with(Fact::Users, users);
        let site = SiteProfile { facts, ..SiteProfile::default() };
        advise_site(&site, Ruleset::Corrected).operations.staff.into_owned()
    };
    assert_eq!(staff(16, 30), "one part-time SRE");
    assert_eq!(
        staff(256, 900),
        "about 6 full-time people for the control plane, faults of 256 nodes and questions of 900 users, an \
         assumption of Muster without data; of these one part-time SRE"
    );
    let start = |nodes, users| staff(nodes, users).split(" for ").next().unwrap().to_owned();
    assert_eq!(start(50, 30), "about 1 full-time person");
    assert_eq!(start(100, 30), "about 1.5 full-time people");
}

#[test]
fn a_provider_runs_etcd_of_a_managed_control_plane() {
    let base = &sites()[2];
    let components = |facts| {
        let site = SiteProfile { facts, ..SiteProfile::default() };
        advise_site(&site, Ruleset::Corrected).operations.components
    };
    assert!(components(base.facts).contains(&"etcd"));
    assert!(!components(base.facts.with(Fact::ManagedPlane, 1)).contains(&"etcd"));
    // Its Slurm is the site's own.
    let both = sites()[1].facts.with(Fact::OperatesKubernetes, 1).with(Fact::ManagedPlane, 1);
    let both = ask(&SiteProfile { facts: both.with(Fact::Batch, 1), ..SiteProfile::default() });
    let parts = &both.operations.components;
    assert!(parts.contains(&"slurmctld") && !parts.contains(&"etcd"), "{parts:?}");
    assert!(both.operations.staff.contains("add-ons of the managed cluster"), "{both:?}");
    // A provider that runs the whole platform runs etcd, too.
    let more = [(Fact::FleetNodes, 9), (Fact::FleetGpus, 72), (Fact::Users, 20)];
    let provided = ask(&site(&[Fact::Managed, Fact::Services], &more));
    assert!(provided.advice.label.addon.contains("run by a provider"));
    assert!(!provided.operations.components.contains(&"etcd"));
    assert!(provided.operations.breaks_first.starts_with("the add-ons"));
}

#[test]
fn the_operator_of_slurm_on_kubernetes_is_the_one_that_runs() {
    let large = [(Fact::FleetNodes, 16), (Fact::FleetGpus, 128), (Fact::Users, 20)];
    for (product, part) in [
        (Fact::OperatesSlinky, "slurm-operator"),
        (Fact::OperatesSoperator, "Soperator"),
        (Fact::OperatesSunk, "SUNK"),
    ] {
        let advice = ask(&site(&[product, Fact::Works, Fact::Batch, Fact::Services], &large));
        let split = advice.advice.label.hybrid.unwrap_or_default();
        assert!(split.starts_with("Slurm on Kubernetes"), "{product}: {split}");
        assert!(advice.operations.components.contains(&part), "{product}");
        let services = advice.asked.iter().find(|one| one.need == Fact::Services).unwrap();
        assert!(services.sentence.contains("on the same Kubernetes"), "{product}");
    }
}

/// Racks with NVLink between their nodes need what lets the nodes map each other's memory.
#[test]
fn racks_of_nvlink_need_imex_or_compute_domains() {
    let large = [(Fact::FleetNodes, 18), (Fact::FleetGpus, 72), (Fact::Users, 20)];
    let check = |facts: &[Fact], model: &str, part: &str, expected: bool| {
        let mut site = site(facts, &large);
        site.models = vec![model.into()];
        let components = ask(&site).operations.components;
        assert_eq!(components.iter().any(|one| one.contains(part)), expected, "{components:?}");
    };
    let slurm = [
        Fact::OperatesSlurm,
        Fact::Works,
        Fact::HpcFluent,
        Fact::FleetBareMetal,
        Fact::Training,
        Fact::CoupledTraining,
    ];
    check(&slurm, "gb200", "IMEX", true);
    check(&slurm, "h200", "IMEX", false);
    let kubernetes = [
        Fact::OperatesKubernetes,
        Fact::Works,
        Fact::KubernetesFluent,
        Fact::Services,
        Fact::Training,
        Fact::CoupledTraining,
    ];
    check(&kubernetes, "gb300", "ComputeDomains", true);
    check(&kubernetes, "b300", "ComputeDomains", false);
    // Programs that submit do so through Slurm's own API.
    check(&[Fact::OperatesSlurm, Fact::Works, Fact::Batch], "h100", "slurmrestd", false);
    check(&[Fact::OperatesSlurm, Fact::Works, Fact::DistributedPython], "h100", "slurmrestd", true);
}

#[test]
fn shared_gpus_of_amd_are_partitions() {
    let shared = |models: &[&str]| {
        let models = models.iter().map(|model| GpuModel::from(*model)).collect();
        let facts = sites()[2].facts.with(Fact::SharedGpus, 1);
        let advice = ask(&SiteProfile { facts, models, ..SiteProfile::default() });
        advice.asked.iter().find(|one| one.need == Fact::SharedGpus).unwrap().id
    };
    assert_eq!(shared(&["mi300x"]), "asked-shared-amd");
    // No partitions, another vendor, or unknown.
    for models in [&["mi210"][..], &["mi300x", "h100"], &[]] {
        assert_eq!(shared(models), "asked-shared-kubernetes", "{models:?}");
    }
}

#[test]
fn the_week_follows_the_work() {
    use Fact::{FleetGpus, FleetNodes, Notebooks, PlatformFte, Services, Training, Users};
    let week = |flags: &[Fact], numbers: &[(Fact, u32)]| ask(&site(flags, numbers)).first_week;
    let alone = [(FleetGpus, 2), (Users, 1)];
    let served = week(&[Services], &alone);
    assert_eq!(served[1], "day 2: reserve a GPU for each service");
    assert!(served[3].contains("reboot the machine"), "{served:?}");
    assert!(week(&[Training], &alone)[3].contains("from its checkpoint"));
    let pair = [(FleetGpus, 4), (Users, 2)];
    assert!(week(&[Fact::Talk, Notebooks], &pair)[1].contains("notebooks"));
    assert!(!week(&[Fact::Talk, Training], &pair)[1].contains("notebooks"));
    let large = [(FleetNodes, 16), (FleetGpus, 128), (Users, 30), (PlatformFte, 100)];
    let served = week(&[Services], &large);
    assert_eq!(served[2], "day 3: one job of each kind of work");
    assert!(served[3].contains("keep answering"), "{served:?}");
    let fabric = |flags: &[Fact]| week(flags, &large)[2].contains("RDMA");
    assert!(fabric(&[Fact::CoupledTraining, Fact::FleetRdma]));
    assert!(!fabric(&[Fact::CoupledTraining]));
}

#[test]
fn the_first_week_has_five_days_with_the_numbers_of_the_site() {
    for site in sites() {
        let advice = advise_site(&site, Ruleset::Corrected);
        assert_eq!(advice.first_week.len(), 5);
        assert!(advice.first_week[4].contains("--expect decision.json"));
    }
    let pair = &sites()[0];
    let facts = pair.facts.with(Fact::FleetNodes, 2);
    let advice = advise_site(&SiteProfile { facts, ..pair.clone() }, Ruleset::Corrected);
    assert!(advice.first_week[0].contains("--nodes 2 --gpus 4 --users 2"));
    assert!(advise_site(pair, Ruleset::Corrected).first_week[0].contains("`muster run`"));
}
