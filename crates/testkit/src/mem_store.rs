//! A store in memory, for tests and simulation. It keeps records as text, as a real store does, so
//! that everything it returns was serialised.

use std::collections::BTreeMap;

use muster_model::unit::Time;
use muster_model::{Payload, PayloadId, UserName};

use muster_runtime::{
    JOURNAL_VERSION, JournalBatch, JournalRecord, Loaded, Receipt, SavedState, Store, StoreError,
};

/// Store that exists as long as the value.
#[derive(Clone, Debug)]
pub struct MemStore {
    version: u32,
    saved: Option<String>,
    journal: Vec<(Time, String)>,
    receipts: BTreeMap<(UserName, String), Receipt>,
    payloads: BTreeMap<PayloadId, Payload>,
    /// Number of records ever appended, including truncated ones.
    appended: usize,
}

impl Default for MemStore {
    fn default() -> Self {
        Self {
            version: JOURNAL_VERSION,
            saved: None,
            journal: Vec::new(),
            receipts: BTreeMap::new(),
            payloads: BTreeMap::new(),
            appended: 0,
        }
    }
}

impl MemStore {
    /// Returns a store as a binary with this journal version would have written it.
    #[must_use]
    pub fn with_version(version: u32) -> Self {
        Self { version, ..Self::default() }
    }

    /// Returns command and environment of a job.
    #[must_use]
    pub fn payload(&self, id: PayloadId) -> Option<&Payload> {
        self.payloads.get(&id)
    }

    /// Returns the number of records since the last snapshot.
    #[must_use]
    pub fn journal_len(&self) -> usize {
        self.journal.len()
    }

    /// Returns the number of records appended since the store was created.
    #[must_use]
    pub fn appended(&self) -> usize {
        self.appended
    }
}

impl Store for MemStore {
    fn append(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        let rows: Result<Vec<_>, _> =
            batch.records.iter().map(|record| Ok((batch.at, encode(record)?))).collect();
        let rows = rows?;
        self.appended += rows.len();
        self.journal.extend(rows);
        self.payloads.extend(batch.payloads.iter().cloned());
        for (user, key, receipt) in &batch.receipts {
            self.receipts.insert((user.clone(), key.clone()), receipt.clone());
        }
        Ok(())
    }

    fn load(&mut self) -> Result<Loaded, StoreError> {
        if self.version > JOURNAL_VERSION {
            return Err(StoreError::NewerVersion { found: self.version });
        }
        let saved = self.saved.as_deref().map(decode::<SavedState>).transpose()?;
        let records: Result<Vec<_>, StoreError> = self
            .journal
            .iter()
            .map(|(at, text)| Ok((*at, decode::<JournalRecord>(text)?)))
            .collect();
        Ok(Loaded { saved, records: records? })
    }

    fn save(&mut self, state: &SavedState) -> Result<(), StoreError> {
        self.saved = Some(encode(state)?);
        self.journal.clear();
        Ok(())
    }

    fn receipt(&self, user: &UserName, key: &str) -> Result<Option<Receipt>, StoreError> {
        Ok(self.receipts.get(&(user.clone(), key.to_owned())).cloned())
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn encode<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Io(error.to_string()))
}

fn decode<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}
