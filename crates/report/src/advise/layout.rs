//! Layout of advice: sections with a label on the left and items on the right, shortened to a
//! number of lines if requested. Independent of the items' content.

use crate::RenderContext;
use crate::style::{Ink, shorten, wrap};
use crate::table::Labels;

/// Columns of the label with the blanks around it.
pub(super) const INDENT: usize = 13;
/// Text wider than this is hard to read, and files should not depend on a terminal.
const MAX_WIDTH: usize = 100;
/// Fewest columns for the text, even on a narrower terminal.
const MIN_WIDTH: usize = 24;

/// One entry of a section.
#[derive(Clone, Debug, Default)]
pub(super) struct SectionItem {
    pub(super) text: String,
    /// Anchor in the documentation, shown at the right.
    pub(super) id: Option<&'static str>,
    /// Details, shown below the text.
    pub(super) below: Vec<String>,
}

impl SectionItem {
    /// Returns an entry with neither anchor nor details.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Returns the same entry with an anchor.
    pub(super) fn with_id(self, id: &'static str) -> Self {
        Self { id: Some(id), ..self }
    }
}

/// One labelled list of the page.
#[derive(Clone, Debug)]
pub(super) struct PageSection {
    pub(super) label: &'static str,
    pub(super) items: Vec<SectionItem>,
    /// Order in which sections get lines on a small screen, lowest first.
    pub(super) rank: u8,
    /// True for an empty line before the section.
    pub(super) apart: bool,
    /// True if every item is shown on any screen.
    pub(super) is_whole: bool,
}

/// Width and style of a page.
pub(super) struct AdvicePage<'a> {
    context: RenderContext<'a>,
    width: usize,
}

impl<'a> AdvicePage<'a> {
    /// Returns a page as wide as the terminal, up to [`MAX_WIDTH`].
    pub(super) fn new(context: RenderContext<'a>) -> Self {
        let width = context.width.unwrap_or(MAX_WIDTH).clamp(INDENT + MIN_WIDTH, MAX_WIDTH);
        Self { context, width }
    }

    /// Returns the number of columns for the text of an item.
    pub(super) fn space(&self) -> usize {
        self.width - INDENT
    }

    /// Returns the number of columns for text that is not indented.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns a heading, wrapped to the page's width.
    pub(super) fn heading(&self, text: &str) -> Vec<String> {
        wrap(text, self.width).iter().map(|line| self.context.paint(Ink::Strong, line)).collect()
    }

    /// Returns a faint note below the sections.
    pub(super) fn note(&self, text: &str) -> Vec<String> {
        wrap(text, self.width).iter().map(|line| self.context.paint(Ink::Faint, line)).collect()
    }

    /// Returns every item of every section.
    pub(super) fn whole(&self, sections: &[PageSection]) -> Vec<String> {
        let all: Vec<usize> = sections.iter().map(|section| section.items.len()).collect();
        self.lines(sections, &all)
    }

    /// Returns as many items as fit in `lines`: one of each section, then one more of each in turn,
    /// by rank. If even one of each does not fit, the sections with the highest rank are only
    /// counted, on one line together.
    pub(super) fn fitting(&self, sections: &[PageSection], lines: usize) -> Vec<String> {
        let first = |section: &PageSection| {
            let least = if section.is_whole { section.items.len() } else { 1 };
            section.items.len().min(least)
        };
        let mut shown: Vec<usize> = sections.iter().map(first).collect();
        let mut order: Vec<usize> = (0..sections.len()).collect();
        order.sort_by_key(|place| sections[*place].rank);
        for place in order.iter().rev().filter(|place| !sections[**place].is_whole) {
            if self.lines(sections, &shown).len() > lines {
                shown[*place] = 0;
            }
        }
        let mut open: Vec<usize> = order.into_iter().filter(|place| shown[*place] > 0).collect();
        while !open.is_empty() {
            open.retain(|place| {
                if shown[*place] == sections[*place].items.len() {
                    return false;
                }
                shown[*place] += 1;
                let fits = self.lines(sections, &shown).len() <= lines;
                if !fits {
                    shown[*place] -= 1;
                }
                fits
            });
        }
        self.lines(sections, &shown)
    }

    fn lines(&self, sections: &[PageSection], shown: &[usize]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut hidden = Vec::new();
        for (section, shown) in sections.iter().zip(shown) {
            if section.items.is_empty() {
                continue;
            }
            let left = section.items.len() - shown;
            if *shown == 0 {
                hidden.push(format!("{} {left}", section.label));
                continue;
            }
            if section.apart {
                lines.push(String::new());
            }
            let mut own: Vec<String> =
                section.items[..*shown].iter().flat_map(|item| self.item(item)).collect();
            if left > 0 {
                own.push(self.context.paint(Ink::Faint, &format!("… {left} more")));
            }
            let labels = std::iter::once(section.label).chain(std::iter::repeat(""));
            lines.extend(
                labels.zip(&own).map(|(label, line)| self.labelled(label, Ink::Strong, line)),
            );
        }
        if !hidden.is_empty() {
            let counts = format!("--more shows {}", hidden.join(", "));
            let counts = wrap(&counts, self.space());
            let labels = std::iter::once("more").chain(std::iter::repeat(""));
            lines.extend(labels.zip(&counts).map(|(label, line)| {
                self.labelled(label, Ink::Strong, &self.context.paint(Ink::Faint, line))
            }));
        }
        lines
    }

    fn labelled(&self, label: &str, ink: Ink, line: &str) -> String {
        let labels = Labels { indent: 2, width: INDENT - 2, ink };
        labels.lines(label, [line], self.context).trim_end().to_owned()
    }

    fn item(&self, item: &SectionItem) -> Vec<String> {
        let space = self.space();
        let mut lines: Vec<String> =
            item.text.split('\n').flat_map(|part| wrap(part, space)).collect();
        if let Some(id) = item.id {
            let id = shorten(&format!("[{id}]"), space);
            let used = lines.last().map_or(0, |line| line.chars().count());
            let faint = self.context.paint(Ink::Faint, &id);
            let id_width = id.chars().count();
            match lines.last_mut() {
                Some(last) if used + 2 + id_width <= space => {
                    last.push_str(&" ".repeat(space - used - id_width));
                    last.push_str(&faint);
                }
                _ => lines.push(format!("{}{faint}", " ".repeat(space - id_width))),
            }
        }
        for below in &item.below {
            let wrapped = wrap(below, space - 2);
            lines.extend(
                wrapped.iter().map(|line| format!("  {}", self.context.paint(Ink::Faint, line))),
            );
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(counts: &[usize]) -> Vec<PageSection> {
        let section = |(rank, count): (usize, &usize)| PageSection {
            label: "list",
            items: (0..*count).map(|number| SectionItem::new(format!("item {number}"))).collect(),
            rank: u8::try_from(rank).unwrap(),
            apart: false,
            is_whole: false,
        };
        counts.iter().enumerate().map(section).collect()
    }

    #[test]
    fn lists_are_cut_where_the_screen_ends_and_say_so() {
        let context = RenderContext::plain();
        let page = AdvicePage::new(context);
        let check = |counts: &[usize], lines: usize, expected: &[&str]| {
            let shown = page.fitting(&sections(counts), lines);
            let shown: Vec<String> = shown.iter().map(|line| wrap(line, 99).join("")).collect();
            assert_eq!(shown, expected, "{counts:?} in {lines}");
        };
        check(&[2, 0, 1], 9, &["list item 0", "item 1", "list item 0"]);
        check(&[3], 3, &["list item 0", "item 1", "item 2"]);
        check(&[4], 3, &["list item 0", "item 1", "… 2 more"]);
        check(&[4], 2, &["list item 0", "… 3 more"]);
        check(&[3, 3], 6, &["list item 0", "item 1", "item 2", "list item 0", "item 1", "item 2"]);
        // Every section is named, however small the screen; what ranks first is shown longest.
        check(&[2, 2], 3, &["list item 0", "item 1", "more --more shows list 2"]);
        check(&[2, 2], 1, &["more --more shows list 2, list 2"]);
    }

    #[test]
    fn a_section_that_must_be_whole_is_whole_on_any_screen() {
        let page = AdvicePage::new(RenderContext::plain());
        let mut two = sections(&[3, 2]);
        two[0].is_whole = true;
        let shown = page.fitting(&two, 1);
        assert_eq!(shown.len(), 4, "{shown:?}");
        assert!(shown[3].ends_with("--more shows list 2"), "{shown:?}");
    }

    #[test]
    fn an_anchor_stands_at_the_right_or_on_a_line_of_its_own() {
        let context = RenderContext::plain().with_width(INDENT + 24);
        let page = AdvicePage::new(context);
        let shown = page.item(&SectionItem::new("short").with_id("anchor"));
        assert_eq!(shown, ["short           [anchor]"]);
        let shown = page.item(&SectionItem::new("words that take the line").with_id("anchor"));
        assert_eq!(shown, ["words that take the line", "                [anchor]"]);
    }
}
