//! Mail by the machine's sendmail program, which every mail server brings; it knows how mail leaves the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_model::NoticeOrder;

use crate::command::feed;
use crate::{SendError, message};

/// Places of the program, in the order of the Linux Standard Base; `PATH` is searched before.
const PLACES: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// Hands a mail to the sendmail program.
pub(crate) fn send(order: &NoticeOrder, address: &str) -> Result<(), SendError> {
    let program = mailer().ok_or(SendError::NoMailer)?;
    let mut command = Command::new(program);
    // -i: a line with only a dot does not end the mail. --: the address is no option.
    command.args(["-i", "--", address]);
    feed("sendmail", command, text(order, address).as_bytes())
}

fn mailer() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|dir| dir.join("sendmail"));
    in_path.chain(PLACES.map(PathBuf::from)).find(|place| is_program(place))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns headers and body (RFC 5322). `Auto-Submitted` keeps absence notes from being sent back (RFC 3834).
fn text(order: &NoticeOrder, address: &str) -> String {
    let notice = &order.notice;
    format!(
        "To: {address}\nSubject: {}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n\
         {}\n\nqueue: {}\nuser:  {}\nnext:  {}\n",
        message::subject(order),
        message::sentence(order),
        notice.queue,
        notice.user,
        message::next_step(order),
    )
}

#[cfg(test)]
mod tests {
    use muster_model::notice::NoticeAddress;

    use super::*;
    use crate::message::tests::order;

    #[test]
    fn a_mail_has_headers_and_says_what_to_do_next() {
        let address = "ada@example.org";
        let text = text(&order(NoticeAddress::Mail(address.to_owned())), address);
        let (headers, body) = text.split_once("\n\n").unwrap();
        assert!(
            headers.contains("To: ada@example.org\nSubject: job 12 (train) did not end well\n")
        );
        assert!(body.starts_with("job 12 (train) on node1: failed after 2h"));
        assert!(body.contains("muster logs 12"));
    }
}
