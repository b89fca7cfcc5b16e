//! Migration that adds the owners' user ids to jobs of earlier versions, which stored only their
//! names. Runs once, when a file of such a version is opened.

use std::collections::BTreeMap;

use muster_runtime::StoreError;
use nix::unistd::User;
use rusqlite::{Transaction, params};
use serde_json::Value;

use super::encode;
use super::fault::{corrupt, store_error};

/// User id that no user has: the kernel uses it for "none".
const NOBODY: u32 = u32::MAX;

/// User ids of owners by payload of the job.
type UserIds = BTreeMap<u64, u32>;

/// Writes the user ids into journal, snapshot and history.
pub(super) fn add_user_ids(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let numbers = of_payloads(transaction)?;
    in_bodies(transaction, "journal", "seq", &numbers)?;
    in_bodies(transaction, "snapshots", "id", &numbers)?;
    in_history(transaction)
}

/// Returns the user id of each payload: each job in memory has one, with the identity that it runs
/// as.
fn of_payloads(transaction: &Transaction<'_>) -> Result<UserIds, StoreError> {
    let mut query = transaction
        .prepare("SELECT id, json_extract(body, '$.identity.uid') FROM payloads")
        .map_err(store_error)?;
    let rows =
        query.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?))).map_err(store_error)?;
    rows.map(|row| row.map(|(id, uid)| (id.unsigned_abs(), uid)).map_err(store_error)).collect()
}

/// Adds the user ids to the job specs in the JSON of a table.
fn in_bodies(
    transaction: &Transaction<'_>,
    table: &str,
    key: &str,
    numbers: &UserIds,
) -> Result<(), StoreError> {
    let mut query = transaction
        .prepare(&format!("SELECT {key}, body FROM {table} WHERE body LIKE '%\"payload\"%'"))
        .map_err(store_error)?;
    let mut update = transaction
        .prepare(&format!("UPDATE {table} SET body = ?2 WHERE {key} = ?1"))
        .map_err(store_error)?;
    let rows = query
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(store_error)?;
    for (id, body) in rows {
        let mut value: Value =
            serde_json::from_str(&body).map_err(|error| corrupt(table, &error))?;
        in_value(&mut value, numbers);
        update.execute(params![id, encode(&value)?]).map_err(store_error)?;
    }
    Ok(())
}

/// Adds the user ids to a value and its descendants; an object with a user and a payload is a job
/// spec.
fn in_value(value: &mut Value, numbers: &UserIds) {
    match value {
        Value::Object(fields) => {
            let payload = fields
                .get("payload")
                .and_then(Value::as_u64)
                .filter(|_| fields.contains_key("user"));
            if let Some(uid) = payload.and_then(|payload| numbers.get(&payload)) {
                fields.insert("uid".to_owned(), (*uid).into());
            }
            fields.values_mut().for_each(|value| in_value(value, numbers));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| in_value(value, numbers)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Adds the user ids to ended jobs, of which only the owner's name was stored: the id of the
/// present account of that name. A name without an account gets [`NOBODY`], so that only
/// administrators may access the job: a later account of that name belongs to another user.
fn in_history(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let mut query =
        transaction.prepare("SELECT DISTINCT user FROM history").map_err(store_error)?;
    let users = query
        .query_map([], |row| row.get::<_, String>(0))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(store_error)?;
    for user in users {
        let uid = match user.strip_prefix('#') {
            Some(number) => number.parse().ok(),
            None => User::from_name(&user).ok().flatten().map(|account| account.uid.as_raw()),
        };
        transaction
            .execute(
                "UPDATE history SET view = json_set(view, '$.uid', ?2) WHERE user = ?1 AND json_valid(view)",
                params![user, uid.unwrap_or(NOBODY)],
            )
            .map_err(store_error)?;
    }
    Ok(())
}
