//! Dense ids for names: GPU models, users, leaf queues. Ids are given in order of first sight and
//! never reused, so a replay gives the same ones.

use std::collections::BTreeMap;

use muster_model::{GpuModel, UserName};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A GPU model, dense, in order of first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelId(pub u16);

/// A leaf queue. Survives [`crate::Policy::replace_tree`] as long as a leaf of that name exists.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct LeafId(pub u32);

/// A user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserId(pub u32);

/// The engine's key of a pending entry; opaque here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u32);

/// GPU models by [`ModelId`].
#[derive(Clone, Debug, Default)]
pub struct Models {
    names: Vec<GpuModel>,
    ids: BTreeMap<GpuModel, ModelId>,
}

impl Models {
    /// The model's name.
    #[must_use]
    pub fn name(&self, model: ModelId) -> &GpuModel {
        &self.names[usize::from(model.0)]
    }

    /// The id of a model seen before.
    #[must_use]
    pub fn find(&self, name: &GpuModel) -> Option<ModelId> {
        self.ids.get(name).copied()
    }

    /// How many models have been seen.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True when no model has been seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = ModelId> + use<> {
        (0..self.names.len()).map(|index| ModelId(index as u16))
    }

    pub(crate) fn names(&self) -> &[GpuModel] {
        &self.names
    }

    pub(crate) fn intern(&mut self, name: &GpuModel) -> ModelId {
        if let Some(known) = self.find(name) {
            return known;
        }
        let model = ModelId(
            u16::try_from(self.names.len()).expect("a cluster has fewer than 65,536 GPU models"),
        );
        self.names.push(name.clone());
        self.ids.insert(name.clone(), model);
        model
    }
}

/// Users by [`UserId`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    names: Vec<UserName>,
    /// Looked up for every job that comes; never listed.
    ids: FxHashMap<UserName, UserId>,
}

impl Users {
    pub(crate) fn name(&self, user: UserId) -> &UserName {
        &self.names[user.0 as usize]
    }

    pub(crate) fn names(&self) -> &[UserName] {
        &self.names
    }

    pub(crate) fn rename(&mut self, name: impl FnMut(&UserName) -> UserName) {
        let names: Vec<UserName> = self.names.iter().map(name).collect();
        *self = Self::default();
        for name in &names {
            self.intern(name);
        }
    }

    pub(crate) fn find(&self, name: &UserName) -> Option<UserId> {
        self.ids.get(name).copied()
    }

    pub(crate) fn intern(&mut self, name: &UserName) -> UserId {
        if let Some(known) = self.ids.get(name) {
            return *known;
        }
        let user = UserId(u32::try_from(self.names.len()).expect("fewer than 2^32 users"));
        self.names.push(name.clone());
        self.ids.insert(name.clone(), user);
        user
    }
}
