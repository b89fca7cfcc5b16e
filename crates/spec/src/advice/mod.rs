//! Input files of advice: facts of one workload, and a site. Both readers are made from the tables
//! of `muster_model::advice`, so that a fact added there can be written here. The advice itself is
//! made in the crate `advise`.

mod agree;
mod clusters;
mod facts;
mod json;
mod names;
mod recognise;
mod site;
mod site_schema;
mod value;
mod word;
mod written;

pub use facts::{FactsFile, LineError, parse_facts, parse_facts_line};
pub use names::{fact_meant_by, site_field};
pub use site::parse_site;
pub use value::parse_fact_value;

pub(crate) use facts::FactsDocument;
pub(crate) use recognise::{FileKind, refuse_other};
pub(crate) use site_schema::SiteDocument;
