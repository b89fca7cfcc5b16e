//! Rules, by what they are about. Each is an entry of a list; none knows of another.

pub(super) mod asking;
pub(super) mod launching;
pub(super) mod meeting;
pub(super) mod moving;
pub(super) mod shape;
