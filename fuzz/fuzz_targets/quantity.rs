//! Any text as every quantity: none panics, and accepted values keep their bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_spec::quantity::{
    MAX_ELEMENTS, MAX_SPAN, parse_array, parse_begin, parse_bytes, parse_cpus, parse_gpus, parse_instant,
    parse_limit, parse_range, parse_signal, parse_span, parse_whole,
};

fuzz_target!(|text: &str| {
    assert!(parse_span(text).is_ok_and(|span| span <= MAX_SPAN) || parse_span(text).is_err());
    assert!(parse_array(text).map_or(true, |array| array.indices().count() as u64 <= MAX_ELEMENTS));
    assert!(parse_gpus(text).map_or(true, |gpus| gpus.devices == 0 || gpus.share.0 == 0));
    assert!(parse_signal(text).map_or(true, |signal| (1..=31).contains(&signal)));
    assert!(parse_range(text).map_or(true, |(low, high)| low <= high));
    let _ = (parse_limit(text), parse_bytes(text), parse_whole(text), parse_cpus(text));
    let _ = (parse_instant(text), parse_begin(text));
});
