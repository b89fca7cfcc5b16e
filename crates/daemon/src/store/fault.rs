//! What SQLite's errors mean to a person who runs a daemon.

use std::io;

use muster_runtime::StoreError;
use rusqlite::ErrorCode;

/// Names the kind of a database error; its text goes along.
pub(super) fn refused(error: rusqlite::Error) -> StoreError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(text),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreError::ReadOnly(text)
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(text),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(text),
        _ => match error {
            // A value of another type than the table says, or of a range that we never write.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..) => StoreError::Corrupt(text),
            _ => StoreError::Io(text),
        },
    }
}

/// Names the kind of a file error.
pub(super) fn refused_io(what: &str, error: &io::Error) -> StoreError {
    let text = format!("{what}: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full(text),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly(text)
        }
        _ => StoreError::Io(text),
    }
}

/// A row that does not read back as what was written.
pub(super) fn damaged(what: &str, error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt(format!("{what} does not read: {error}"))
}
