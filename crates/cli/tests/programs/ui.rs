//! The page of `muster ui` in Chromium: it shows what the commands say, text of users stays text, and its
//! buttons act.

use std::collections::BTreeSet;

use muster_api::types::{NodeList, QueueList};
use muster_model::simulation::WhatIf;
use muster_model::view::JobState;
use serde_json::Value;

use crate::driver::Browser;
use crate::home::Home;
use crate::page::Page;

/// Text that would do harm as markup, and turns the reading direction.
const HOSTILE: &str = "<img src=x onerror=document.title=1>\u{202e}gnp.exe";

#[test]
#[ignore = "needs chromium: `cargo xtask programs` installs it"]
fn chromium_shows_what_the_commands_say() {
    let home = Home::with_gpus(4);
    let runs = home.run("--name runs --gpus 2 --time 1h", &["sleep", "600"]);
    let waits = home.run("--name waits --tasks 4 --gpus-per-task 1 --time 1h", &["true"]);
    home.run("--name held --hold --gpus 1", &["true"]);
    let fails = home.sh("--name fails", "exit 3");
    home.until_state(runs, JobState::Running);
    home.until_state(fails, JobState::Failed);
    let page = Page::start(&home);
    let mut browser = Browser::start(&home);

    browser.go(&page.link);
    browser.until("document.querySelectorAll('.gpu').length === 4");
    let squares = browser.eval(
        "[...document.querySelectorAll('.gpu')].map((each) => each.getAttribute('aria-label'))",
    );
    let nodes: NodeList = home.words("nodes --json").json();
    for (square, device) in squares.as_array().unwrap().iter().zip(&nodes.nodes[0].devices) {
        let holder = if device.used.0 > 0 { format!("runs ({runs})") } else { "idle".to_owned() };
        assert_eq!(square, &format!("GPU {}: {holder}", device.index));
    }
    let why = "needs 4 GPUs together, 2 are free";
    assert!(browser.texts(".waiting .why")[0].starts_with(why));
    assert_eq!(browser.eval("location.hash"), "#/", "the secret is gone from the address");

    browser.eval("location.hash = '#/jobs?ended=1'");
    browser.until("document.querySelectorAll('.grid tbody tr[data-row]').length === 4");
    let cells = browser.eval(
        "[...document.querySelectorAll('.grid tbody tr[data-row]')].map((row) => \
         [row.dataset.row, ...['.c-name a', '.c-state', '.c-user', '.c-queue'].map((each) => row.querySelector(each).textContent)])",
    );
    let shown: BTreeSet<Vec<String>> = serde_json::from_value(cells).unwrap();
    let jobs = home.jobs();
    let row = |job: &muster_model::view::JobView| {
        let state = job.state.word().to_owned();
        vec![
            job.job.to_string(),
            job.name.clone(),
            state,
            job.user.to_string(),
            job.queue.to_string(),
        ]
    };
    assert_eq!(shown, jobs.iter().map(row).collect());
    let notes = browser.texts(".c-note");
    assert!(notes.iter().any(|note| note.ends_with("rank 0 exited with 3")), "{notes:?}");

    browser.eval(&format!("location.hash = '#/job/{waits}'"));
    browser.until("document.querySelector('.explanation')");
    let explained = home.words(&format!("explain {waits}")).ok().stdout;
    assert_eq!(browser.texts(".explanation")[0].trim(), explained.trim());

    browser.eval("location.hash = '#/queues'");
    browser.until("document.querySelector('.queues tbody tr')");
    let queues: QueueList = home.words("queues --json").json();
    let shown: Vec<Vec<String>> = serde_json::from_value(browser.eval(
        "[...document.querySelectorAll('.queues tbody tr')].map((row) => [0, 3, 4].map((at) => row.children[at].textContent))",
    ))
    .unwrap();
    let expected = queues.queues.iter().map(|queue| {
        vec![queue.name.to_string(), queue.running.to_string(), queue.waiting.to_string()]
    });
    assert_eq!(shown, expected.collect::<Vec<_>>());
    browser.eval("location.hash = '#/timeline'");
    browser.until("document.querySelector('.timeline [role=status]').textContent.startsWith('2 of 4 GPUs held now, 1 planned start')");
    assert_eq!(browser.wrong, Vec::<String>::new());
}

#[test]
#[ignore = "needs chromium: `cargo xtask programs` installs it"]
fn chromium_shows_text_of_users_as_text() {
    let home = Home::with_gpus(2);
    let script = format!("printf '%s\\n' '{HOSTILE}'; sleep 600");
    let job = home.sh("--gpus 1 --time 1h", &script);
    home.until_state(job, JobState::Running);
    let node: NodeList = home.words("nodes --json").json();
    home.muster(&["nodes", "drain", node.nodes[0].name.as_str(), "--reason", HOSTILE]).ok();
    let page = Page::start(&home);
    let mut browser = Browser::start(&home);
    let expected = HOSTILE.replace('\u{202e}', "?");

    browser.go(&page.link);
    browser.until("document.querySelector('.gpu')");
    browser.eval(&format!("location.hash = '#/job/{job}'"));
    browser.until("document.querySelector('.output .line')");
    assert_eq!(browser.texts(".output .line")[0].trim_end(), expected);
    assert!(browser.texts(".files code").iter().any(|text| text.contains(&expected)));
    browser.eval("location.hash = '#/nodes'");
    browser.until("document.querySelector('.nodes .words p')");
    assert!(browser.texts(".nodes .words p")[0].ends_with(&expected));
    assert_eq!(browser.eval("document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.eval("document.title"), "Nodes · Muster");
    assert_eq!(browser.wrong, Vec::<String>::new());
}

#[test]
#[ignore = "needs chromium: `cargo xtask programs` installs it"]
fn chromium_acts_and_follows() {
    let home = Home::with_gpus(2);
    let job = home.run("--name victim --gpus 1", &["sleep", "600"]);
    let page = Page::start(&home);
    let mut browser = Browser::start(&home);
    browser.go(&page.link);
    browser.until("document.querySelector('.gpu')");

    browser.eval("location.hash = '#/jobs?ended=1'");
    browser.until("document.querySelector('button.more')");
    browser.eval("document.querySelector('button.more').click()");
    browser.eval("[...document.querySelectorAll('dialog button')].find((each) => each.textContent === 'Cancel').click()");
    // The list of actions goes away with an event, which may come a moment later.
    browser.until("document.querySelectorAll('dialog').length === 1");
    let asked = browser.texts("dialog h2");
    assert_eq!(asked, [format!("Cancel: job {job}?")], "nothing happens without a question");
    browser.eval("document.getElementById('confirm').click()");
    browser.until("document.querySelector('.message')");
    browser.until("document.querySelector('.c-state .s-cancelled')");
    home.until_state(job, JobState::Cancelled);

    // What others do arrives by itself, also after the daemon was away.
    home.run("--name other --gpus 1", &["sleep", "600"]);
    browser.until(
        "[...document.querySelectorAll('.c-name a')].some((each) => each.textContent === 'other')",
    );
    home.words("stop-daemon").ok();
    browser.until("!document.getElementById('banner').hidden");
    assert_eq!(browser.texts("#link"), ["connection lost"]);
    home.start_daemon(Some(2));
    browser.until("document.getElementById('link').textContent === 'live'");
    assert_eq!(browser.eval("document.getElementById('banner').hidden"), true);

    let elsewhere = Home::new();
    let mut second = Browser::start(&elsewhere);
    second.go(&page.link);
    second.until("document.querySelector('h1')?.textContent === 'No access'");
    let told = second.texts("main p").join(" ");
    assert!(told.contains("has been used") && told.contains("run muster ui again"), "{told}");
    assert_eq!(browser.wrong, Vec::<String>::new());
    assert_eq!(second.eval("document.querySelectorAll('.gpu').length"), Value::from(0));
}

#[test]
#[ignore = "needs chromium: `cargo xtask programs` installs it"]
fn chromium_shows_what_would_be_at_the_sliders() {
    let home = Home::with_gpus(4);
    let queues = "queues: [{name: research, quota: {virtual: 2}, borrow: 0}, {name: prod}]";
    home.muster(&["queues", "--set", home.write("q.yaml", queues).to_str().unwrap()]).ok();
    let gate = home.gate("go");
    let holds = home.sh("--gpus 2 --time 1h --queue research", &gate);
    home.until_state(holds, JobState::Running);
    let waits = home.run("--gpus 2 --time 1h --queue research --name waits", &["true"]);
    let page = Page::start(&home);
    let mut browser = Browser::start(&home);
    browser.go(&page.link);
    browser.until("document.querySelector('.gpu')");
    browser.eval("location.hash = '#/whatif'");
    browser.until("document.getElementById('whatif-quota')");
    assert_eq!(
        browser.texts(".whatif output"),
        ["1 node with 4 GPUs (virtual) each, as it is", "2 virtual GPUs, as it is"]
    );
    for range in ["whatif-nodes", "whatif-quota"] {
        let named = browser.eval(&format!("document.getElementById('{range}').labels.length"));
        assert_eq!(named, 1, "{range} has a name");
    }

    let mut slide = |range: &str, keys: &[(&str, u32)]| {
        browser.eval(&format!("document.getElementById('{range}').focus()"));
        for (key, code) in keys {
            browser.press(key, *code);
        }
        browser.until("document.querySelector('.answer .lead') && !document.querySelector('.answer[aria-busy]')");
        let shown = browser.eval("[document.querySelector('.lead').textContent, document.querySelector('.sentence:not(.lead)').textContent, \
             ...[...document.querySelectorAll('.answer tr[data-job]')].flatMap((row) => [row.dataset.job, row.querySelector('.now').textContent, row.querySelector('.then').firstChild.textContent])]");
        serde_json::from_value::<Vec<String>>(shown).unwrap()
    };
    let check = |shown: &[String], options: &str| {
        let told: WhatIf = home.words(&format!("whatif {options} --json")).json();
        let [lead, sums, job, _, changed] = shown else { panic!("{shown:?}") };
        assert_eq!(lead, &told.changes.join("; "));
        let [only] = &told.waiting[..] else { panic!("{told:?}") };
        assert_eq!((job, only.job.0), (&waits.to_string(), waits));
        let text = home.words(&format!("whatif {options}")).ok().stdout.replace('\n', " ");
        assert!(text.contains(sums), "{sums}: {text}");
        assert_eq!(changed == "now", only.changed.first == Some(told.taken), "{shown:?}: {told:?}");
        assert_eq!(changed == "not known", only.changed.first.is_none(), "{shown:?}: {told:?}");
    };
    check(
        &slide("whatif-quota", &[("ArrowRight", 39), ("ArrowRight", 39)]),
        "--quota research=virtual:4",
    );
    check(
        &slide("whatif-nodes", &[("ArrowLeft", 37)]),
        "--remove-nodes 1 --quota research=virtual:4",
    );
    assert_eq!(
        browser.eval("location.hash"),
        "#/whatif?nodes=-1&queue=research&model=virtual&gpus=4"
    );

    // A question while the daemon is away is answered when it is back.
    home.words("stop-daemon").ok();
    browser.eval("document.getElementById('whatif-nodes').focus()");
    browser.press("ArrowRight", 39);
    browser.until("document.querySelector('.answer [role=alert]')");
    home.start_daemon(Some(4));
    browser.until("document.querySelector('.answer .lead')?.textContent === 'set the quota of research to 4 virtual GPUs'");
    assert_eq!(browser.wrong, Vec::<String>::new());
}

/// Server of a page with a websocket that returns what it is sent, as a notebook has one.
const NOTEBOOK: &str = r#"
import base64, hashlib, http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade", "").lower() == "websocket":
            mixed = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(mixed.encode()).digest()).decode())
            self.end_headers()
            _, size = self.rfile.read(2)
            mask, data = self.rfile.read(4), self.rfile.read(size & 127)
            data = bytes(byte ^ mask[nth % 4] for nth, byte in enumerate(data))
            self.wfile.write(bytes([129, len(data)]) + data)
            self.rfile.read(1)
            return
        text = f"<!doctype html><title>lab {self.path}</title>".encode()
        self.send_response(200)
        self.send_header("Set-Cookie", "theirs=1")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        with open("seen", "a") as seen:
            print(self.path, self.headers.get("Cookie", ""), file=seen)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"running at http://127.0.0.1:{server.server_address[1]}/lab?token=t", flush=True)
server.serve_forever()
"#;

#[test]
#[ignore = "needs chromium: `cargo xtask programs` installs it"]
fn chromium_opens_a_notebook_that_reaches_nothing_of_the_page() {
    let home = Home::with_gpus(1);
    let program = home.write("lab.py", NOTEBOOK);
    let lab = home
        .sh("--name lab --kind notebook --gpus 1", &format!("exec python3 {}", program.display()));
    home.until_state(lab, JobState::Running);
    let page = Page::start(&home);
    let mut browser = Browser::start(&home);
    browser.go(&page.link);
    browser.until("document.querySelector('.gpu')");
    browser.eval(&format!("location.hash = '#/job/{lab}'"));

    // 1. The link on the page of the job opens it in another tab.
    browser.until("document.querySelector('.address a')");
    assert_eq!(browser.texts(".address a"), ["Open the notebook"]);
    browser.click(".address a");
    home.until("the notebook is asked", || {
        home.path("seen").exists() && home.read("seen").contains("/lab?token=t")
    });
    assert!(!home.read("seen").contains("muster"), "{}", home.read("seen"));

    // 2. The same in this tab, to look at it.
    let port = browser.eval("new URL(document.querySelector('.address a').href).port");
    let url = browser.eval(&format!(
        "fetch('/page/jobs/{lab}/open', {{ method: 'POST', headers: {{ 'x-muster-page': localStorage.getItem('muster-key'), 'content-type': 'application/json' }}, \
         body: JSON.stringify({{ index: null, port: {}, path: '/lab?token=t' }}) }}).then((answer) => answer.json()).then((answer) => answer.url)",
        port.as_str().unwrap()
    ));
    browser.go(url.as_str().unwrap());
    browser.until("document.title === 'lab /lab?token=t'");
    assert_ne!(browser.eval("location.origin"), format!("http://127.0.0.1:{}", page.port));
    assert_eq!(browser.eval("localStorage.getItem('muster-key')"), Value::Null);
    assert_eq!(browser.eval("window.opener"), Value::Null);
    browser.eval("document.cookie = 'wide=1; domain=localhost'");
    assert_eq!(browser.eval("document.cookie"), "theirs=1", "only its own, and for its own host");
    let said = browser.eval("new Promise((resolve) => { const socket = new WebSocket(`ws://${location.host}/kernel`); \
         socket.onmessage = (event) => resolve(event.data); socket.onerror = () => resolve('failed'); socket.onopen = () => socket.send('hello'); })");
    assert_eq!(said, "hello");
    for (method, path) in [("GET", "/page/jobs"), ("POST", &format!("/v1/jobs/{lab}/cancel"))] {
        let reached = browser.eval(&format!(
            "fetch('http://127.0.0.1:{}{path}', {{ method: '{method}' }}).then(() => 'read', () => 'refused')",
            page.port
        ));
        assert_eq!(reached, "refused", "{path}");
    }
    browser.eval("location.reload()");
    browser.until("document.title === 'lab /lab?token=t'");
    assert_eq!(home.job(lab).state, JobState::Running);
}
