//! Resource requests of a pod, in quantities of the Kubernetes API.

use std::collections::BTreeMap;

use muster_model::job::{GpuRequest, Resources};
use muster_model::{Bytes, CpuMilli};

use super::super::value::MAX_COUNT;
use super::object::{Container, ResourceQuantities, Spec};

/// Returns the requests of a pod: of all its containers together, or of its largest init container.
pub(super) fn of(spec: &Spec) -> Result<Resources, String> {
    let sum = |resource: &dyn Fn(&str) -> bool| -> Result<f64, String> {
        let amounts = |list: &[Container]| -> Result<Vec<f64>, String> {
            list.iter().map(|container| amount(&container.resources, resource)).collect()
        };
        let before = amounts(&spec.init_containers)?.into_iter().fold(0.0, f64::max);
        Ok(amounts(&spec.containers)?.into_iter().sum::<f64>().max(before))
    };
    Ok(Resources {
        gpu: GpuRequest::whole((sum(&|name| name.ends_with("/gpu"))? as u32).min(MAX_COUNT)),
        cpus: CpuMilli((sum(&|name| name == "cpu")? * 1000.0).round() as u32),
        memory: Bytes(sum(&|name| name == "memory")? as u64),
        ..Resources::default()
    })
}

/// Returns a container's request for such resources, or its limit if only that is set.
fn amount(amounts: &ResourceQuantities, resource: &dyn Fn(&str) -> bool) -> Result<f64, String> {
    let named = |map: &BTreeMap<String, String>| -> Option<Result<f64, String>> {
        let (name, text) = map.iter().find(|(name, _)| resource(name))?;
        Some(quantity(text).ok_or_else(|| {
            format!("`{name}` is `{}`, no quantity", super::super::csv::shown(text))
        }))
    };
    named(&amounts.requests).or_else(|| named(&amounts.limits)).unwrap_or(Ok(0.0))
}

/// Parses a quantity of the Kubernetes API: `500m`, `16Gi`, `1e3`.
fn quantity(text: &str) -> Option<f64> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [(&str, f64); 9] = [
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let binary = BINARY.iter().zip(1..).find(|(suffix, _)| text.ends_with(**suffix));
    let decimal = DECIMAL.iter().find(|(suffix, _)| text.ends_with(*suffix));
    let (number, factor) = match (binary, decimal) {
        (Some((suffix, power)), _) => (text.strip_suffix(suffix)?, 1024f64.powi(power)),
        (None, Some((suffix, factor))) => (text.strip_suffix(suffix)?, *factor),
        (None, None) => (text, 1.0),
    };
    let value = number.parse::<f64>().ok()? * factor;
    (0.0..1e19).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_suffixes_of_ten_and_of_two() {
        for (text, expected) in [
            ("2", Some(2.0)),
            ("500m", Some(0.5)),
            ("1.5Gi", Some(1_610_612_736.0)),
            ("3M", Some(3e6)),
            ("1e3", Some(1000.0)),
            ("1E", Some(1e18)),
            ("-1", None),
            ("Gi", None),
            ("inf", None),
        ] {
            assert_eq!(quantity(text), expected, "{text}");
        }
    }
}
