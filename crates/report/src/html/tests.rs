//! Tests that the page is self-contained, and safe against names that come from a trace.

use muster_model::node::DeviceSet;
use muster_model::simulation::{GanttBar, GanttJob};

use super::*;
use crate::fleet::sample::{comparison, run, stuck};

const OPENS: &str = r#"<script id="data" type="application/json">"#;

fn gantt(id: &str, user: &str) -> Gantt {
    let jobs = vec![GanttJob { id: id.to_owned(), user: user.to_owned() }];
    let mut gantt = Gantt::new("muster", [("node-1".to_owned(), 8)], jobs);
    let bar =
        GanttBar { job: 0, first_row: 0, last_row: 0, from_ms: 60_000, to_ms: 90_500, runs: true };
    gantt.hold(0, DeviceSet::first(5), bar);
    gantt
}

fn data(page: &str) -> serde_json::Value {
    let (_, behind) = page.split_once(OPENS).expect("the data is in the page");
    let (json, _) = behind.split_once("</script>").expect("and ends");
    serde_json::from_str(json).expect("and is JSON")
}

#[test]
fn nothing_is_fetched_and_nothing_becomes_markup() {
    let sources: Vec<&str> = [SKELETON, STYLE].into_iter().chain(SCRIPTS).collect();
    let banned = [
        "http:",
        "https:",
        "src=",
        "href=",
        "url(",
        "@import",
        "import(",
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "localStorage",
        "cookie",
    ];
    for source in sources {
        for word in banned {
            assert!(
                !source.contains(word),
                "`{word}` in what begins with {:?}",
                source.lines().next()
            );
        }
    }
    assert!(SKELETON.contains("default-src 'none'"), "the browser holds it, too");
}

#[test]
fn every_file_says_what_it_is_for_and_what_it_must_not_do() {
    for script in SCRIPTS {
        let comment: String = script.lines().take_while(|line| line.starts_with("// ")).collect();
        assert!(comment.contains("must not"), "{comment}");
        assert!(script.contains("\"use strict\";"), "{comment}");
    }
    let comment = STYLE.split_once("*/").expect("a comment").0;
    assert!(comment.starts_with("/*") && comment.contains("must not"), "{comment}");
}

#[test]
fn scripts_ask_for_what_is_there_and_their_functions_are_short() {
    for script in SCRIPTS {
        for id in script.split("byId(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(SKELETON.contains(&format!("id=\"{id}\"")), "{id}");
        }
        let mut lines = script.lines();
        while let Some(line) = lines.by_ref().find(|line| line.starts_with("  function ")) {
            let length = lines.by_ref().take_while(|line| *line != "  }").count() + 2;
            assert!(length <= 70, "{length}: {line}");
        }
    }
}

#[test]
fn the_data_reads_back_as_it_was() {
    let gantts = [gantt("17", "ann")];
    let shown = comparison(vec![run("muster", 90.0), stuck(run("kube-default", 0.0))]);
    let page = page(&shown, &gantts);
    let data = data(&page);
    let read: FleetComparison =
        serde_json::from_value(data["comparison"].clone()).expect("a comparison");
    assert_eq!(read, shown);
    let said: Vec<String> = serde_json::from_value(data["findings"].clone()).expect("sentences");
    assert_eq!(said, crate::fleet::findings(&shown));
    assert_eq!(data["gantts"][0]["bars"], serde_json::json!([[0, 0, 4, 60_000, 90_500, 1]]));
    assert_eq!(
        data["gantts"][0]["nodes"][0],
        serde_json::json!({"name": "node-1", "first_row": 0, "rows": 8})
    );
}

#[test]
fn head_figures_models_and_command_need_no_script() {
    let mut shown = comparison(vec![run("muster", 90.0), stuck(run("kube-default", 0.0))]);
    shown.trace = "a<b>&c.csv".to_owned();
    shown.without_limit = 12;
    let page = page(&shown, &[]);
    let (text, _) = page.split_once(OPENS).expect("the data is in the page");
    let finding = &crate::fleet::findings(&shown)[0];
    for said in [
        "<h1 id=\"title\">a&lt;b&gt;&amp;c.csv on site.yaml</h1>",
        "1,200 jobs of a&lt;b&gt;&amp;c.csv on site.yaml (12 nodes, 96 GPUs)",
        &format!("<li>{finding}</li>"),
        "<td>kube-default</td><td>a model of Kubernetes 1.37</td>",
        "<td>muster</td><td>the engine</td>",
        "Time limits are those that users requested; 12 of 1,200 jobs have none.",
        "<dt>kube-default: a model of Kubernetes 1.37</dt><dd>Assumed: <ul>",
        "<li>backoffLimit: none: by default, a Job is given up after 6 failed pods</li>",
        "<a href=\"#model-kube-default\">",
        "<details id=\"model-kube-default\"><summary>docs/models.md: kube-default, kube-packed</summary>",
        "<pre id=\"command\" tabindex=\"0\">muster simulate --cluster",
    ] {
        assert!(text.contains(said), "{said}");
    }
    // Only models of the comparison are described, and a calibration that was not asked for is not.
    assert!(!text.contains("<details id=\"model-kueue\">"));
    assert!(text.contains("aria-labelledby=\"calibration-title\" hidden>"));
}

#[test]
fn a_name_cannot_leave_the_data() {
    let harmless = page(&comparison(vec![run("muster", 90.0)]), &[gantt("17", "ann")]);
    let ends = |page: &str| page.to_lowercase().matches("</script").count();
    for evil in
        ["</script><script>alert(1)</script>", "</SCRIPT >", "<!--<script>", "\u{2028}</script\n>"]
    {
        let mut shown = comparison(vec![run("muster", 90.0)]);
        shown.trace = evil.to_owned();
        shown.command = evil.to_owned();
        shown.runs[0].users[0].name = evil.to_owned();
        let page = page(&shown, &[gantt(evil, evil)]);
        assert_eq!(ends(&page), ends(&harmless), "{evil}");
        assert_eq!(page.matches("<!--").count(), 0, "{evil}");
        assert_eq!(data(&page)["gantts"][0]["jobs"][0]["id"], evil);
    }
}

#[test]
fn a_name_that_looks_like_a_mark_is_a_name() {
    let mut shown = comparison(vec![run("muster", 90.0)]);
    shown.trace = "{{scripts}}".to_owned();
    let page = page(&shown, &[]);
    assert_eq!(data(&page)["comparison"]["trace"], "{{scripts}}");
    assert_eq!(page.matches("const muster = {};").count(), 1);
}
