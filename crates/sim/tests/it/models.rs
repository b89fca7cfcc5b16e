//! The document on the models has each of them, with the version that its row names.

use muster_sim::fleet::SchedulerKind;

const DOCUMENT: &str = include_str!("../../../../docs/models.md");

#[test]
fn every_model_is_described_with_its_version() {
    for (name, kind) in SchedulerKind::ALL {
        let part = DOCUMENT.split("\n## ").skip(1).find(|part| {
            part.lines().next().is_some_and(|heading| heading.split(", ").any(|of| of == name))
        });
        let Some(model_of) = kind.model_of() else {
            assert!(part.is_none(), "{name}");
            continue;
        };
        let part = part.unwrap_or_else(|| panic!("{name} is not described"));
        assert!(part.contains("**Not modelled.**") && part.contains("**Source.**"), "{name}");
        let version = model_of.split(", ").next().and_then(|first| first.split(' ').next_back());
        assert!(kind == SchedulerKind::None || part.contains(version.unwrap()), "{model_of}");
    }
}
