//! The shape of what is known of planes in one dimension. The contents stand in `dimensions`;
//! nothing here weighs them.

use muster_model::advice::{Cell, Plane, Source, Standing, Today};

use crate::condition::Condition;

/// One row of every comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimension {
    /// Stays the same once published.
    pub(crate) id: &'static str,
    /// What is compared, for people.
    pub(crate) title: &'static str,
    /// When it matters: one of these.
    pub(crate) matters: &'static [Condition],
    pub(crate) none: Entry,
    pub(crate) slurm: Entry,
    pub(crate) kubernetes: Entry,
    /// Nothing where it is the same as with Kubernetes, whose API k3s has.
    pub(crate) k3s: Option<Entry>,
    pub(crate) ray: Entry,
}

impl Dimension {
    /// How a plane stands in it.
    pub(crate) fn cell(&self, plane: Plane) -> Cell {
        let entry = match plane {
            Plane::None => self.none,
            Plane::Slurm => self.slurm,
            Plane::Kubernetes => self.kubernetes,
            Plane::K3s => self.k3s.unwrap_or(self.kubernetes),
            Plane::Ray => self.ray,
        };
        Cell {
            plane,
            standing: entry.standing,
            text: entry.text,
            source: entry.source,
            today: entry.today,
        }
    }
}

/// How one plane stands in one dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    standing: Standing,
    text: &'static str,
    source: Source,
    today: Option<Today>,
}

impl Entry {
    /// The same, with what has become true since its page was written.
    pub(crate) const fn today(
        self,
        standing: Standing,
        text: &'static str,
        source: Source,
    ) -> Self {
        Self { today: Some(Today { standing, text, source }), ..self }
    }
}

const fn entry(standing: Standing, text: &'static str, source: Source) -> Entry {
    Entry { standing, text, source, today: None }
}

/// As it comes.
pub(crate) const fn native(text: &'static str, source: Source) -> Entry {
    entry(Standing::Native, text, source)
}

/// With something installed on top.
pub(crate) const fn addon(text: &'static str, source: Source) -> Entry {
    entry(Standing::AddOn, text, source)
}

/// It can be made to.
pub(crate) const fn weak(text: &'static str, source: Source) -> Entry {
    entry(Standing::Weak, text, source)
}

/// Not at all.
pub(crate) const fn absent(text: &'static str, source: Source) -> Entry {
    entry(Standing::None, text, source)
}

/// A place on the comparison page.
pub(crate) const fn comparison(section: &'static str) -> Source {
    Source::new(muster_model::advice::Page::Comparison, section)
}

/// A place on the Kentino page.
pub(crate) const fn kentino(section: &'static str) -> Source {
    Source::new(muster_model::advice::Page::Kentino, section)
}

/// A place on the Hyperstack page.
pub(crate) const fn hyperstack(section: &'static str) -> Source {
    Source::new(muster_model::advice::Page::Hyperstack, section)
}

/// A place in the overview.
pub(crate) const fn overview(section: &'static str) -> Source {
    Source::new(muster_model::advice::Page::Overview, section)
}

/// A place in the guide.
pub(crate) const fn guide(section: &'static str) -> Source {
    Source::new(muster_model::advice::Page::Guide, section)
}

/// A project's own documentation, with its version or date.
pub(crate) const fn upstream(section: &'static str) -> Source {
    Source::new(muster_model::advice::Page::Upstream, section)
}

/// Our own judgement, with what it rests on.
pub(crate) const fn muster(section: &'static str) -> Source {
    Source::new(muster_model::advice::Page::Muster, section)
}

/// What people without a scheduler have, where no page says more than that.
pub(crate) const SMALL_TEAM: Source = kentino("the honest small-team reality");
