//! The site file of `--on auto`: found by option, environment or place. It is read, never written.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use muster_model::advice::SiteProfile;

use crate::args::Global;
use crate::config_files::{places, set};
use crate::exit::Failure;
use crate::on::On;
use crate::source;

/// Variable that names the site file.
const VARIABLE: &str = "MUSTER_SITE";
/// Name of the site file in a folder for configuration.
const NAME: &str = "site.yaml";

/// Option that names the site file.
#[derive(Clone, Debug, Args)]
pub struct SiteFileArgs {
    /// With --on auto: site file whose `clusters` say where each kind of job belongs; by default
    /// $MUSTER_SITE, ~/.config/muster/site.yaml or /etc/muster/site.yaml
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
}

/// A site file that was read.
pub struct SiteFile {
    /// Path as the user wrote it, for messages.
    pub name: String,
    /// Checked content of the file.
    pub profile: SiteProfile,
}

impl SiteFileArgs {
    /// Rejects the option without `--on auto`, so that it is not ignored silently.
    pub fn check_applies(&self, global: &Global) -> Result<()> {
        if self.site.is_none() || global.on == Some(On::Auto) {
            return Ok(());
        }
        Err(Failure::usage("--site needs --on auto").hint("add --on auto, or leave it out").into())
    }

    /// Returns true if there is a site file at its usual place, or one that a variable names.
    pub fn is_there() -> bool {
        set(VARIABLE).is_some() || places(NAME).iter().any(|path| path.exists())
    }

    /// Reads the site file.
    pub fn read(&self) -> Result<SiteFile> {
        let named = self.site.clone().or_else(|| set(VARIABLE));
        let path = named.or_else(|| places(NAME).into_iter().find(|path| path.exists()));
        let path = path.ok_or_else(|| {
            Failure::usage("--on auto needs a site file, which says where each kind of job belongs")
                .hint(format!(
                    "--site or {VARIABLE} names it; else it is ~/.config/muster/{NAME} or /etc/muster/{NAME}"
                ))
                .hint("its lines for this are such as `clusters: {batch: slurm, services: kubernetes}`; docs/site.md describes the others")
        })?;
        let text = source::read(&path)?;
        let name = text.file.unwrap_or_default();
        let profile = muster_spec::parse_site(&text.source, Some(&name)).map_err(Failure::from)?;
        Ok(SiteFile { name, profile })
    }
}
