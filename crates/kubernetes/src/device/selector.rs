//! Selectors of devices: expressions in CEL over the device, as classes and claims have them, with the
//! functions for quantities and versions that Kubernetes adds (API documentation of
//! CELDeviceSelector).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::extractors::This;
use cel::objects::{Key, Map, Opaque};
use cel::{Context, Env, ExecutionError, Program, Value, extensions};
use serde::Deserialize;

use super::{Attribute, DeviceFacts};
use crate::quantity;

/// Selector as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SelectorText {
    cel: Cel,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Cel {
    expression: Arc<str>,
}

impl SelectorText {
    pub(crate) fn expression(&self) -> Arc<str> {
        Arc::clone(&self.cel.expression)
    }
}

/// Expression that a device satisfies or not.
pub struct Selector {
    program: Program,
    /// Domains that the expression names: a device has them all, without attributes if need be.
    domains: Vec<Arc<str>>,
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selector").field("domains", &self.domains).finish_non_exhaustive()
    }
}

/// Functions and operators that expressions may use.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings).expect("the extension is added once");
    Arc::new(env)
});

impl Selector {
    /// Parses an expression.
    ///
    /// # Errors
    /// The first error of the expression, as one line.
    pub fn parse(expression: &str) -> Result<Self, String> {
        let program = ENVIRONMENT.compile(expression).map_err(|errors| one_line(&errors))?;
        Ok(Self { program, domains: domains(expression) })
    }

    /// Returns true if the device satisfies the expression.
    ///
    /// # Errors
    /// Why the expression has no answer for this device, such as an attribute that it lacks.
    pub fn matches(&self, device: &DeviceFacts) -> Result<bool, String> {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        context.add_variable_from_value("device", self.value(device));
        add_functions(&mut context);
        match self.program.execute(&context) {
            Ok(Value::Bool(is_selected)) => Ok(is_selected),
            Ok(_) => Err("its value is neither true nor false".to_owned()),
            Err(error) => Err(one_line(&error)),
        }
    }

    fn value(&self, device: &DeviceFacts) -> Value {
        let attributes = device.attributes.iter().map(|(name, value)| (name, of_attribute(value)));
        let capacity = device.capacity.iter().map(|(name, text)| {
            let quantity =
                quantity::milli(text).map_or(Value::Null, |milli| opaque(Quantity(milli)));
            (name, quantity)
        });
        map([
            (Arc::from("driver"), text(&device.id.driver)),
            ("allowMultipleAllocations".into(), Value::Bool(false)),
            ("attributes".into(), self.by_domain(attributes)),
            ("capacity".into(), self.by_domain(capacity)),
        ])
    }

    fn by_domain<'a>(
        &self,
        values: impl Iterator<Item = (&'a (Arc<str>, Arc<str>), Value)>,
    ) -> Value {
        let mut domains: BTreeMap<Arc<str>, Vec<(Arc<str>, Value)>> =
            self.domains.iter().map(|domain| (Arc::clone(domain), Vec::new())).collect();
        for ((domain, name), value) in values {
            domains.entry(Arc::clone(domain)).or_default().push((Arc::clone(name), value));
        }
        map(domains.into_iter().map(|(domain, values)| (domain, map(values))))
    }
}

/// Returns the texts in brackets of an expression, which are domains.
fn domains(expression: &str) -> Vec<Arc<str>> {
    let after = expression.split('[').skip(1);
    let quoted = after.filter_map(|rest| {
        let rest = rest.trim_start();
        let quote = rest.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
        rest[1..].split_once(quote).map(|(domain, _)| Arc::from(domain))
    });
    quoted.collect()
}

fn one_line(error: &impl fmt::Display) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn text(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

fn opaque(value: impl Opaque) -> Value {
    Value::Opaque(Arc::new(value))
}

fn map(values: impl IntoIterator<Item = (Arc<str>, Value)>) -> Value {
    let map = values.into_iter().map(|(key, value)| (Key::from(&*key), value)).collect();
    Value::Map(Map { map: Arc::new(map) })
}

fn of_attribute(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Bool(is_true) => Value::Bool(*is_true),
        Attribute::Int(number) => Value::Int(*number),
        Attribute::Text(value) => text(value),
        Attribute::Version(value) => Version::parse(value).map_or(Value::Null, opaque),
    }
}

// ---- quantities and versions ----

/// Quantity in thousandths of its unit.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Quantity(u128);

impl Opaque for Quantity {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }
}

/// Version with three numbers; what follows them orders only by being there, which is before a release.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    numbers: [u64; 3],
    /// True for a release: one without a suffix such as `-rc.1`.
    is_release: bool,
    suffix: String,
}

impl Opaque for Version {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.Semver"
    }
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (numbers, suffix) = text.split_once('-').unwrap_or((text, ""));
        let numbers: Vec<u64> =
            numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let numbers = numbers.try_into().ok()?;
        Some(Self { numbers, is_release: suffix.is_empty(), suffix: suffix.to_owned() })
    }
}

fn add_functions(context: &mut Context<'_, '_>) {
    let add = "the standard environment has no function of this name";
    context.add_function("quantity", read_quantity).expect(add);
    context.add_function("semver", read_version).expect(add);
    context
        .add_function("compareTo", |this: This<Value>, other: Value| {
            order(&this.0, &other).map(|order| order as i64)
        })
        .expect(add);
    context
        .add_function("isGreaterThan", |this: This<Value>, other: Value| {
            order(&this.0, &other).map(Ordering::is_gt)
        })
        .expect(add);
    context
        .add_function("isLessThan", |this: This<Value>, other: Value| {
            order(&this.0, &other).map(Ordering::is_lt)
        })
        .expect(add);
    context.add_function("major", |this: This<Value>| number(&this.0, 0)).expect(add);
    context.add_function("minor", |this: This<Value>| number(&this.0, 1)).expect(add);
    context.add_function("patch", |this: This<Value>| number(&this.0, 2)).expect(add);
}

fn read_quantity(text: Arc<String>) -> Result<Value, ExecutionError> {
    let milli = quantity::milli(&text);
    milli
        .map(|milli| opaque(Quantity(milli)))
        .ok_or_else(|| ExecutionError::function_error("quantity", "not a quantity"))
}

fn read_version(text: Arc<String>) -> Result<Value, ExecutionError> {
    let version = Version::parse(&text);
    version.map(opaque).ok_or_else(|| ExecutionError::function_error("semver", "not a version"))
}

fn order(one: &Value, other: &Value) -> Result<Ordering, ExecutionError> {
    fn of<T: Ord + 'static>(one: &dyn Opaque, other: &dyn Opaque) -> Option<Ordering> {
        Some(one.downcast_ref::<T>()?.cmp(other.downcast_ref::<T>()?))
    }
    let (Value::Opaque(one), Value::Opaque(other)) = (one, other) else {
        return Err(ExecutionError::function_error("compareTo", "not quantities or versions"));
    };
    of::<Quantity>(&**one, &**other)
        .or_else(|| of::<Version>(&**one, &**other))
        .ok_or_else(|| ExecutionError::function_error("compareTo", "a quantity and a version"))
}

fn number(version: &Value, at: usize) -> Result<i64, ExecutionError> {
    let Value::Opaque(version) = version else {
        return Err(ExecutionError::function_error("major", "not a version"));
    };
    let version = version.downcast_ref::<Version>();
    version
        .and_then(|version| i64::try_from(version.numbers[at]).ok())
        .ok_or_else(|| ExecutionError::function_error("major", "not a version"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::devices;
    use serde_json::json;

    fn check(expression: &str, expected: &str) {
        let device = &devices(&json!([{
            "name": "gpu-0",
            "attributes": {
                "type": {"string": "gpu"},
                "index": {"int": 3},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
                "driverVersion": {"version": "580.65.6"},
                "resource.kubernetes.io/pcieRoot": {"string": "pci0000:01"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }]))[0];
        let answer = match Selector::parse(expression) {
            Ok(selector) => {
                selector.matches(device).map_or_else(|error| error, |one| one.to_string())
            }
            Err(error) => error,
        };
        assert!(answer.contains(expected), "{expression}: {answer}");
    }

    #[test]
    fn expressions_over_devices_have_the_answers_of_kubernetes() {
        check("device.driver == 'gpu.nvidia.com'", "true");
        // The class of NVIDIA's driver.
        check(
            "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
            "true",
        );
        check("device.attributes[\"gpu.nvidia.com\"].index in [1, 3]", "true");
        check(
            "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*h100.*$')",
            "true",
        );
        check("device.attributes['gpu.nvidia.com'].productName.contains('A100')", "false");
        check("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:01'", "true");
        check("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0", "true");
        check("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('80Gi'))", "false");
        check("device.capacity['gpu.nvidia.com'].memory == quantity('81920Mi')", "true");
        check(
            "device.attributes['gpu.nvidia.com'].driverVersion.isLessThan(semver('580.100.0'))",
            "true",
        );
        check("device.attributes['gpu.nvidia.com'].driverVersion.major() == 580", "true");
        check("cel.bind(a, device.attributes['gpu.nvidia.com'], a.index == 3)", "");
        // An attribute that the device lacks.
        check("device.attributes['gpu.nvidia.com'].speed == 1", "speed");
        check("has(device.attributes['gpu.nvidia.com'].speed)", "false");
        check("has(device.attributes['other.example.com'].speed)", "false");
        check("!has(device.attributes['other.example.com'].speed)", "true");
        check("device.driver", "neither true nor false");
        check("device.driver ==", "Syntax error");
    }

    #[test]
    fn versions_are_ordered_as_semantic_versions_are() {
        let all = ["1.2.3-rc.1", "1.2.3", "1.2.10", "1.10.0"];
        let read: Vec<Version> = all.iter().map(|text| Version::parse(text).unwrap()).collect();
        assert!(read.is_sorted());
        assert!(Version::parse("1.2").is_none());
        assert_eq!(Version::parse("1.2.3+build"), Version::parse("1.2.3"));
    }
}
