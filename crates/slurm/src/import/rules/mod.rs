//! Rules by subject: lists of independent entries.

pub(super) mod launching;
pub(super) mod losses;
pub(super) mod rendezvous;
pub(super) mod requests;
pub(super) mod shape;
