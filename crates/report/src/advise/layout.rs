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

    /// Returns every item of every section.
    pub(super) fn whole(&self, sections: &[PageSection]) -> Vec<String> {
        let all: Vec<usize> = sections.iter().map(|section| section.items.len()).collect();
        self.lines(sections, &all)
    }

    /// Returns as many items as fit in `lines`: one of each section, then one more of each in turn,
    /// by rank. If even one of each does not fit, the sections with the highest rank are only
    /// counted.
    pub(super) fn fitting(&self, sections: &[PageSection], lines: usize) -> Vec<String> {
        let mut shown: Vec<usize> =
            sections.iter().map(|section| section.items.len().min(1)).collect();
        let mut order: Vec<usize> = (0..sections.len()).collect();
        order.sort_by_key(|place| sections[*place].rank);
        for place in order.iter().rev() {
            let tall = self.lines(sections, &shown).len();
            if tall > lines {
                let before = std::mem::take(&mut shown[*place]);
                if self.lines(sections, &shown).len() == tall {
                    shown[*place] = before;
                }
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
        for (section, shown) in sections.iter().zip(shown) {
            if section.items.is_empty() {
                continue;
            }
            if section.apart {
                lines.push(String::new());
            }
            let mut own: Vec<String> =
                section.items[..*shown].iter().flat_map(|item| self.item(item)).collect();
            // Items left out are counted beside the last line if it has no label, else on a line of
            // their own.
            let left = section.items.len() - shown;
            let note = (left > 0).then(|| format!("+{left} more"));
            if note.is_some() && own.len() < 2 {
                own.push(self.context.paint(Ink::Faint, "--details shows the rest"));
            }
            if *shown == 0 {
                let count = format!("{left}, with --details");
                lines.push(self.labelled(
                    section.label,
                    Ink::Strong,
                    &self.context.paint(Ink::Faint, &count),
                ));
                continue;
            }
            let last = own.len() - 1;
            for (place, line) in own.iter().enumerate() {
                lines.push(match (place, &note) {
                    (0, _) => self.labelled(section.label, Ink::Strong, line),
                    (_, Some(note)) if place == last => self.labelled(note, Ink::Faint, line),
                    _ => self.labelled("", Ink::Plain, line),
                });
            }
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
        check(&[4], 3, &["list item 0", "item 1", "+1 more item 2"]);
        check(&[4], 2, &["list item 0", "+2 more item 1"]);
        check(&[3, 3], 5, &["list item 0", "item 1", "item 2", "list item 0", "+1 more item 1"]);
        check(&[2, 2], 4, &["list item 0", "item 1", "list item 0", "item 1"]);
        check(&[3, 2], 4, &["list item 0", "+1 more item 1", "list item 0", "item 1"]);
        check(&[2, 1], 2, &["list 2, with --details", "list item 0"]);
        // Every section is named, however small the screen; what ranks first is shown longest.
        check(&[2, 2], 3, &["list item 0", "item 1", "list 2, with --details"]);
        check(&[2, 2], 1, &["list 2, with --details", "list 2, with --details"]);
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
