//! Types of a comparison: [`Dimension`] has an entry per control plane, and one for Muster. The contents are in
//! `dimensions`.

use muster_model::advice::{
    Citation, ComparedSystem, ComparisonCell, ControlPlane, CurrentSupport, SupportLevel,
};

use crate::condition::Condition;

/// One row of every comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimension {
    /// Published id; never changes.
    pub(crate) id: &'static str,
    /// Title that people read.
    pub(crate) title: &'static str,
    /// Conditions, of which one is enough for the dimension to matter.
    pub(crate) matters: &'static [Condition],
    pub(crate) none: DimensionEntry,
    pub(crate) slurm: DimensionEntry,
    pub(crate) kubernetes: DimensionEntry,
    /// `None` if it is the same as for Kubernetes, whose API k3s has.
    pub(crate) k3s: Option<DimensionEntry>,
    pub(crate) ray: DimensionEntry,
    /// Muster's own judgement of itself, by the page that describes it.
    pub(crate) muster: DimensionEntry,
}

impl Dimension {
    /// Returns the cell of a system.
    pub(crate) fn cell(&self, system: ComparedSystem) -> ComparisonCell {
        let entry = match system {
            ComparedSystem::Muster => self.muster,
            ComparedSystem::Plane(ControlPlane::None) => self.none,
            ComparedSystem::Plane(ControlPlane::Slurm) => self.slurm,
            ComparedSystem::Plane(ControlPlane::Kubernetes) => self.kubernetes,
            ComparedSystem::Plane(ControlPlane::K3s) => self.k3s.unwrap_or(self.kubernetes),
            ComparedSystem::Plane(ControlPlane::Ray) => self.ray,
        };
        ComparisonCell {
            plane: system,
            standing: entry.standing,
            text: entry.text,
            source: entry.source,
            today: entry.today,
        }
    }
}

/// Support of one dimension by one system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DimensionEntry {
    standing: SupportLevel,
    text: &'static str,
    source: Citation,
    today: Option<CurrentSupport>,
}

impl DimensionEntry {
    /// Returns the entry with a change since its page was written.
    pub(crate) const fn today(
        self,
        standing: SupportLevel,
        text: &'static str,
        source: Citation,
    ) -> Self {
        Self { today: Some(CurrentSupport { standing, text, source }), ..self }
    }
}

const fn entry(standing: SupportLevel, text: &'static str, source: Citation) -> DimensionEntry {
    DimensionEntry { standing, text, source, today: None }
}

/// Returns an entry for built-in support.
pub(crate) const fn native(text: &'static str, source: Citation) -> DimensionEntry {
    entry(SupportLevel::Native, text, source)
}

/// Returns an entry for support by an add-on.
pub(crate) const fn addon(text: &'static str, source: Citation) -> DimensionEntry {
    entry(SupportLevel::AddOn, text, source)
}

/// Returns an entry for weak support: possible, with effort or limits.
pub(crate) const fn weak(text: &'static str, source: Citation) -> DimensionEntry {
    entry(SupportLevel::Weak, text, source)
}

/// Returns an entry for missing support.
pub(crate) const fn absent(text: &'static str, source: Citation) -> DimensionEntry {
    entry(SupportLevel::None, text, source)
}

/// Cites the comparison page.
pub(crate) const fn comparison(section: &'static str) -> Citation {
    Citation::new(muster_model::advice::CitedPage::Comparison, section)
}

/// Cites the Kentino page.
pub(crate) const fn kentino(section: &'static str) -> Citation {
    Citation::new(muster_model::advice::CitedPage::Kentino, section)
}

/// Cites the Hyperstack page.
pub(crate) const fn hyperstack(section: &'static str) -> Citation {
    Citation::new(muster_model::advice::CitedPage::Hyperstack, section)
}

/// Cites the overview page.
pub(crate) const fn overview(section: &'static str) -> Citation {
    Citation::new(muster_model::advice::CitedPage::Overview, section)
}

/// Cites the deployment guide.
pub(crate) const fn guide(section: &'static str) -> Citation {
    Citation::new(muster_model::advice::CitedPage::Guide, section)
}

/// Cites a project's own documentation, with its version or date.
pub(crate) const fn upstream(section: &'static str) -> Citation {
    Citation::new(muster_model::advice::CitedPage::Upstream, section)
}

/// Cites Muster's own judgement, with its basis.
pub(crate) const fn muster(section: &'static str) -> Citation {
    Citation::new(muster_model::advice::CitedPage::Muster, section)
}

/// Default citation of the cells for teams without a scheduler; more specific sources replace it.
pub(crate) const SMALL_TEAM: Citation = kentino("the honest small-team reality");
