//! Handlers for nodes: listing, draining and resuming nodes or single GPUs.

use axum::Json;
use axum::extract::State;
use muster_api::types::{ActionResponse, DrainRequest, NodeList, ResumeRequest};
use muster_model::unit::Time;
use muster_model::view::NodeView;
use muster_model::{Device, DeviceSet, Drain, Event, NodeName};
use muster_report::amount::count;
use muster_report::clock;

use super::extract::NodePath;
use super::{ApiState, OptionalBody};
use crate::auth::Caller;
use crate::failure::ApiFailure;

/// Longest reason of a drain in bytes.
const MAX_REASON_BYTES: usize = 1000;

pub(super) async fn list(
    State(app): State<ApiState>,
    caller: Caller,
) -> Result<Json<NodeList>, ApiFailure> {
    let now = app.handle.status().await?.now;
    let mut nodes = app.handle.nodes().await?;
    for device in nodes.iter_mut().flat_map(|node| &mut node.devices) {
        caller.hide_processes_of_others(&mut device.foreign_processes);
    }
    Ok(Json(NodeList { now, nodes }))
}

pub(super) async fn drain(
    State(app): State<ApiState>,
    caller: Caller,
    NodePath(name): NodePath,
    OptionalBody(request): OptionalBody<DrainRequest>,
) -> Result<Json<ActionResponse>, ApiFailure> {
    caller.require_admin("drain nodes")?;
    if request.reason.len() > MAX_REASON_BYTES {
        return Err(ApiFailure::bad_request(format!(
            "`reason` takes at most {MAX_REASON_BYTES} bytes"
        )));
    }
    let now = app.handle.status().await?.now;
    let from = begin(&request, now)?;
    let place = DrainTarget::find(&app, &name, &request.gpus).await?;
    let drain = Drain {
        from,
        by: Some(caller.identity.user.clone()),
        reason: request.reason.trim().into(),
        stop: request.stop,
    };
    let word = place.drained(&drain, now);
    let event = Event::DrainSet { node: name, devices: place.devices, drain: Some(drain) };
    app.handle.change_node(event, word).await.map(Json)
}

pub(super) async fn resume(
    State(app): State<ApiState>,
    caller: Caller,
    NodePath(name): NodePath,
    OptionalBody(request): OptionalBody<ResumeRequest>,
) -> Result<Json<ActionResponse>, ApiFailure> {
    caller.require_admin("resume nodes")?;
    let place = DrainTarget::find(&app, &name, &request.gpus).await?;
    let word = place.resumed();
    let event = Event::DrainSet { node: name, devices: place.devices, drain: None };
    app.handle.change_node(event, word).await.map(Json)
}

/// Returns the start of the drain.
fn begin(request: &DrainRequest, now: Time) -> Result<Time, ApiFailure> {
    match (request.at, request.after) {
        (Some(_), Some(_)) => {
            Err(ApiFailure::bad_request("`at` and `after` exclude each other; give one of them"))
        }
        (Some(at), None) if at <= now => {
            let ago = clock::elapsed(now.since(at));
            Err(ApiFailure::bad_request(format!(
                "`at` lies in the past, {ago} ago; leave it out to drain now"
            )))
        }
        (Some(at), None) => Ok(at),
        (None, after) => Ok(after.map_or(now, |span| now + span)),
    }
}

/// Target of a drain or resume: a node, or some of its devices.
struct DrainTarget {
    view: NodeView,
    devices: Option<DeviceSet>,
}

impl DrainTarget {
    async fn find(app: &ApiState, name: &NodeName, gpus: &[String]) -> Result<Self, ApiFailure> {
        let nodes = app.handle.nodes().await?;
        let known: Vec<String> = nodes.iter().map(|node| node.name.to_string()).collect();
        let Some(view) = nodes.into_iter().find(|node| node.name == *name) else {
            let known = known.iter().map(String::as_str);
            let near = muster_spec::did_you_mean(name.as_str(), known);
            return Err(ApiFailure::NotFound(format!("there is no node {name}{near}")));
        };
        let site = app.site.borrow().clone();
        let spec = site.nodes.iter().find(|node| node.name == *name);
        let devices = spec.map_or(&[][..], |spec| &spec.devices);
        let mut chosen = DeviceSet::EMPTY;
        for text in gpus {
            chosen = chosen.or(gpu(text, name, devices)?);
        }
        Ok(Self { view, devices: (!gpus.is_empty()).then_some(chosen) })
    }

    /// Formats the target: `n1`, `GPU 3 of n1`, `GPUs 3,5 of n1`.
    fn name(&self) -> String {
        let Some(devices) = self.devices else { return self.view.name.to_string() };
        let indices: Vec<String> = devices.iter().map(|index| index.to_string()).collect();
        let word = if indices.len() == 1 { "GPU" } else { "GPUs" };
        format!("{word} {} of {}", indices.join(","), self.view.name)
    }

    /// Returns the present drains of the target.
    fn drains(&self) -> Vec<&Drain> {
        match self.devices {
            None => self.view.drain.iter().collect(),
            Some(chosen) => {
                let devices = self
                    .view
                    .devices
                    .iter()
                    .filter(|device| chosen.contains(usize::from(device.index)));
                devices.filter_map(|device| device.drain.as_ref()).collect()
            }
        }
    }

    /// Returns the message after a drain.
    fn drained(&self, drain: &Drain, now: Time) -> String {
        let name = self.name();
        let again = if self.drains().is_empty() { "" } else { "; this replaces the earlier drain" };
        let is_later = drain.from > now;
        let when = if is_later {
            format!("drained in {}", clock::remaining(drain.from.since(now)))
        } else {
            "drained: no new jobs start there".to_owned()
        };
        let until =
            if is_later { "; until then, jobs that end in time still start there" } else { "" };
        let rest = match (drain.stop, is_later) {
            (false, _) => "; running jobs continue",
            (true, false) => "; running jobs are stopped and queued again",
            (true, true) => "; jobs that still run then are stopped and queued again",
        };
        format!("{name}: {when}{until}{rest}{again}")
    }

    /// Returns the message after a resume.
    fn resumed(&self) -> String {
        let name = self.name();
        if self.drains().is_empty() {
            return match self.devices {
                None if self.view.devices.iter().any(|device| device.drain.is_some()) => {
                    let gpus = self.view.devices.iter().filter(|device| device.drain.is_some());
                    let gpus: Vec<String> = gpus.map(|device| device.index.to_string()).collect();
                    let word = count(gpus.len() as u64, "GPU");
                    format!(
                        "{name} was not drained as a whole; `--gpu {}` ends the drain of {word} of it",
                        gpus.join(",")
                    )
                }
                _ => format!("{name}: not drained; nothing has changed"),
            };
        }
        match (self.devices.is_some(), &self.view.drain, &self.view.drained) {
            (true, Some(_), Some(_)) => {
                format!("{name}: no longer drained, but the node as a whole is")
            }
            (true, Some(_), None) => {
                format!("{name}: new jobs start there again, until the node as a whole is drained")
            }
            _ => format!("{name}: new jobs start there again"),
        }
    }
}

/// Parses GPUs: `3`, `0-3`, the UUID of a device, or that of a device with MIG slices.
fn gpu(text: &str, node: &NodeName, devices: &[Device]) -> Result<DeviceSet, ApiFailure> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
        if first <= last && last < devices.len() {
            return Ok((first..=last).collect());
        }
        let known = match devices.len() {
            0 => "it has none".to_owned(),
            1 => "its only one is 0".to_owned(),
            many => format!("they are 0 to {}", many - 1),
        };
        return Err(ApiFailure::NotFound(format!("{node} has no GPU {text}; {known}")));
    }
    let is_meant = |device: &Device| {
        !text.is_empty() && (*device.uuid == *text || device.slice_of.as_deref() == Some(text))
    };
    let found: DeviceSet = (0..devices.len()).filter(|index| is_meant(&devices[*index])).collect();
    if found.is_empty() {
        return Err(ApiFailure::NotFound(format!(
            "{node} has no GPU `{text}`; name it by its index or UUID"
        )));
    }
    Ok(found)
}
