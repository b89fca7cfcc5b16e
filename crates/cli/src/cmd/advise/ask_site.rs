//! `--ask --site FILE`: asks for a site, and writes its file. Numbers and lists come first, then
//! each fact that alone would change the answer.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, BufRead};
use std::path::Path;

use anyhow::Result;
use muster_model::DeviceSet;
use muster_model::advice::{Fact, FactKind, Facts, SiteProfile};

use super::dialogue::{InterviewEnd, Typed, prompt, read_answer, read_line};
use crate::app::App;
use crate::exit::Failure;
use crate::facts::{RuleArgs, check_plain, without_source};
use crate::output_files;

/// Numbers without a default: no answer can do without them.
const REQUIRED: [Fact; 3] = [Fact::FleetNodes, Fact::FleetGpus, Fact::Users];

/// Numbers with a default.
const NUMBERS: [Fact; 2] = [Fact::Teams, Fact::PlatformFte];

/// Lists to choose from, each with its question.
const LISTS: [(&str, &[Fact]); 3] = [
    (
        "what runs there?",
        &[
            Fact::Training,
            Fact::CoupledTraining,
            Fact::MainlyCoupled,
            Fact::Batch,
            Fact::Sweeps,
            Fact::Services,
            Fact::Notebooks,
            Fact::Rl,
            Fact::DistributedPython,
            Fact::Mpi,
        ],
    ),
    (
        "which of these matter?",
        &[
            Fact::StrictQuotas,
            Fact::Regulated,
            Fact::HostileTenants,
            Fact::SharedGpus,
            Fact::ShortRuns,
            Fact::Gitops,
            Fact::Ray,
            Fact::Vllm,
            Fact::Deepspeed,
            Fact::Spark,
        ],
    ),
    (
        "what do you operate today?",
        &[
            Fact::OperatesSlurm,
            Fact::OperatesKubernetes,
            Fact::OperatesK3s,
            Fact::OperatesRay,
            Fact::OperatesSlinky,
            Fact::OperatesSoperator,
            Fact::OperatesSunk,
            Fact::OperatesKuberay,
            Fact::OperatesVolcano,
            Fact::OperatesKueue,
            Fact::OperatesKai,
            Fact::OperatesRunai,
            Fact::OperatesPbs,
            Fact::OperatesLsf,
        ],
    ),
];

/// Asks for a site and writes its file, which must not exist.
///
/// # Errors
/// When the file exists or cannot be written, or the answers cannot be read.
pub fn interview(app: &App, path: &Path, rules: &RuleArgs) -> Result<InterviewEnd> {
    if path == Path::new("-") {
        let failure = Failure::usage("with --ask, --site names the file to write");
        return Err(failure.hint("muster advise --ask --site site.yaml").into());
    }
    if path.symlink_metadata().is_ok() {
        let shown = path.display();
        return Err(Failure::usage(format!("{shown} already exists"))
            .hint(format!("`muster advise --site {shown}` advises it; --ask writes a new file"))
            .into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| folder.symlink_metadata().is_err()) {
        let shown = folder.display();
        return Err(Failure::usage(format!(
            "there is no folder {shown} to write the site file to"
        ))
        .hint(format!("mkdir -p {shown}"))
        .into());
    }
    app.ui.status("Enter takes the default, in brackets or capitals; ? explains, q quits");
    let interview = Interview { app, rules, input: io::stdin().lock() };
    let Some(answers) = interview.run()? else {
        app.ui.status("\nquit; no file was written and no advice was given");
        return Ok(InterviewEnd::Left);
    };
    output_files::write(path, &answers.text(), false)?;
    let shown = path.display();
    app.ui.status(&format!(
        "the other facts (docs/site.md) would not change the answer by themselves\n\
         wrote {shown}; same answer without questions: muster advise --site {shown}\n"
    ));
    Ok(InterviewEnd::Answered)
}

struct Interview<'a, R> {
    app: &'a App,
    rules: &'a RuleArgs,
    input: R,
}

impl<R: BufRead> Interview<'_, R> {
    /// Returns the answers; `None` if the user quit.
    fn run(mut self) -> Result<Option<SiteAnswers>> {
        let mut answers = SiteAnswers::default();
        for fact in REQUIRED.into_iter().chain(NUMBERS) {
            if !self.ask(fact, &mut answers)? {
                return Ok(None);
            }
        }
        if !self.ask_models(&mut answers)? {
            return Ok(None);
        }
        for (question, facts) in LISTS {
            if !self.choose(question, facts, &mut answers)? {
                return Ok(None);
            }
        }
        while let Some(fact) = self.next(&answers)? {
            if !self.ask(fact, &mut answers)? {
                return Ok(None);
            }
        }
        Ok(Some(answers))
    }

    /// Returns the first fact that was not asked yet and alone changes the answer.
    fn next(&self, answers: &SiteAnswers) -> Result<Option<Fact>> {
        let mut site = answers.profile()?;
        self.rules.apply_to_site(&mut site.thresholds)?;
        let flips = muster_advise::advise_site(&site, self.rules.ruleset()).advice.flips;
        let alone = flips.iter().filter_map(|flip| match flip.change.0.as_slice() {
            [(fact, _)] => Some(*fact),
            _ => None,
        });
        Ok(alone.into_iter().find(|fact| !answers.asked.contains(fact)))
    }

    /// Asks for a fact; false if the user quit.
    fn ask(&mut self, fact: Fact, answers: &mut SiteAnswers) -> Result<bool> {
        let is_required = REQUIRED.contains(&fact);
        loop {
            let text = if is_required { format!("{} ", fact.question()) } else { prompt(fact) };
            self.app.ui.prompt(&text);
            match read_answer(&mut self.input, fact, parse_site_value, is_required)? {
                Typed::Value(value) => match answers.set(fact, value) {
                    Ok(()) => return Ok(true),
                    Err(why) => self.app.ui.status(&format!("  {why}")),
                },
                Typed::Help => self.explain(fact, answers),
                Typed::Wrong(why) => self.app.ui.status(&format!("  {why}")),
                Typed::Quit => return Ok(false),
            }
        }
    }

    fn ask_models(&mut self, answers: &mut SiteAnswers) -> Result<bool> {
        loop {
            self.app.ui.prompt("which GPU models, such as h100, separated by commas? [unknown] ");
            match read_line(&mut self.input)? {
                Typed::Value(line) => {
                    let names = words(&line);
                    let is_name = |name: &str| check_plain("models", name);
                    let checked = names.iter().try_for_each(|name| is_name(name)).and_then(|()| {
                        let named = SiteAnswers { models: names, ..answers.clone() };
                        named.profile().map(|_| named)
                    });
                    match checked {
                        Ok(named) => {
                            *answers = named;
                            return Ok(true);
                        }
                        Err(failure) => self.app.ui.status(&format!("  {}", failure.message)),
                    }
                }
                Typed::Help => self.app.ui.status("  they say whether slices by MIG are possible"),
                Typed::Wrong(why) => self.app.ui.status(&format!("  {why}")),
                Typed::Quit => return Ok(false),
            }
        }
    }

    /// Asks which facts of a list hold; false if the user quit.
    fn choose(
        &mut self,
        question: &str,
        facts: &[Fact],
        answers: &mut SiteAnswers,
    ) -> Result<bool> {
        let list = |app: &App| {
            for (at, fact) in facts.iter().enumerate() {
                app.ui.status(&format!("  {:>2} {:<20}{}", at + 1, short(*fact), fact.question()));
            }
        };
        self.app.ui.status(question);
        list(self.app);
        loop {
            self.app.ui.prompt("numbers or names, separated by commas [none] ");
            match read_line(&mut self.input)? {
                Typed::Value(line) => {
                    match words(&line).iter().map(|word| chosen(word, facts)).collect() {
                        Ok(picked) => match answers.choose(facts, &picked) {
                            Ok(()) => return Ok(true),
                            Err(why) => self.app.ui.status(&format!("  {why}")),
                        },
                        Err(word) => self.app.ui.status(&unknown_choice(&word, facts)),
                    }
                }
                Typed::Help => list(self.app),
                Typed::Wrong(why) => self.app.ui.status(&format!("  {why}")),
                Typed::Quit => return Ok(false),
            }
        }
    }

    /// Explains a fact: its field, and what each answer leads to.
    fn explain(&self, fact: Fact, answers: &SiteAnswers) {
        let leads = |value: u32| {
            let mut changed = answers.clone();
            changed.set(fact, value).ok()?;
            let site = changed.profile().ok()?;
            let advice = muster_advise::advise_site(&site, self.rules.ruleset()).advice;
            Some(advice.label.primary.name())
        };
        let text = match fact.kind() {
            FactKind::Flag => leads(1).zip(leads(0)).map(|(yes, no)| {
                format!(
                    "  `{fact}` of the site file: with the other answers as they are, yes leads to {yes}, no to {no}"
                )
            }),
            FactKind::Count { .. } | FactKind::Hundredths { .. } => None,
        };
        self.app
            .ui
            .status(&text.unwrap_or_else(|| format!("  `{fact}` of the site file, a number")));
    }
}

/// Word for no choice, as the prompt shows it.
const NOTHING: &str = "none";

/// Returns the words of a line, which commas or blanks separate.
fn words(line: &str) -> Vec<String> {
    let words = line.split([',', ' ', '\t']).filter(|word| !word.is_empty() && *word != NOTHING);
    words.map(str::to_lowercase).collect()
}

/// Returns what is wrong with a word that stands for nothing in a list.
fn unknown_choice(word: &str, facts: &[Fact]) -> String {
    let count = facts.len();
    let nearest = muster_spec::nearest(word, facts.iter().map(|fact| short(*fact)));
    let meant = nearest.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
    format!("  `{word}` is neither a number from 1 to {count} nor a name in the list{meant}")
}

/// Returns the fact of a list that a number or a name stands for; the word if none.
fn chosen(word: &str, facts: &[Fact]) -> Result<Fact, String> {
    let by_number = word.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let by_number = by_number.and_then(|at| facts.get(at));
    let by_name = || facts.iter().find(|fact| short(**fact) == word);
    by_number.or_else(by_name).copied().ok_or_else(|| word.to_owned())
}

/// Returns the name of a fact as lists show it: the field of a site file, or the product.
fn short(fact: Fact) -> &'static str {
    let (_, key) = fact.name().split_once('.').unwrap_or(("", fact.name()));
    key.strip_prefix("operates-").unwrap_or(key)
}

/// Parses the number of a fact as a site file has it.
///
/// # Errors
/// It is no number, or none that the fact can have.
fn parse_site_value(fact: Fact, text: &str) -> Result<u32, Failure> {
    let (expected, number) = match fact.kind() {
        FactKind::Count { min, max, .. } => {
            let number = text.parse::<u32>().ok().filter(|number| (min..=max).contains(number));
            (format!("a whole number from {min} to {max}"), number)
        }
        FactKind::Hundredths { max } => {
            let expected = "a number with at most two decimals, such as 0.25";
            (expected.to_owned(), hundredths(text).filter(|number| *number <= max))
        }
        FactKind::Flag => ("y or n".to_owned(), None),
    };
    number.ok_or_else(|| Failure::usage(format!("`{}` is {expected}, not `{text}`", short(fact))))
}

/// Parses a number with at most two decimals, in hundredths; `None` for other text.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 2 {
        return None;
    }
    let decimals: u32 = format!("{decimals:0<2}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(decimals)
}

/// Answers of the user.
#[derive(Clone, Debug, Default)]
struct SiteAnswers {
    facts: Facts,
    models: Vec<String>,
    asked: BTreeSet<Fact>,
}

impl SiteAnswers {
    /// Sets a fact, with those that it requires.
    ///
    /// # Errors
    /// What it contradicts.
    fn set(&mut self, fact: Fact, value: u32) -> Result<(), String> {
        let mut changed = self.facts.with(fact, value);
        if value > 0 {
            require(fact, &mut changed);
        }
        let [nodes, gpus] = [Fact::FleetNodes, Fact::FleetGpus].map(|number| changed.get(number));
        let most = DeviceSet::MAX_DEVICES as u32;
        if fact == Fact::FleetGpus && gpus.div_ceil(nodes) > most {
            return Err(format!("{gpus} GPUs on {nodes} nodes: a node holds at most {most}"));
        }
        if let Some(pair) = changed.contradiction() {
            return Err(format!("{} contradicts {}: {}", pair.one, pair.other, pair.why));
        }
        self.facts = changed;
        self.asked.insert(fact);
        Ok(())
    }

    /// Sets those facts of a list that were picked; the others do not hold.
    ///
    /// # Errors
    /// What one of them contradicts; then none is set.
    fn choose(&mut self, list: &[Fact], picked: &BTreeSet<Fact>) -> Result<(), String> {
        let mut changed = self.clone();
        picked.iter().try_for_each(|fact| changed.set(*fact, 1))?;
        changed.asked.extend(list);
        *self = changed;
        Ok(())
    }

    fn profile(&self) -> Result<SiteProfile, Failure> {
        muster_spec::parse_site(&self.text(), None).map_err(without_source)
    }

    /// Returns the site file, with each question beside its answer.
    fn text(&self) -> String {
        let mut text =
            String::from("# A site for `muster advise --site`; docs/site.md has all fields.\n");
        for section in ["fleet", "people", "needs"] {
            let lines = self.lines(section);
            if lines.is_empty() {
                continue;
            }
            text.push_str(&format!("{section}:\n"));
            for (field, comment) in lines {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "  {field:<30} # {comment}");
            }
        }
        text
    }

    /// Returns the fields of a section, each with its question.
    fn lines(&self, section: &str) -> Vec<(String, &'static str)> {
        let is_known = |fact: Fact| self.asked.contains(&fact) || self.facts.is(fact);
        let fields = Fact::SITE.iter().copied().filter(|fact| is_known(*fact));
        let field = |fact: Fact| {
            let key = muster_spec::site_field(fact, section)?;
            Some((format!("{key}: {}", self.facts.value(fact)), fact.question()))
        };
        let mut lines: Vec<_> = fields.filter_map(field).collect();
        if section == "fleet" {
            let choice = |fact, name, [no, yes]: [&str; 2]| {
                let value = if self.facts.is(fact) { yes } else { no };
                is_known(fact).then(|| (format!("{name}: {value}"), fact.question()))
            };
            lines.extend(choice(Fact::FleetRdma, "fabric", ["ethernet", "infiniband"]));
            lines.extend(choice(Fact::FleetBareMetal, "hosting", ["cloud", "bare-metal"]));
            let models = format!("models: [{}]", self.models.join(", "));
            lines.extend((!self.models.is_empty()).then_some((models, "which GPU models?")));
        }
        if section == "people" {
            let operated = |fact: &&Fact| fact.name().starts_with("people.operates-");
            let held = Fact::SITE.iter().filter(operated).filter(|fact| self.facts.is(**fact));
            let names: Vec<&str> = held.map(|fact| short(*fact)).collect();
            let operates = format!("operates: [{}]", names.join(", "));
            lines.extend((!names.is_empty()).then_some((operates, "what do you operate today?")));
        }
        lines
    }
}

/// Sets what a fact requires.
fn require(fact: Fact, facts: &mut Facts) {
    for pair in Fact::IMPLIES.iter().filter(|pair| pair.one == fact) {
        facts.set(pair.other, 1);
        require(pair.other, facts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every answer is in the file that is written.
    #[test]
    fn answers_are_in_the_file() {
        for fact in Fact::SITE {
            let mut answers = SiteAnswers::default();
            for number in [Fact::FleetNodes, Fact::FleetGpus, Fact::Users] {
                answers.set(number, 8).unwrap();
            }
            let is_of_operation =
                matches!(fact, Fact::Works | Fact::ManagedPlane | Fact::Modernise);
            if is_of_operation {
                answers.set(Fact::OperatesSlurm, 1).unwrap();
            }
            // Follows from the models.
            if *fact == Fact::FleetMig {
                continue;
            }
            answers.set(*fact, 2.min(if fact.kind() == FactKind::Flag { 1 } else { 2 })).unwrap();
            let site =
                answers.profile().unwrap_or_else(|error| panic!("{fact}: {}", error.message));
            assert_eq!(site.facts.get(*fact), answers.facts.get(*fact), "{}", answers.text());
        }
    }

    #[test]
    fn numbers_are_read_as_in_a_file() {
        let check = |fact, text, expected: Option<u32>| {
            assert_eq!(parse_site_value(fact, text).ok(), expected, "{fact} {text}");
        };
        check(Fact::FleetNodes, "16", Some(16));
        check(Fact::FleetNodes, "0", None);
        check(Fact::Users, "40", Some(40));
        check(Fact::Teams, "7", Some(7));
        check(Fact::PlatformFte, "0.25", Some(25));
        check(Fact::PlatformFte, "half", None);
        check(Fact::FleetPlaces, "3", Some(3));
        check(Fact::FleetGpus, "8, edge: true", None);
        check(Fact::FleetGpus, "320", Some(320));
        check(Fact::Teams, "1,5", None);
        check(Fact::Teams, "maybe", None);
        check(Fact::PlatformFte, "0,5", None);
        check(Fact::PlatformFte, "0.255", None);
        check(Fact::PlatformFte, "1.5", Some(150));
        check(Fact::PlatformFte, "-1", None);
    }

    #[test]
    fn a_contradiction_changes_nothing() {
        let mut answers = SiteAnswers::default();
        answers.set(Fact::Users, 2).unwrap();
        answers.set(Fact::FleetNodes, 2).unwrap();
        let why = answers.set(Fact::FleetGpus, 400).unwrap_err();
        assert!(why.contains("a node holds at most 128"), "{why}");
        let why = answers.set(Fact::Teams, 3).unwrap_err();
        assert!(why.contains("more teams than users"), "{why}");
        assert_eq!(answers.facts.get(Fact::Teams), 1);
        let list = [Fact::CoupledTraining, Fact::Batch];
        answers.set(Fact::FleetNodes, 1).unwrap();
        let before = answers.facts;
        assert!(answers.choose(&list, &BTreeSet::from(list)).is_err());
        assert_eq!(answers.facts, before);
        assert!(!answers.asked.contains(&Fact::Batch));
    }

    #[test]
    fn a_list_takes_numbers_and_names() {
        let list = [Fact::Training, Fact::Batch, Fact::OperatesKueue];
        let pick = |line: &str| -> Result<Vec<Fact>, String> {
            words(line).iter().map(|word| chosen(word, &list)).collect()
        };
        assert_eq!(pick("1, Batch"), Ok(vec![Fact::Training, Fact::Batch]));
        assert_eq!(pick("kueue"), Ok(vec![Fact::OperatesKueue]));
        assert_eq!(pick(""), Ok(Vec::new()));
        assert_eq!(pick("none"), Ok(Vec::new()));
        let near = unknown_choice("trainin", &list);
        assert!(
            near.contains("from 1 to 3") && near.contains("did you mean `training`?"),
            "{near}"
        );
        assert!(!unknown_choice("9", &list).contains("did you mean"));
        for wrong in ["0", "4", "slurm", "-1"] {
            assert_eq!(pick(wrong), Err(wrong.to_owned()));
        }
    }
}
