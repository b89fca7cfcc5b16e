//! The field `notify`: what it means, and what is refused.

use insta::assert_snapshot;
use muster_model::notice::{NoticeAddress, NoticeEvent, WebhookFormat};
use serde_json::Map;

use crate::support::{check, complaint};

/// Returns each rule as its events and its address, with secrets.
fn rules(notify: &str) -> Vec<String> {
    let job = check(&format!("run: a\nnotify: {notify}")).unwrap().remove(0);
    let rule = |rule: &muster_model::notice::NoticeRule| {
        let events: Vec<_> = rule.on.iter().copied().map(NoticeEvent::word).collect();
        let to = match &rule.to {
            NoticeAddress::Mail(address) => address.clone(),
            NoticeAddress::Webhook { url, format } => match format {
                WebhookFormat::Json => url.clone(),
                WebhookFormat::Slack => format!("slack {url}"),
                WebhookFormat::Discord => format!("discord {url}"),
            },
            NoticeAddress::Command(text) => format!("run {text}"),
        };
        format!("{} -> {to}, {} before", events.join(","), rule.before_limit)
    };
    job.notices.iter().map(rule).collect()
}

#[test]
fn an_address_is_told_of_what_needs_a_person() {
    let default = "end,preemption,idle,limit";
    for (notify, expected) in [
        ("ada@example.org", format!("{default} -> ada@example.org, 10m before")),
        ("https://example.org/x?y", format!("{default} -> https://example.org/x?y, 10m before")),
        (
            "https://hooks.slack.com/s/1",
            format!("{default} -> slack https://hooks.slack.com/s/1, 10m before"),
        ),
        (
            "{webhook: 'https://discord.com/api/webhooks/1', on: failure}",
            "failure -> discord https://discord.com/api/webhooks/1, 10m before".to_owned(),
        ),
        (
            "{webhook: 'http://chat.lab/hook', format: slack, on: [limit, start, limit], before-limit: 1h}",
            "start,limit -> slack http://chat.lab/hook, 1h before".to_owned(),
        ),
        (
            "{command: 'notify-send hi', on: [end]}",
            "end -> run notify-send hi, 10m before".to_owned(),
        ),
    ] {
        assert_eq!(rules(notify), [expected]);
    }
    assert_eq!(rules("[a@b.org, {command: x}]").len(), 2);
    assert_eq!(rules("none").len(), 0);
}

#[test]
fn a_users_own_file_is_for_jobs_that_say_nothing() {
    let text = "name: a\nrun: a\n---\nname: b\nrun: b\nnotify: none\n---\nname: c\nrun: c\nnotify: c@example.org\n";
    let own = "- own@example.org\n- {command: beep, on: failure}\n";
    let jobs = muster_spec::parse_with_notices(text, None, &Map::new(), Some((own, "notify.yaml")));
    let nowhere = "default".into();
    let site = muster_spec::SubmissionSite::unknown("ann".into(), &nowhere);
    let jobs = muster_spec::check_all(&jobs.unwrap(), &site).unwrap();
    let counts: Vec<usize> = jobs.iter().map(|job| job.notices.len()).collect();
    assert_eq!(counts, [2, 0, 1]);
    assert!(muster_spec::parse_with_notices(text, None, &Map::new(), Some(("", "n"))).is_ok());
    let wrong =
        muster_spec::parse_with_notices(text, None, &Map::new(), Some(("nobody", "n.yaml")));
    assert!(wrong.unwrap_err().to_string().contains("n.yaml:1:1"));
}

#[test]
fn what_is_no_address_is_refused_with_what_is() {
    assert_snapshot!(complaint("run: a\nnotify: nobody"), @r"
    error: `notify` is no address: `nobody`
     --> train.yaml:2:9
      |
    2 | notify: nobody
      |         ^^^^^^ expected a mail address such as ada@example.org, or a URL
      |
    hint: for a program write `notify: {command: …}`
    ");
    assert_snapshot!(complaint("run: a\nnotify: ftp://example.org"), @r"
    error: `notify` is no address: `ftp://example.org`
     --> train.yaml:2:9
      |
    2 | notify: ftp://example.org
      |         ^^^^^^^^^^^^^^^^^ expected a URL that begins with https:// or http://
      |
    hint: for a program write `notify: {command: …}`
    ");
    assert_snapshot!(complaint("run: a\nnotify: {mail: a@b.org, command: x}"), @r"
    error: `notify` has no single address
     --> train.yaml:2:9
      |
    2 | notify: {mail: a@b.org, command: x}
      |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^ expected one of `mail`, `webhook` and `command`
    ");
    assert_snapshot!(complaint("run: a\nnotify: {on: end}"), @r"
    error: `notify` has no single address
     --> train.yaml:2:9
      |
    2 | notify: {on: end}
      |         ^^^^^^^^^ expected one of `mail`, `webhook` and `command`
    ");
    assert_snapshot!(complaint("run: a\nnotify: {mail: '-oQ/tmp@b.org'}"), @r"
    error: `notify` has no valid address: `-oQ/tmp@b.org`
     --> train.yaml:2:16
      |
    2 | notify: {mail: '-oQ/tmp@b.org'}
      |                ^^^^^^^^^^^^^^^ expected one mail address, without a name or brackets
    ");
    assert_snapshot!(complaint("run: a\nnotify: {mail: a@b.org, on: failed}"), @r"
    error: `on` is not an event
     --> train.yaml:2:29
      |
    2 | notify: {mail: a@b.org, on: failed}
      |                             ^^^^^^ expected one of start, end, failure, preemption, idle, limit
      |
    hint: did you mean `failure`?
    ");
    assert_snapshot!(complaint("run: a\nnotify: {url: 'https://b.org'}"), @r"
    error: there is no field `url`
     --> train.yaml:2:10
      |
    2 | notify: {url: 'https://b.org'}
      |          ^^^ did you mean `webhook`?
      |
    hint: the fields are mail, webhook, command, format, on, before-limit
    ");
}
