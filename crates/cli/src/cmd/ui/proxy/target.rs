//! Address of a job's port, if the port is one of a running job of this user. Everything else is refused: the proxy is
//! no way to other ports of this machine.

use std::net::SocketAddr;

use axum::http::StatusCode;
use muster_backends::listening::listens_at;
use muster_model::view::{JobState, JobView};
use rustix::process::geteuid;

use crate::cmd::ui::job_origins::JobPort;
use crate::cmd::ui::refusal::Refusal;
use crate::cmd::ui::state::PageState;
use crate::jobref;

/// Returns the address at which a process of the job listens.
///
/// # Errors
/// The job is not this user's, does not run, or does not listen there.
pub(super) async fn address(state: &PageState, of: JobPort) -> Result<SocketAddr, Refusal> {
    let JobPort { job, index, port } = of;
    if !state.is_local() {
        return Err(conflict(format!("job {job} does not run on this machine"))
            .hint("forward its port with `kubectl port-forward` or `ssh -L`"));
    }
    let view = state.client.job(job, index).await?.job;
    if !is_own(&view) {
        let owner = format!("job {job} belongs to {}", view.user);
        return Err(Refusal::foreign(&owner).hint("only its user can open its ports"));
    }
    let element = view.elements.iter().find(|each| index.is_none_or(|at| each.element.index == at));
    let now = element.map_or(view.state, |element| element.state);
    if now != JobState::Running {
        return Err(conflict(format!("job {job} does not run: it is {}", now.word())));
    }
    let uid = geteuid().as_raw();
    let look = tokio::task::spawn_blocking(move || listens_at(job.0, index, port, uid));
    let found = look.await.map_err(anyhow::Error::from)?.map_err(anyhow::Error::from)?;
    found.ok_or_else(|| {
        conflict(format!("no process of job {job} listens on port {port}"))
            .hint("it may not be ready yet: its output says when, and on which port")
    })
}

/// Returns whether a job is this user's.
pub(in crate::cmd::ui) fn is_own(job: &JobView) -> bool {
    job.user == jobref::own_name() && job.uid.is_none_or(|uid| uid == geteuid().as_raw())
}

fn conflict(message: String) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, "conflict", message)
}

#[cfg(test)]
mod tests {
    use muster_model::{JobId, Time};

    use super::*;

    fn own_job() -> JobView {
        let user = jobref::own_name();
        JobView::blank(JobId(7), "lab".to_owned(), user, JobState::Running, Time(0))
    }

    #[test]
    fn a_job_of_another_user_or_of_another_uid_is_not_own() {
        let mut job = own_job();
        assert!(is_own(&job));
        job.uid = Some(geteuid().as_raw());
        assert!(is_own(&job));
        job.uid = Some(geteuid().as_raw() + 1);
        assert!(!is_own(&job), "a name that has been given to another user since");
        let other = JobView { user: "somebody-else".into(), ..own_job() };
        assert!(!is_own(&other));
    }
}
