//! What administrators do besides nodes and queues: they set nodes and GPUs aside for some, and
//! name the levels of the topology anew. Chosen by dice; it must not look at what the engine
//! decides.

use muster_model::{Event, GpuModel, NodeName, Span, Window, WindowName, WindowTimes, WindowWhat};
use muster_runtime::Input;

use super::jobs::USERS;
use super::site::{self, MODELS};
use super::world::World;

impl World {
    /// Somebody sets something aside, now or for later, or takes that back.
    pub(crate) fn change_window(&mut self) -> Event {
        let now = self.clock();
        let dice = &mut self.dice;
        let name: WindowName = format!("w{}", dice.roll(4)).into();
        if dice.chance(15) {
            return Event::WindowDropped { window: name, by: Some("root".into()) };
        }
        let nodes: Vec<NodeName> = self.hosts.iter().map(|host| host.spec.name.clone()).collect();
        let model = dice.chance(50).then(|| GpuModel::from(*dice.pick(&MODELS[..2])));
        let what = match dice.chance(40) {
            true => WindowWhat::Nodes(vec![dice.pick(&nodes).clone()]),
            false => WindowWhat::Gpus { count: dice.between(1, 3) as u32, model },
        };
        let length = Span::from_secs(dice.between(20, 120));
        let every = dice.chance(30).then(|| length + Span::from_secs(dice.between(10, 100)));
        let count = every.map(|_| dice.between(1, 4) as u32);
        let times = WindowTimes { start: now + Span(dice.roll(60_000)), length, every, count };
        let queues = if dice.chance(30) { vec!["default".into()] } else { Vec::new() };
        let users = vec![(*dice.pick(&USERS)).into(), (*dice.pick(&USERS)).into()];
        let stop = dice.chance(50);
        let reason = "a talk".into();
        let window =
            Window { name, users, queues, what, times, stop, by: Some("root".into()), reason };
        Event::WindowSet(Box::new(window))
    }

    /// The cluster file names other levels.
    pub(crate) fn replace_levels(&mut self) -> Event {
        self.levels = site::levels(&mut self.dice);
        self.cover.levels += 1;
        Event::LevelsSet(self.levels.clone())
    }

    /// Everything that is set aside is taken back.
    pub(crate) fn open_all(&self) -> impl Iterator<Item = Input> {
        let names: Vec<WindowName> = self.book.windows.keys().cloned().collect();
        let drop = |window| Input::Event(Event::WindowDropped { window, by: Some("root".into()) });
        names.into_iter().map(drop)
    }
}
