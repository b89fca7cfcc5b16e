//! Dense ids for names: GPU models, users, leaf queues. Ids are assigned in order of first use and
//! never reused, so a replay assigns the same ones.

use std::collections::BTreeMap;

use muster_model::{GpuModel, UserName};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Index of the unnamed root of the queue tree.
pub(crate) const ROOT: usize = 0;

/// Id of a GPU model; dense, in order of first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelId(pub u16);

/// Id of a leaf queue. Survives [`crate::Policy::replace_tree`] as long as a leaf of that name
/// exists.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct LeafId(pub u32);

/// Id of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserId(pub u32);

/// Key of a pending entry, assigned by the engine; opaque here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntrySlot(pub u32);

/// GPU models by [`ModelId`].
#[derive(Clone, Debug, Default)]
pub struct Models {
    names: Vec<GpuModel>,
    ids: BTreeMap<GpuModel, ModelId>,
}

impl Models {
    /// Returns the name of a model.
    #[must_use]
    pub fn name(&self, model: ModelId) -> &GpuModel {
        &self.names[usize::from(model.0)]
    }

    /// Returns the id of a model, if it was seen before.
    #[must_use]
    pub fn find(&self, name: &GpuModel) -> Option<ModelId> {
        self.ids.get(name).copied()
    }

    /// Returns the number of models seen.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns true if no model was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns all ids in order.
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

/// Names of users by [`UserId`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    names: Vec<UserName>,
    /// Ids by name; never iterated.
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
