//! Notices of a job as options of sbatch, which sends mail only: `--mail-user` and `--mail-type` (sbatch(1)).

use muster_model::notice::{NoticeAddress, NoticeEvent, NoticeRule};

use super::directive::Directive;

/// Returns the options, and adds what Slurm does not send. Slurm sends the same events to all addresses.
pub(super) fn options(rules: &[NoticeRule], warnings: &mut Vec<String>) -> Vec<Directive> {
    let mut users: Vec<&str> = Vec::new();
    let mut types: Vec<&str> = Vec::new();
    for rule in rules {
        let NoticeAddress::Mail(address) = &rule.to else {
            warnings.push(format!(
                "Slurm sends notices by mail only: nothing is sent to {}",
                rule.to.label()
            ));
            continue;
        };
        users.push(address);
        for kind in rule.on.iter().flat_map(|event| mail_types(*event)) {
            if !types.contains(kind) {
                types.push(kind);
            }
        }
    }
    if users.is_empty() || types.is_empty() {
        return Vec::new();
    }
    vec![Directive::new("mail-type", types.join(",")), Directive::new("mail-user", users.join(","))]
}

/// Returns Slurm's names of an event. Slurm does not know idle GPUs, and tells of a limit at 90 % of it.
fn mail_types(event: NoticeEvent) -> &'static [&'static str] {
    match event {
        NoticeEvent::Start => &["BEGIN"],
        NoticeEvent::End => &["END", "FAIL"],
        NoticeEvent::Failure => &["FAIL"],
        NoticeEvent::Preemption => &["REQUEUE"],
        NoticeEvent::Idle => &[],
        NoticeEvent::Limit => &["TIME_LIMIT_90"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_is_slurms_own_and_the_rest_is_told() {
        let rule = |on: &[NoticeEvent], to| NoticeRule {
            on: on.to_vec(),
            to,
            before_limit: NoticeRule::BEFORE_LIMIT,
        };
        let rules = [
            rule(&NoticeRule::DEFAULT_EVENTS, NoticeAddress::Mail("ada@example.org".to_owned())),
            rule(&[NoticeEvent::Failure], NoticeAddress::Mail("ops@example.org".to_owned())),
            rule(&[NoticeEvent::End], NoticeAddress::Command("notify-send done".to_owned())),
        ];
        let mut warnings = Vec::new();
        let lines: Vec<String> =
            options(&rules, &mut warnings).iter().map(Directive::line).collect();
        assert_eq!(
            lines.concat(),
            "#SBATCH --mail-type=END,FAIL,REQUEUE,TIME_LIMIT_90\n#SBATCH --mail-user=ada@example.org,ops@example.org\n"
        );
        assert_eq!(
            warnings,
            ["Slurm sends notices by mail only: nothing is sent to `notify-send`"]
        );
    }
}
