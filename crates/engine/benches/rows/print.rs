//! Formats the table as text, with rounded numbers.

use serde_json::Value;

const HEADING: [&str; 8] = [
    "what",
    "goal",
    "measured",
    "calibrations",
    "nodes × 2",
    "running × 2",
    "pending × 2",
    "instructions",
];

/// Returns a Markdown table with aligned columns.
pub fn markdown(lines: &[Value]) -> String {
    let rows: Vec<[String; 8]> = lines.iter().map(cells).collect();
    let headings = HEADING.map(str::to_owned);
    let width = |at: usize| {
        let all = rows.iter().chain([&headings]).map(|cells| cells[at].chars().count());
        all.max().unwrap_or(0)
    };
    let render = |cells: &[String; 8]| {
        let padded = cells
            .iter()
            .enumerate()
            .map(|(at, cell)| format!("{cell}{}", " ".repeat(width(at) - cell.chars().count())));
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule: [String; 8] = std::array::from_fn(|at| "-".repeat(width(at)));
    [&headings, &rule].into_iter().chain(&rows).map(render).collect()
}

fn cells(line: &Value) -> [String; 8] {
    let unit = line["unit"].as_str().unwrap_or("");
    let show =
        |value: &Value| value.as_f64().map(|value| quantity(value, unit)).unwrap_or_default();
    let goal = match (&line["at_least"], &line["at_most"]) {
        (Value::Null, Value::Null) => String::new(),
        (Value::Null, most) => format!("≤ {}", show(most)),
        (least, _) => format!("≥ {}", show(least)),
    };
    let factor = |axis: &str| {
        line["doubled"][axis].as_f64().map(|by| format!("× {by:.2}")).unwrap_or_default()
    };
    [
        line["what"].as_str().unwrap_or("").to_owned(),
        goal,
        show(&line["value"]),
        line["calibrations"].as_f64().map(digits).unwrap_or_default(),
        factor("nodes"),
        factor("running"),
        factor("pending"),
        line["instructions"].as_u64().map(thousands).unwrap_or_default(),
    ]
}

fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "bytes" => format!("{} bytes", thousands(value.round() as u64)),
        "per second, median" => format!("{} /s", thousands((value / 1000.0).round() as u64 * 1000)),
        _ if value < 1e-3 => format!("{} µs", digits(value * 1e6)),
        _ if value < 1.0 => format!("{} ms", digits(value * 1e3)),
        _ => format!("{} s", digits(value)),
    }
}

/// Formats a number with three significant digits.
fn digits(value: f64) -> String {
    let places = match value {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 4,
    };
    format!("{value:.places$}")
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    groups.iter().map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(",")
}
