//! Unified diff of two texts, as by `diff -u`.

use std::fmt::Write as _;

/// Number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// Line of an edit script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiffStep {
    Keep,
    Take,
    Add,
}

/// Returns the unified diff of two texts; empty if they are equal.
pub fn diff(old_name: &str, new_name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let steps = steps(&old, &new);
    let mut text = format!("--- {old_name}\n+++ {new_name}\n");
    for (start, end) in hunks(&steps) {
        let count = |of: DiffStep, range: &[DiffStep]| {
            range.iter().filter(|step| [DiffStep::Keep, of].contains(step)).count()
        };
        let mut from = count(DiffStep::Take, &steps[..start]);
        let mut to = count(DiffStep::Add, &steps[..start]);
        let part = &steps[start..end];
        let old_count = count(DiffStep::Take, part);
        let new_count = count(DiffStep::Add, part);
        // For an empty range the line before it is named, as by diff(1).
        let first = |from: usize, count: usize| if count == 0 { from } else { from + 1 };
        let _ = writeln!(
            text,
            "@@ -{},{old_count} +{},{new_count} @@",
            first(from, old_count),
            first(to, new_count)
        );
        for step in part {
            let _ = match step {
                DiffStep::Keep => writeln!(text, " {}", old[from]),
                DiffStep::Take => writeln!(text, "-{}", old[from]),
                DiffStep::Add => writeln!(text, "+{}", new[to]),
            };
            from += usize::from(*step != DiffStep::Add);
            to += usize::from(*step != DiffStep::Take);
        }
    }
    text
}

/// Returns the ranges of steps to show: changes with their context, merged where they overlap.
fn hunks(steps: &[DiffStep]) -> Vec<(usize, usize)> {
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for (at, _) in steps.iter().enumerate().filter(|(_, step)| **step != DiffStep::Keep) {
        let start = at.saturating_sub(CONTEXT);
        let end = (at + CONTEXT + 1).min(steps.len());
        match hunks.last_mut() {
            Some((_, last)) if *last >= start => *last = end,
            _ => hunks.push((start, end)),
        }
    }
    hunks
}

/// Returns the shortest edit script (Myers' greedy algorithm).
fn steps(old: &[&str], new: &[&str]) -> Vec<DiffStep> {
    // 1. Strip the common prefix and suffix.
    let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let old = &old[before..];
    let new = &new[before..];
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let old = &old[..old.len() - after];
    let new = &new[..new.len() - after];

    // 2. For each number of changes, compute how far in `old` each diagonal reaches; then
    //    backtrack.
    let n = old.len() as isize;
    let m = new.len() as isize;
    let width = (n + m + 1) as usize;
    let at = |diagonal: isize| (diagonal + n + m).rem_euclid(2 * width as isize) as usize;
    let mut reach = vec![0isize; 2 * width];
    let mut history = Vec::new();
    let is_down = |reach: &[isize], d: isize, k: isize| {
        k == -d || (k != d && reach[at(k - 1)] < reach[at(k + 1)])
    };
    'search: for d in 0..=n + m {
        history.push(reach.clone());
        for k in (-d..=d).step_by(2) {
            let mut x = if d == 0 {
                0
            } else if is_down(&reach, d, k) {
                reach[at(k + 1)]
            } else {
                reach[at(k - 1)] + 1
            };
            while x < n
                && x - k < m
                && x >= 0
                && x - k >= 0
                && old[x as usize] == new[(x - k) as usize]
            {
                x += 1;
            }
            reach[at(k)] = x;
            if x >= n && x - k >= m {
                break 'search;
            }
        }
    }
    let mut back = Vec::new();
    let mut x = n;
    let mut y = m;
    for (d, reach) in history.iter().enumerate().rev() {
        let d = d as isize;
        let k = x - y;
        if d == 0 {
            back.extend(std::iter::repeat_n(DiffStep::Keep, x as usize));
            break;
        }
        let down = is_down(reach, d, k);
        let start = if down { reach[at(k + 1)] } else { reach[at(k - 1)] };
        let (from_x, from_y) =
            if down { (start, start - (k + 1)) } else { (start, start - (k - 1)) };
        let kept = if down { x - from_x } else { x - from_x - 1 };
        back.extend(std::iter::repeat_n(DiffStep::Keep, kept as usize));
        back.push(if down { DiffStep::Add } else { DiffStep::Take });
        (x, y) = (from_x, from_y);
    }
    let keep = |count| std::iter::repeat_n(DiffStep::Keep, count);
    keep(before).chain(back.into_iter().rev()).chain(keep(after)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        let old = old.replace(' ', "\n");
        let new = new.replace(' ', "\n");
        let shown = diff("a", "b", &old, &new);
        let body: Vec<&str> = shown.lines().skip(2).collect();
        assert_eq!(body.join("|"), expected, "{old:?} -> {new:?}");
    }

    #[test]
    fn differences_are_those_of_diff_u() {
        check("a b c", "a b c", "");
        check("a b c", "a x c", "@@ -1,3 +1,3 @@| a|-b|+x| c");
        check("a", "a b", "@@ -1,1 +1,2 @@| a|+b");
        check("a b", "b", "@@ -1,2 +1,1 @@|-a| b");
        check("", "a", "@@ -0,0 +1,1 @@|+a");
        check(
            "1 2 3 4 5 6 7 8 9 10 11 12",
            "1 2 x 4 5 6 7 8 9 10 y 12",
            "@@ -1,6 +1,6 @@| 1| 2|-3|+x| 4| 5| 6|@@ -8,5 +8,5 @@| 8| 9| 10|-11|+y| 12",
        );
        check("a b c a b b a", "c b a b a c", "@@ -1,7 +1,6 @@|-a|-b| c|+b| a| b|-b| a|+c");
    }

    /// Kept and added lines are the new text, kept and taken lines the old one.
    #[test]
    fn every_script_leads_from_one_text_to_the_other() {
        let texts: Vec<Vec<&str>> = (0..243u32)
            .map(|number| {
                (0..5)
                    .map(|place| ["a", "b", "c"][(number / 3u32.pow(place) % 3) as usize])
                    .collect()
            })
            .collect();
        for old in texts.iter().step_by(7) {
            for new in texts.iter().step_by(5) {
                let steps = steps(old, &new[1..]);
                let mut from = old.iter();
                let mut to = new[1..].iter();
                for step in steps {
                    match step {
                        DiffStep::Keep => assert_eq!(from.next().unwrap(), to.next().unwrap()),
                        DiffStep::Take => assert!(from.next().is_some()),
                        DiffStep::Add => assert!(to.next().is_some()),
                    }
                }
                assert!(from.next().is_none() && to.next().is_none());
            }
        }
    }
}
