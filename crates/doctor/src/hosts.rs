//! Expansion of Slurm's host lists, such as `node[01-04,7],login1`, and of device files in the same
//! notation.

/// Maximum number of names in one list; more than Slurm's largest clusters have nodes.
const MAX_NAMES: usize = 1 << 16;

/// Expands a list to all names, in order. `None` where it is not a host list, or too long.
#[must_use]
pub fn expand(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for part in parts(list)? {
        names.extend(expand_one(part)?);
        if names.len() > MAX_NAMES {
            return None;
        }
    }
    Some(names)
}

/// Splits at commas outside brackets.
fn parts(list: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut inside = false;
    for (at, c) in list.char_indices() {
        match c {
            '[' if inside => return None,
            ']' if !inside => return None,
            '[' | ']' => inside = c == '[',
            ',' if !inside => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    (!inside).then(|| parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect())
}

fn expand_one(part: &str) -> Option<Vec<String>> {
    let Some((head, rest)) = part.split_once('[') else {
        return Some(vec![part.to_owned()]);
    };
    let (ranges, tail) = rest.split_once(']')?;
    let tails = expand_one(tail)?;
    let mut names = Vec::new();
    for number in ranges.split(',').map(numbers).collect::<Option<Vec<_>>>()?.into_iter().flatten()
    {
        for tail in &tails {
            names.push(format!("{head}{number}{tail}"));
            if names.len() > MAX_NAMES {
                return None;
            }
        }
    }
    Some(names)
}

/// Expands `01-04` with its leading zeros.
fn numbers(range: &str) -> Option<Vec<String>> {
    let range = range.trim();
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(first) || !digits(last) {
        return None;
    }
    let from: usize = first.parse().ok()?;
    let to: usize = last.parse().ok()?;
    let width = first.len();
    let is_sane = to >= from && to - from < MAX_NAMES && width <= 20;
    is_sane.then(|| (from..=to).map(|number| format!("{number:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_names() {
        for (list, names) in [
            ("a", "a"),
            ("n[1-3]", "n1 n2 n3"),
            ("n[08-10],x", "n08 n09 n10 x"),
            ("n[1,3-4]", "n1 n3 n4"),
            ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
            ("/dev/nvidia[0-1]", "/dev/nvidia0 /dev/nvidia1"),
            ("", ""),
        ] {
            assert_eq!(expand(list).unwrap().join(" "), names, "{list}");
        }
        for list in [
            "n[1-",
            "n1]",
            "n[[1]]",
            "n[3-1]",
            "n[a-b]",
            "n[0-999999]",
            "n[]",
            "a[0-9999]b[0-9999]",
        ] {
            assert_eq!(expand(list), None, "{list}");
        }
    }
}
