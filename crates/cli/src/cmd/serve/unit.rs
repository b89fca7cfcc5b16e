//! Text of the unit of systemd: that of `packaging/muster.service`, with the path of this program and the
//! options of the daemon. Its first line has a checksum of the others, so that changes by hand are seen.

/// Unit as it is in the repository.
const TEMPLATE: &str = include_str!("../../../../../packaging/muster.service");

/// Setting that names the program.
const START: &str = "ExecStart=";

/// First line, up to the checksum.
const MARK: &str = "# Written by `muster serve --system --install`; change it with `systemctl edit muster`. Checksum: ";

/// Unit file on a machine, compared with the one that would be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitOrigin {
    /// The file has the text that would be written.
    Same,
    /// Written by an earlier `--install`, and not changed since.
    EarlierInstall,
    /// Written or changed by hand.
    ByHand,
}

/// Returns the unit that starts these words, the path of the program first. No word may have a control character.
pub fn render(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    // The first line of the template says where it comes from.
    let lines = TEMPLATE.lines().skip(1).map(|line| match line.strip_prefix(START) {
        Some(_) => format!("{START}{}\n", words.join(" ")),
        None => format!("{line}\n"),
    });
    let body: String = lines.collect();
    format!("{MARK}{:08x}\n{body}", checksum(&body))
}

/// Compares the unit that is there with the one that would be written.
pub fn origin(present: &str, wanted: &str) -> UnitOrigin {
    if present == wanted {
        return UnitOrigin::Same;
    }
    let is_unchanged = present
        .strip_prefix(MARK)
        .and_then(|rest| rest.split_once('\n'))
        .is_some_and(|(sum, body)| sum == format!("{:08x}", checksum(body)));
    if is_unchanged { UnitOrigin::EarlierInstall } else { UnitOrigin::ByHand }
}

/// Returns a word as systemd reads it back: quoted if needed, without its specifiers and variables.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let escaped =
        word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{escaped}\"")
}

fn checksum(text: &str) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(text.as_bytes());
    sum.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_unit_starts_this_program_with_these_options_and_keeps_all_other_settings() {
        let unit = render(&words("/opt/muster serve --system --default-time 12h"));
        assert!(
            unit.contains("\nExecStart=/opt/muster serve --system --default-time 12h\n"),
            "{unit}"
        );
        assert_eq!(unit.matches(START).count(), 1);
        for setting in ["KillMode=process", "Delegate=yes", "StateDirectory=muster", "WantedBy="] {
            assert!(unit.contains(setting), "{setting}");
        }
        assert_eq!(unit.lines().count(), TEMPLATE.lines().count());
    }

    #[test]
    fn words_are_read_back_by_systemd() {
        for (word, expected) in [
            ("/etc/muster/queues.yaml", "/etc/muster/queues.yaml"),
            ("8:h100,2:a100", "8:h100,2:a100"),
            ("", "\"\""),
            ("/a b/q", "\"/a b/q\""),
            ("100%$x\\\"", "\"100%%$$x\\\\\\\"\""),
            ("a;b", "\"a;b\""),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn a_unit_that_was_changed_by_hand_is_told_from_one_of_an_earlier_installation() {
        let wanted = render(&words("/opt/muster serve --system"));
        let earlier = render(&words("/usr/bin/muster serve --system --keep 7d"));
        assert_eq!(origin(&wanted, &wanted), UnitOrigin::Same);
        assert_eq!(origin(&earlier, &wanted), UnitOrigin::EarlierInstall);
        for by_hand in [
            earlier.replace("7d", "8d"),
            earlier.replacen('#', "##", 1),
            TEMPLATE.to_owned(),
            String::new(),
        ] {
            assert_eq!(origin(&by_hand, &wanted), UnitOrigin::ByHand, "{by_hand}");
        }
    }
}
