//! Where a statement was read. The five pages are named as their readers know them.

use schemars::JsonSchema;
use serde::Serialize;

/// A page that is cited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Page {
    /// "GPU orchestration decision guide", ai-infrastructure.net.
    Guide,
    /// "Cluster orchestration: Kubernetes, k3s, Ray, Slurm", ai-infrastructure.net.
    Overview,
    /// "Slurm vs Kubernetes for GPUs", ai-infrastructure.net.
    Comparison,
    /// "Job Scheduling for AI Clusters", Kentino Wiki.
    Kentino,
    /// "Managed Kubernetes vs Managed SLURM", Hyperstack, 9 April 2026.
    Hyperstack,
    /// A project's own documentation or source; the section names it, with its version or date.
    Upstream,
    /// Muster's own judgement; the section says what it rests on.
    Muster,
}

impl Page {
    /// Every page, in the order in which they are listed.
    pub const ALL: [Page; 7] = [
        Page::Guide,
        Page::Overview,
        Page::Comparison,
        Page::Kentino,
        Page::Hyperstack,
        Page::Upstream,
        Page::Muster,
    ];

    /// The word in JSON and in short citations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Page::Guide => "guide",
            Page::Overview => "overview",
            Page::Comparison => "comparison",
            Page::Kentino => "kentino",
            Page::Hyperstack => "hyperstack",
            Page::Upstream => "upstream",
            Page::Muster => "muster",
        }
    }

    /// Title and publisher.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Page::Guide => "GPU orchestration decision guide (ai-infrastructure.net)",
            Page::Overview => {
                "Cluster orchestration: Kubernetes, k3s, Ray, Slurm (ai-infrastructure.net)"
            }
            Page::Comparison => "Slurm vs Kubernetes for GPUs (ai-infrastructure.net)",
            Page::Kentino => "Job Scheduling for AI Clusters (Kentino Wiki)",
            Page::Hyperstack => "Managed Kubernetes vs Managed SLURM (Hyperstack, 9 April 2026)",
            Page::Upstream => "the project's own documentation",
            Page::Muster => "Muster's own judgement",
        }
    }
}

/// A place on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Source {
    /// The page.
    pub page: Page,
    /// Section of it, or what the statement rests on.
    pub section: &'static str,
}

impl Source {
    /// A place on a page.
    #[must_use]
    pub const fn new(page: Page, section: &'static str) -> Self {
        Self { page, section }
    }
}
