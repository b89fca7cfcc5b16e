//! The fields of the site file, their names and the published schema, made from the tables of facts.
//! Nothing is read here.

use muster_model::GpuModel;
use muster_model::advice::Fact;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::advice::clusters::{self, CLUSTERS, Clusters};
use crate::advice::facts::RULES;
use crate::advice::word::{FABRICS, HOSTINGS};
use crate::advice::written::{Rules, WorkloadFacts, Written, describe, question};
use crate::advice::{names, value};
use crate::field::{Item, Many, Whole, document, object_schema};
use crate::job::fields::{JobName, Model};
use crate::source::Place;

/// Facts without which no boundary of the rules can be evaluated.
pub(super) const REQUIRED: [Fact; 3] = [Fact::FleetNodes, Fact::FleetGpus, Fact::Users];

document! {
    /// One kind of work that runs there.
    MixDocument ("mix") requires ["name", "facts"] foreign &[("workload", "name"), ("percent", "share"), ("weight", "share"), ("part", "share")] => {
        /// Name of this work, unique in the mix: at most 64 letters, digits, `.`, `_` or `-`.
        "name" name: JobName,
        /// Share of the fleet's GPU-hours that it takes, in whole percent. Left out if unknown.
        "share" share: Whole<1, 100>,
        /// Facts of this work, as in a facts file.
        "facts" facts: WorkloadFacts,
    }
}

/// The fields of a site file.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteDocument {
    /// Facts of the site.
    pub(super) written: Written,
    /// Needs that the text states, in its order.
    pub(super) stated: Vec<Fact>,
    /// GPU models of the fleet.
    pub(super) models: Vec<Item<Model>>,
    /// Nodes with GPUs of each model; empty if not given.
    pub(super) nodes_by_model: Vec<(GpuModel, u32)>,
    /// Place of the nodes by model.
    pub(super) models_place: Option<Place>,
    /// Kinds of work that run there.
    pub(super) mix: Vec<Item<MixDocument>>,
    /// Thresholds that replace the defaults of the rules.
    pub(super) rules: Rules,
    /// Clusters that kinds of jobs are sent to.
    pub(super) clusters: Clusters,
}

/// Returns the fields of a section, including those that are no facts by themselves.
pub(super) fn known(section: &str) -> Vec<&'static str> {
    let mut known: Vec<&str> = Fact::SITE
        .iter()
        .filter_map(|fact| names::site_key(*fact))
        .filter(|(of, _)| *of == section)
        .map(|(_, key)| key)
        .collect();
    known.extend(special(section).iter().map(|(key, ..)| *key));
    known
}

/// Returns the fields that are no facts by themselves: key, description and schema.
fn special(section: &str) -> Vec<(&'static str, &'static str, Schema)> {
    let planes: Vec<&str> = Fact::SITE.iter().filter_map(|fact| names::operated(*fact)).collect();
    match section {
        "fleet" => vec![
            (
                "models",
                "GPU models of the fleet, such as `h100`, one, a list, or each with its number of nodes. They determine whether GPUs can be partitioned by MIG.",
                schemars::json_schema!({ "anyOf": [
                    { "type": "string" },
                    { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                    { "type": "object", "additionalProperties": { "type": "integer", "minimum": 1 }, "minProperties": 1 },
                ] }),
            ),
            (
                "fabric",
                "Network between the nodes: `infiniband` and `roce` support RDMA, `ethernet` does not. `ethernet` by default.",
                schemars::json_schema!({ "enum": FABRICS.map(|(word, _)| word), "default": "ethernet" }),
            ),
            (
                "hosting",
                "`bare-metal` machines, or those of a `cloud`. `cloud` by default.",
                schemars::json_schema!({ "enum": HOSTINGS.map(|(word, _)| word), "default": "cloud" }),
            ),
        ],
        "people" => vec![(
            "operates",
            "Control planes and schedulers that you operate today, one or a list, such as `slurm` or `[kubernetes, kueue]`. None by default.",
            schemars::json_schema!({ "anyOf": [{ "enum": planes }, { "type": "array", "items": { "enum": planes } }] }),
        )],
        _ => Vec::new(),
    }
}

impl JsonSchema for SiteDocument {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "site".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut fields: Vec<(&str, String, Schema)> = names::sections()
            .into_iter()
            .map(|name| (name, about(name).to_owned(), section(name)))
            .collect();
        let mix = generator.subschema_for::<Many<MixDocument>>();
        fields.push((
            "mix",
            "Kinds of work that run there, each advised on in place.".to_owned(),
            mix,
        ));
        fields.push(("rules", RULES.to_owned(), Rules::schema(|_| true)));
        fields.push((CLUSTERS, clusters::ABOUT.to_owned(), Clusters::schema()));
        object_schema(
            "A site, for Muster's advice and `muster run --on auto`: its fleet, its users, its workloads and its clusters.",
            fields,
            &["fleet", "people"],
        )
    }
}

/// Returns the schema of a section: its facts, then the fields that are no facts by themselves.
fn section(section: &str) -> Schema {
    let mut fields = Vec::new();
    let mut required = Vec::new();
    for fact in Fact::SITE {
        let Some((_, key)) = names::site_key(*fact).filter(|(of, _)| *of == section) else {
            continue;
        };
        let mut schema = value::schema(fact.kind());
        let described = if REQUIRED.contains(fact) {
            required.push(key);
            schema.remove("default");
            format!("{} Required.", question(*fact))
        } else {
            describe(*fact)
        };
        fields.push((key, described, schema));
    }
    fields.extend(
        special(section).into_iter().map(|(key, text, schema)| (key, text.to_owned(), schema)),
    );
    object_schema(about(section), fields, &required)
}

/// Returns the description of a section.
fn about(section: &str) -> &'static str {
    match section {
        "fleet" => "The machines.",
        "people" => "The users, and the staff that operates the platform.",
        "needs" => "The work and its requirements.",
        _ => "Facts of the site.",
    }
}
