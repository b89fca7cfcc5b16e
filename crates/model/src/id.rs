//! Newtype ids. A bare integer or string never names a thing in Muster.
//!
//! Ids carry no meaning beyond identity and order; they must not learn what they point to.

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
            /// The name as text.
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
    /// The number people use for a job: small, dense, never reused within one state directory.
    JobId(u64)
}
number_id! {
    /// Which start of an element this is; the first is 1. Doubles as the generation that a backend
    /// checks.
    Attempt(u32)
}
number_id! {
    /// Rank of a task within its gang, 0-based, over all groups in order.
    Rank(u32)
}
number_id! {
    /// Dense index of a node, given by the engine in order of joining; stable under journal replay.
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
    /// Path of a queue in the tree, components joined by `/`, the root not named:
    /// `research/vision`.
    QueueName
}
name_id! {
    /// Login name of whoever a job belongs to.
    UserName
}
name_id! {
    /// Name of an advance reservation.
    WindowName
}

/// One element of a job: what the engine starts whole. A job without an array has one, at index 0.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct ElementId {
    /// The job.
    pub job: JobId,
    /// Array index; 0 where there is no array.
    pub index: u32,
}

impl ElementId {
    /// The only element of a job that is not an array.
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

/// One start of an element. A backend refuses an order whose attempt is older than one it has seen.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct AttemptId {
    /// The element.
    pub element: ElementId,
    /// Its how-manieth start.
    pub attempt: Attempt,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]#{}", self.element.job, self.element.index, self.attempt)
    }
}

impl FromStr for AttemptId {
    type Err = ();

    /// Parses what [`fmt::Display`] writes: `12[3]#1`.
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
