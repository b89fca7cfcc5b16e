//! Parser for accounts and QOS as `sacctmgr` prints and accepts them: its dump, its tables, and
//! scripts of its commands. Does not interpret the values.

use std::collections::BTreeMap;

/// Fields of one row by their short names in lower case; empty fields and -1 are left out.
pub type Fields = BTreeMap<&'static str, String>;

/// Accounts, users and QOS that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountingDump {
    /// Accounts in the order of their first mention, without `root`.
    pub accounts: Vec<AccountEntry>,
    /// All QOS that were read.
    pub qos: Vec<QosEntry>,
    /// Users with their accounts.
    pub users: BTreeMap<String, Vec<String>>,
    /// Set when a table of accounts has no parents, so that the tree is unknown.
    pub is_flat: bool,
    /// Settings that are not interpreted, such as `GrpSubmit of accounts`, with their owners and
    /// values.
    pub unread: BTreeMap<String, Vec<String>>,
}

/// Settings without effect on limits or order: names, descriptions and Slurm's own counters.
const DESCRIPTIONS: [&str; 20] = [
    "account",
    "accounts",
    "adminlevel",
    "cluster",
    "clusters",
    "coordinators",
    "default",
    "defaultaccount",
    "description",
    "descr",
    "id",
    "lft",
    "name",
    "org",
    "organization",
    "par name",
    "parent",
    "parentname",
    "rgt",
    "user",
];

/// Values that are the same as no setting (sacctmgr(1)).
const DEFAULTS: [(&str, &str); 4] =
    [("priority", "0"), ("usagefactor", "1"), ("preemptmode", "cluster"), ("share", "1")];

/// Account with its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountEntry {
    /// Name of the account.
    pub name: String,
    /// Name of the parent account; `root` at the top.
    pub parent: String,
    /// Settings by their short names.
    pub fields: Fields,
}

/// QOS with its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosEntry {
    /// Name of the QOS.
    pub name: String,
    /// Settings by their short names.
    pub fields: Fields,
}

/// Fields, with all their names in dump, tables and commands.
const FIELDS: [(&str, &[&str]); 14] = [
    ("share", &["share", "fairshare", "shares"]),
    ("grptres", &["grptres"]),
    ("grpjobs", &["grpjobs"]),
    ("grptresmins", &["grptresmins"]),
    ("maxwall", &["maxwall", "maxwalldurationperjob"]),
    ("maxsubmit", &["maxsubmit", "maxsubmitjobs"]),
    ("maxjobs", &["maxjobs"]),
    ("maxtres", &["maxtres", "maxtresperjob"]),
    ("maxtrespu", &["maxtrespu", "maxtresperuser"]),
    ("qos", &["qos", "qoslevel"]),
    ("defaultqos", &["defaultqos", "def qos", "defqos"]),
    ("preempt", &["preempt"]),
    ("preemptexempttime", &["preemptexempttime"]),
    ("gracetime", &["gracetime"]),
];

impl AccountingDump {
    /// Parses a text in any of the formats; returns false when it is in none.
    pub fn read(&mut self, text: &str) -> bool {
        let first = text
            .lines()
            .find(|line| !line.trim().is_empty() && !line.starts_with('#'))
            .unwrap_or_default();
        let heading: Vec<String> =
            first.split('|').map(|cell| cell.trim().to_ascii_lowercase()).collect();
        let has = |name: &str| heading.iter().any(|cell| cell == name);
        if first.starts_with("Cluster - ") {
            self.dump(text);
        } else if heading.len() > 1 && has("account") {
            self.associations(text, &heading);
        } else if heading.len() > 1
            && has("name")
            && (has("preempt") || has("gracetime") || has("grptres"))
        {
            self.qualities(text, &heading);
        } else {
            return self.script(text);
        }
        true
    }

    /// Records settings that are not interpreted: of users all but their names.
    fn unread<'a>(
        &mut self,
        kind: &str,
        name: &str,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        for (key, value) in pairs {
            let key = key.trim();
            let value = value.trim();
            let lower = key.to_ascii_lowercase();
            let known = FIELDS
                .iter()
                .find(|(_, names)| names.contains(&lower.as_str()))
                .map(|(name, _)| *name);
            // A user's QOS list controls access, and includes the default one.
            let is_read =
                known.is_some() && (kind != "users" || matches!(known, Some("qos" | "defaultqos")));
            let plain = value.trim_end_matches('0').trim_end_matches('.');
            let is_default = DEFAULTS.iter().any(|(name, default)| {
                *name == known.unwrap_or(&lower) && [value, plain].contains(default)
            });
            let is_nothing =
                matches!(value, "" | "-1" | "parent") || value.ends_with("=-1") || is_default;
            if !is_read && !is_nothing && !DESCRIPTIONS.contains(&lower.as_str()) {
                let of = self.unread.entry(format!("{key} of {kind}")).or_default();
                of.push(format!("{name} {value}"));
            }
        }
    }

    fn account(&mut self, name: &str) -> &mut AccountEntry {
        let at =
            self.accounts.iter().position(|account| account.name == name).unwrap_or_else(|| {
                let account = AccountEntry {
                    name: name.to_owned(),
                    parent: "root".to_owned(),
                    ..AccountEntry::default()
                };
                self.accounts.push(account);
                self.accounts.len() - 1
            });
        &mut self.accounts[at]
    }

    fn quality(&mut self, name: &str) -> &mut QosEntry {
        let at = self.qos.iter().position(|qos| qos.name == name).unwrap_or_else(|| {
            self.qos.push(QosEntry { name: name.to_owned(), ..QosEntry::default() });
            self.qos.len() - 1
        });
        &mut self.qos[at]
    }

    fn user(&mut self, name: &str, account: &str) {
        let accounts = self.users.entry(name.to_owned()).or_default();
        if !accounts.iter().any(|known| known == account) {
            accounts.push(account.to_owned());
        }
    }

    /// Parses `sacctmgr dump CLUSTER`: `Account - 'vision':Fairshare=2:QOS='a,b'` below the line of
    /// its parent.
    fn dump(&mut self, text: &str) {
        let mut parent = "root".to_owned();
        for line in text.lines() {
            let Some((kind, rest)) = line.split_once(" - ") else { continue };
            let mut parts = outside_quotes(rest, |c| c == ':').into_iter();
            let name = parts.next().unwrap_or_default();
            let pairs: Vec<String> = parts.collect();
            match kind {
                "Parent" => parent = name,
                "Account" => {
                    let account = self.account(&name);
                    account.parent.clone_from(&parent);
                    set(&mut account.fields, pairs.iter().filter_map(|pair| pair.split_once('=')));
                    self.unread(
                        "accounts",
                        &name,
                        pairs.iter().filter_map(|pair| pair.split_once('=')),
                    );
                }
                "User" => {
                    self.user(&name, &parent);
                    let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
                    self.unread("users", &format!("{name} in {parent}"), pairs);
                }
                // Limits of the root apply to the whole cluster.
                "Cluster" => {
                    self.unread(
                        "users",
                        "the cluster",
                        pairs.iter().filter_map(|pair| pair.split_once('=')),
                    );
                }
                _ => {}
            }
        }
    }

    /// Parses `sacctmgr -P show assoc`, with its heading. Without a column of parents the tree is
    /// known only where names are indented.
    fn associations(&mut self, text: &str, heading: &[String]) {
        let column =
            |names: &[&str]| heading.iter().position(|cell| names.contains(&cell.as_str()));
        let account = column(&["account"]);
        let user = column(&["user"]);
        let parent = column(&["parentname", "par name", "parent"]);
        let mut path: Vec<String> = Vec::new();
        let mut is_indented = false;
        for line in text.lines().skip_while(|line| !line.contains('|')).skip(1) {
            let cells: Vec<&str> = line.split('|').collect();
            let cell = |column: Option<usize>| {
                column.and_then(|at| cells.get(at).copied()).unwrap_or_default()
            };
            let written = cell(account);
            let user = cell(user).trim();
            let name = written.trim();
            if name.is_empty() {
                continue;
            }
            if !user.is_empty() {
                self.user(user, name);
                let pairs = heading.iter().map(String::as_str).zip(cells.iter().copied());
                self.unread("users", &format!("{user} in {name}"), pairs);
                continue;
            }
            let depth = written.len() - written.trim_start().len();
            is_indented |= depth > 0;
            path.truncate(depth);
            let above = path.last().cloned().unwrap_or_else(|| "root".to_owned());
            path.push(name.to_owned());
            let pairs = || heading.iter().map(String::as_str).zip(cells.iter().copied());
            if name == "root" {
                self.unread("users", "the cluster", pairs());
                continue;
            }
            self.unread("accounts", name, pairs());
            let own = self.account(name);
            own.parent = match parent {
                Some(_) => cell(parent).trim().to_owned(),
                None => above,
            };
            set(&mut own.fields, pairs());
        }
        self.is_flat |= parent.is_none() && !is_indented && self.accounts.len() > 1;
    }

    /// Parses `sacctmgr -P show qos`, with its heading.
    fn qualities(&mut self, text: &str, heading: &[String]) {
        let Some(name) = heading.iter().position(|cell| cell == "name") else { return };
        for line in text.lines().skip_while(|line| !line.contains('|')).skip(1) {
            let cells: Vec<&str> = line.split('|').collect();
            let Some(own) = cells.get(name).filter(|own| !own.is_empty()) else { continue };
            let pairs: Vec<(&str, &str)> =
                heading.iter().map(String::as_str).zip(cells.iter().copied()).collect();
            set(&mut self.quality(own).fields, pairs.iter().copied());
            self.unread("QOS", own, pairs);
        }
    }

    /// Parses commands, one per line, with or without `sacctmgr` before them; other lines of a
    /// script are ignored.
    fn script(&mut self, text: &str) -> bool {
        let mut found = false;
        for line in
            text.replace("\\\n", " ").lines().map(str::trim).filter(|line| !line.starts_with('#'))
        {
            let words = outside_quotes(line, char::is_whitespace);
            let mut words = words
                .iter()
                .map(String::as_str)
                .filter(|word| !word.is_empty() && !word.starts_with('-'));
            let mut verb = words.next().unwrap_or_default();
            // The program, or a variable with its name.
            if verb.ends_with("sacctmgr") || verb.starts_with('$') {
                verb = words.next().unwrap_or_default();
            }
            let verb = verb.to_ascii_lowercase();
            if verb == "member" {
                if let Some(user) = words.next() {
                    words.for_each(|account| self.user(user, account));
                }
                continue;
            }
            if !["add", "create", "modify", "change"].contains(&verb.as_str()) {
                continue;
            }
            let entity = words.next().unwrap_or_default().to_ascii_lowercase();
            let rest: Vec<&str> = words.collect();
            found |= self.command(&entity, &rest);
        }
        found
    }

    /// Parses an add or modify command: names stand alone or after `name=`, settings are pairs.
    fn command(&mut self, entity: &str, words: &[&str]) -> bool {
        let mut names: Vec<&str> = Vec::new();
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for word in words {
            match word.split_once('=') {
                None if ["set", "where"].contains(&word.to_ascii_lowercase().as_str()) => {}
                None => names.extend(word.split(',')),
                Some((key, value))
                    if ["name", "names"].contains(&key.to_ascii_lowercase().as_str()) =>
                {
                    names.extend(value.split(','));
                }
                Some((key, value)) => pairs.push((key.trim_end_matches(['+', '-']), value)),
            }
        }
        let of = |keys: &[&str]| {
            pairs
                .iter()
                .find(|(key, _)| keys.contains(&key.to_ascii_lowercase().as_str()))
                .map(|(_, value)| *value)
        };
        // A name from a variable is in the body of a function, and unknown.
        names.retain(|name| !name.contains('$'));
        match entity {
            "account" | "accounts" => {
                let parent = of(&["parent"]);
                for name in names.iter().filter(|name| **name != "root") {
                    let account = self.account(name);
                    if let Some(parent) = parent {
                        parent.clone_into(&mut account.parent);
                    }
                    set(&mut account.fields, pairs.iter().copied());
                    self.unread("accounts", name, pairs.iter().copied());
                }
            }
            "qos" => {
                for name in &names {
                    set(&mut self.quality(name).fields, pairs.iter().copied());
                    self.unread("QOS", name, pairs.iter().copied());
                }
            }
            "user" | "users" => {
                let accounts = of(&["account", "accounts"]).unwrap_or_default();
                for name in &names {
                    accounts
                        .split(',')
                        .filter(|one| !one.is_empty())
                        .for_each(|account| self.user(name, account));
                    self.unread("users", name, pairs.iter().copied());
                }
            }
            _ => return false,
        }
        !names.is_empty()
    }
}

/// Stores the known fields; -1 removes one.
fn set<'a>(fields: &mut Fields, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (key, value) in pairs {
        let key = key.trim().to_ascii_lowercase();
        let Some((name, _)) = FIELDS.iter().find(|(_, names)| names.contains(&key.as_str())) else {
            continue;
        };
        // Keep the entries of a list of limits that are not removed.
        let kept: Vec<&str> = value
            .trim()
            .split(',')
            .filter(|part| !["", "-1"].contains(part) && !part.ends_with("=-1"))
            .collect();
        match kept.as_slice() {
            [] => _ = fields.remove(name),
            kept => _ = fields.insert(name, kept.join(",")),
        }
    }
}

/// Splits at separators outside quotes; the quotes are removed.
fn outside_quotes(line: &str, is_end: impl Fn(char) -> bool) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if is_end(c) => parts.push(std::mem::take(&mut part)),
            _ => part.push(c),
        }
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> AccountingDump {
        let mut entered = AccountingDump::default();
        assert!(entered.read(text), "{text}");
        entered
    }

    fn tree(entered: &AccountingDump) -> String {
        let one = |account: &AccountEntry| format!("{}<{}", account.name, account.parent);
        entered.accounts.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// Dump as Slurm 22.05 writes it.
    const DUMP: &str = "\
# To edit this file start with a cluster line for the new cluster
# Account - 'cs':MaxTRESPerJob=node=5
Cluster - 'muster':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'lab':Description='the lab: all of it':Organization='lab':Fairshare=3
Parent - 'lab'
Account - 'vision':DefaultQOS='vision-own':Fairshare=2:GrpTRES=gres/gpu=24:MaxWallDurationPerJob=480:QOS='idle,vision-own'
Parent - 'vision'
User - 'games':DefaultAccount='vision':Fairshare=1
";

    #[test]
    fn a_dump_is_a_tree() {
        let entered = read(DUMP);
        assert_eq!(tree(&entered), "lab<root vision<lab");
        let fields = &entered.accounts[1].fields;
        let of = |name: &str| fields.get(name).map(String::as_str);
        assert_eq!(
            (of("share"), of("grptres"), of("maxwall")),
            (Some("2"), Some("gres/gpu=24"), Some("480"))
        );
        assert_eq!((of("qos"), of("defaultqos")), (Some("idle,vision-own"), Some("vision-own")));
        assert_eq!(entered.users["games"], ["vision"]);
    }

    #[test]
    fn tables_have_a_heading() {
        let entered = read(
            "Cluster|Account|ParentName|User|Share|GrpJobs\nm|root|||1|\nm|lab|root||3|\nm|vision|lab||2|5\nm|vision||games|1|\n",
        );
        assert_eq!(tree(&entered), "lab<root vision<lab");
        assert_eq!(entered.accounts[1].fields["grpjobs"], "5");
        assert!(!entered.is_flat);
        let indented = read(
            "Account|User|Share|\nroot||1|\n lab||3|\n  vision||2|\n  vision|games|1|\n other||1|\n",
        );
        assert_eq!(tree(&indented), "lab<root vision<lab other<root");
        assert!(read("Account|User|Share\nlab||3\nvision||2\n").is_flat);
        let qos = read(
            "Name|Priority|GraceTime|Preempt|GrpTRES|MaxTRESPU|\nown|10|00:00:00|idle|gres/gpu=16||\nidle|0|00:02:00||||\n",
        );
        assert_eq!(qos.qos[0].fields["preempt"], "idle");
        assert_eq!(qos.qos[1].fields.get("preempt"), None);
    }

    #[test]
    fn scripts_of_commands_are_read_as_far_as_they_are_commands() {
        let entered = read(
            "#!/bin/sh\nset -eu\n# sacctmgr add account no\nsacctmgr -i add account lab,other fairshare=3 Description=\"a b\"\n\
             add account vision parent=lab\n[ -n x ] || echo\nsacctmgr -i modify account where name=vision set GrpTRES=gres/gpu=8 \\\n  GrpJobs=5\n\
             change account vision GrpJobs=-1 QOS=own,idle\nsacctmgr add qos own Preempt=idle\nadd user ann account=vision,lab\nmember bob vision\n",
        );
        assert_eq!(tree(&entered), "lab<root other<root vision<lab");
        let vision = &entered.accounts[2].fields;
        assert_eq!(vision.get("grptres").map(String::as_str), Some("gres/gpu=8"));
        assert_eq!(
            (vision.get("grpjobs"), vision.get("qos").map(String::as_str)),
            (None, Some("own,idle"))
        );
        assert_eq!((entered.users["ann"].len(), entered.users["bob"].len()), (2, 1));
        assert!(!AccountingDump::default().read("hello\nworld\n"));
        assert!(!AccountingDump::default().read(""));
    }

    #[test]
    fn what_is_not_read_is_noted_with_whose_it_is() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let unread = read(text).unread;
            let unread: Vec<(&str, String)> =
                unread.iter().map(|(what, of)| (what.as_str(), of.join(", "))).collect();
            let unread: Vec<(&str, &str)> =
                unread.iter().map(|(what, of)| (*what, of.as_str())).collect();
            assert_eq!(unread, expected, "{text}");
        };
        check(DUMP, &[]);
        check(
            "Cluster - 'c':Fairshare=1:QOS='normal':MaxJobs=9\nParent - 'root'\nAccount - 'a':Fairshare=3:GrpSubmitJobs=5\n\
             Parent - 'a'\nUser - 'ann':DefaultAccount='a':Fairshare=4:GrpTRES=gres/gpu=2\nUser - 'bob':Fairshare=1\n",
            &[
                ("Fairshare of users", "ann in a 4"),
                ("GrpSubmitJobs of accounts", "a 5"),
                ("GrpTRES of users", "ann in a gres/gpu=2"),
                ("MaxJobs of users", "the cluster 9"),
            ],
        );
        check(
            "Name|Priority|GraceTime|Preempt|PreemptMode|UsageFactor|MaxJobsPU|GrpWall|\na|10|00:00:00||cluster|1.000000|4||\n\
             b|0|00:00:00|||2.000000|||\n",
            &[
                ("maxjobspu of QOS", "a 4"),
                ("priority of QOS", "a 10"),
                ("usagefactor of QOS", "b 2.000000"),
            ],
        );
        check(
            "Account|ParentName|User|Partition|Share|MaxJobs|GrpSubmit\na|root|||1|3|7\na||ann|gpu|1||\n",
            &[("grpsubmit of accounts", "a 7"), ("partition of users", "ann in a gpu")],
        );
    }
}
