//! Reads the settings of the model of Slurm from a site's slurm.conf, and lists the settings that
//! the model ignores.

use std::path::Path;

use anyhow::Result;
use muster_model::Span;
use muster_sim::peers::slurm::{QosPreemption, SlurmSettings};

use crate::exit::Failure;
use crate::source;

const DAY_SECS: u64 = 86_400;

/// Options of `SchedulerParameters` that the model implements, or that have no effect if a pass
/// takes no time.
const KNOWN_OPTIONS: [&str; 10] = [
    "default_queue_depth",
    "batch_sched_delay",
    "sched_interval",
    "bf_interval",
    "bf_max_job_test",
    "bf_node_space_size",
    "bf_resolution",
    "bf_window",
    "bf_window_linear",
    "bf_continue",
];

/// Settings that affect scheduling and that the model ignores, with the value that has no effect.
const NOT_MODELLED: [(&str, &str); 8] = [
    ("PreemptType", "preempt/none"),
    ("PriorityFavorSmall", "NO"),
    ("PriorityFlags", ""),
    ("PriorityUsageResetPeriod", "NONE"),
    ("PriorityWeightAssoc", "0"),
    ("PriorityWeightPartition", "0"),
    ("PriorityWeightQOS", "0"),
    ("PriorityWeightTRES", ""),
];

/// Settings parsed from a slurm.conf.
#[derive(Debug, PartialEq, Eq)]
pub struct SlurmConf {
    /// Settings of the model.
    pub settings: SlurmSettings,
    /// Settings of the file that the model ignores, as `KEY=VALUE`.
    pub not_modelled: Vec<String>,
}

/// Reads a slurm.conf; files that it includes are not followed.
pub fn read(path: &Path) -> Result<SlurmConf> {
    let text = source::read(path)?.source;
    let bad = |what: String| Failure::usage(format!("{}: {what}", path.display()));
    Ok(parse(&text).map_err(bad)?)
}

/// Parses a slurm.conf. Settings that are not in the file have Slurm's defaults, not those of the
/// model's reference site.
fn parse(text: &str) -> Result<SlurmConf, String> {
    let conf = Conf::of(text);
    let usual = SlurmSettings::default();
    // 1. Priority; without the multifactor plugin, jobs are first come, first served.
    let has_weights =
        conf.global("PriorityType").is_some_and(|kind| kind == "priority/multifactor");
    let weight = |key| if has_weights { conf.number(key, 0) } else { Ok(0) };
    // 2. Options of the scheduler.
    let secs = |key: &str, usual: Span| conf.option(key, usual.as_secs()).map(Span::from_secs);
    let bf_max_job_test = conf.option("bf_max_job_test", usual.bf_max_job_test as u64)?;
    let settings = SlurmSettings {
        weight_age: weight("PriorityWeightAge")?,
        weight_fair_share: weight("PriorityWeightFairshare")?,
        weight_job_size: weight("PriorityWeightJobSize")?,
        max_age: conf.time("PriorityMaxAge")?.unwrap_or(Span::from_secs(7 * DAY_SECS)),
        calc_period: conf.time("PriorityCalcPeriod")?.unwrap_or(usual.calc_period),
        queue_depth: conf.option("default_queue_depth", usual.queue_depth as u64)? as usize,
        sched_delay: secs("batch_sched_delay", usual.sched_delay)?,
        sched_interval: secs("sched_interval", usual.sched_interval)?,
        bf_interval: secs("bf_interval", usual.bf_interval)?,
        bf_max_job_test: bf_max_job_test as usize,
        bf_node_space_size: conf.option("bf_node_space_size", bf_max_job_test)? as usize,
        bf_resolution: secs("bf_resolution", usual.bf_resolution)?.max(Span::from_secs(1)),
        // Slurm takes bf_window in minutes, and all other times in seconds.
        bf_window: Span::from_secs(60 * conf.option("bf_window", DAY_SECS / 60)?),
        bf_window_linear: match conf.option("bf_window_linear", 0)? {
            0 => None,
            secs => Some(Span::from_secs(secs)),
        },
        default_time: conf.default_time()?.unwrap_or(usual.default_time),
        preemption: Some(QosPreemption {
            exempt_time: conf.exempt_time()?,
            ..QosPreemption::default()
        }),
        requeue_delay: conf.requeue_delay()?.unwrap_or(usual.requeue_delay),
    };
    Ok(SlurmConf { settings, not_modelled: conf.not_modelled() })
}

/// Keys and values of each line, in the order of the file.
struct Conf {
    lines: Vec<Vec<(String, String)>>,
}

impl Conf {
    fn of(text: &str) -> Self {
        // A backslash at the end of a line joins it with the next, also within a list.
        let joined = text.replace("\\\n", "");
        let pairs = |line: &str| {
            let line = line.split('#').next().unwrap_or_default();
            let words = line.split_whitespace().filter_map(|word| word.split_once('='));
            words.map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned())).collect()
        };
        Self { lines: joined.lines().map(pairs).collect() }
    }

    /// Returns the value of a key that starts a line; the last one counts.
    fn global(&self, key: &str) -> Option<&str> {
        let mut first = self.lines.iter().filter_map(|line| line.first());
        first.rfind(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value.as_str())
    }

    fn number(&self, key: &str, usual: u64) -> Result<u64, String> {
        self.global(key).map_or(Ok(usual), |value| whole(key, value))
    }

    fn time(&self, key: &str) -> Result<Option<Span>, String> {
        self.global(key).map_or(Ok(None), |value| time(key, value))
    }

    /// Returns `PreemptExemptTime`; `-1` is none.
    fn exempt_time(&self) -> Result<Span, String> {
        let value = self.global("PreemptExemptTime").filter(|value| *value != "-1");
        let exempt = value.map_or(Ok(None), |value| time("PreemptExemptTime", value));
        Ok(exempt?.unwrap_or_default())
    }

    fn options(&self) -> impl Iterator<Item = &str> {
        self.global("SchedulerParameters")
            .unwrap_or_default()
            .split(',')
            .filter(|word| !word.is_empty())
    }

    fn option(&self, key: &str, usual: u64) -> Result<u64, String> {
        let mut pairs = self.options().filter_map(|word| word.split_once('='));
        pairs.find(|(name, _)| *name == key).map_or(Ok(usual), |(_, value)| whole(key, value))
    }

    /// Returns the default time limit of the default partition.
    fn default_time(&self) -> Result<Option<Span>, String> {
        let field = |line: &[(String, String)], key: &str| {
            line.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
        };
        let of = |line: &[(String, String)]| {
            field(line, "defaulttime").or_else(|| field(line, "maxtime"))
        };
        let mut preset = None;
        let mut chosen = None;
        let mut is_default = false;
        for line in &self.lines {
            let Some(("partitionname", name)) =
                line.first().map(|(key, name)| (key.as_str(), name))
            else {
                continue;
            };
            if name.eq_ignore_ascii_case("default") {
                preset = of(line).or(preset);
                continue;
            }
            let says_default =
                field(line, "default").is_some_and(|value| value.eq_ignore_ascii_case("yes"));
            if says_default || (!is_default && chosen.is_none()) {
                chosen = Some(of(line).or_else(|| preset.clone()));
                is_default |= says_default;
            }
        }
        chosen.flatten().map_or(Ok(None), |value| time("DefaultTime", &value))
    }

    /// Returns the delay before a requeued job may start: `cred_expire` plus one second.
    fn requeue_delay(&self) -> Result<Option<Span>, String> {
        let mut pairs = self
            .global("AuthInfo")
            .unwrap_or_default()
            .split(',')
            .filter_map(|word| word.split_once('='));
        let expire = pairs.find(|(name, _)| *name == "cred_expire");
        expire.map(|(key, value)| Ok(Span::from_secs(whole(key, value)? + 1))).transpose()
    }

    fn not_modelled(&self) -> Vec<String> {
        let is_known =
            |word: &&str| KNOWN_OPTIONS.contains(&word.split('=').next().unwrap_or_default());
        let options = self.options().filter(|word| !is_known(word)).map(str::to_owned);
        let settings = NOT_MODELLED.iter().filter_map(|(key, neutral)| {
            let value = self.global(key)?;
            (!value.eq_ignore_ascii_case(neutral)).then(|| format!("{key}={value}"))
        });
        settings.chain(options).collect()
    }
}

fn whole(key: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{key}={} is not a whole number", value.escape_debug()))
}

/// Parses a time of Slurm: `5` and `5:30` are minutes, `1:00:00` hours, `7-0` and `2-00:00:00`
/// days; `None` is unlimited.
fn time(key: &str, value: &str) -> Result<Option<Span>, String> {
    if ["infinite", "unlimited", "none"].iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return Ok(None);
    }
    let bad = || {
        format!("{key}={} is not a time of Slurm, such as 30, 1:00:00 or 7-0", value.escape_debug())
    };
    let (days, clock) = match value.split_once('-') {
        Some((days, clock)) => (Some(days), clock),
        None => (None, value),
    };
    let numbers: Vec<u64> =
        clock.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
    let secs = match (days, numbers.as_slice()) {
        (None, [minutes]) => minutes * 60,
        (None, [minutes, secs]) => minutes * 60 + secs,
        (Some(_), [hours]) => hours * 3_600,
        (Some(_), [hours, minutes]) => hours * 3_600 + minutes * 60,
        (_, [hours, minutes, secs]) => hours * 3_600 + minutes * 60 + secs,
        _ => return Err(bad()),
    };
    let days: u64 = days.map_or(Ok(0), str::parse).map_err(|_| bad())?;
    Ok(Some(Span::from_secs(days * DAY_SECS + secs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> SlurmSettings {
        parse(text).unwrap().settings
    }

    #[test]
    fn what_is_not_set_is_as_slurm_has_it_and_not_as_the_modelled_site() {
        let bare = read("");
        assert_eq!((bare.weight_age, bare.weight_fair_share, bare.weight_job_size), (0, 0, 0));
        assert_eq!(
            (bare.max_age, bare.bf_window),
            (Span::from_secs(7 * DAY_SECS), Span::from_secs(DAY_SECS))
        );
        let usual = SlurmSettings::default();
        assert_eq!((bare.bf_interval, bare.calc_period), (usual.bf_interval, usual.calc_period));
        // Weights count with their plugin only.
        assert_eq!(read("PriorityWeightAge=5").weight_age, 0);
        assert_eq!(
            read("prioritytype=priority/multifactor\nPriorityWeightAge=5 # much").weight_age,
            5
        );
    }

    #[test]
    fn options_and_the_default_partition_are_read() {
        let settings = read(
            "SchedulerParameters=bf_interval=2,bf_max_job_test=50,\\\nbf_window=90,bf_window_linear=60\nPriorityCalcPeriod=1\n\
             AuthInfo=socket=/run/m,cred_expire=5\nPartitionName=DEFAULT MaxTime=2-0\nPartitionName=a DefaultTime=5\n\
             PartitionName=b Default=YES\nPartitionName=c DefaultTime=1\n",
        );
        assert_eq!(settings.bf_interval, Span::from_secs(2));
        assert_eq!((settings.bf_max_job_test, settings.bf_node_space_size), (50, 50));
        assert_eq!(
            (settings.bf_window, settings.calc_period),
            (Span::from_secs(5_400), Span::from_secs(60))
        );
        assert_eq!(settings.bf_window_linear, Some(Span::from_secs(60)));
        assert_eq!(settings.default_time, Span::from_secs(2 * DAY_SECS));
        assert_eq!(settings.requeue_delay, Span::from_secs(6));
        let exempt = |text| read(text).preemption.unwrap().exempt_time;
        assert_eq!(exempt("PreemptExemptTime=1:00:00"), Span::from_secs(3_600));
        assert_eq!(exempt("PreemptExemptTime=-1"), Span(0));
    }

    #[test]
    fn what_the_model_does_not_know_is_named() {
        let conf = "PreemptType=preempt/qos\nPriorityFavorSmall=NO\nSchedulerParameters=bf_continue,defer,max_rpc_cnt=9";
        assert_eq!(
            parse(conf).unwrap().not_modelled,
            ["PreemptType=preempt/qos", "defer", "max_rpc_cnt=9"]
        );
        assert!(
            parse("PriorityMaxAge=soon").is_err()
                && parse("SchedulerParameters=bf_interval=x").is_err()
        );
    }

    #[test]
    fn times_are_those_of_slurm() {
        let check = |text: &str, secs: u64| {
            assert_eq!(time("t", text), Ok(Some(Span::from_secs(secs))), "{text}");
        };
        check("5", 300);
        check("5:30", 330);
        check("1:00:00", 3_600);
        check("7-0", 604_800);
        check("2-01:30", 178_200);
        check("2-00:00:10", 172_810);
        assert_eq!(time("t", "UNLIMITED"), Ok(None));
        for bad in ["", "x", "1-", "1:2:3:4", "-5"] {
            assert!(time("t", bad).is_err(), "{bad}");
        }
    }
}
