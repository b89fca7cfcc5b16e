//! Input made to hurt: refused with a clear message, and quickly.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{check_on, nodes};

/// Far above what any of these takes, even in a debug build on a busy machine; far below what a
/// bomb would.
const LIMIT: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "how long a refusal takes is what is tested")]
fn refused(source: &str, expected: &str) {
    let start = Instant::now();
    let error = check_on(source, &nodes(), &json!({})).unwrap_err().to_string();
    assert!(start.elapsed() < LIMIT, "{expected}: {:?}", start.elapsed());
    assert!(
        error.contains(expected),
        "expected {expected:?} in:\n{}",
        &error[..error.len().min(2000)]
    );
    assert!(error.len() < 20_000, "a complaint of {} bytes", error.len());
}

#[test]
fn texts_that_are_too_large() {
    refused(
        &format!("run: a\nname: {}", "x".repeat(10 << 20)),
        "the text is too large: 10MiB, at most 1MiB",
    );
    refused(&"#".repeat((1 << 20) + 1), "the text is too large");
    refused(&format!("run: [{}]", "a,".repeat(500_000)), "the text holds too much");
    refused(&"---\nrun: a\n".repeat(1_001), "too many documents");
    refused(&format!("run: {}", "x".repeat(200_000)), "`run` is too long");
    refused(
        &format!("run: a\nenv: {{A: {}}}", "x".repeat(200_000)),
        "an environment variable is too long",
    );
}

#[test]
fn deep_nesting() {
    refused(&"[".repeat(100_000), "nests too deep");
    refused(&"{a: ".repeat(100_000), "nests too deep");
    refused(&"- ".repeat(100_000), "nests too deep");
    let mut stairs = String::new();
    for depth in 0..400 {
        writeln!(stairs, "{}a:", " ".repeat(depth)).unwrap();
    }
    refused(&stairs, "nests too deep");
}

#[test]
fn alias_bombs() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let above = format!("*a{}, ", level - 1).repeat(9);
        writeln!(laughs, "a{level}: &a{level} [{above}]").unwrap();
    }
    refused(&laughs, "the text holds too much");
    // Depth by aliases: each level is shallow by itself.
    let mut chain = String::from("a0: &a0 [x]\n");
    for level in 1..1_000 {
        writeln!(chain, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    refused(&chain, "nests too deep");
    let long = "y".repeat(100_000);
    refused(&format!("a: &a {long}\nb: [{}]", "*a, ".repeat(1_000)), "the text holds too much");
    refused("a: &a [*a]", "its expansion would never end");
}

#[test]
fn bytes_that_are_no_text() {
    refused("run: a\0b", "NUL byte");
    refused("run: \"a\\0b\"", "NUL byte");
    refused("run: \"a\\u0000b\"", "NUL byte");
    refused("\"ru\\0n\": a", "NUL byte");
    refused("run: a\u{1b}[31m", "control character");
    let escape =
        check_on("name: \"\\e[31mred\"\nrun: a", &nodes(), &json!({})).unwrap_err().to_string();
    assert!(!escape.contains('\u{1b}'), "{escape:?}");
    let option = check_on("run: a", &nodes(), &json!({"name": "a\u{1b}[31m\nb\u{0}"}))
        .unwrap_err()
        .to_string();
    assert!(!option.contains(['\u{1b}', '\0']), "{option:?}");
    let named = muster_spec::parse("gpsu: 1", Some("a\u{1b}[31m.yaml"), &serde_json::Map::new())
        .unwrap_err();
    assert!(!named.to_string().contains('\u{1b}'), "{named}");
}

#[test]
fn numbers_that_overflow() {
    for source in [
        "array: 0-99999999999999999999999\nrun: a",
        "array: 1000000\nrun: a",
        "nodes: 9999\ntasks-per-node: 9999\nrun: a",
        "nodes: -1\nrun: a",
        "gpus: 340282366920938463463374607431768211456\nrun: a",
        "memory: 99999999999PB\nrun: a",
        "time: 999999999999999999w\nrun: a",
        "priority: 99999999999999999999\nrun: a",
        "cpus: 1e9\nrun: a",
        "after: 18446744073709551616\nrun: a",
        "exclude: \"n[0-999]x[0-999]\"\nrun: a",
        "exclude: \"n[0-1000]\"\nrun: a",
        "extras: {licence: -1}\nrun: a",
    ] {
        refused(source, "error: ");
    }
    let groups: String = (0..101).map(|n| format!("- {{name: g{n}, run: a}}\n")).collect();
    refused(&format!("groups:\n{groups}"), "too many groups");
    let heavy: String =
        (0..3).map(|n| format!("- {{name: g{n}, tasks: 5000, run: a}}\n")).collect();
    refused(&format!("groups:\n{heavy}"), "too many tasks");
}

#[test]
fn names_that_are_paths() {
    for name in ["../x", "/etc/passwd", "a/b", "a\\b", "..", ".", ".hidden", "-x", "", "a b", "ä"]
    {
        refused(&format!("name: {}\nrun: a", json!(name)), "`name` is not a name");
        refused(&format!("groups: [{{name: {}, run: a}}]", json!(name)), "`name` is not a name");
    }
    refused(&format!("name: {}\nrun: a", "x".repeat(65)), "65 characters; at most 64");
}

#[test]
fn thousands_of_mistakes_stay_readable() {
    let mut source = String::from("run: a\n");
    for field in 0..5_000 {
        writeln!(source, "wrong{field}: 1").unwrap();
    }
    refused(&source, "and 4980 more");
}

#[test]
fn options_are_bounded_too() {
    let mut deep = json!("x");
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let error = check_on("run: a", &nodes(), &json!({ "after": deep })).unwrap_err().to_string();
    assert!(error.contains("nested too deep"), "{error}");
    let error = check_on("run: a", &nodes(), &json!({ "queue": "x".repeat(1 << 20) }))
        .unwrap_err()
        .to_string();
    assert!(error.len() < 2_000, "{} bytes", error.len());
}
