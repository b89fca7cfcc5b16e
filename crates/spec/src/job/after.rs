//! Dependencies between the documents of one text. A job can wait for an earlier document only:
//! then no cycle can be written, and every job has its number before another one names it.

use crate::diagnostic::{Problem, Problems, show};
use crate::job::fields::WaitTarget;
use crate::job::{CheckedJob, ParsedJob};
use crate::suggest::nearest;

/// Fills in `after_documents` of jobs, which were checked in the same order.
pub(super) fn resolve(
    documents: &[ParsedJob],
    checked: &mut [CheckedJob],
    problems: &mut Problems,
) {
    let names: Vec<String> = checked.iter().map(|job| job.spec.name.to_string()).collect();
    for (position, (document, job)) in documents.iter().zip(checked).enumerate() {
        for item in document.fields.after.iter().flat_map(|after| &after.value.0) {
            for wait in &item.value.0 {
                let WaitTarget::Name(name) = &wait.on else { continue };
                match find(&names, position, name) {
                    Ok(earlier) => job.after_documents.push((wait.kind, earlier)),
                    Err((label, hint)) => problems.add(
                        Problem::new(format!(
                            "{} is not an earlier document of this file",
                            show(name)
                        ))
                        .at(item.place, label)
                        .hint(hint),
                    ),
                }
            }
        }
    }
}

fn find(names: &[String], position: usize, name: &str) -> Result<usize, (String, Option<String>)> {
    let earlier = &names[..position];
    let mut found =
        earlier.iter().enumerate().filter(|(_, other)| *other == name).map(|(index, _)| index);
    match (found.next(), found.next()) {
        (Some(index), None) => return Ok(index),
        (Some(_), Some(_)) => {
            return Err(("several earlier documents have this name".to_owned(), None));
        }
        (None, _) => {}
    }
    if names[position] == name {
        return Err(("a job cannot wait for itself".to_owned(), None));
    }
    if names[position..].iter().any(|other| other == name) {
        let hint = format!(
            "move `{name}` above this document; if it waits for this one, that would be a cycle"
        );
        return Err(("this document comes later in the file".to_owned(), Some(hint)));
    }
    let near = nearest(name, earlier.iter().map(String::as_str));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "a job of another submission is named by its number, `after: 12`; `--after NAME` looks the number up".to_owned(),
    };
    Err(("no document has this name".to_owned(), Some(hint)))
}
