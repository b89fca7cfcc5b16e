//! The page of `muster simulate --report-out` in a real browser: its scripts run without errors,
//! and draw, and it is read on a telephone without being moved sideways.

use std::process::Command;

use serde_json::Value;

use crate::home::Home;

/// Script before those of the page: records their errors.
const WATCH: &str = r#"<script>
var wrong = [];
addEventListener("error", (event) => wrong.push(String(event.message)));
addEventListener("unhandledrejection", (event) => wrong.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => wrong.push(event.violatedDirective + " " + event.blockedURI));
</script>"#;

/// Script after those of the page: records what was drawn, and what a click changes.
const LOOK: &str = r##"<script>
addEventListener("load", () => setTimeout(() => {
  const count = (selector) => document.querySelectorAll(selector).length;
  const lines = () => ["used", "queue", "waits"].map((id) => count("#" + id + " svg path"));
  const canvas = document.getElementById("gantt-canvas");
  const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  const found = {
    width: innerWidth,
    hidden: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    title: document.title,
    findings: count("#findings li"),
    rows: count("#figures table tr"),
    owners: document.getElementById("owners").textContent,
    lines: lines(),
    gantt: !document.getElementById("gantt").hidden,
    colours: new Set(pixels).size,
  };
  document.querySelector("#legend input").click();
  found.fewer = lines();
  const heading = [...document.querySelectorAll("#figures th button")].find((made) => made.textContent === "turnaround, mean");
  heading.click();
  found.first = document.querySelector("#figures tbody tr").textContent.trim();
  found.wrong = wrong;
  parent.postMessage(JSON.stringify(found), "*");
}, 200));
</script>"##;

/// Page that shows that of the simulation in a frame, since a window cannot be as narrow as a telephone, and what its
/// scripts found.
const FRAME: &str = r#"<!doctype html><pre id="told"></pre><script>
addEventListener("message", (told) => document.getElementById("told").textContent = told.data);
</script><iframe src="watched.html" style="border: 0; height: 900px; width: WIDTHpx"></iframe>"#;

#[test]
#[ignore = "needs chromium: `cargo xtask programs` installs it"]
fn chromium_runs_the_page_of_a_simulation() {
    let home = Home::new();
    home.write(
        "cluster.yaml",
        "nodes:\n- name: gpu1\n  gpu: a100\n  gpus: 8\n  cpus: 64\n  memory: 512GiB\n",
    );
    home.write(
        "gangs.csv",
        "id,submit,runtime,tasks,gpus,user\na,0,600,5,1,ann\nb,1,600,5,1,bob\nc,3,60,2,1,ann\n",
    );
    let asked = "simulate --cluster cluster.yaml --trace gangs.csv --scheduler kube-default,muster,slurm --report-out report.html";
    home.words(asked).ok();
    let page = home.read("report.html");
    let watched = page.replacen("<head>", &format!("<head>{WATCH}"), 1).replacen(
        "</body>",
        &format!("{LOOK}</body>"),
        1,
    );
    assert_eq!(watched.len(), page.len() + WATCH.len() + LOOK.len());
    home.write("watched.html", &watched);
    let narrow = looked_at(&home, 390);
    assert_eq!((&narrow["width"], &narrow["hidden"]), (&390.into(), &0.into()), "{narrow}");
    let found = looked_at(&home, 1200);
    assert_eq!(found["wrong"], Value::Array(Vec::new()), "{found}");
    let text = |name: &str| found[name].as_str().unwrap();
    assert!(text("title").starts_with("gangs.csv on cluster.yaml"), "{found}");
    let number = |name: &str| found[name].as_u64().unwrap();
    assert!(number("findings") >= 1, "{found}");
    assert_eq!(number("rows"), 4, "a heading, and a row for each scheduler: {found}");
    assert!(text("owners").contains("ann") && text("owners").contains("bob"), "{found}");
    assert!(text("first").starts_with("muster"), "by turnaround: {found}");
    let lines = |name: &str| {
        found[name].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect()
    };
    let all: Vec<u64> = lines("lines");
    let fewer: Vec<u64> = lines("fewer");
    assert!(all.iter().all(|count| *count >= 3), "a line for each: {found}");
    assert!(fewer.iter().zip(&all).all(|(fewer, all)| fewer < all), "one is switched off: {found}");
    assert_eq!(found["gantt"], true, "{found}");
    assert!(number("colours") > 3, "the Gantt is drawn: {found}");
}

/// Opens the page with this width; returns what its scripts told.
fn looked_at(home: &Home, width: u32) -> Value {
    let page = home.write("frame.html", &FRAME.replace("WIDTH", &width.to_string()));
    let mut chromium = Command::new("chromium");
    // Root has no sandbox in a container; the page is our own.
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    chromium.arg("--window-size=1300,1000");
    chromium.args(["--virtual-time-budget=5000", "--dump-dom"]);
    chromium.arg(format!("--user-data-dir={}", home.path("profile").display()));
    chromium.arg(format!("file://{}", page.display()));
    let output = chromium.env("HOME", home.path("home")).output().unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let reported = dom
        .rsplit_once("<pre id=\"told\">")
        .and_then(|(_, reported)| reported.split_once("</pre>"));
    let (reported, _) =
        reported.unwrap_or_else(|| panic!("{dom}\n{}", String::from_utf8_lossy(&output.stderr)));
    let text = reported.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text).unwrap()
}
