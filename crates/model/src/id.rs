//! Newtype ids: jobs, nodes, queues, users and so on are never identified by a bare integer or
//! string.
//!
//! Ids stand for identity and order only; they hold no data of the object that they identify.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! name_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub Arc<str>);

        impl $name {
            /// Returns the name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
    };
}

number_id! {
    /// Number of a job as users see it: small, dense, never reused within one state directory.
    JobId(u64)
}
number_id! {
    /// Number of a start of an element, from 1. A backend also uses it as the generation to reject
    /// outdated orders.
    Attempt(u32)
}
number_id! {
    /// Rank of a task within its gang, 0-based, over all groups in order.
    Rank(u32)
}
number_id! {
    /// Dense index of a node, assigned by the engine in order of joining; stable under journal
    /// replay.
    NodeId(u32)
}
number_id! {
    /// Key of a stored [`crate::Payload`].
    PayloadId(u64)
}
name_id! {
    /// Host name of a node.
    NodeName
}
name_id! {
    /// Path of a queue in the tree, components joined by `/`, without the root: `research/vision`.
    QueueName
}
name_id! {
    /// Login name of the user that a job belongs to.
    UserName
}
name_id! {
    /// Name of an advance reservation.
    AdvanceReservationName
}

/// Element of a job: the unit that the engine starts as a whole. A job without an array has exactly
/// one, at index 0.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct ElementId {
    /// Job that the element belongs to.
    pub job: JobId,
    /// Array index; 0 when the job is not an array.
    pub index: u32,
}

impl ElementId {
    /// Returns the id of the only element of a job that is not an array.
    #[must_use]
    pub fn single(job: JobId) -> Self {
        Self { job, index: 0 }
    }
}

impl fmt::Display for ElementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.job, self.index)
    }
}

/// One start of an element. A backend rejects an order whose attempt is older than one it has seen.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct AttemptId {
    /// Element that is started.
    pub element: ElementId,
    /// Number of the start, from 1.
    pub attempt: Attempt,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]#{}", self.element.job, self.element.index, self.attempt)
    }
}

impl FromStr for AttemptId {
    type Err = ();

    /// Parses the format that [`fmt::Display`] writes: `12[3]#1`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (job, rest) = text.split_once('[').ok_or(())?;
        let (index, attempt) = rest.split_once("]#").ok_or(())?;
        Ok(Self {
            element: ElementId {
                job: JobId(job.parse().map_err(|_| ())?),
                index: index.parse().map_err(|_| ())?,
            },
            attempt: Attempt(attempt.parse().map_err(|_| ())?),
        })
    }
}
