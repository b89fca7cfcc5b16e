//! `--virtual-gpus 8` and `--virtual-gpus 8:h100`: devices that are declared, with no hardware behind them.

use std::fmt;
use std::str::FromStr;

use muster_model::node::{DeviceSet, GpuModel};

/// Declared devices of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualGpus {
    /// How many; 0 takes an earlier declaration back.
    pub count: u32,
    model: Option<String>,
}

impl VirtualGpus {
    /// Their model; `virtual` when none was named.
    pub fn model(&self) -> GpuModel {
        GpuModel::from(self.model.as_deref().unwrap_or("virtual"))
    }

    /// As the daemon takes it.
    pub fn declared(&self) -> muster_daemon::VirtualGpus {
        let model = self.model.as_deref().map(GpuModel::from);
        muster_daemon::VirtualGpus { count: self.count, model }
    }
}

impl FromStr for VirtualGpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, model) = match text.split_once(':') {
            Some((count, model)) => (count, Some(model)),
            None => (text, None),
        };
        let most = DeviceSet::MAX_DEVICES as u32;
        let count: u32 = count.parse().map_err(|_| "expected a number, such as 8 or 8:h100".to_owned())?;
        if count > most {
            return Err(format!("expected at most {most}"));
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
        if model.is_some_and(|model| model.is_empty() || model.len() > 64 || !model.chars().all(allowed)) {
            return Err("expected a model of lower-case letters and digits, such as h100".to_owned());
        }
        Ok(Self { count, model: model.map(str::to_owned) })
    }
}

impl fmt::Display for VirtualGpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.model {
            Some(model) => write!(f, "{}:{model}", self.count),
            None => self.count.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_with_and_without_a_model() {
        for text in ["8", "0", "128", "4:h100"] {
            assert_eq!(text.parse::<VirtualGpus>().unwrap().to_string(), text);
        }
        assert_eq!("8".parse::<VirtualGpus>().unwrap().model().as_str(), "virtual");
        for wrong in ["", "129", "-1", "x", "4:", "4:H100", "4:a b", "4:a:b"] {
            assert!(wrong.parse::<VirtualGpus>().is_err(), "{wrong}");
        }
    }
}
