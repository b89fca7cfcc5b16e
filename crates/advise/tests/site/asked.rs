//! Answers to stated needs: each need has one, in the order of the site; products, operations and the first
//! week follow the facts.

use muster_advise::advise_site;
use muster_model::advice::{ControlPlane, Fact, Facts, Ruleset, SiteProfile};

use crate::rows::site;

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
            let length = answers[0].sentence.chars().count();
            assert!(length <= 87, "{need}: {length} characters are more than a line");
        }
    }
    planes.sort_unstable();
    planes.dedup();
    assert_eq!(planes, ControlPlane::ALL);
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
        let facts = Facts::default().with(Fact::Users, 20).with(*product, 1);
        let advice =
            advise_site(&SiteProfile { facts, ..SiteProfile::default() }, Ruleset::Corrected);
        assert_eq!(advice.staying.len(), 1, "{product}");
        assert!(advice.staying[0].sentence.contains("staying costs"), "{product}");
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
    assert!(staff(16, 30).starts_with("one part-time SRE"), "{}", staff(16, 30));
    let large = staff(256, 900);
    assert!(large.contains("about 5.50 full-time people"), "{large}");
    assert!(large.contains("256 nodes") && large.contains("900 users"), "{large}");
    assert!(!staff(16, 30).contains("full-time people, by"), "{}", staff(16, 30));
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
}

#[test]
fn the_first_week_has_five_days_with_the_numbers_of_the_site() {
    for site in sites() {
        let advice = advise_site(&site, Ruleset::Corrected);
        assert_eq!(advice.first_week.len(), 5);
        assert!(advice.first_week[4].contains("--expect"));
    }
    let pair = &sites()[0];
    let facts = pair.facts.with(Fact::FleetNodes, 2);
    let advice = advise_site(&SiteProfile { facts, ..pair.clone() }, Ruleset::Corrected);
    assert!(advice.first_week[0].contains("--nodes 2 --gpus 4 --users 2"));
    assert!(advise_site(pair, Ruleset::Corrected).first_week[0].contains("`muster run`"));
}
