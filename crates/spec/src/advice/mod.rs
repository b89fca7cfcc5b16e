//! Files behind advice: facts of one workload, and a site. Both are made from the tables of
//! `muster_model::advice`, so that a fact that is added there can be written here. What facts lead
//! to is `advise`'s.

mod agree;
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
pub use names::fact_meant_by;
pub use site::parse_site;
pub use value::parse_fact_value;

pub(crate) use facts::FactsDocument;
pub(crate) use recognise::{Document, refuse_other};
pub(crate) use site::SiteDocument;
