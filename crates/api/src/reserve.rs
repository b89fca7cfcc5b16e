//! Checks of requests for advance reservations that are the same for every place to run. They look at neither nodes
//! nor other reservations.

use muster_model::hostlist::{self, HostListError};
use muster_model::{
    AdvanceReservation, AdvanceReservationName, AdvanceReservationTimes, GpuModel, NodeName,
    ReservedResources, Span, Time, UserName,
};

use crate::types::ReserveRequest;

/// Longest reason of an advance reservation in bytes.
const MAX_REASON_BYTES: usize = 1000;
/// Most nodes in one request.
const MAX_NODES: usize = 100_000;
/// Most users and queues in one request.
const MAX_NAMED: usize = 1000;
/// Longest name of a user or queue in bytes.
const MAX_NAME_BYTES: usize = 1000;

/// Defect of a request for an advance reservation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveDefect {
    /// Both settings are given.
    #[error("`{0}` and `{1}` exclude each other; give one of them")]
    Exclusive(&'static str, &'static str),
    /// The start was this long ago.
    #[error("`at` lies in the past, {0} ago; leave it out to begin now")]
    Past(Span),
    /// A setting for repetitions is given without their period.
    #[error("`times` and `until` need `every`")]
    NoPeriod,
    /// The number of occurrences is 0.
    #[error("`times` must be at least 1")]
    NoOccurrence,
    /// Its repetitions end before they begin.
    #[error("`until` is not after the first start; give a later time")]
    EndsBeforeStart,
    /// Neither nodes nor GPUs are given.
    #[error("give `nodes`, a number of `gpus`, or on Kubernetes a `node_selector`")]
    NoResources,
    /// A GPU model is given for whole nodes.
    #[error("`gpu` goes with `gpus`; nodes are reserved whole")]
    ModelOfNodes,
    /// A text is no list of nodes.
    #[error("`{text}` is not a list of nodes: {error}")]
    NodeList {
        /// Part of the request that was read as a list.
        text: String,
        /// Defect of the list.
        error: HostListError,
    },
    /// More nodes are named than a request may have.
    #[error("at most {MAX_NODES} nodes can be named; reserve the others by another request")]
    TooManyNodes,
    /// The purpose is too long.
    #[error("`reason` is longer than {MAX_REASON_BYTES} bytes; shorten it")]
    LongReason,
    /// More users or queues are named than a request may have.
    #[error("at most {MAX_NAMED} {0} can be named; make a reservation for the others")]
    TooManyNamed(&'static str),
    /// A name of a user or queue is empty or too long.
    #[error("`{0}` contains a name that is empty or too long; correct it")]
    InvalidName(&'static str),
}

impl ReserveRequest {
    /// Returns the reservation that is requested at an instant. It names no nodes where labels choose them.
    ///
    /// # Errors
    /// The first defect of the request.
    pub fn reservation(
        &self,
        name: &AdvanceReservationName,
        by: &UserName,
        now: Time,
    ) -> Result<AdvanceReservation, ReserveDefect> {
        Ok(AdvanceReservation {
            times: self.occurrences(now)?,
            resources: self.resources()?,
            stop: self.stop,
            by: Some(by.clone()),
            reason: self.checked_reason()?.into(),
            users: named(&self.users, "users")?,
            queues: named(&self.queues, "queues")?,
            name: name.clone(),
        })
    }

    fn occurrences(&self, now: Time) -> Result<AdvanceReservationTimes, ReserveDefect> {
        let start = match (self.at, self.after) {
            (Some(_), Some(_)) => return Err(ReserveDefect::Exclusive("at", "after")),
            (Some(at), None) if at < now => {
                let ago = now.since(at);
                return Err(ReserveDefect::Past(Span::from_secs(ago.0.saturating_add(500) / 1000)));
            }
            (Some(at), None) => at,
            (None, after) => now + after.unwrap_or(Span(0)),
        };
        let count = match (self.every, self.times, self.until) {
            (None, None, None) => None,
            (None, ..) => return Err(ReserveDefect::NoPeriod),
            (Some(_), Some(_), Some(_)) => return Err(ReserveDefect::Exclusive("times", "until")),
            (Some(_), Some(0), None) => return Err(ReserveDefect::NoOccurrence),
            (Some(_), times, None) => times,
            (Some(_), None, Some(until)) if until <= start => {
                return Err(ReserveDefect::EndsBeforeStart);
            }
            (Some(every), None, Some(until)) => {
                Some(AdvanceReservationTimes::count_until(start, every, until))
            }
        };
        Ok(AdvanceReservationTimes { start, length: self.length, every: self.every, count })
    }

    fn resources(&self) -> Result<ReservedResources, ReserveDefect> {
        let model = self.gpu.as_deref().map(|model| GpuModel::from(&*model.to_lowercase()));
        match (&self.nodes[..], self.gpus) {
            ([_, ..], _) if !self.node_selector.is_empty() => {
                Err(ReserveDefect::Exclusive("nodes", "node_selector"))
            }
            ([], Some(count)) => {
                Ok(ReservedResources::Gpus { count, model, labels: Default::default() })
            }
            ([], None) if self.node_selector.is_empty() => Err(ReserveDefect::NoResources),
            (_, Some(_)) => Err(ReserveDefect::Exclusive("nodes", "gpus")),
            (_, None) if model.is_some() => Err(ReserveDefect::ModelOfNodes),
            (lists, None) => {
                let mut names: Vec<NodeName> = Vec::new();
                for text in lists {
                    let error = |error| ReserveDefect::NodeList { text: text.clone(), error };
                    names
                        .extend(hostlist::expand(text).map_err(error)?.into_iter().map(Into::into));
                    if names.len() > MAX_NODES {
                        return Err(ReserveDefect::TooManyNodes);
                    }
                }
                Ok(ReservedResources::Nodes(names))
            }
        }
    }

    fn checked_reason(&self) -> Result<&str, ReserveDefect> {
        if self.reason.len() > MAX_REASON_BYTES {
            return Err(ReserveDefect::LongReason);
        }
        Ok(self.reason.trim())
    }
}

/// Checks names, and returns them as ids.
fn named<T: for<'a> From<&'a str>>(
    names: &[String],
    what: &'static str,
) -> Result<Vec<T>, ReserveDefect> {
    if names.len() > MAX_NAMED {
        return Err(ReserveDefect::TooManyNamed(what));
    }
    match names.iter().find(|name| name.is_empty() || name.len() > MAX_NAME_BYTES) {
        Some(_) => Err(ReserveDefect::InvalidName(what)),
        None => Ok(names.iter().map(|name| T::from(name)).collect()),
    }
}

/// Returns the message for the user about a reservation that was made at an instant.
#[must_use]
pub fn confirmation(reservation: &AdvanceReservation, now: Time) -> String {
    let AdvanceReservation { name, times, .. } = reservation;
    let is_later = times.start > now;
    let when = if is_later {
        let secs = times.start.since(now).0.div_ceil(1000);
        format!("in {}", Span::from_secs(secs))
    } else {
        "now".to_owned()
    };
    let again = times.every.map(|every| format!(", and again every {every}")).unwrap_or_default();
    let until = if is_later { "; until then, jobs that end in time still start there" } else { "" };
    format!("{name}: reserved {when} for {}{again}{until}", times.length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_000_000);

    /// Returns a request for two GPUs for a minute.
    fn plain() -> ReserveRequest {
        ReserveRequest {
            gpus: Some(2),
            users: vec!["ann".to_owned()],
            length: Span::from_secs(60),
            ..ReserveRequest::default()
        }
    }

    fn read(request: &ReserveRequest) -> Result<AdvanceReservation, ReserveDefect> {
        request.reservation(&"exam".into(), &"root".into(), NOW)
    }

    #[test]
    fn each_defect_is_named() {
        let check = |request: ReserveRequest, text: &str| {
            assert_eq!(read(&request).unwrap_err().to_string(), text);
        };
        let at = Some(Time(998_000));
        let until = Some(NOW);
        let every = Some(Span::from_secs(60));
        check(
            ReserveRequest { at, ..plain() },
            "`at` lies in the past, 2s ago; leave it out to begin now",
        );
        check(ReserveRequest { until, ..plain() }, "`times` and `until` need `every`");
        check(
            ReserveRequest { until, every, ..plain() },
            "`until` is not after the first start; give a later time",
        );
        check(ReserveRequest { times: Some(0), every, ..plain() }, "`times` must be at least 1");
        check(
            ReserveRequest { gpus: None, ..plain() },
            "give `nodes`, a number of `gpus`, or on Kubernetes a `node_selector`",
        );
        let nodes = vec!["n[1-".to_owned()];
        let both = ReserveRequest { nodes: nodes.clone(), ..plain() };
        check(both, "`nodes` and `gpus` exclude each other; give one of them");
        let gpu = Some("H100".to_owned());
        let of_nodes = ReserveRequest { gpus: None, gpu, nodes: nodes.clone(), ..plain() };
        check(of_nodes, "`gpu` goes with `gpus`; nodes are reserved whole");
        let list = ReserveRequest { gpus: None, nodes: nodes.clone(), ..plain() };
        assert!(read(&list).unwrap_err().to_string().starts_with("`n[1-` is not a list of nodes"));
        let node_selector = [("pool".to_owned(), "exam".to_owned())].into();
        let labels = ReserveRequest { gpus: None, nodes, node_selector, ..plain() };
        check(labels, "`nodes` and `node_selector` exclude each other; give one of them");
        check(
            ReserveRequest { users: vec![String::new()], ..plain() },
            "`users` contains a name that is empty or too long; correct it",
        );
    }

    #[test]
    fn a_request_becomes_a_reservation() {
        let nodes = vec!["n[1-2]".to_owned(), "big".to_owned()];
        let request = ReserveRequest {
            gpus: None,
            nodes,
            after: Some(Span::from_secs(10)),
            every: Some(Span::from_secs(600)),
            until: Some(NOW + Span::from_secs(1000)),
            reason: " exam ".to_owned(),
            ..plain()
        };
        let asked = read(&request).unwrap();
        let names = ["n1", "n2", "big"].map(NodeName::from).to_vec();
        assert_eq!(asked.resources, ReservedResources::Nodes(names));
        assert_eq!((asked.times.start, asked.times.count), (Time(1_010_000), Some(2)));
        assert_eq!(&*asked.reason, "exam");
        let text = "exam: reserved in 10s for 1m, and again every 10m; \
                    until then, jobs that end in time still start there";
        assert_eq!(confirmation(&asked, NOW), text);
        assert_eq!(confirmation(&read(&plain()).unwrap(), NOW), "exam: reserved now for 1m");
    }
}
