//! For any input the daemon responds as documented and keeps running: never with status 500.

use muster_api::routes::{BodyKind, ROUTES};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::contract::{check, raw};
use crate::site::{ANN, TestSite, request};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,20}".prop_map(Value::from),
        "(gpus|run|name|time|nodes|array|after|env|queue|index|source|0-9%3|\u{0}|../x|-1|1e99)"
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z-]{1,12}", inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

/// Makes a body: arbitrary, or a submission with one field replaced.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let fields = prop::sample::select(vec![
        "key",
        "source",
        "file",
        "overrides",
        "env",
        "workdir",
        "umask",
        "interactive",
        "dry_run",
    ]);
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..200),
        2 => value().prop_map(|value| value.to_string().into_bytes()),
        4 => (fields, value()).prop_map(|(field, value)| {
            let mut body = serde_json::to_value(request("{name: x, gpus: 1, run: exit 0}")).unwrap();
            body[field] = value;
            body.to_string().into_bytes()
        }),
        4 => value().prop_map(|value| {
            // JSON is YAML, so any value is a text that a user may submit.
            let mut body = serde_json::to_value(request("")).unwrap();
            body["source"] = value.to_string().into();
            body["dry_run"] = true.into();
            body.to_string().into_bytes()
        }),
    ]
}

#[test]
fn no_body_and_no_query_is_a_defect() {
    let threads =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let site = threads.block_on(TestSite::start());
    let document = muster_api::openapi::document();
    let socket = site.dir.path().join(format!("{ANN}.sock"));
    let takers: Vec<_> =
        ROUTES.iter().filter(|route| matches!(route.request, BodyKind::Json(_))).collect();
    let queried: Vec<_> = ROUTES.iter().filter(|route| route.query.is_some()).collect();
    let config =
        ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() };
    let strategy = (
        prop::sample::select(takers),
        body(),
        prop::sample::select(queried),
        "[a-z_]{1,8}=[ -~]{0,12}",
        prop::sample::select(vec![
            "index", "rank", "attempt", "after", "since", "limit", "state", "ids", "all",
        ]),
        "[0-9a-z,-]{0,22}",
    );
    proptest!(config, |((taker, body, asked, noise, name, text) in strategy)| {
        let target = taker.path.replace("{id}", "1").replace("{name}", "n1");
        let (status, answer) = threads.block_on(raw(&socket, taker.method.as_str(), &target, Some(body)));
        prop_assert_ne!(status, 500);
        check(&document, taker, status, &answer);

        let noise: String = noise.chars().filter(|letter| letter.is_ascii_alphanumeric() || "=_.%".contains(*letter)).collect();
        let target = format!("{}?{name}={text}&timeout_secs=0&{noise}", asked.path.replace("{id}", "1"));
        let (status, answer) = threads.block_on(raw(&socket, asked.method.as_str(), &target, None));
        prop_assert_ne!(status, 500);
        check(&document, asked, status, &answer);
    });
    let info = threads.block_on(site.client().info()).unwrap();
    assert!(info.warnings.is_empty(), "{:?}", info.warnings);
}
