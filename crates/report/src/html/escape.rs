//! Text as HTML. Every name of a trace on the page goes through this file, or is data of a script;
//! it must not let any of them become markup.

/// Returns text as HTML that shows it as it is.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}
