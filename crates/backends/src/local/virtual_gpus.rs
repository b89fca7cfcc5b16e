//! Virtual GPUs: declared devices without hardware. Their text form is written by users and kept in
//! the state directory: `8`, `8:h100`, or several models as on a machine with MIG slices,
//! `2:a100,7:a100-1g.10gb`.

use std::fmt;
use std::str::FromStr;

use muster_model::{DeviceSet, GpuModel};

/// Maximum length of a model name.
const MAX_MODEL: usize = 64;

/// GPUs that are declared rather than detected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualGpus {
    /// Counts and models in order of device index; a missing model is shown as `virtual`.
    pub kinds: Vec<(u32, Option<GpuModel>)>,
}

impl VirtualGpus {
    /// Returns `count` GPUs without a model.
    #[must_use]
    pub fn of(count: u32) -> Self {
        Self { kinds: vec![(count, None)] }
    }

    /// Returns the number of GPUs; 0 revokes an earlier declaration.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.kinds.iter().map(|(count, _)| count).sum()
    }

    /// Returns the model of each device.
    pub fn models(&self) -> impl Iterator<Item = GpuModel> {
        self.kinds.iter().flat_map(|(count, model)| {
            let model = model.clone().unwrap_or_else(|| GpuModel::from("virtual"));
            std::iter::repeat_n(model, *count as usize)
        })
    }
}

impl FromStr for VirtualGpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kinds = text.split(',').map(kind).collect::<Result<Vec<_>, _>>()?;
        let most = DeviceSet::MAX_DEVICES as u32;
        if kinds.iter().fold(0u32, |sum, (count, _)| sum.saturating_add(*count)) > most {
            return Err(format!("expected at most {most}"));
        }
        if kinds.len() > 1 && kinds.iter().any(|(_, model)| model.is_none()) {
            return Err("expected a model for each, such as 2:a100,7:a100-1g.10gb".to_owned());
        }
        Ok(Self { kinds })
    }
}

fn kind(text: &str) -> Result<(u32, Option<GpuModel>), String> {
    let (count, model) = match text.split_once(':') {
        Some((count, model)) => (count, Some(model)),
        None => (text, None),
    };
    let count = count.parse().map_err(|_| "expected a number, such as 8 or 8:h100".to_owned())?;
    let allowed =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    if model.is_some_and(|model| {
        model.is_empty() || model.len() > MAX_MODEL || !model.chars().all(allowed)
    }) {
        return Err("expected a model of lower-case letters and digits, such as h100".to_owned());
    }
    Ok((count, model.map(GpuModel::from)))
}

impl fmt::Display for VirtualGpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (count, model)) in self.kinds.iter().enumerate() {
            f.write_str(if at > 0 { "," } else { "" })?;
            match model {
                Some(model) => write!(f, "{count}:{model}")?,
                None => count.fmt(f)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_with_and_without_models() {
        for text in ["8", "0", "128", "4:h100", "2:a100,7:a100-1g.10gb", "64:a,64:b"] {
            assert_eq!(text.parse::<VirtualGpus>().unwrap().to_string(), text);
        }
        let models = |text: &str| {
            text.parse::<VirtualGpus>()
                .unwrap()
                .models()
                .map(|model| model.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(models("2"), ["virtual", "virtual"]);
        assert_eq!(models("1:a100,2:a100-1g.10gb"), ["a100", "a100-1g.10gb", "a100-1g.10gb"]);
        for wrong in [
            "",
            "129",
            "-1",
            "x",
            "4:",
            "4:H100",
            "4:a b",
            "4:a:b",
            "4,4",
            "4:a,4",
            "4:a,",
            "100:a,29:b",
        ] {
            assert!(wrong.parse::<VirtualGpus>().is_err(), "{wrong}");
        }
    }
}
