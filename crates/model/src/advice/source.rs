//! Citations of the pages that advice is based on.

use schemars::JsonSchema;
use serde::Serialize;

/// Page that is cited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CitedPage {
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
    /// The project's own documentation or source; the section names it, with its version or date.
    Upstream,
    /// Muster's own judgement; the section names its basis.
    Muster,
}

impl CitedPage {
    /// Every page, in the order in which they are listed.
    pub const ALL: [CitedPage; 7] = [
        CitedPage::Guide,
        CitedPage::Overview,
        CitedPage::Comparison,
        CitedPage::Kentino,
        CitedPage::Hyperstack,
        CitedPage::Upstream,
        CitedPage::Muster,
    ];

    /// Returns the word in JSON and in short citations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CitedPage::Guide => "guide",
            CitedPage::Overview => "overview",
            CitedPage::Comparison => "comparison",
            CitedPage::Kentino => "kentino",
            CitedPage::Hyperstack => "hyperstack",
            CitedPage::Upstream => "upstream",
            CitedPage::Muster => "muster",
        }
    }

    /// Returns title and publisher.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            CitedPage::Guide => "GPU orchestration decision guide (ai-infrastructure.net)",
            CitedPage::Overview => {
                "Cluster orchestration: Kubernetes, k3s, Ray, Slurm (ai-infrastructure.net)"
            }
            CitedPage::Comparison => "Slurm vs Kubernetes for GPUs (ai-infrastructure.net)",
            CitedPage::Kentino => "Job Scheduling for AI Clusters (Kentino Wiki)",
            CitedPage::Hyperstack => {
                "Managed Kubernetes vs Managed SLURM (Hyperstack, 9 April 2026)"
            }
            CitedPage::Upstream => "the project's own documentation",
            CitedPage::Muster => "Muster's own judgement",
        }
    }
}

/// Place on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Citation {
    /// Page that is cited.
    pub page: CitedPage,
    /// Section of the page, or the basis of the statement.
    pub section: &'static str,
}

impl Citation {
    /// Makes a citation of a section of a page.
    #[must_use]
    pub const fn new(page: CitedPage, section: &'static str) -> Self {
        Self { page, section }
    }
}
