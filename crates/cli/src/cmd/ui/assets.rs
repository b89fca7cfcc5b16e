//! Files of the page, which are part of the binary. They hold no data, so anyone who reaches the port
//! may read them.

/// File of the page.
#[derive(Debug)]
pub(super) struct Asset {
    /// Path in the address.
    pub(super) path: &'static str,
    /// Type of its content.
    pub(super) kind: &'static str,
    /// Bytes of the body, as they are in the source.
    pub(super) text: &'static str,
}

/// Media type of a script that the page loads as a module.
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! module {
    ($name:literal) => {
        Asset {
            path: concat!("/page/", $name),
            kind: SCRIPT,
            text: include_str!(concat!("page/", $name)),
        }
    };
}

/// All files of the page.
pub(super) const ASSETS: &[Asset] = &[
    Asset { path: "/", kind: "text/html; charset=utf-8", text: include_str!("page/index.html") },
    Asset {
        path: "/page/page.css",
        kind: "text/css; charset=utf-8",
        text: include_str!("page/page.css"),
    },
    Asset { path: "/page/icon.svg", kind: "image/svg+xml", text: include_str!("page/icon.svg") },
    module!("actions.js"),
    module!("api.js"),
    module!("colours.js"),
    module!("dom.js"),
    module!("elements.js"),
    module!("gantt.js"),
    module!("grid.js"),
    module!("job.js"),
    module!("jobs.js"),
    module!("live.js"),
    module!("main.js"),
    module!("nodes.js"),
    module!("output.js"),
    module!("overview.js"),
    module!("parallel.js"),
    module!("ports.js"),
    module!("queues.js"),
    module!("timeline.js"),
    module!("whatif.js"),
    module!("words.js"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ASSETS;

    #[test]
    fn every_file_that_a_module_names_is_served_and_nothing_else() {
        let paths: BTreeSet<&str> = ASSETS.iter().map(|asset| asset.path).collect();
        assert_eq!(paths.len(), ASSETS.len());
        let mut named = BTreeSet::from(["/".to_owned()]);
        for asset in ASSETS {
            let is_module = asset.path.ends_with(".js");
            let marks: &[&str] = if is_module { &["from \"./"] } else { &["\"/page/"] };
            for mark in marks {
                let found = asset.text.split(mark).skip(1);
                named.extend(
                    found
                        .filter_map(|rest| rest.split_once('"'))
                        .map(|(name, _)| format!("/page/{name}")),
                );
            }
        }
        assert_eq!(named.iter().map(String::as_str).collect::<BTreeSet<_>>(), paths);
    }

    #[test]
    fn no_module_makes_markup_or_code_of_text() {
        for asset in ASSETS {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "DOMParser",
                "style=\"",
            ] {
                assert!(!asset.text.contains(word), "{}: {word}", asset.path);
            }
        }
    }
}
