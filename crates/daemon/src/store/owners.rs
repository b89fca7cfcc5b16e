//! Gives jobs of earlier versions, which knew their owners by name only, the owners' numbers. Runs
//! once, when a file of such a version is opened.

use std::collections::BTreeMap;

use muster_runtime::StoreError;
use nix::unistd::User;
use rusqlite::{Transaction, params};
use serde_json::Value;

use super::fault::{damaged, refused};
use super::journal::encode;

/// Nobody's number: the kernel has it for "none".
const NOBODY: u32 = u32::MAX;

/// Owners' numbers by payload of the job.
type Numbers = BTreeMap<u64, u32>;

/// Writes the numbers into journal, snapshot and history.
pub(super) fn number(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let numbers = of_payloads(transaction)?;
    in_bodies(transaction, "journal", "seq", &numbers)?;
    in_bodies(transaction, "snapshots", "id", &numbers)?;
    in_history(transaction)
}

/// Each job in memory has its payload, with the identity that it runs as.
fn of_payloads(transaction: &Transaction<'_>) -> Result<Numbers, StoreError> {
    let mut query = transaction
        .prepare("SELECT id, json_extract(body, '$.identity.uid') FROM payloads")
        .map_err(refused)?;
    let rows =
        query.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?))).map_err(refused)?;
    rows.map(|row| row.map(|(id, uid)| (id.unsigned_abs(), uid)).map_err(refused)).collect()
}

/// Into the jobs' shapes wherever they stand in the JSON of a table.
fn in_bodies(
    transaction: &Transaction<'_>,
    table: &str,
    key: &str,
    numbers: &Numbers,
) -> Result<(), StoreError> {
    let mut query = transaction
        .prepare(&format!("SELECT {key}, body FROM {table} WHERE body LIKE '%\"payload\"%'"))
        .map_err(refused)?;
    let mut update = transaction
        .prepare(&format!("UPDATE {table} SET body = ?2 WHERE {key} = ?1"))
        .map_err(refused)?;
    let rows = query
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(refused)?;
    for (id, body) in rows {
        let mut value: Value =
            serde_json::from_str(&body).map_err(|error| damaged(table, &error))?;
        in_value(&mut value, numbers);
        update.execute(params![id, encode(&value)?]).map_err(refused)?;
    }
    Ok(())
}

/// A job's shape is what has an owner and a payload.
fn in_value(value: &mut Value, numbers: &Numbers) {
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

/// Of a job that has ended only the name was kept: it is the account's that has the name now. One
/// whose name has no account is for administrators: whoever gets the name later is another.
fn in_history(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let mut query = transaction.prepare("SELECT DISTINCT user FROM history").map_err(refused)?;
    let users = query
        .query_map([], |row| row.get::<_, String>(0))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(refused)?;
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
            .map_err(refused)?;
    }
    Ok(())
}
