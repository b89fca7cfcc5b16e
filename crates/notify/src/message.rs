//! Text of a notice: one sentence for chats and subjects, and the JSON that programs get.

use muster_model::NoticeOrder;
use muster_model::notice::NoticeEvent;
use serde_json::{Value, json};

/// Returns the notice as one line: `job 12 (train) on node1: failed after 2h: rank 0 exited with 1`.
pub(crate) fn sentence(order: &NoticeOrder) -> String {
    let notice = &order.notice;
    let count = if notice.count > 1 { format!(" ({} times)", notice.count) } else { String::new() };
    format!("job {} ({}) on {}: {}{count}", notice.job, notice.name, order.host, notice.text)
}

/// Returns the subject of a mail, in ASCII.
pub(crate) fn subject(order: &NoticeOrder) -> String {
    let notice = &order.notice;
    let event = match notice.event {
        NoticeEvent::Start => "started",
        NoticeEvent::End => "ended",
        NoticeEvent::Failure => "did not end well",
        NoticeEvent::Preemption => "was preempted",
        NoticeEvent::Idle => "leaves its GPUs idle",
        NoticeEvent::Limit => "is near its time limit",
    };
    let line = format!("job {} ({}) {event}", notice.job, notice.name);
    line.chars().map(|c| if c.is_ascii() && !c.is_control() { c } else { '?' }).collect()
}

/// Returns the notice as JSON.
pub(crate) fn as_json(order: &NoticeOrder) -> Value {
    let notice = &order.notice;
    json!({
        "event": notice.event,
        "at_ms": notice.at.0,
        "host": order.host,
        "job": notice.job,
        "name": notice.name,
        "user": notice.user,
        "queue": notice.queue,
        "count": notice.count,
        "text": notice.text,
        "sentence": sentence(order),
    })
}

/// Returns the command that tells more about the job.
pub(crate) fn next_step(order: &NoticeOrder) -> String {
    let job = order.notice.job;
    match order.notice.event {
        NoticeEvent::Start | NoticeEvent::End => format!("muster show {job}"),
        NoticeEvent::Failure => format!("muster logs {job}"),
        NoticeEvent::Preemption => format!("muster explain {job}"),
        NoticeEvent::Idle => "muster top".to_owned(),
        NoticeEvent::Limit => format!("muster checkpoint {job}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use muster_model::JobId;
    use muster_model::notice::{Notice, NoticeAddress};
    use muster_model::unit::Time;

    use super::*;

    /// Returns an order of a notice whose text a chat could take for markup.
    pub(crate) fn order(to: NoticeAddress) -> NoticeOrder {
        let notice = Notice {
            event: NoticeEvent::Failure,
            at: Time(1_000),
            job: JobId(12),
            name: "train".to_owned(),
            user: "ada".into(),
            queue: "lab/vision".into(),
            count: 1,
            text: "failed after 2h: rank 0 lost: <!channel> & @everyone".to_owned(),
        };
        NoticeOrder { notice, to, host: "node1".to_owned(), sender: None }
    }

    #[test]
    fn several_events_of_a_kind_are_one_sentence() {
        let mut order = order(NoticeAddress::Mail("ada@example.org".to_owned()));
        order.notice.text = "gives up idle GPUs to job 7".to_owned();
        order.notice.count = 3;
        assert_eq!(
            sentence(&order),
            "job 12 (train) on node1: gives up idle GPUs to job 7 (3 times)"
        );
    }

    #[test]
    fn a_subject_is_one_line_of_ascii() {
        let mut order = order(NoticeAddress::Mail("ada@example.org".to_owned()));
        order.notice.name = "a\r\nBcc: b\u{e9}".to_owned();
        assert_eq!(subject(&order), "job 12 (a??Bcc: b?) did not end well");
    }
}
