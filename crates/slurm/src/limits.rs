//! Limits of accounts and QOS with their usage, from `scontrol --oneliner show assoc_mgr`: the
//! controller's own figures, including decayed usage.

use std::collections::BTreeMap;

/// Limit and its current usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitUsage {
    /// Maximum; `None` is unlimited.
    pub limit: Option<u64>,
    /// Amount that counts against the limit now.
    pub used: u64,
}

/// Limits with usage by name: `GrpJobs`, `GrpTRES gres/gpu`, `GrpTRESMins gres/gpu`.
pub type LimitUsages = BTreeMap<String, LimitUsage>;

/// Limits per job by name: `MaxWallPJ` in minutes, `MaxTRESPJ gres/gpu`.
pub type JobLimits = BTreeMap<String, u64>;

/// Association: an account, or a user in one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Association {
    /// Name of the account.
    pub account: String,
    /// Name of the user; empty for the account itself.
    pub user: String,
    /// Parent account; empty at the root.
    pub parent: String,
    /// Shares configured for the association.
    pub shares: u32,
    /// Fraction of its siblings' shares, in millionths.
    pub norm_shares_ppm: u64,
    /// Fraction of the usage, in millionths.
    pub usage_ppm: u64,
    /// Limits on all of its jobs, with usage.
    pub usages: LimitUsages,
    /// Limits on each of its jobs.
    pub job_limits: JobLimits,
}

/// Limits of a QOS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosLimits {
    /// Name of the QOS.
    pub name: String,
    /// Limits with usage over all its jobs.
    pub usages: LimitUsages,
    /// Limits on each of its jobs.
    pub job_limits: JobLimits,
    /// Limits with usage per user, by numeric id.
    pub by_user: BTreeMap<String, LimitUsages>,
    /// Limits with usage per account.
    pub by_account: BTreeMap<String, LimitUsages>,
}

/// Limits of all associations and QOS of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLimits {
    /// Numeric ids of users, by name.
    pub uids: BTreeMap<String, String>,
    /// Accounts and users, parents first as in Slurm's output.
    pub associations: Vec<Association>,
    /// All QOS of the cluster.
    pub qos: Vec<QosLimits>,
}

impl ClusterLimits {
    /// Returns the association of an account itself.
    #[must_use]
    pub fn account(&self, name: &str) -> Option<&Association> {
        self.associations.iter().find(|one| one.account == name && one.user.is_empty())
    }

    /// Returns the account and its ancestors, the root last.
    #[must_use]
    pub fn above<'a>(&'a self, account: &'a str) -> Vec<&'a Association> {
        let mut chain: Vec<&Association> = Vec::new();
        let mut next = account;
        while let Some(found) = self.account(next).filter(|found| !chain.contains(found)) {
            next = &found.parent;
            chain.push(found);
        }
        chain
    }
}

/// Parses the output; unknown lines are skipped.
#[must_use]
pub fn read(text: &str) -> ClusterLimits {
    let mut limits = ClusterLimits::default();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("UserName=") {
            let (name, id) = named(rest.split(' ').next().unwrap_or_default());
            limits.uids.insert(name.to_owned(), id.to_owned());
        } else if line.starts_with("ClusterName=") {
            limits.associations.push(association(line));
        } else if let Some(rest) = line.strip_prefix("QOS=") {
            limits.qos.push(qos(rest));
        }
    }
    limits
}

/// Splits `games(5)` into name and number.
fn named(text: &str) -> (&str, &str) {
    let (name, id) = text.split_once('(').unwrap_or((text, ""));
    (name, id.trim_end_matches(')'))
}

fn association(line: &str) -> Association {
    let mut one = Association::default();
    for (key, value) in line.split(' ').filter_map(|word| word.split_once('=')) {
        match key {
            "Account" => value.clone_into(&mut one.account),
            "UserName" => named(value).0.clone_into(&mut one.user),
            "ParentAccount" => named(value).0.clone_into(&mut one.parent),
            "SharesRaw/Norm/Level/Factor" => {
                let mut parts = value.split('/');
                one.shares =
                    parts.next().and_then(|shares| shares.parse().ok()).unwrap_or_default();
                one.norm_shares_ppm = parts.next().map_or(0, ppm);
            }
            "UsageRaw/Norm/Efctv" => one.usage_ppm = value.split('/').nth(2).map_or(0, ppm),
            _ if is_job_limit(key) => parse_job_limit(&mut one.job_limits, key, value),
            _ => parse_usage(&mut one.usages, key, value),
        }
    }
    one
}

fn qos(text: &str) -> QosLimits {
    // Usage per account and per user follows in braces.
    let (own, rest) = text.split_once(" Account Limits=").unwrap_or((text, ""));
    let (accounts, users) = rest.split_once(" User Limits=").unwrap_or((rest, ""));
    let mut one = QosLimits {
        name: named(own.split(' ').next().unwrap_or_default()).0.to_owned(),
        ..QosLimits::default()
    };
    for (key, value) in own.split(' ').skip(1).filter_map(|word| word.split_once('=')) {
        if is_job_limit(key) {
            parse_job_limit(&mut one.job_limits, key, value);
        } else {
            parse_usage(&mut one.usages, key, value);
        }
    }
    (one.by_account, one.by_user) = (each(accounts), each(users));
    one
}

/// Parses usage by account name, `vision={MaxJobsPA=N(2) MaxTRESPA=gres/gpu=16(17)} language={…}`,
/// or by user number: `5={…}`, since 24.11 `games(5)={…}`.
fn each(text: &str) -> BTreeMap<String, LimitUsages> {
    let mut all = BTreeMap::new();
    for part in text.split('}') {
        let Some((name, inside)) = part.split_once("={") else { continue };
        let mut gauges = LimitUsages::new();
        for (key, value) in inside.split(' ').filter_map(|word| word.split_once('=')) {
            parse_usage(&mut gauges, key, value);
        }
        let (name, id) = named(name.trim());
        all.insert(if id.is_empty() { name } else { id }.to_owned(), gauges);
    }
    all
}

/// Returns whether a limit applies to one job, or to one of its nodes.
fn is_job_limit(key: &str) -> bool {
    key.starts_with("Max") && (key.ends_with("PJ") || key.ends_with("PN"))
}

/// Parses limits per job: `20`, or a list of `gres/gpu=4`.
fn parse_job_limit(caps: &mut JobLimits, key: &str, value: &str) {
    match value.parse() {
        Ok(most) => drop(caps.insert(key.to_owned(), most)),
        Err(_) => {
            let parts = value.split(',').filter_map(|part| part.split_once('='));
            let parts = parts
                .filter_map(|(name, most)| Some((format!("{key} {name}"), most.parse().ok()?)));
            caps.extend(parts);
        }
    }
}

/// Parses limits with usage: `N(8)`, `8(2)`, or a list of `cpu=N(24),gres/gpu=8(2)`.
fn parse_usage(gauges: &mut LimitUsages, key: &str, value: &str) {
    let read = |text: &str| {
        let (limit, used) = text.strip_suffix(')')?.split_once('(')?;
        // Wall-clock limits have fractions of a minute.
        let whole = |text: &str| text.split('.').next().and_then(|whole| whole.parse().ok());
        let is_gauge = limit == "N" || whole(limit).is_some();
        is_gauge.then_some(LimitUsage { limit: whole(limit), used: whole(used)? })
    };
    match read(value) {
        Some(one) => drop(gauges.insert(key.to_owned(), one)),
        None => {
            for (name, one) in value.split(',').filter_map(|part| part.split_once('=')) {
                if let Some(one) = read(one) {
                    gauges.insert(format!("{key} {name}"), one);
                }
            }
        }
    }
}

/// Parses a fraction such as `0.54` to millionths, without floating point.
fn ppm(text: &str) -> u64 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    whole.parse::<u64>().unwrap_or_default() * 1_000_000 + digits.parse::<u64>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Current Association Manager state
User Records
UserName=games(5) DefAccount=vision DefWckey= AdminLevel=None
Association Records
ClusterName=m Account=root UserName= ID=1 SharesRaw/Norm/Level/Factor=1/0.00/1/0.00 UsageRaw/Norm/Efctv=13341.42/1.00/1.00 ParentAccount= GrpJobs=N(8) GrpTRES=cpu=N(24),gres/gpu=N(51)
ClusterName=m Account=lab UserName= ID=3 SharesRaw/Norm/Level/Factor=100/0.99/101/0.00 UsageRaw/Norm/Efctv=13341.42/1.00/1.00 ParentAccount=root(1) GrpJobs=N(8)
ClusterName=m Account=intern UserName= ID=11 SharesRaw/Norm/Level/Factor=10/0.09/111/0.00 UsageRaw/Norm/Efctv=382.45/0.03/0.03 ParentAccount=lab(3) GrpJobs=4(1) GrpWall=N(3.50) GrpTRES=cpu=N(1),gres/gpu=8(2),gres/gpu:h100=N(2)
QOS Records
QOS=capped(4) UsageRaw=3330.7 GrpJobs=N(1) GrpTRES=gres/gpu=N(16) MaxWallPJ=20 MaxTRESPJ=cpu=64,gres/gpu=4 MaxTRESPN= PreemptMode=OFF Priority=100 Account Limits= vision={MaxJobsPA=N(1) MaxTRESPA=gres/gpu=N(16)} User Limits= 5={MaxJobsPU=N(1) MaxTRESPU=cpu=N(2),gres/gpu=16(16)}
";

    #[test]
    fn accounts_and_qos_with_what_is_used_of_them() {
        let limits = read(TEXT);
        assert_eq!(limits.uids["games"], "5");
        let chain: Vec<&str> =
            limits.above("intern").iter().map(|one| one.account.as_str()).collect();
        assert_eq!(chain, ["intern", "lab", "root"]);
        let intern = limits.account("intern").unwrap();
        assert_eq!((intern.shares, intern.norm_shares_ppm, intern.usage_ppm), (10, 90_000, 30_000));
        assert_eq!(intern.usages["GrpTRES gres/gpu"], LimitUsage { limit: Some(8), used: 2 });
        assert_eq!(intern.usages["GrpJobs"], LimitUsage { limit: Some(4), used: 1 });
        assert_eq!(intern.usages["GrpWall"], LimitUsage { limit: None, used: 3 });
        let capped = &limits.qos[0];
        let caps: Vec<(&str, u64)> =
            capped.job_limits.iter().map(|(name, most)| (name.as_str(), *most)).collect();
        assert_eq!(caps, [("MaxTRESPJ cpu", 64), ("MaxTRESPJ gres/gpu", 4), ("MaxWallPJ", 20)]);
        assert_eq!(
            capped.by_user["5"]["MaxTRESPU gres/gpu"],
            LimitUsage { limit: Some(16), used: 16 }
        );
        assert_eq!(
            capped.by_account["vision"]["MaxTRESPA gres/gpu"],
            LimitUsage { limit: None, used: 16 }
        );
        // Format of users in 24.11 and 26.05.
        let named = read(&TEXT.replace(" 5={", " games(5)={"));
        assert_eq!(named.qos[0].by_user, capped.by_user);
    }
}
