//! What was set aside for whom and when, from the journal alone: none of it is given to others who
//! would be there meanwhile, and who names it is inside of it. It shares no code with the engine.

use std::collections::BTreeMap;

use muster_model::{
    Event, NodeName, TaskPlacement, Time, Window, WindowName, WindowPlace, WindowTimes, WindowWhat,
};

use super::book::{Book, Job};
use super::cover::Cover;

/// What was asked for, and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    window: Window,
    places: Vec<WindowPlace>,
}

/// All that is set aside.
pub(crate) type Windows = BTreeMap<WindowName, Aside>;

/// Enters what the journal says of windows.
pub(crate) fn enter(windows: &mut Windows, event: &Event, cover: &mut Cover) {
    match event {
        Event::WindowSet(window) => {
            cover.windows += 1;
            let whole = |node: &NodeName| WindowPlace { node: node.clone(), devices: None };
            let places = match &window.what {
                WindowWhat::Nodes(nodes) => nodes.iter().map(whole).collect(),
                WindowWhat::Gpus { .. } => Vec::new(),
            };
            windows.insert(window.name.clone(), Aside { window: (**window).clone(), places });
        }
        Event::WindowPlaced { window, places } => {
            if let Some(aside) = windows.get_mut(window) {
                aside.places.clone_from(places);
            }
        }
        Event::WindowDropped { window, by } => {
            cover.windows_over += u64::from(by.is_none());
            windows.remove(window);
        }
        _ => {}
    }
}

/// Begin and end of each time that it is open, as long as it begins before an instant.
fn open(times: &WindowTimes, until: Time) -> impl Iterator<Item = (Time, Time)> {
    let most = times.every.map_or(1, |_| times.count.map_or(u64::MAX, u64::from));
    let every = times.every.map_or(0, |every| every.0);
    let begins =
        (0..most).map(move |nth| Time(times.start.0.saturating_add(nth.saturating_mul(every))));
    let length = times.length;
    begins.take_while(move |begin| *begin < until).map(move |begin| (begin, begin + length))
}

/// Does it have something of a place? A task without devices leaves those of a window of GPUs
/// alone.
fn touches(book: &Book, aside: &Aside, place: &TaskPlacement) -> bool {
    let here = book.nodes.get(place.node.0 as usize).map(|host| &host.spec.name);
    let mut places = aside.places.iter().filter(|one| Some(&one.node) == here);
    places.any(|one| one.devices.is_none_or(|devices| !devices.and(place.devices).is_empty()))
}

/// Does it have all of a place?
fn has(book: &Book, aside: &Aside, place: &TaskPlacement) -> bool {
    let here = book.nodes.get(place.node.0 as usize).map(|host| &host.spec.name);
    let mut places = aside.places.iter().filter(|one| Some(&one.node) == here);
    places.any(|one| one.devices.is_none_or(|devices| place.devices.minus(devices).is_empty()))
}

/// May it be there for as long as it may run?
pub(crate) fn judge_start(
    book: &Book,
    job: &Job,
    placement: &[TaskPlacement],
    at: Time,
    cover: &mut Cover,
) -> Result<(), String> {
    let end = job.spec.time_limit.map_or(Time::NEVER, |limit| at + limit + job.spec.grace);
    let named = job.spec.constraint.window.as_ref();
    // 1. Its own: for it, open all the while, and it is nowhere else.
    if let Some(name) = named {
        let aside =
            book.windows.get(name).ok_or_else(|| format!("in {name}, which is not there"))?;
        let is_below = |queue: &str| {
            let rest = book.leaf_of(job).strip_prefix(queue);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let window = &aside.window;
        if !window.users.contains(&job.spec.user)
            && !window.queues.iter().any(|one| is_below(one.as_str()))
        {
            return Err(format!("in {name}, which is for others"));
        }
        let covers = |(begin, over): (Time, Time)| begin <= at && end <= over;
        if !open(&window.times, at + muster_model::Span(1)).any(covers) {
            return Err(format!("in {name}, which is not open all the while"));
        }
        if placement.iter().any(|place| !has(book, aside, place)) {
            return Err(format!("outside of {name}"));
        }
        cover.inside += 1;
    }
    // 2. Those of others: not while they are open.
    for (name, aside) in book.windows.iter().filter(|(name, _)| named != Some(name)) {
        let meets = open(&aside.window.times, end).any(|(begin, over)| begin < end && at < over);
        if meets && placement.iter().any(|place| touches(book, aside, place)) {
            return Err(format!("in what is set aside as {name}"));
        }
    }
    Ok(())
}

/// True when somebody has set aside something of these places, for whenever that is.
pub(crate) fn is_aside(book: &Book, placement: &[TaskPlacement]) -> bool {
    book.windows.values().any(|aside| placement.iter().any(|place| touches(book, aside, place)))
}
