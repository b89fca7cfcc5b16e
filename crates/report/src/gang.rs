//! Parts of `muster explain` for a gang of pods: the object, its pods, and what limits the answer.

use muster_model::view::{GangSource, GangView};

use crate::RenderContext;
use crate::clock;
use crate::explanation_line::ExplanationLine;
use crate::style::clean;

/// Scheduler whose plans are explained.
const OWN: &str = "muster";

/// Returns the object, the gang that it belongs to, and what its pods do.
pub(crate) fn lines(gang: &GangView, context: RenderContext) -> Vec<ExplanationLine> {
    let label = if gang.gang.starts_with("pod/") { "pod" } else { "gang" };
    let part = if gang.object == gang.gang {
        String::new()
    } else {
        format!(", with {}", clean(&gang.object))
    };
    let mut text = format!("{} of namespace {}{part}", clean(&gang.gang), clean(&gang.namespace));
    let pods = pods(gang, context);
    if label == "gang" && !pods.is_empty() {
        text.push_str(&format!(": {pods}"));
    }
    let mut lines = vec![ExplanationLine::new(label, text)];
    if gang.scheduler != OWN {
        let text = format!("{}, not {OWN}", clean(&gang.scheduler));
        lines.push(ExplanationLine::new("scheduler", text));
    }
    lines.extend(gang.since.map(|since| {
        let at = clock::time(since, context);
        ExplanationLine::new(
            "since",
            format!("{at}, for {}", clock::elapsed(context.now.since(since))),
        )
    }));
    lines
}

/// `2 pods wait`, `6 of 8 pods run, 2 have ended`.
fn pods(gang: &GangView, context: RenderContext) -> String {
    let pods = gang.pods;
    if pods.expected > 0 {
        let verb = if pods.expected == 1 { "is" } else { "are" };
        return format!("its {} {verb} created when it starts", context.words.tasks(pods.expected));
    }
    let all = pods.waiting + pods.running + pods.ended;
    let verb = |one: &'static str, several: &'static str, n| if n == 1 { one } else { several };
    let parts = [
        (pods.waiting, verb("waits", "wait", pods.waiting)),
        (pods.running, verb("runs", "run", pods.running)),
        (pods.ended, verb("has ended", "have ended", pods.ended)),
    ];
    let mut words: Vec<String> = Vec::new();
    for (n, verb) in parts.into_iter().filter(|(n, _)| *n > 0) {
        let noun = if !words.is_empty() {
            n.to_string()
        } else if n == all {
            context.words.tasks(n)
        } else {
            format!("{n} of {}", context.words.tasks(all))
        };
        words.push(format!("{noun} {verb}"));
    }
    words.join(", ")
}

/// Returns remarks, and the access rules without which only the last condition can be shown.
pub(crate) fn remarks(gang: &GangView) -> Vec<ExplanationLine> {
    let mut lines: Vec<ExplanationLine> =
        gang.notes.iter().map(|note| ExplanationLine::new("note", clean(note))).collect();
    if gang.source == GangSource::Condition && !gang.missing_rules.is_empty() {
        let text = "shows the scheduler's last condition only; a plan of the current state needs the rights";
        let text = format!("{text}: {}", gang.missing_rules.join(", "));
        lines.push(ExplanationLine::new("rights", text));
        lines.push(ExplanationLine::new("", "the ClusterRole muster-viewer has them"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_model::view::{Explanation, GangPods, JobState, PlacedOn, PlacementView};
    use muster_model::{GpuMilli, JobId};

    use super::*;
    use crate::explain;
    use crate::sample::{self, NOON};
    use crate::words::Words;

    fn view() -> GangView {
        GangView {
            object: "pod/right-0-x7k2p".to_owned(),
            gang: "job/right".to_owned(),
            namespace: "vision".to_owned(),
            scheduler: "muster".to_owned(),
            source: GangSource::Plan,
            pods: GangPods { waiting: 5, ..GangPods::default() },
            since: None,
            missing_rules: Vec::new(),
            notes: Vec::new(),
            jobs: BTreeMap::from([
                (JobId(1), "vision/left".to_owned()),
                (JobId(3), "speech/sweep".to_owned()),
            ]),
        }
    }

    fn text(explanation: &Explanation, gang: &GangView) -> String {
        explain::gang(explanation, gang, RenderContext::plain().at(NOON))
    }

    #[test]
    fn a_gang_that_waits_is_explained_in_words_of_pods() {
        insta::assert_snapshot!(text(&sample::explanation(), &view()), @r"
        right is pending: capacity
          gang       job/right of namespace vision, with pod/right-0-x7k2p: 5 pods wait
          needs      5 GPUs together (one gang), any model
          free now   3 of 8; vision/left holds 5 until 12:00:20 (its time limit and grace), speech/sweep holds 2 without a time limit
          queue      1st of 1 in default; quota is not the limit
          starts     12:00:20 at the latest, reserved; backfill cannot delay it
          sooner     with 3 pods it would start now
        ");
    }

    #[test]
    fn a_gang_that_runs_says_where_and_since_when() {
        let on = |node: &str| PlacedOn {
            node: node.into(),
            tasks: 2,
            devices: vec![0, 1],
            share: GpuMilli(1000),
        };
        let placement = PlacementView {
            tasks: 4,
            nodes: 2,
            places: vec![on("n1"), on("n2")],
            levels: Vec::new(),
            since: NOON,
            backfilled: false,
            predicted: false,
            next: None,
        };
        let running = Explanation {
            state: JobState::Running,
            reasons: Vec::new(),
            position: None,
            holders: Vec::new(),
            eta: None,
            sooner: Vec::new(),
            placement: Some(placement),
            ..sample::explanation()
        };
        let gang = GangView {
            object: "job/right".to_owned(),
            pods: GangPods { running: 4, ended: 1, ..GangPods::default() },
            since: Some(NOON),
            ..view()
        };
        insta::assert_snapshot!(text(&running, &gang), @r"
        right is running
          gang       job/right of namespace vision: 4 of 5 pods run, 1 has ended
          since      12:00:00, for 0s
          placed     4 pods on n1, n2: 2 GPUs each
        ");
    }

    #[test]
    fn a_condition_names_the_rights_that_a_plan_needs() {
        let gang = GangView {
            source: GangSource::Condition,
            missing_rules: vec!["list nodes".to_owned(), "list pods".to_owned()],
            notes: vec!["no scheduler is active".to_owned()],
            ..view()
        };
        let blank = Explanation {
            holders: Vec::new(),
            eta: None,
            sooner: Vec::new(),
            ..sample::explanation()
        };
        insta::assert_snapshot!(text(&blank, &gang), @r"
        right is pending: capacity
          gang       job/right of namespace vision, with pod/right-0-x7k2p: 5 pods wait
          needs      5 GPUs together (one gang), any model
          free now   3 of 8
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
          note       no scheduler is active
          rights     shows the scheduler's last condition only; a plan of the current state needs the rights: list nodes, list pods
                     the ClusterRole muster-viewer has them
        ");
    }

    #[test]
    fn the_pods_of_a_suspended_object_are_yet_to_come() {
        let pods = GangPods { expected: 8, ..GangPods::default() };
        let names = BTreeMap::new();
        let context = RenderContext::plain().in_words(Words::Pods(&names));
        let shown = |pods| super::pods(&GangView { pods, ..view() }, context);
        assert_eq!(shown(pods), "its 8 pods are created when it starts");
        let mixed = GangPods { waiting: 1, running: 6, ended: 1, ..GangPods::default() };
        assert_eq!(shown(mixed), "1 of 8 pods waits, 6 run, 1 has ended");
    }
}
