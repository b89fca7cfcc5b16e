//! Accounts and QOS with what they allow and what is used of it, as `scontrol --oneliner show
//! assoc_mgr` prints them: the controller's own figures, decayed usage included.

use std::collections::BTreeMap;

/// A limit, and what counts against it now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// At most; `None` is unlimited.
    pub limit: Option<u64>,
    /// Used.
    pub used: u64,
}

/// Gauges by name: `GrpJobs`, `GrpTRES gres/gpu`, `GrpTRESMins gres/gpu`.
pub type Gauges = BTreeMap<String, Gauge>;

/// What one job may have, by name: `MaxWallPJ` in minutes, `MaxTRESPJ gres/gpu`.
pub type Caps = BTreeMap<String, u64>;

/// An account, or a user in one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Association {
    /// Account.
    pub account: String,
    /// User; empty for the account itself.
    pub user: String,
    /// The account above; empty at the root.
    pub parent: String,
    /// Shares that it was given.
    pub shares: u32,
    /// Its part of its siblings' shares, in millionths.
    pub norm_shares_ppm: u64,
    /// Its part of the usage, in millionths.
    pub usage_ppm: u64,
    /// What it allows and uses.
    pub gauges: Gauges,
    /// What one job may have.
    pub caps: Caps,
}

/// A quality of service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// Name.
    pub name: String,
    /// What it allows and uses in all.
    pub gauges: Gauges,
    /// What one job may have.
    pub caps: Caps,
    /// The same of each user, by numeric id.
    pub by_user: BTreeMap<String, Gauges>,
    /// The same of each account.
    pub by_account: BTreeMap<String, Gauges>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Numeric ids of users, by name.
    pub uids: BTreeMap<String, String>,
    /// Accounts and users, parents first where Slurm has them so.
    pub associations: Vec<Association>,
    /// Qualities of service.
    pub qos: Vec<Qos>,
}

impl Limits {
    /// An account itself.
    #[must_use]
    pub fn account(&self, name: &str) -> Option<&Association> {
        self.associations.iter().find(|one| one.account == name && one.user.is_empty())
    }

    /// The account and those above it, the root last.
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

/// Reads what the program printed; lines that it does not know are passed over.
#[must_use]
pub fn read(text: &str) -> Limits {
    let mut limits = Limits::default();
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

/// `games(5)`: name and number.
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
            _ if is_cap(key) => cap(&mut one.caps, key, value),
            _ => gauge(&mut one.gauges, key, value),
        }
    }
    one
}

fn qos(text: &str) -> Qos {
    // What each account and each user has of it stands in braces behind its own.
    let (own, rest) = text.split_once(" Account Limits=").unwrap_or((text, ""));
    let (accounts, users) = rest.split_once(" User Limits=").unwrap_or((rest, ""));
    let mut one = Qos {
        name: named(own.split(' ').next().unwrap_or_default()).0.to_owned(),
        ..Qos::default()
    };
    for (key, value) in own.split(' ').skip(1).filter_map(|word| word.split_once('=')) {
        match is_cap(key) {
            true => cap(&mut one.caps, key, value),
            false => gauge(&mut one.gauges, key, value),
        }
    }
    (one.by_account, one.by_user) = (each(accounts), each(users));
    one
}

/// Accounts by name, `vision={MaxJobsPA=N(2) MaxTRESPA=gres/gpu=16(17)} language={…}`, or users by
/// number: `5={…}`, since 24.11 `games(5)={…}`.
fn each(text: &str) -> BTreeMap<String, Gauges> {
    let mut all = BTreeMap::new();
    for part in text.split('}') {
        let Some((name, inside)) = part.split_once("={") else { continue };
        let mut gauges = Gauges::new();
        for (key, value) in inside.split(' ').filter_map(|word| word.split_once('=')) {
            gauge(&mut gauges, key, value);
        }
        let (name, id) = named(name.trim());
        all.insert(if id.is_empty() { name } else { id }.to_owned(), gauges);
    }
    all
}

/// What one job, or one node of it, may have.
fn is_cap(key: &str) -> bool {
    key.starts_with("Max") && (key.ends_with("PJ") || key.ends_with("PN"))
}

/// `20`, or a list of `gres/gpu=4`; nothing where there is none.
fn cap(caps: &mut Caps, key: &str, value: &str) {
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

/// `N(8)`, `8(2)`, or a list of `cpu=N(24),gres/gpu=8(2)`.
fn gauge(gauges: &mut Gauges, key: &str, value: &str) {
    let read = |text: &str| {
        let (limit, used) = text.strip_suffix(')')?.split_once('(')?;
        // Walls are told with fractions of a minute.
        let whole = |text: &str| text.split('.').next().and_then(|whole| whole.parse().ok());
        let is_gauge = limit == "N" || whole(limit).is_some();
        is_gauge.then_some(Gauge { limit: whole(limit), used: whole(used)? })
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

/// `0.54` as millionths, without floating point.
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
        assert_eq!(intern.gauges["GrpTRES gres/gpu"], Gauge { limit: Some(8), used: 2 });
        assert_eq!(intern.gauges["GrpJobs"], Gauge { limit: Some(4), used: 1 });
        assert_eq!(intern.gauges["GrpWall"], Gauge { limit: None, used: 3 });
        let capped = &limits.qos[0];
        let caps: Vec<(&str, u64)> =
            capped.caps.iter().map(|(name, most)| (name.as_str(), *most)).collect();
        assert_eq!(caps, [("MaxTRESPJ cpu", 64), ("MaxTRESPJ gres/gpu", 4), ("MaxWallPJ", 20)]);
        assert_eq!(capped.by_user["5"]["MaxTRESPU gres/gpu"], Gauge { limit: Some(16), used: 16 });
        assert_eq!(
            capped.by_account["vision"]["MaxTRESPA gres/gpu"],
            Gauge { limit: None, used: 16 }
        );
        // As 24.11 and 26.05 print users.
        let named = read(&TEXT.replace(" 5={", " games(5)={"));
        assert_eq!(named.qos[0].by_user, capped.by_user);
    }
}
