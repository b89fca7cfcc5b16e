//! `muster ui`: who may use the page, and what it passes on.

use std::io::{BufRead, BufReader};

use muster_api::types::JobList;
use muster_model::simulation::WhatIf;
use muster_model::view::JobState;
use serde_json::Value;

use crate::home::Home;
use crate::page::{Page, port_of};
use crate::pty::Typist;

#[test]
fn a_link_opens_the_page_once_and_data_needs_its_key() {
    let home = Home::with_gpus(2);
    let page = Page::start(&home);
    let host = page.host();

    let files = page.raw("GET /", &[&host], "");
    assert_eq!(files.status, 200, "the page itself holds no data");
    for header in ["content-security-policy: default-src 'none'", "nosniff", "no-store"] {
        assert!(files.head.contains(header), "{header}: {}", files.head);
    }
    assert!(!files.head.contains("access-control"), "{}", files.head);

    for headers in [&[][..], &["x-muster-page: 1"], &["x-muster-page:"]] {
        let refused = page.raw("GET /page/jobs", &[&[&*host], headers].concat(), "");
        assert_eq!(refused.status, 401, "{headers:?}");
        assert!(refused.body.contains("run `muster ui` again"), "{refused:?}");
    }
    assert_eq!(page.open(&page.secret()[1..]).status, 401);
    let key = page.key();
    assert_eq!(page.get("/page/jobs", &key).status, 200);
    let again = page.open(page.secret());
    assert_eq!(again.status, 401, "used up");
    assert!(again.body.contains("has been used"), "{again:?}");
    let twice = page.raw("GET /v1/jobs", &[&host, &key, "x-muster-page: 1"], "");
    assert_eq!(twice.status, 401, "two keys");
}

#[test]
fn requests_for_other_hosts_and_from_other_pages_are_refused() {
    let home = Home::with_gpus(2);
    let job = home.run("--gpus 1", &["sleep", "600"]);
    let page = Page::start(&home);
    let key = page.key();
    let host = page.host();
    let origin = page.origin();
    let port = page.port;
    let read = |headers: &[&str]| page.raw("GET /v1/jobs", &[headers, &[&key]].concat(), "").status;

    assert_eq!(read(&[&host]), 200);
    assert_eq!(read(&[&format!("Host: localhost:{port}")]), 200);
    for wrong in ["Host: evil.example", "Host: 127.0.0.1", "Host: 127.0.0.1:1", "Host:"] {
        assert_eq!(read(&[wrong]), 403, "{wrong}");
    }
    assert!(matches!(read(&[&host, &host]), 400 | 403), "two hosts");
    assert!(matches!(read(&[]), 400 | 403), "no host");
    let absolute = page.raw("GET http://evil.example/v1/jobs", &[&host, &key], "").status;
    assert_eq!(absolute, 403, "a host in the request line");
    assert_eq!(read(&[&host, "Origin: http://evil.example"]), 403);
    assert_eq!(read(&[&host, "Origin: null"]), 403);

    let cancel = |headers: &[&str]| {
        let line = format!("POST /v1/jobs/{job}/cancel");
        page.raw(&line, &[headers, &["Content-Type: application/json"]].concat(), "{}").status
    };
    assert_eq!(cancel(&[&host, &key]), 403, "no origin");
    assert_eq!(cancel(&[&host, &key, "Origin: http://evil.example"]), 403);
    assert_eq!(cancel(&[&host, &key, &format!("Origin: http://localhost:{port}")]), 403);
    assert_eq!(cancel(&[&host, &key, &format!("Origin: https://127.0.0.1:{port}")]), 403);
    assert_eq!(cancel(&[&host, &origin]), 401, "no key");
    home.until_state(job, JobState::Running);
    assert_eq!(cancel(&[&host, &key, &origin]), 200);
    home.until_state(job, JobState::Cancelled);
}

#[test]
fn only_what_the_page_needs_is_passed_on() {
    let home = Home::with_gpus(2);
    let job = home.sh("--gpus 1 --name quick", "echo hello");
    home.until_state(job, JobState::Done);
    let page = Page::start(&home);
    let key = page.key();
    let headers = [&*page.host(), &*page.origin(), &*key, "Content-Type: application/json"];

    let listed: JobList = serde_json::from_str(&page.get("/v1/jobs?all=true", &key).body).unwrap();
    assert_eq!(listed.jobs, home.jobs());
    assert_eq!(page.get("/page/jobs?all=true", &key).json()["jobs"][0]["name"], "quick");
    let output = page.get(&format!("/v1/jobs/{job}/logs"), &key);
    assert!(output.body.contains("hello"), "{output:?}");
    assert!(output.head.contains("application/octet-stream"), "{output:?}");
    let missing = page.get("/v1/jobs/999", &key);
    assert_eq!((missing.status, missing.json()["code"].as_str()), (404, Some("not_found")));

    for line in [
        "POST /v1/daemon/stop",
        "POST /v1/jobs",
        "PUT /v1/queues",
        "POST /v1/actions",
        "POST /v1/nodes/x/drain",
        "POST /v1/jobs/1/attach",
        "POST /v1/jobs/1/saved",
        "GET /v1/snapshot",
        "GET /v1/daemon",
        "GET /v1/openapi.json",
        // Paths that another reading could turn into one of those.
        "POST /v1/jobs/1%2F..%2F..%2Fdaemon%2Fstop/cancel",
        "POST /v1/jobs/..%2f..%2fdaemon%2fstop",
        "POST /v1/jobs/../daemon/stop",
        "POST //v1/daemon/stop",
        "POST /v1/daemon/stop%00",
        "POST /v1/jobs/1%3Fx=/cancel",
        "GET /v1/jobs/%31%20",
        "GET /page/../access.rs",
        "GET /page/%2e%2e/access.rs",
    ] {
        let refused = page.raw(line, &headers, "{}");
        assert!(matches!(refused.status, 404 | 405), "{line}: {refused:?}");
    }
    assert!(page.get("/page/jobs", &key).status == 200, "the daemon runs");
    assert_eq!(page.raw("GET /v1/jobs?limit=many", &headers, "").status, 400);
    let large = "x".repeat(20_000);
    assert_eq!(page.raw("POST /v1/jobs/1/cancel", &headers, &large).status, 413);
}

/// Answer to a what-if question without what differs between two moments: its instant, as which starts at once count.
fn without_instants(answer: &WhatIf) -> Value {
    let mut value = serde_json::to_value(&answer.waiting).unwrap();
    let taken = answer.taken.0;
    for job in value.as_array_mut().unwrap() {
        for starts in ["as_it_is", "changed"] {
            for at in ["first", "last"] {
                let at = &mut job[starts][at];
                if at.as_u64() == Some(taken) {
                    *at = "at once".into();
                }
            }
        }
    }
    serde_json::json!({ "changes": answer.changes, "waiting": value, "is_partial": answer.is_partial })
}

#[test]
fn the_page_answers_what_if_as_the_command_does() {
    let home = Home::with_gpus(4);
    let queues = "queues: [{name: research, quota: {virtual: 2}, borrow: 0, queues: [{name: vision}]}, {name: prod}]";
    home.muster(&["queues", "--set", home.write("q.yaml", queues).to_str().unwrap()]).ok();
    let gate = home.gate("go");
    let holds = home.sh("--gpus 2 --time 1h --queue research/vision", &gate);
    home.until_state(holds, JobState::Running);
    home.run("--gpus 2 --time 1h --queue research/vision --name waits", &["true"]);
    home.run("--gpus 4 --time 1h --queue prod --name large", &["true"]);
    let page = Page::start(&home);
    let key = page.key();

    let site = page.get("/page/whatif/site", &key).json();
    assert_eq!(site["nodes"], serde_json::json!({ "count": 1, "gpus": 4, "model": "virtual" }));
    assert_eq!(site["models"], serde_json::json!({ "virtual": 4 }));
    let quotas: Vec<(&str, Option<u64>)> = site["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|queue| (queue["name"].as_str().unwrap(), queue["quota"]["virtual"].as_u64()))
        .collect();
    assert_eq!(quotas, [("research", Some(2)), ("research/vision", None), ("prod", None)]);

    for (query, options) in [
        ("add_nodes=1", "--add-nodes 1"),
        ("remove_nodes=1", "--remove-nodes 1"),
        ("quota=research%3Dvirtual:4", "--quota research=virtual:4"),
        ("add_nodes=2&quota=prod%3Dvirtual:3", "--add-nodes 2 --quota prod=virtual:3"),
    ] {
        let sheet = page.get(&format!("/page/whatif?{query}"), &key);
        assert_eq!(sheet.status, 200, "{query}: {sheet:?}");
        let sheet = sheet.json();
        let shown: WhatIf = serde_json::from_value(sheet["answer"].clone()).unwrap();
        let told: WhatIf = home.words(&format!("whatif {options} --json")).json();
        assert_eq!(without_instants(&shown), without_instants(&told), "{query}");
        assert_eq!(shown.past.map(|past| past.runs), told.past.map(|past| past.runs));
        assert_eq!(sheet["words"]["waiting"].as_array().unwrap().len(), shown.waiting.len());
    }
    let more = page.get("/page/whatif?add_nodes=1", &key).json();
    assert_eq!(more["words"]["waiting"][1]["changed"], "now", "{more}");
    assert_eq!(more["words"]["waiting"][1]["effect"], "sooner", "{more}");
}

#[test]
fn what_if_mistakes_say_what_would_be_right() {
    let home = Home::with_gpus(2);
    let page = Page::start(&home);
    let key = page.key();
    for (query, status, words) in [
        ("", 400, "no change is given"),
        ("?add_nodes=x", 400, "2xh100:8"),
        ("?add_nodes=4000000000", 400, "up to 100000"),
        ("?remove_nodes=2", 400, "too few such nodes"),
        ("?quota=reserch%3D4", 400, "there is no queue `reserch`"),
        ("?quota=default%3Dh10:4", 400, "the models are virtual"),
    ] {
        let refused = page.get(&format!("/page/whatif{query}"), &key);
        assert_eq!(refused.status, status, "{query}: {refused:?}");
        assert!(refused.body.contains(words), "{query}: {refused:?}");
    }
    for path in ["/page/whatif?add_nodes=1", "/page/whatif/site"] {
        assert_eq!(page.raw(&format!("GET {path}"), &[&page.host()], "").status, 401, "{path}");
    }
    home.words("stop-daemon").ok();
    assert_eq!(page.get("/page/whatif?add_nodes=1", &key).status, 503);
    home.start_daemon(Some(2));
    assert_eq!(page.get("/page/whatif?add_nodes=1", &key).status, 200, "a new daemon is asked");
}

#[test]
fn changes_and_output_come_while_they_happen() {
    let home = Home::with_gpus(2);
    let page = Page::start(&home);
    let key = page.key();
    let host = page.host();
    let known = page.get("/v1/changes", &key).json()["revision"].as_u64().unwrap();
    let waits =
        page.send(&format!("GET /v1/changes?after={known}&timeout_secs=60"), &[&host, &key], "");
    let job = home.sh("--gpus 1", &format!("echo first; {}; echo last", home.gate("gate")));
    let changed = BufReader::new(waits).lines().map(|line| line.unwrap()).last().unwrap();
    let changed: Value = serde_json::from_str(&changed).unwrap();
    assert!(changed["revision"].as_u64().unwrap() > known, "{changed}");

    home.until_state(job, JobState::Running);
    let follow = format!("GET /v1/jobs/{job}/logs?follow=true");
    let mut lines = BufReader::new(page.send(&follow, &[&host, &key], "")).lines();
    assert!(lines.any(|line| line.unwrap() == "first"));
    home.open("gate");
    assert!(lines.any(|line| line.unwrap() == "last"));
    assert!(lines.map(|line| line.unwrap()).all(|line| line.len() < 4), "the stream ends");
}

#[test]
fn enter_prints_a_link_for_another_browser() {
    let home = Home::with_gpus(2);
    let mut typist = Typist::sized(&home, &["ui", "--no-browser"], 30, 200, &[]);
    typist.until("Ctrl-C ends the page");
    let link = |text: &str| {
        let links: Vec<String> = text
            .split_whitespace()
            .filter(|word| word.contains("#open="))
            .map(str::to_owned)
            .collect();
        links
    };
    let first = link(&typist.seen());
    assert_eq!(first.len(), 1);
    typist.keys("\r");
    typist.until_next("#open=");
    home.until("a second link is printed", || link(&typist.seen()).len() == 2);
    let links = link(&typist.seen());
    assert_eq!(port_of(&links[0]), port_of(&links[1]));
    assert_ne!(links[0], links[1]);
    typist.signal(rustix::process::Signal::INT);
    assert_eq!(typist.code(), 0);
}

#[test]
fn mistakes_say_what_to_do() {
    let home = Home::new();
    let none = home.words("ui --no-browser").code(3);
    assert!(none.stderr.contains("no daemon is running"), "{}", none.stderr);
    home.start_daemon(Some(1));
    let page = Page::start(&home);
    let taken = home.words(&format!("ui --no-browser --port {}", page.port)).code(1);
    assert!(taken.stderr.contains("leave --port out for a free one"), "{}", taken.stderr);

    home.words("stop-daemon").ok();
    let key = page.key();
    let down = page.get("/page/jobs", &key);
    assert_eq!(down.status, 503, "{down:?}");
    assert!(down.body.contains("muster run"), "{down:?}");
    home.start_daemon(Some(1));
    assert_eq!(page.get("/page/jobs", &key).status, 200, "a new daemon is found");
}
