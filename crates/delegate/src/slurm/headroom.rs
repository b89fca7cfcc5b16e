//! How many GPUs the limits of accounts and QOS leave a job, by Slurm's own figures. Which of them a job would need is not known here.

use muster_backends::slurm::job::NativeJob;
use muster_backends::slurm::limits::{Gauges, Limits};

/// GPUs that it may hold beside what runs, where nothing but a limit on GPUs keeps it; `None` where something else does as well, or
/// where it is not seen what does.
pub(super) fn gpus(row: &NativeJob, limits: &Limits) -> Option<u32> {
    let mut most: Option<u64> = None;
    for gauges in counting(row, limits) {
        for (name, gauge) in gauges {
            let Some(limit) = gauge.limit else { continue };
            let left = limit.saturating_sub(gauge.used);
            match name.split_once(' ') {
                // What it is of a kind is a part of what it is of all.
                Some((kind, tres)) if !kind.ends_with("Mins") && tres.starts_with("gres/gpu") => {
                    most = Some(most.map_or(left, |most| most.min(left)));
                }
                Some((kind, tres)) if !kind.ends_with("Mins") && left >= asked(row, tres)? => {}
                None if name.contains("Jobs") && left > 0 => {}
                // Minutes are promised by their own arithmetic.
                _ => return None,
            }
        }
    }
    most.and_then(|most| u32::try_from(most).ok())
}

/// Everything that counts what it would hold.
fn counting<'a>(row: &'a NativeJob, limits: &'a Limits) -> Vec<&'a Gauges> {
    let qos = limits.qos.iter().filter(|qos| qos.name == row.qos);
    let of_qos = qos.flat_map(|qos| {
        let of_user = limits.uids.get(&row.user).and_then(|uid| qos.by_user.get(uid));
        [Some(&qos.gauges), of_user, qos.by_account.get(&row.account)].into_iter().flatten()
    });
    let own = limits.associations.iter().filter(|one| one.account == row.account && one.user == row.user);
    of_qos.chain(own.chain(limits.above(&row.account)).map(|one| &one.gauges)).collect()
}

/// What it asks of a countable thing, in the unit that limits are told in.
fn asked(row: &NativeJob, tres: &str) -> Option<u64> {
    match tres {
        "mem" => Some(NativeJob::memory_of(&row.tres_asked).0 >> 20),
        _ => {
            let mut parts = row.tres_asked.split(',').filter_map(|part| part.split_once('='));
            parts.find(|(name, _)| *name == tres).map_or(Some(0), |(_, value)| value.parse().ok())
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_backends::slurm::limits;

    use super::*;

    /// GPUs left to a job of 16 GPUs and 32 CPUs of `games` in `vision`, with these limits of its QOS and of its account.
    fn check(qos: &str, user: &str, account: &str, expected: Option<u32>) {
        let text = format!(
            "UserName=games(5) DefAccount=vision\n\
             ClusterName=m Account=vision UserName= ParentAccount=root(1) {account}\n\
             QOS=capped(4) {qos} Account Limits= User Limits= 5={{{user}}}\n"
        );
        let row = NativeJob {
            user: "games".to_owned(),
            account: "vision".to_owned(),
            qos: "capped".to_owned(),
            tres_asked: "cpu=32,mem=64G,node=2,billing=1,gres/gpu=16".to_owned(),
            ..NativeJob::default()
        };
        assert_eq!(gpus(&row, &limits::read(&text)), expected, "{qos} {user} {account}");
    }

    #[test]
    fn the_tightest_limit_on_gpus_counts_and_others_must_have_room() {
        check("", "MaxTRESPU=gres/gpu=16(10)", "", Some(6));
        check("GrpTRES=gres/gpu=12(10)", "MaxTRESPU=gres/gpu=16(10)", "", Some(2));
        check("", "MaxTRESPU=gres/gpu=16(10)", "GrpTRES=cpu=N(4),gres/gpu:h100=11(10)", Some(1));
        check("", "MaxTRESPU=gres/gpu=16(20)", "", Some(0));
        check("", "", "GrpTRES=gres/gpu=N(10)", None);
        // Another limit would keep it all the same.
        check("", "MaxTRESPU=gres/gpu=16(10) MaxJobsPU=2(2)", "", None);
        check("", "MaxTRESPU=gres/gpu=16(10) MaxJobsPU=3(2)", "", Some(6));
        check("", "MaxTRESPU=gres/gpu=16(10)", "GrpTRES=cpu=64(40)", None);
        check("", "MaxTRESPU=gres/gpu=16(10)", "GrpTRES=cpu=96(40),mem=131072(65536)", Some(6));
        check("", "MaxTRESPU=gres/gpu=16(10)", "GrpTRESMins=gres/gpu=100(0)", None);
    }
}
