//! Resources that a pod requests, counted as Kubernetes counts them: the sum over containers and
//! sidecars, or what one init container needs beside the sidecars started before it, whichever is
//! more, plus the overhead of the runtime class (KEP-753, documentation "Sidecar Containers").

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::{names, quantity};

/// Quantities by resource name: thousandths of a CPU for `cpu`, else whole units rounded up.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantities(pub BTreeMap<Arc<str>, u64>);

impl Quantities {
    /// Reads quantities; the error names the resource and text that is no quantity.
    pub(crate) fn read(texts: &BTreeMap<String, Text>) -> Result<Self, String> {
        let read = |(name, text): (&String, &Text)| {
            let milli = quantity::milli(&text.0)
                .ok_or_else(|| format!("{name}: {:?} is not a quantity", text.0))?;
            let units = if name == "cpu" { milli } else { milli.div_ceil(1000) };
            let units =
                u64::try_from(units).map_err(|_| format!("{name}: {} is too large", text.0))?;
            Ok((Arc::from(name.as_str()), units))
        };
        texts.iter().map(read).collect::<Result<_, String>>().map(Self)
    }

    /// Returns the quantity of a resource; 0 where it is not requested.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    fn add(&mut self, other: &Self) {
        for (name, units) in &other.0 {
            let sum = self.0.entry(Arc::clone(name)).or_default();
            *sum = sum.saturating_add(*units);
        }
    }

    fn raise_to(&mut self, other: &Self) {
        for (name, units) in &other.0 {
            let most = self.0.entry(Arc::clone(name)).or_default();
            *most = (*most).max(*units);
        }
    }
}

/// Quantity as text: a JSON string, or a number in hand-written files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Text;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a quantity")
            }
            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Requests and limits of a container or a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Requirements {
    requests: Option<BTreeMap<String, Text>>,
    limits: Option<BTreeMap<String, Text>>,
}

impl Requirements {
    /// Returns the requests; a resource with a limit alone requests its limit, as the API server
    /// sets it.
    fn effective(&self) -> Result<Quantities, String> {
        let mut all = Quantities::read(self.limits.as_ref().unwrap_or(&BTreeMap::new()))?;
        let requests = Quantities::read(self.requests.as_ref().unwrap_or(&BTreeMap::new()))?;
        all.0.extend(requests.0);
        Ok(all)
    }
}

/// Container of a pod, as far as its requests go.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    resources: Requirements,
    restart_policy: Option<String>,
    pub(crate) ports: Option<Vec<ContainerPort>>,
    env: Option<Vec<Variable>>,
}

impl Container {
    /// Returns true if it takes its GPU from the annotation that names it.
    pub(crate) fn reads_gpu(&self) -> bool {
        let path = format!("metadata.annotations['{}']", names::GPU_IDS);
        self.env.iter().flatten().any(|one| {
            let field = one.value_from.as_ref().and_then(|from| from.field_ref.as_ref());
            one.name == names::VISIBLE_GPUS && field.is_some_and(|field| field.field_path == path)
        })
    }
}

/// Variable of a container's environment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Variable {
    name: String,
    value_from: Option<ValueSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ValueSource {
    field_ref: Option<FieldRef>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FieldRef {
    field_path: String,
}

/// Port of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPort {
    pub(crate) host_port: u32,
    pub(crate) protocol: Option<String>,
}

/// Returns the requests of a pod.
pub(crate) fn of_pod(
    containers: &[Container],
    init_containers: &[Container],
    pod: Option<&Requirements>,
    overhead: Option<&BTreeMap<String, Text>>,
) -> Result<Quantities, String> {
    // 1. Init containers in order: sidecars (restartPolicy Always) keep what they hold.
    let mut sidecars = Quantities::default();
    let mut peak = Quantities::default();
    for container in init_containers {
        let own = container.resources.effective()?;
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.add(&own);
            peak.raise_to(&sidecars);
        } else {
            let mut beside = sidecars.clone();
            beside.add(&own);
            peak.raise_to(&beside);
        }
    }

    // 2. Containers beside all sidecars.
    let mut total = sidecars;
    for container in containers {
        total.add(&container.resources.effective()?);
    }
    total.raise_to(&peak);

    // 3. Requests of the pod as a whole replace the sum.
    if let Some(pod) = pod {
        total.0.extend(pod.effective()?.0);
    }

    // 4. Overhead of the runtime class.
    if let Some(overhead) = overhead {
        total.add(&Quantities::read(overhead)?);
    }
    total.0.retain(|_, units| *units > 0);
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Pod {
        containers: Vec<Container>,
        init_containers: Vec<Container>,
        resources: Option<Requirements>,
        overhead: Option<BTreeMap<String, Text>>,
    }

    fn check(pod: serde_json::Value, expected: &str) {
        let read: Pod = serde_json::from_value(pod.clone()).unwrap();
        let total = of_pod(
            &read.containers,
            &read.init_containers,
            read.resources.as_ref(),
            read.overhead.as_ref(),
        );
        let text = match total {
            Ok(total) => total
                .0
                .iter()
                .map(|(name, units)| format!("{name}={units}"))
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => error,
        };
        assert_eq!(text, expected, "{pod}");
    }

    #[test]
    fn requests_count_as_kubernetes_counts_them() {
        let cpu =
            |quantity: &str| serde_json::json!({"resources": {"requests": {"cpu": quantity}}});
        let sidecar = |quantity: &str| serde_json::json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": quantity}}});
        check(serde_json::json!({"containers": [cpu("1"), cpu("500m")]}), "cpu=1500");
        // An ordinary init container runs before the containers.
        check(
            serde_json::json!({"containers": [cpu("1")], "initContainers": [cpu("3")]}),
            "cpu=3000",
        );
        check(
            serde_json::json!({"containers": [cpu("4")], "initContainers": [cpu("3")]}),
            "cpu=4000",
        );
        // A sidecar runs beside the containers, and beside init containers after it.
        check(
            serde_json::json!({"containers": [cpu("1")], "initContainers": [sidecar("2"), cpu("3")]}),
            "cpu=5000",
        );
        check(
            serde_json::json!({"containers": [cpu("1")], "initContainers": [cpu("3"), sidecar("2")]}),
            "cpu=3000",
        );
        check(
            serde_json::json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "2", "memory": "1Ki"}}, "overhead": {"cpu": "250m"}}),
            "cpu=2250 memory=1024",
        );
        check(
            serde_json::json!({"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]}),
            "nvidia.com/gpu=2",
        );
        check(serde_json::json!({"containers": [cpu("much")]}), "cpu: \"much\" is not a quantity");
        check(serde_json::json!({"containers": [{}]}), "");
    }
}
