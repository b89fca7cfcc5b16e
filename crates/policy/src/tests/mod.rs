//! Tests that span the modules of this crate: example rows per feature, and properties against
//! slow, plain oracles.

mod budget;
mod fairness;
mod ledger;
mod limits;
mod order;
mod quota;
mod replace;
mod tree;
mod trees;
