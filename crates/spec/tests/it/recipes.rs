//! Recipes for traces as they are written: what they mean, and what is refused at the line that
//! says it.

use muster_model::Span;
use muster_spec::Colour;
use muster_spec::recipe::{LimitDistribution, Recipe, RuntimeDistribution, parse_recipe};
use proptest::prelude::*;

#[test]
fn what_is_not_written_has_its_default() {
    let text =
        "{jobs: 10, every: 1m, classes: [{name: a, gpus: 0.5, runtime: {median: 10m, p95: 1h}}]}";
    let Ok(Recipe::Mix(mix)) = parse_recipe(text, None) else { panic!("no mix") };
    assert_eq!((mix.jobs, mix.length, mix.every), (Some(10), None, Span(60_000)));
    assert_eq!(
        (mix.hours.len(), mix.weekend_percent, mix.users, mix.skew_percent),
        (24, 100, 1, 100)
    );
    let class = &mix.classes[0];
    assert_eq!((class.weight, class.tasks.as_slice(), class.task.gpu.share.0), (1, &[1][..], 500));
    assert_eq!(class.runtime, RuntimeDistribution::LogNormal(Span(600_000), Span(3_600_000), None));
    assert_eq!((class.requested, class.failed_percent), (LimitDistribution::Nothing, 0));
}

#[test]
fn what_says_nothing_sensible_is_refused_where_it_stands() {
    let check = |text: &str, expected: &str| {
        let complaint = parse_recipe(text, Some("r.yaml")).unwrap_err().render(Colour::Never);
        assert!(complaint.contains(expected), "{complaint}");
        assert!(complaint.contains("r.yaml:1:"), "{complaint}");
    };
    let with = |fields: &str| {
        format!("{{jobs: 1, every: 1m, {fields}, classes: [{{name: a, runtime: 1m}}]}}")
    };
    check("{every: 1m, classes: [{name: a, runtime: 1m}]}", "the trace has no end");
    check("{jobs: 1, every: 0s, classes: [{name: a, runtime: 1m}]}", "`every` is 0");
    check("{jobs: 1, every: 1m, classes: [{name: a}]}", "`runtime` is missing");
    check("{jobs: 1, every: 1m, clases: []}", "did you mean `classes`?");
    check(&with("hours: [1, 2]"), "2 numbers; a day has 24 hours");
    check(
        &with("hours: [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"),
        "nothing would arrive",
    );
    check(&with("arrivals: bursty"), "expected `poisson` or `regular`");
    check(&with("arrivals: regular, weekend: 20"), "busier at some times than at others");
    let class = |fields: &str| format!("{{jobs: 1, every: 1m, classes: [{{name: a, {fields}}}]}}");
    check(&class("runtime: {median: 1h, p95: 1m}"), "`runtime` is not a range of lengths");
    check(&class("runtime: {from: 1m}"), "`runtime` is not a range of lengths");
    check(
        &class("runtime: 1m, requested: 1h, overestimate: 2"),
        "both `requested` and `overestimate`",
    );
    check(&class("runtime: 1m, tasks: 0"), "`tasks` is not a whole number");
}

proptest! {
    #[test]
    fn arbitrary_text_is_read_or_refused(text in "(?s).{0,200}", key in "(cohorts|classes|every|jobs)", value in "[a-z0-9{}\\[\\],: -]{0,40}") {
        for text in [text, format!("{key}: {value}")] {
            if let Err(complaints) = parse_recipe(&text, None) {
                drop(complaints.render(Colour::Always));
            }
        }
    }
}
