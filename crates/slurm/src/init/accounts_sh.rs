//! Generates accounts.sh: accounts, QOS and users as commands of `sacctmgr`, to be run again after
//! each change of the queues. The content comes from `accounting`.

use std::fmt::Write as _;

use super::accounting::{GeneratedAccount, GeneratedAccounting};
use super::qos::{or_none, tres, wall};
use super::{InitInput, clock};

/// Shell functions that make a repeated run change only the differences.
const FUNCTIONS: &str = r#"
set -eu

# add KIND NAME [SETTING...]: makes what is not there yet.
add() {
    kind=$1 name=$2
    shift 2
    [ -n "$(sacctmgr -nP show "$kind" "$name")" ] || sacctmgr -iQ add "$kind" "$name" "$@"
}

# change KIND NAME SETTING...: sets; -1 takes a limit away.
change() {
    kind=$1 name=$2
    shift 2
    sacctmgr -iQ modify "$kind" where name="$name" set "$@"
}

# member USER ACCOUNT...: a user of these accounts, the first by default. Nobody is taken out of an account.
member() {
    name=$1 first=$2
    shift
    for account in "$@"; do
        [ -n "$(sacctmgr -nP show assoc where user="$name" account="$account")" ] ||
            sacctmgr -iQ add user "$name" account="$account"
    done
    sacctmgr -iQ modify user where name="$name" set DefaultAccount="$first"
}
"#;

/// Generates the text of accounts.sh.
pub(super) fn text(order: &InitInput<'_>, accounting: &GeneratedAccounting) -> String {
    let name = &order.choices.name;
    let mut text = format!(
        "\
#!/bin/sh
# accounts.sh: accounts, limits and users of {name}. Run it as root or {} where sacctmgr reaches slurmdbd, once for a new cluster and
# after each change of the queues; a run without differences changes nothing. It removes no account and no user.
#
# For a new cluster: start slurmdbd, then run this; it registers the cluster. Then start slurmctld, and run it again.
",
        order.choices.slurm_user
    );
    if !accounting.lost.is_empty() {
        text.push_str("#\n# Differences between Slurm and the queue file:\n");
        for lost in &accounting.lost {
            let _ = writeln!(text, "#  * {lost}");
        }
    }
    text.push_str(FUNCTIONS);
    cluster(&mut text, name);
    qualities(&mut text, order, accounting);
    accounts(&mut text, &accounting.accounts);
    budgets(&mut text, order, accounting);
    members(&mut text, order, accounting);
    text
}

fn cluster(text: &mut String, name: &str) {
    let _ = write!(
        text,
        r#"
add cluster {name}
# slurmdbd learns of GPUs from slurmctld, and refuses limits on what it does not know.
if ! sacctmgr -nP show tres format=Type,Name | grep -qx 'gres|gpu'; then
    echo "the cluster is registered; now start slurmctld, then run $0 again" >&2
    exit 3
fi
"#
    );
}

fn qualities(text: &mut String, order: &InitInput<'_>, accounting: &GeneratedAccounting) {
    text.push_str("\n# QOS. With DenyOnLimit a job that could never fit is rejected instead of pending forever.\n");
    for qos in &accounting.qos {
        let _ = writeln!(text, "add qos {}", qos.name);
    }
    for qos in &accounting.qos {
        let _ = writeln!(text, "# {}\nchange qos {} {}", qos.about, qos.name, qos.settings(order));
    }
}

fn accounts(text: &mut String, accounts: &[GeneratedAccount]) {
    text.push_str(
        "
# Accounts: one per queue. Fairshare is the share among the siblings below the parent. GrpTRES limits the account and all accounts
# below it.
",
    );
    for account in accounts {
        let GeneratedAccount {
            name, parent, path, shares, running_jobs, max_wall, max_submit, ..
        } = account;
        let _ = writeln!(text, "add account {name} parent={parent} Description={path}");
        let _ = write!(
            text,
            "change account {name} Fairshare={shares} GrpTRES={} GrpJobs={} MaxWall={} MaxSubmitJobs={}",
            tres(&account.gpus),
            or_none(running_jobs.map(u64::from)),
            wall(*max_wall),
            or_none(max_submit.map(u64::from)),
        );
        if let Some(default) = account.qos.first() {
            let _ = write!(text, " QOS={} DefaultQOS={default}", account.qos.join(","));
        }
        text.push('\n');
    }
}

/// Writes the commands that begin a new budget period.
fn budgets(text: &mut String, order: &InitInput<'_>, accounting: &GeneratedAccounting) {
    let budgets: Vec<String> = accounting
        .accounts
        .iter()
        .filter_map(|account| {
            let queue = find(&order.queues.queues, &account.path)?;
            let every = clock(queue.budget.as_ref()?.every);
            let qos = account.qos.iter().find(|qos| qos.ends_with("-own"))?;
            accounting.qos.iter().find(|own| own.name == **qos && own.gpu_hours.is_some())?;
            Some(format!(
                "# {}, every {every}: sacctmgr -i modify qos where name={qos} set RawUsage=0\n",
                account.path
            ))
        })
        .collect();
    if !budgets.is_empty() {
        text.push_str("\n# Budgets: usage counts until it is reset, for example by cron at the start of each period.\n");
        text.push_str(&budgets.concat());
    }
}

fn find<'a>(
    queues: &'a [muster_model::QueueSpec],
    path: &str,
) -> Option<&'a muster_model::QueueSpec> {
    let (first, rest) =
        path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let queue = queues.iter().find(|queue| *queue.name == *first)?;
    rest.map_or(Some(queue), |rest| find(&queue.queues, rest))
}

fn members(text: &mut String, order: &InitInput<'_>, accounting: &GeneratedAccounting) {
    text.push_str("\n# Users. A job of a user without an account is rejected (AccountingStorageEnforce=associations).\n");
    if order.members.is_empty() {
        let leaf = accounting.accounts.iter().find(|account| !account.qos.is_empty());
        let leaf = leaf.map_or("ACCOUNT", |account| account.name.as_str());
        let _ = writeln!(text, "#member alice {leaf}");
    }
    for member in order.members {
        let accounts = member.queues.iter().filter_map(|queue| accounting.account_of(queue));
        let accounts: Vec<&str> = accounts.map(|account| account.name.as_str()).collect();
        let _ = writeln!(text, "member {} {}", member.user, accounts.join(" "));
    }
}
