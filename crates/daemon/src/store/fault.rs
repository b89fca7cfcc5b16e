//! Conversion of SQLite and file errors into store errors.

use std::io;

use muster_runtime::StoreError;
use rusqlite::ErrorCode;

/// Converts a database error to its kind, with its text.
pub(super) fn store_error(error: rusqlite::Error) -> StoreError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(text),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreError::ReadOnly(text)
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(text),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(text),
        _ => match error {
            // A value of another type than the table declares, or of a range that is never written.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..) => StoreError::Corrupt(text),
            _ => StoreError::Io(text),
        },
    }
}

/// Converts a file error to its kind, with its text.
pub(super) fn io_error(what: &str, error: &io::Error) -> StoreError {
    let text = format!("{what}: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full(text),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly(text)
        }
        _ => StoreError::Io(text),
    }
}

/// Makes the error for a row that cannot be parsed.
pub(super) fn corrupt(what: &str, error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt(format!("{what} does not read: {error}"))
}
