//! Rules on the images of a Ray cluster.

use std::collections::BTreeSet;

use muster_model::check::Severity::{Low, Medium};

use super::super::KubernetesRule;
use crate::kubernetes::ray::RayObject;
use crate::kubernetes::view::{ClusterView, count};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any};

const CONFIG: DocPage =
    DocPage::Web("https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html");

/// Tags that name another image from day to day.
const MOVING: [&str; 4] = ["latest", "latest-gpu", "nightly", "nightly-gpu"];

/// Last parts of the names of images whose tags begin with the version of Ray.
const OF_RAY: [&str; 3] = ["ray", "ray-ml", "ray-llm"];

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "ray-image-differs",
        severity: Medium,
        title: "images and rayVersion of a Ray cluster differ",
        meaning: "the operator starts Ray with options of another version, and nodes of different versions refuse each other",
        cure: "one image for all groups, and `rayVersion` that of its tag",
        page: CONFIG,
        check: differs,
    },
    KubernetesRule {
        id: "ray-image-moves",
        severity: Low,
        title: "the image of a Ray cluster has no fixed version",
        meaning: "a worker that starts later may have another version of Ray than the head, which refuses it",
        cure: "a tag with the version, such as `rayproject/ray:2.60.0-py311`, or a digest",
        page: CONFIG,
        check: moves,
    },
];

/// Returns the tag of an image; `None` for one with a digest, `latest` for one without a tag.
fn tag(image: &str) -> Option<&str> {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains('@') {
        return None;
    }
    Some(name.split_once(':').map_or("latest", |(_, tag)| tag))
}

/// Returns the version at the beginning of a tag: `2.46.0` of `2.46.0.0ab-py311-gpu`.
fn version(tag: &str) -> Option<String> {
    let number = tag.split('-').next()?;
    let parts: Vec<&str> = number.split('.').take(3).collect();
    let is_number =
        |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty();
    (parts.len() == 3 && parts.iter().all(is_number)).then(|| parts.join("."))
}

/// Returns the version of Ray in the tag of an image; `None` for an image of other software with Ray in it.
fn ray_version(image: &str) -> Option<String> {
    let name = image.rsplit('/').next()?.split(':').next()?;
    if OF_RAY.contains(&name) { version(tag(image)?) } else { None }
}

fn differs(cluster: &ClusterView<'_>) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let finding = |ray: &RayObject<'_>| {
        let groups = ray.groups();
        let images: BTreeSet<&str> = groups.iter().filter_map(|group| group.image()).collect();
        let mut versions: BTreeSet<String> =
            images.iter().filter_map(|image| ray_version(image)).collect();
        if versions.is_empty() {
            return None;
        }
        let given = ray.cluster["rayVersion"].as_str();
        versions.extend(given.and_then(version));
        let title = ray.title();
        let of_images = images.into_iter().collect::<Vec<_>>().join(", ");
        let says = match given {
            Some(given) => format!("{title}: rayVersion {given}, images {of_images}"),
            None => format!("{title}: images {of_images}"),
        };
        (versions.len() > 1).then(|| RuleFinding::about(title, says))
    };
    fail_if_any(rays.iter().filter_map(finding).collect(), count(rays.len(), "Ray cluster"))
}

fn moves(cluster: &ClusterView<'_>) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let finding = |ray: &RayObject<'_>| {
        let groups = ray.groups();
        let images: BTreeSet<&str> = groups.iter().filter_map(|group| group.image()).collect();
        let is_moving = |image: &&str| tag(image).is_some_and(|tag| MOVING.contains(&tag));
        let moving: Vec<&str> = images.into_iter().filter(is_moving).collect();
        let title = ray.title();
        let says = format!("{title}: {}", moving.join(", "));
        (!moving.is_empty()).then(|| RuleFinding::about(title, says))
    };
    fail_if_any(rays.iter().filter_map(finding).collect(), count(rays.len(), "Ray cluster"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_begin_with_a_version() {
        for (image, expected) in [
            ("rayproject/ray:2.46.0-py311-gpu", Some("2.46.0")),
            ("registry.example:5000/ray:2.9.3", Some("2.9.3")),
            ("rayproject/ray:2.46.0.0ab12c-py39", Some("2.46.0")),
            ("rayproject/ray-llm:2.46.0-py311-cu124", Some("2.46.0")),
            ("vllm/vllm-openai:0.9.1", None),
            ("team/array:2.9.3", None),
            ("registry.example:5000/ray", None),
            ("rayproject/ray:latest", None),
            ("team/ray:v7", None),
            ("team/ray:2.46", None),
            ("rayproject/ray@sha256:00", None),
        ] {
            assert_eq!(ray_version(image).as_deref(), expected, "{image}");
        }
        assert_eq!(tag("registry.example:5000/ray"), Some("latest"));
    }
}
