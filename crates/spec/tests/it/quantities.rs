//! Quantities: rows of text and value, and rows of text that is refused.

use muster_model::Array;
use muster_model::unit::{Bytes, CpuMilli, GpuMilli, Span, Time};
use muster_spec::quantity::{
    EarliestStart, MAX_SPAN, Malformed, parse_array, parse_begin, parse_bytes, parse_cpus,
    parse_gpus, parse_instant, parse_limit, parse_range, parse_signal, parse_span, parse_whole,
};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

#[test]
fn spans() {
    for (text, millis) in [
        ("500ms", 500),
        ("45s", 45_000),
        ("90m", 90 * MINUTE),
        ("12h", 12 * HOUR),
        ("1h30m", 90 * MINUTE),
        ("1d12h", 36 * HOUR),
        ("1d 2h 3m 4s 5ms", DAY + 2 * HOUR + 3 * MINUTE + 4_005),
        ("1.5h", 90 * MINUTE),
        ("0.001s", 1),
        ("2 hours", 2 * HOUR),
        ("1W", 7 * DAY),
        ("0s", 0),
        ("12:00:00", 12 * HOUR),
        ("100:00:00", 100 * HOUR),
        ("1-12", 36 * HOUR),
        ("1-12:30", 36 * HOUR + 30 * MINUTE),
        ("1-12:00:00", 36 * HOUR),
        ("0-0", 0),
        ("36525d", MAX_SPAN.0),
    ] {
        assert_eq!(parse_span(text), Ok(Span(millis)), "{text}");
    }
    for text in [
        "",
        " ",
        "90",
        "-1h",
        "1",
        "h",
        "1x",
        "1h1h",
        "30m1h",
        "1.5h30m",
        "0.0001s",
        "1:2:3:4",
        "1-24",
        "1:30",
        "30:00",
        "1:60",
        "1-0:60",
        "12:00:60",
        "36526d",
        "99999999999999999999w",
        "1e3s",
        "١٢h",
        "1h\0",
        "1-",
        "-1-2",
        ":",
        "1:",
    ] {
        assert!(parse_span(text).is_err(), "{text:?}");
    }
    assert_eq!(parse_limit("infinite"), Ok(None));
    assert_eq!(parse_limit("None"), Ok(None));
    assert_eq!(parse_limit("1h"), Ok(Some(Span(HOUR))));
}

#[test]
fn sizes() {
    for (text, bytes) in [
        ("80GB", 80_000_000_000),
        ("80G", 80 << 30),
        ("64GiB", 64 << 30),
        ("512MB", 512_000_000),
        ("512m", 512 << 20),
        ("1.5TiB", 3 << 39),
        ("1.5 gb", 1_500_000_000),
        ("8589934592", 8 << 30),
        ("1048576", 1 << 20),
        ("4096B", 4096),
        ("0.5k", 512),
        ("16383PiB", 16383 << 50),
    ] {
        assert_eq!(parse_bytes(text), Ok(Bytes(bytes)), "{text}");
    }
    for text in [
        "",
        "80",
        "1048575",
        "-1GB",
        "GB",
        "1XB",
        "0.3B",
        "16384PiB",
        "1..5GB",
        "99999999999999999999PB",
    ] {
        assert!(parse_bytes(text).is_err(), "{text:?}");
    }
}

#[test]
fn gpus_and_cpus() {
    for (text, devices, share) in [
        ("0", 0, 0),
        ("8", 8, 0),
        ("128", 128, 0),
        ("2.0", 2, 0),
        ("0.5", 0, 500),
        ("0.001", 0, 1),
        ("0.999", 0, 999),
    ] {
        let amount = parse_gpus(text).unwrap();
        assert_eq!((amount.devices, amount.share), (devices, GpuMilli(share)), "{text}");
    }
    for text in [
        "",
        "-1",
        "129",
        "1.5",
        "0.0001",
        "two",
        "1e2",
        "h100:2",
        ".5",
        "5.",
        "99999999999999999999999",
    ] {
        assert!(parse_gpus(text).is_err(), "{text:?}");
    }
    for (text, milli) in
        [("4", 4000), ("0.5", 500), ("500m", 500), ("0", 0), ("1000000", 1_000_000_000)]
    {
        assert_eq!(parse_cpus(text), Ok(CpuMilli(milli)), "{text}");
    }
    for text in ["", "-1", "1000001", "0.0001", "0.5m", "m", "4 cores"] {
        assert!(parse_cpus(text).is_err(), "{text:?}");
    }
}

#[test]
fn whole_numbers_and_ranges() {
    for (text, number) in
        [("0", 0), ("-5", -5), ("+5", 5), (" 7 ", 7), ("9223372036854775807", i64::MAX)]
    {
        assert_eq!(parse_whole(text), Ok(number), "{text}");
    }
    for text in ["", "-", "+-1", "1.0", "1_000", "0x10", "9223372036854775808", "five"] {
        assert!(parse_whole(text).is_err(), "{text:?}");
    }
    assert_eq!(parse_range("5"), Ok((5, 5)));
    assert_eq!(parse_range("2..16"), Ok((2, 16)));
    assert!(parse_range("16..2").is_err());
    assert!(parse_range("..").is_err());
}

#[test]
fn arrays() {
    for (text, first, last, step, cap, elements) in [
        ("0-199", 0, 199, 1, None, 200),
        ("0-199%32", 0, 199, 1, Some(32), 200),
        ("1-9:2%4", 1, 9, 2, Some(4), 5),
        ("200", 0, 199, 1, None, 200),
        ("5-5", 5, 5, 1, None, 1),
        ("0-99999", 0, 99_999, 1, None, 100_000),
        ("0-9:999999999999999999999999", 0, 9, i32::MAX as u32, None, 1),
    ] {
        let array = parse_array(text).unwrap();
        assert_eq!(array, Array::range(first, last, step, cap), "{text}");
        assert_eq!(array.indices().count(), elements, "{text}");
    }
    for (text, meant) in [
        ("1,3,7-9", "1,3,7-9"),
        ("9, 3 ,1,7-8%2", "1,3,7-9%2"),
        ("7,7", "7-7"),
        ("0-20:4,100", "0-20:4,100"),
        ("0-5,3-8", "0-8"),
    ] {
        assert_eq!(parse_array(text).unwrap().to_string(), meant, "{text}");
    }
    let scattered: Vec<String> = (0..3000u32).map(|nth| (nth * nth).to_string()).collect();
    assert!(parse_array(&scattered.join(",")).is_err(), "squares are no ranges");
    for text in [
        "",
        "0",
        "9-0",
        "0-100000",
        "1,",
        "1,,2",
        "1,b",
        "1%2,3",
        "0-99999,100000",
        "a-b",
        "0-9:0",
        "0-9%0",
        "-5",
        "0-",
        "4000000000-4000000001",
        "99999999999999999999",
        "0-99999999999999999999:99999999999999999999",
    ] {
        assert!(parse_array(text).is_err(), "{text:?}");
    }
}

#[test]
fn signals() {
    for (text, number) in
        [("USR1", 10), ("SIGUSR1", 10), ("sigterm", 15), ("10", 10), ("HUP", 1), ("31", 31)]
    {
        assert_eq!(parse_signal(text), Ok(number), "{text}");
    }
    for text in ["", "0", "32", "-1", "SIG", "USR9", "99999999999"] {
        assert!(parse_signal(text).is_err(), "{text:?}");
    }
}

/// Expected values from GNU date: `date -u -d 2026-08-01T06:00:00Z +%s`.
#[test]
fn instants() {
    for (text, millis) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-08-01T06:00:00Z", 1_785_564_000_000),
        ("2026-08-01T08:00:00+02:00", 1_785_564_000_000),
        ("2026-08-01 06:00Z", 1_785_564_000_000),
        ("2026-08-01t06:00:00.25z", 1_785_564_000_250),
        ("2024-02-29T23:59:59-0330", 1_709_263_799_000),
        ("2000-03-01T00:00:00Z", 951_868_800_000),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999),
    ] {
        assert_eq!(parse_instant(text), Ok(Time(millis)), "{text}");
    }
    for text in [
        "",
        "2026-08-01",
        "2026-08-01T06:00:00",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-08-01T24:00:00Z",
        "2026-08-01T06:60:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00",
        "2026-08-01T06:00:00.Z",
        "2026-08-01T06:00:00+25:00",
        "2026/08/01T06:00:00Z",
        "２026-08-01T06:00:00Z",
        "10000-01-01T00:00:00Z",
        "2026-08-01T06:00:00Z and more",
    ] {
        assert!(parse_instant(text).is_err(), "{text:?}");
    }
    assert_eq!(parse_begin("+2h"), Ok(EarliestStart::After(Span(2 * HOUR))));
    assert_eq!(parse_begin("now+90m"), Ok(EarliestStart::After(Span(90 * MINUTE))));
    assert_eq!(parse_begin("1970-01-01T00:01Z"), Ok(EarliestStart::At(Time(MINUTE))));
    assert_eq!(EarliestStart::After(Span(5)).at(Time(7)), Time(12));
    let error: Malformed = parse_begin("2h").unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("write `+2h` to count from submission"));
}
