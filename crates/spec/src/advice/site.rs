//! The site file: fleet, people, needs, the mix of work, the site's own thresholds and clusters.
//! Consistency of its parts is checked in `agree.rs`; the advice that follows is made elsewhere.

use std::sync::Arc;

use muster_model::GpuModel;
use muster_model::advice::{Fact, MixEntry, SiteProfile};

use crate::advice::clusters::{CLUSTERS, Clusters};
use crate::advice::recognise::{FileKind, refuse_other};
use crate::advice::site_schema::{MixDocument, REQUIRED, SiteDocument, known};
use crate::advice::word::{FABRICS, HOSTINGS, word};
use crate::advice::written::{Rules, Spot};
use crate::advice::{agree, names};
use crate::diagnostic::{Diagnostics, Problem, Problems};
use crate::field::{Field, Item, Located, Many, OneOrMany, ROOT, Whole, entries};
use crate::job::fields::{Model, duplicates, used_twice};
use crate::source::{Place, Sources};
use crate::yaml::{self, Node, Value, YamlEntry};

/// The smallest site file that is enough for advice, on one line.
const SMALLEST: &str = "{fleet: {nodes: 1, gpus: 8}, people: {users: 2}}";

/// Field of the GPU models.
const MODELS: &str = "fleet.models";

/// Reads a site file. Needs and facts that other parts imply need not be written: they are set.
///
/// # Errors
/// Everything that is wrong with it: single fields first, and what they say together once each is
/// right.
pub fn parse_site(source: &str, file: Option<&str>) -> Result<SiteProfile, Diagnostics> {
    let sources = Arc::new(Sources::new(source, file));
    let mut problems = Problems::default();
    let site = yaml::read_one(&sources, "site", SMALLEST, &mut problems)
        .and_then(|node| SiteDocument::read(&node, ROOT, &mut problems));
    let Some(mut site) = site else { return Err(problems.into_diagnostics(&sources)) };
    agree::settle(&mut site, &mut problems);
    problems.finish(site.into(), &sources)
}

impl Field for SiteDocument {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        // 1. Is it a site at all?
        let before = problems.len();
        refuse_other(node, FileKind::Site, problems)?;
        let entries = entries(node, name, problems)?;
        // 2. Field by field.
        let mut site = Self::default();
        let sections = names::sections();
        for entry in entries {
            let section = sections.iter().find(|section| **section == entry.key);
            match (section, entry.key.as_str()) {
                (Some(section), _) => site.section(section, entry, problems),
                (None, "mix") => {
                    site.mix = Many::read(&entry.node, "mix", problems)
                        .map(|mix: Many<_>| mix.0)
                        .unwrap_or_default();
                }
                (None, "rules") => {
                    site.rules =
                        Rules::read(&entry.node, |_| true, "", problems).unwrap_or_default();
                }
                (None, CLUSTERS) => site.clusters = Clusters::read(&entry.node, problems),
                _ => {
                    let known: Vec<&str> =
                        sections.iter().copied().chain(["mix", "rules", CLUSTERS]).collect();
                    problems.add(names::unknown_field("", entry, &known));
                }
            }
        }
        site.record_needs();
        // 3. Missing facts. After another problem, this one would mostly be a consequence of it.
        if problems.len() == before {
            site.missing(node, entries, problems);
        }
        (problems.len() == before).then_some(site)
    }
}

impl SiteDocument {
    fn section(&mut self, section: &str, entry: &YamlEntry, problems: &mut Problems) {
        for entry in entries(&entry.node, section, problems).unwrap_or_default() {
            let fact = Fact::SITE.iter().find(|fact| {
                names::site_key(**fact)
                    .is_some_and(|(of, key)| of == section && names::same(key, &entry.key))
            });
            match (fact, section, entry.key.as_str()) {
                (Some(fact), ..) => self.written.read(*fact, fact.name(), entry, problems),
                (None, "fleet", "models") => self.models(entry, problems),
                (None, "fleet", "fabric") => {
                    self.choice(Fact::FleetRdma, "fleet.fabric", &FABRICS, entry, problems)
                }
                (None, "fleet", "hosting") => {
                    self.choice(Fact::FleetBareMetal, "fleet.hosting", &HOSTINGS, entry, problems);
                }
                (None, "people", "operates") => self.operates(entry, problems),
                _ => problems.add(names::unknown_field(section, entry, &known(section))),
            }
        }
    }

    /// Reads one model, a list of them, or each with its number of nodes.
    fn models(&mut self, entry: &YamlEntry, problems: &mut Problems) {
        match &entry.node.value {
            Value::Map(models) => {
                self.models_place = Some(entry.node.place);
                models.iter().for_each(|one| self.model_with_nodes(one, problems));
            }
            _ => {
                let models = OneOrMany::<Model>::read(&entry.node, MODELS, problems);
                self.models = models.map(|models| models.0).unwrap_or_default();
            }
        }
        for pair in duplicates(&self.models, |model| model.0.as_str()) {
            problems.add(used_twice("models", pair.1.value.0.as_str(), pair));
        }
    }

    fn model_with_nodes(&mut self, entry: &YamlEntry, problems: &mut Problems) {
        let place = entry.key_place;
        let key = Node { place, value: Value::Scalar(entry.key.clone()), quoted: true };
        let model = Model::read(&key, MODELS, problems);
        let name = format!("{MODELS}.{}", entry.key);
        let nodes = Whole::<1, 10_000_000>::read(&entry.node, &name, problems);
        if let (Some(value), Some(nodes)) = (model, nodes) {
            self.nodes_by_model.push((value.0.clone(), nodes.0 as u32));
            self.models.push(Item { value, place });
        }
    }

    /// Reads a word that sets a flag.
    fn choice(
        &mut self,
        fact: Fact,
        name: &str,
        words: &[(&str, bool)],
        entry: &YamlEntry,
        problems: &mut Problems,
    ) {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let Some(word) = word(&entry.node, name, &known, problems) else { return };
        let flag = words.iter().any(|(other, flag)| *other == word && *flag);
        self.written.set(
            fact,
            u32::from(flag),
            Spot { key: entry.key_place, value: entry.node.place },
        );
    }

    /// Reads one control plane, or a list of them; an empty list means that none is operated.
    fn operates(&mut self, entry: &YamlEntry, problems: &mut Problems) {
        let planes: Vec<(Fact, &str)> = Fact::SITE
            .iter()
            .filter_map(|fact| names::operated(*fact).map(|plane| (*fact, plane)))
            .collect();
        for (fact, _) in &planes {
            self.written.set(*fact, 0, Spot { key: entry.key_place, value: entry.node.place });
        }
        let known: Vec<&str> = planes.iter().map(|(_, plane)| *plane).collect();
        let nodes = match &entry.node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(&entry.node),
        };
        for node in nodes {
            let Some(word) = word(node, "people.operates", &known, problems) else { continue };
            let Some((fact, _)) = planes.iter().find(|(_, plane)| *plane == word) else { continue };
            match self.written.spot(*fact).filter(|_| self.written.facts.is(*fact)) {
                Some(first) => problems.add(
                    Problem::new(format!("`{word}` is listed twice"))
                        .at(node.place, "again here")
                        .also(first.value, "first here"),
                ),
                None => {
                    self.written.set(*fact, 1, Spot { key: entry.key_place, value: node.place })
                }
            }
        }
        // A product implies the control plane that it runs on.
        for implied in Fact::IMPLIES {
            let both = [implied.one, implied.other].map(names::operated);
            if let ([Some(_), Some(_)], Some(spot)) = (both, self.written.spot(implied.one))
                && self.written.facts.is(implied.one)
                && !self.written.facts.is(implied.other)
            {
                self.written.set(implied.other, 1, spot);
            }
        }
    }

    /// Records the needs that the text states, in its order.
    fn record_needs(&mut self) {
        let facts = &self.written.facts;
        let stated = self.written.given().filter(|fact| {
            facts.is(*fact) && names::site_key(*fact).is_some_and(|(section, _)| section == "needs")
        });
        let mut stated: Vec<(usize, Fact)> =
            stated.filter_map(|fact| Some((self.written.spot(fact)?.key.start, fact))).collect();
        stated.sort_unstable();
        self.stated = stated.into_iter().map(|(_, fact)| fact).collect();
    }

    fn missing(&self, node: &Node, entries: &[YamlEntry], problems: &mut Problems) {
        let missing: Vec<Fact> =
            REQUIRED.into_iter().filter(|fact| self.written.spot(*fact).is_none()).collect();
        let Some(first) = missing.first() else { return };
        let section = names::site_key(*first).map_or("", |(section, _)| section);
        let within = entries.iter().find(|entry| entry.key == section);
        let place =
            within.map_or(Place { end: node.place.start, ..node.place }, |entry| entry.key_place);
        let names: Vec<String> = missing.iter().map(|fact| format!("`{fact}`")).collect();
        let (verb, them) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
        let hint = format!("the smallest site is `{SMALLEST}`");
        let problem = Problem::new(format!("{} {verb} missing", names.join(" and ")));
        problems
            .add(problem.at(place, format!("no rule can be evaluated without {them}")).hint(hint));
    }
}

impl From<SiteDocument> for SiteProfile {
    fn from(site: SiteDocument) -> Self {
        let models = site.models.into_iter().map(|item| item.value.0).collect::<Vec<GpuModel>>();
        let entry = |item: Item<MixDocument>| {
            let MixDocument { name, share, facts } = item.value;
            MixEntry {
                name: name.map_or_else(|| Arc::from(""), |name| name.value.0.as_str().into()),
                share_percent: share.map(|share: Located<Whole<1, 100>>| share.value.0 as u32),
                facts: facts.map(|facts| facts.value.0.facts).unwrap_or_default(),
            }
        };
        Self {
            facts: site.written.facts,
            models,
            nodes_by_model: site.nodes_by_model.into_iter().collect(),
            stated: site.stated,
            mix: site.mix.into_iter().map(entry).collect(),
            thresholds: site.rules.0,
            clusters: site.clusters.0.into_iter().map(|(kind, (name, _))| (kind, name)).collect(),
        }
    }
}
