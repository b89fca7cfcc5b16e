//! Properties: no input makes a parser panic, what is printed is read back, and complaints lie
//! inside the text.

use muster_model::unit::{Bytes, Span, Time};
use muster_spec::quantity::{
    parse_array, parse_begin, parse_bytes, parse_cpus, parse_gpus, parse_instant, parse_limit,
    parse_range, parse_signal, parse_span, parse_whole,
};
use muster_spec::{
    Diagnostics, parse_cluster, parse_facts, parse_facts_line, parse_queues, parse_site,
};
use proptest::prelude::*;
use serde_json::{Map, json};

use crate::support::{check_on, nodes};

/// Text that looks like the documents, so that random cases get past the first check.
fn document() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "[a-z0-9:%.,-]{0,12}",
        "-?[0-9]{1,22}(\\.[0-9]{1,4})?(s|m|h|d|GB|GiB)?",
        Just("~".to_owned()),
        Just("\"\\u0000\"".to_owned()),
        Just("*a".to_owned()),
        Just("&a x".to_owned()),
        Just("!!int 3".to_owned()),
        "\\PC{0,8}".prop_map(|text| format!("{text:?}")),
    ];
    let field = prop::sample::select(
        [
            "name",
            "nodes",
            "min-nodes",
            "gpus",
            "gpu",
            "tasks",
            "gpus-per-task",
            "tasks-per-node",
            "cpus",
            "memory",
            "extras",
            "time",
            "run",
            "queue",
            "priority",
            "env",
            "env-file",
            "secrets",
            "venv",
            "conda",
            "uv",
            "modules",
            "image",
            "mounts",
            "workdir",
            "array",
            "after",
            "hold",
            "begin",
            "checkpoint",
            "restart",
            "grace",
            "labels",
            "exclude",
            "groups",
            "kind",
            "replicas",
            "port",
            "idle",
            "image",
            "levels",
            "queues",
            "quota",
            "borrow",
            "lend",
            "weight",
            "limits",
            "half-life",
            "backfill",
            "placement",
            "domain",
            "users",
            "fabric",
            "operates",
            "platform-fte",
            "training",
            "share",
            "facts",
            "multi-node",
        ]
        .as_slice(),
    );
    let value = scalar.prop_recursive(3, 24, 5, move |inner| {
        let field = field.clone();
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec((field, inner), 0..5).prop_map(|fields| {
                let fields: Vec<_> =
                    fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    });
    let line = (prop::sample::select(FIELDS.as_slice()), value)
        .prop_map(|(name, value)| format!("{name}: {value}\n"));
    prop::collection::vec(prop_oneof![9 => line, 1 => Just("---\n".to_owned())], 0..8)
        .prop_map(|lines| lines.concat())
}

const FIELDS: [&str; 38] = [
    "name",
    "nodes",
    "gpus",
    "gpu",
    "tasks",
    "gpus-per-task",
    "tasks-per-node",
    "cpus",
    "memory",
    "extras",
    "time",
    "run",
    "queue",
    "priority",
    "env",
    "workdir",
    "array",
    "after",
    "hold",
    "begin",
    "checkpoint",
    "restart",
    "grace",
    "labels",
    "exclude",
    "groups",
    "levels",
    "queues",
    "default-queue",
    "half-life",
    "backfill",
    "placement",
    "tightly_coupled",
    "fleet",
    "people",
    "needs",
    "mix",
    "rules",
];

/// Every complaint stands in the text, and rendering it works.
fn sound(source: &str, error: &Diagnostics) {
    assert!(error.count() > 0);
    let lines: Vec<&str> = source.split('\n').collect();
    for one in error.iter() {
        assert!(!one.message.is_empty());
        if one.line > 0 {
            let line = lines
                .get(one.line as usize - 1)
                .unwrap_or_else(|| panic!("line {} of {source:?}", one.line));
            let columns = line.chars().count() as u32;
            assert!(one.column >= 1 && one.column <= columns + 1, "{one:?} in {line:?}");
            assert!(one.column + one.length <= columns + 2, "{one:?} in {line:?}");
        }
        let text = error.render_one(one, muster_spec::Colour::Never);
        assert!(text.starts_with("error: "), "{text}");
    }
    assert!(!error.render(muster_spec::Colour::Always).is_empty());
}

fn every_reader(source: &str) {
    if let Err(error) = check_on(source, &nodes(), &json!({})) {
        sound(source, &error);
    }
    if let Err(error) = parse_queues(source, None) {
        sound(source, &error);
    }
    if let Err(error) = parse_cluster(source, None) {
        sound(source, &error);
    }
    if let Err(error) = parse_facts(source, None) {
        sound(source, &error);
    }
    if let Err(error) = parse_site(source, None) {
        sound(source, &error);
    }
    let _ = parse_facts_line(source);
}

fn every_quantity(text: &str) {
    let _ = parse_span(text);
    let _ = parse_limit(text);
    let _ = parse_bytes(text);
    let _ = parse_whole(text);
    let _ = parse_range(text);
    let _ = parse_gpus(text);
    let _ = parse_cpus(text);
    let _ = parse_array(text);
    let _ = parse_signal(text);
    let _ = parse_instant(text);
    let _ = parse_begin(text);
}

/// Exact text of a span in the units of the parser.
fn print_span(span: Span) -> String {
    let mut rest = span.0;
    let mut text = String::new();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)]
    {
        if rest >= size {
            text += &format!("{}{unit}", rest / size);
            rest %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Exact text of an instant, by counting days from the epoch one by one in years and months.
fn print_instant(time: Time) -> String {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut days = time.0 / 86_400_000;
    let millis = time.0 % 86_400_000;
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let secs = millis / 1000;
    let hour = secs / 3600;
    let minute = secs / 60 % 60;
    let second = secs % 60;
    format!(
        "{year}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        month + 1,
        days + 1,
        millis % 1000
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_quantity_parser_panic(text in "\\PC*") {
        every_quantity(&text);
    }

    #[test]
    fn nothing_that_looks_like_a_quantity_makes_one_panic(text in "[-+0-9.:%,a-zA-ZTZ ]{0,40}") {
        every_quantity(&text);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        every_reader(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_punctuation_makes_a_reader_panic(text in "[\\[\\]{}:,&*!|>'\"%@#?\r\n\t a-c-]{0,80}") {
        every_reader(&text);
    }

    #[test]
    fn nothing_that_looks_like_a_document_makes_a_reader_panic(text in document()) {
        every_reader(&text);
    }

    #[test]
    fn no_file_of_variables_makes_its_reader_panic(text in "(export |[A-B=#'\"\\\\\\$ \t\r\né]){0,60}") {
        let lines = text.split('\n').count();
        match muster_spec::read_env_file(&text) {
            Ok(variables) => prop_assert!(variables.len() <= lines),
            Err(error) => prop_assert!((1..=lines).contains(&error.line), "{}", error),
        }
    }

    #[test]
    fn no_option_makes_a_reader_panic(key in "[a-z-]{1,12}", value in "\\PC{0,30}", source in document()) {
        let mut overrides = Map::new();
        overrides.insert(key, json!(value));
        overrides.insert("gpus".to_owned(), json!(value));
        if let Err(error) = check_on(&source, &nodes(), &serde_json::Value::Object(overrides)) {
            sound(&source, &error);
        }
    }

    #[test]
    fn spans_read_what_was_printed(millis in 0..=36_525 * 86_400_000u64) {
        prop_assert_eq!(parse_span(&print_span(Span(millis))), Ok(Span(millis)));
    }

    #[test]
    fn clock_forms_agree_with_units(days in 0..1000u64, hours in 0..24u64, minutes in 0..60u64, seconds in 0..60u64) {
        let clock = parse_span(&format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"));
        prop_assert_eq!(clock, parse_span(&format!("{days}d{hours}h{minutes}m{seconds}s")));
        let short = parse_span(&format!("{hours}:{minutes:02}:{seconds:02}"));
        prop_assert_eq!(short, parse_span(&format!("{hours}h{minutes}m{seconds}s")));
    }

    #[test]
    fn sizes_read_what_was_printed(bytes in 1u64 << 20..=u64::MAX, gib in 1..16_000_000u64) {
        prop_assert_eq!(parse_bytes(&bytes.to_string()), Ok(Bytes(bytes)));
        prop_assert_eq!(parse_bytes(&format!("{bytes}B")), Ok(Bytes(bytes)));
        // Views print at most one decimal: what they print reads back as no more, and at most a
        // tenth less.
        let viewed = parse_bytes(&Bytes(bytes).to_string()).unwrap().0;
        prop_assert!(viewed <= bytes && bytes - viewed <= bytes / 10, "{} {}", viewed, bytes);
        prop_assert_eq!(parse_bytes(&format!("{gib}GiB")), Ok(Bytes(gib << 30)));
        prop_assert_eq!(parse_bytes(&format!("{gib}GB")), Ok(Bytes(gib * 1_000_000_000)));
    }

    #[test]
    fn instants_read_what_was_printed(millis in 0..253_402_300_800_000u64) {
        prop_assert_eq!(parse_instant(&print_instant(Time(millis))), Ok(Time(millis)));
    }

    #[test]
    fn arrays_read_what_was_printed(first in 0..1_000_000u32, count in 1..1000u32, step in 1..100u32, cap in prop::option::of(1..5000u32)) {
        let last = first + (count - 1) * step;
        let cap_text = cap.map(|cap| format!("%{cap}")).unwrap_or_default();
        let array = parse_array(&format!("{first}-{last}:{step}{cap_text}")).unwrap();
        prop_assert_eq!(&array, &muster_model::Array::range(first, last, step, cap));
        prop_assert_eq!(array.indices().count() as u32, count);
        prop_assert_eq!(array.indices().last(), Some(last));
    }

    #[test]
    fn shares_read_what_was_printed(milli in 1..1000u32) {
        let amount = parse_gpus(&muster_model::GpuMilli(milli).to_string()).unwrap();
        prop_assert_eq!((amount.devices, amount.share.0), (0, milli));
    }
}
