//! Generates slurmdbd.conf, which contains the database password or a placeholder for it.

use std::fmt::Write as _;

use super::{Auth, Choices, FILL_IN};

/// Generates the text of slurmdbd.conf.
pub(super) fn text(choices: &Choices) -> String {
    let Choices { dbd_host, db_host, db_user, db_name, slurm_user, log_dir, .. } = choices;
    let mut text = format!(
        "\
# slurmdbd.conf: only on {dbd_host}. It holds a password, so that slurmdbd refuses to start unless the file belongs to {slurm_user} and
# nobody else can read it:
#   chown {slurm_user} slurmdbd.conf; chmod 600 slurmdbd.conf
DbdHost={dbd_host}
SlurmUser={slurm_user}
"
    );
    text.push_str(match choices.auth {
        Auth::Munge => "AuthType=auth/munge\n",
        Auth::Slurm => "AuthType=auth/slurm\n",
    });
    // The host from which the database sees its client connect.
    let client = if db_host == "localhost" { "localhost" } else { dbd_host };
    let _ = write!(
        text,
        "
# MariaDB or MySQL with InnoDB. On its machine, once:
#   create database {db_name};
#   create user '{db_user}'@'{client}' identified by '...';
#   grant all on {db_name}.* to '{db_user}'@'{client}';
# and in its configuration innodb_buffer_pool_size (a quarter of its memory) and innodb_lock_wait_timeout=900: with the defaults of
# MariaDB a purge of old records can fail.
StorageType=accounting_storage/mysql
StorageHost={db_host}
StorageUser={db_user}
StorageLoc={db_name}
"
    );
    let _ = match &choices.db_password {
        Some(password) => writeln!(text, "StoragePass={password}"),
        None => writeln!(
            text,
            "# Unknown here. `muster check slurm` reports this line until it is filled in.\nStoragePass={FILL_IN}"
        ),
    };
    let _ = write!(
        text,
        "
# Without a purge the database grows without limit, and sacct and upgrades of slurmdbd become slow. Keep the records that you report on.
PurgeJobAfter=24month
PurgeStepAfter=12month
PurgeEventAfter=24month
PurgeResvAfter=24month
PurgeSuspendAfter=12month

LogFile={log_dir}/slurmdbd.log
DebugLevel=info
"
    );
    text
}
