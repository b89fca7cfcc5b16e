//! Draws a recording as an SVG that plays by itself: one picture of the terminal per change, shown
//! one after the other by a CSS animation, without a script.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Output;

/// Size of a character cell, in pixels.
const CELL: (f64, f64) = (7.8, 17.0);
/// Changes that follow each other faster than this are drawn as one frame; typed letters come every
/// 0.03 s.
const FRAME_SECS: f64 = 0.02;
/// Time for which the last frame stays before the animation starts again.
const END_SECS: f64 = 5.0;
/// The eight colours of a terminal on a dark ground.
const COLOURS: [&str; 8] =
    ["#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#e6edf3"];

/// Draws what appears on a terminal of this size.
pub fn draw(outputs: &[Output], columns: u16, rows: u16) -> String {
    let mut terminal = vt100::Parser::new(rows, columns, 0);
    let mut frames: Vec<(f64, Vec<String>)> = Vec::new();
    for (at, output) in outputs.iter().enumerate() {
        terminal.process(output.text.as_bytes());
        let next = outputs.get(at + 1).map_or(f64::INFINITY, |next| next.seconds);
        // Output that comes in one burst is one frame.
        if next - output.seconds >= FRAME_SECS {
            let lines = (0..rows).map(|row| line(terminal.screen(), row, columns)).collect();
            if frames.last().is_none_or(|(_, last)| *last != lines) {
                frames.push((output.seconds, lines));
            }
        }
    }
    page(&frames, columns, rows)
}

fn page(frames: &[(f64, Vec<String>)], columns: u16, rows: u16) -> String {
    let end = frames.last().map_or(0.0, |(seconds, _)| *seconds) + END_SECS;
    let width = f64::from(columns) * CELL.0 + 20.0;
    let height = f64::from(rows) * CELL.1 + 20.0;
    // A line that stands in many frames is written once.
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lines = String::new();
    let mut steps = String::new();
    let mut pictures = String::new();
    for (at, (seconds, frame)) in frames.iter().enumerate() {
        let top = height * at as f64;
        let from = if at == 0 { 0.0 } else { seconds / end * 100.0 };
        let _ = write!(steps, "{from:.2}%{{transform:translateY(-{top:.0}px)}}");
        for (row, line) in frame.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            let next = known.len();
            let id = *known.entry(line).or_insert(next);
            if id == next {
                let _ = write!(lines, "<text id=\"l{id}\">{line}</text>");
            }
            let y = top + 22.0 + row as f64 * CELL.1;
            let _ = write!(pictures, "<use href=\"#l{id}\" x=\"10\" y=\"{y:.0}\"/>");
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\">\
         <style>text{{font:13px ui-monospace,Menlo,Consolas,monospace;white-space:pre;fill:#c9d1d9}}\
         #s{{animation:p {end:.2}s step-end infinite}}@keyframes p{{{steps}}}</style>\
         <defs>{lines}</defs><rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\
         <g id=\"s\">{pictures}</g></svg>\n"
    )
}

/// Returns one line of the terminal as SVG spans, one per style; empty for a blank line.
fn line(screen: &vt100::Screen, row: u16, columns: u16) -> String {
    let mut spans: Vec<(String, String)> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column) else { continue };
        let text = if cell.has_contents() { cell.contents().to_owned() } else { " ".to_owned() };
        let style = style(cell);
        match spans.last_mut() {
            Some((last, shown)) if *last == style => shown.push_str(&text),
            _ => spans.push((style, text)),
        }
    }
    while spans.last().is_some_and(|(_, text)| text.trim().is_empty()) {
        spans.pop();
    }
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let last = spans.len().saturating_sub(1);
    let shown = |(at, (style, text)): (usize, &(String, String))| {
        let text = escaped(if at == last { text.trim_end() } else { text });
        if style.is_empty() { text } else { format!("<tspan style=\"{style}\">{text}</tspan>") }
    };
    spans.iter().enumerate().map(shown).collect()
}

fn style(cell: &vt100::Cell) -> String {
    let mut style = match cell.fgcolor() {
        vt100::Color::Default => String::new(),
        vt100::Color::Idx(index) => format!("fill:{}", COLOURS[usize::from(index % 8)]),
        vt100::Color::Rgb(red, green, blue) => format!("fill:#{red:02x}{green:02x}{blue:02x}"),
    };
    if cell.bold() {
        style.push_str(";font-weight:bold");
    }
    if cell.dim() {
        style.push_str(";opacity:.6");
    }
    style
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_becomes_frames_of_escaped_lines_that_are_written_once() {
        let output = |seconds, text: &str| Output { seconds, text: text.to_owned() };
        let outputs =
            [output(0.0, "a<b \u{1b}[31mred\u{1b}[0m\r\n"), output(1.0, "mo"), output(1.01, "re")];
        let svg = draw(&outputs, 20, 3);
        assert_eq!(svg.matches("a&lt;b <tspan style=\"fill:#ff7b72\">red</tspan>").count(), 1);
        assert_eq!(svg.matches("href=\"#l0\"").count(), 2, "{svg}");
        assert!(svg.contains(">more</text>") && !svg.contains(">mo</text>"), "{svg}");
    }
}
