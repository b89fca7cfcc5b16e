//! Answers of `muster advise` in every output format.

use super::{GRPO, HYBRID, SITE, SMALL_SITE};
use crate::home::Home;
use crate::pty::Typist;

/// Keys of the outermost object of pretty JSON, in order.
fn keys(json: &str) -> Vec<&str> {
    let outer = json.lines().filter_map(|line| line.strip_prefix("  \""));
    outer.filter_map(|line| line.split_once("\":").map(|(key, _)| key)).collect()
}

#[test]
fn text_fits_one_screen_and_is_what_people_saw_before() {
    let home = Home::new();
    home.write("site.yaml", SITE);
    home.write("small.yaml", SMALL_SITE);
    let cases = [
        ("grpo", GRPO),
        ("hybrid", HYBRID),
        ("pretraining", "--nodes 8 --tightly-coupled --bare-metal"),
        ("nothing_special", "--nodes 1"),
        ("development", "--edge-or-dev"),
        ("k3s_past_its_envelope", "--nodes 16 --edge-or-dev --tightly-coupled"),
        ("ray_on_k3s", "--nodes 4 --edge-or-dev --tightly-coupled --python-native-pipeline"),
        ("thresholds", "--nodes 4 --tightly-coupled --rule multi-node=8"),
        ("site", "--site site.yaml"),
        ("small_site", "--site small.yaml"),
    ];
    for (name, options) in cases {
        let run = home.words(&format!("advise {options}")).ok();
        assert_eq!(run.stderr, "", "{name}");
        let tallest = run.stdout.lines().count();
        assert!(
            tallest < 24 && run.stdout.lines().all(|line| line.chars().count() <= 100),
            "{name}"
        );
        insta::assert_snapshot!(name, format!("$ muster advise {options}\n{}", run.stdout));
    }
    assert!(!home.path("m").exists(), "advice starts no daemon");
}

#[test]
fn the_page_on_choosing_shows_what_is_printed() {
    let home = Home::new();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/choosing.md");
    let page = std::fs::read_to_string(path).unwrap();
    let printed = home.words(&format!("advise {GRPO}")).ok().stdout;
    assert!(
        page.contains(&format!("\n$ muster advise {GRPO}\n{printed}```\n")),
        "docs/choosing.md is to show:\n{printed}"
    );
}

#[test]
fn every_example_is_answered_on_one_screen() {
    let home = Home::new();
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut sites = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let option = if name.starts_with("site-") {
            "--site"
        } else if name.starts_with("facts-") && name.ends_with(".yaml") {
            "--facts"
        } else {
            continue;
        };
        sites += usize::from(option == "--site");
        home.write(name, &std::fs::read_to_string(&path).unwrap());
        let text = home.muster(&["advise", option, name]).ok().stdout;
        assert!(
            text.lines().count() < 24 && text.lines().all(|line| line.chars().count() <= 100),
            "{name}:\n{text}"
        );
        assert!(text.contains("\n  because "), "{name}:\n{text}");
    }
    assert!(sites > 0, "examples are where they were");
}

/// The answer ends with a line for the prompt left over, and never before the terminal is used.
#[test]
fn a_tall_terminal_is_filled() {
    let home = Home::new();
    home.write("site.yaml", SITE);
    let lines = |rows| {
        let options = ["advise", "--site", "site.yaml"];
        let mut terminal = Typist::sized(&home, &options, rows, 100, &[]);
        assert_eq!(terminal.code(), 0);
        terminal.seen().matches('\n').count()
    };
    let default = lines(24);
    assert!(default < 24, "{default}");
    for rows in [40, 60] {
        let tall = lines(rows);
        // An item that does not fit leaves a few lines.
        assert!((usize::from(rows) - 6..usize::from(rows)).contains(&tall), "{tall} of {rows}");
    }
}

#[test]
fn details_leave_nothing_out() {
    let home = Home::new();
    let short = home.words(&format!("advise {GRPO}")).ok().stdout;
    let long = home.words(&format!("advise {GRPO} --details")).ok().stdout;
    let is_cut = |text: &str| text.lines().any(|line| line.trim_start().starts_with("… "));
    assert!(is_cut(&short) && !is_cut(&long), "{long}");
    let json: serde_json::Value = home.words(&format!("advise {GRPO} --json")).json();
    let flat = long.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = |text: &serde_json::Value| {
        let text = text.as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&text), "{text}");
    };
    for (list, texts) in [
        ("rules", vec!["sentence"]),
        ("warnings", vec!["tell", "cure"]),
        ("disputes", vec!["question", "muster"]),
    ] {
        for entry in json[list].as_array().unwrap() {
            texts.iter().for_each(|text| shown(&entry[*text]));
            assert!(flat.contains(&format!("docs/advise.md#{}", entry["id"].as_str().unwrap())));
        }
    }
    for position in json["disputes"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|it| it["positions"].as_array().unwrap())
    {
        shown(&position["says"]);
    }
    let arrows = long.lines().filter(|line| line.contains('→')).count();
    assert_eq!(arrows, json["flips"].as_array().unwrap().len());
}

#[test]
fn json_has_its_keys_in_order_and_none_that_is_empty() {
    let home = Home::new();
    home.write("site.yaml", SITE);
    let order = [
        "primary",
        "addon",
        "hybrid",
        "rules",
        "warnings",
        "composition",
        "flips",
        "disputes",
        "asked",
        "workloads",
        "sharing",
        "notebooks",
        "operations",
        "first_week",
    ];
    let check = |options: &str, absent: &[&str]| {
        let json = home.words(&format!("advise {options} --json")).ok().stdout;
        let expected: Vec<&str> = order.into_iter().filter(|key| !absent.contains(key)).collect();
        assert_eq!(keys(&json), expected, "{options}");
        assert_eq!(home.words(&format!("advise {options} -o json")).ok().stdout, json);
    };
    let of_sites = ["asked", "workloads", "sharing", "notebooks", "operations", "first_week"];
    check(HYBRID, &of_sites);
    check(GRPO, &[&of_sites[..], &["hybrid"]].concat());
    check("--site site.yaml", &[]);
}

#[test]
fn fields_are_one_line_in_the_order_of_the_answer() {
    let home = Home::new();
    let check = |options: &str, expected: &str| {
        let run = home.words(&format!("advise {options}")).ok();
        assert_eq!(run.stdout, format!("{expected}\n"), "{options}");
    };
    check(
        &format!("{GRPO} --fields primary,addon,hybrid"),
        r#"{"primary":"ray","addon":"Volcano/Kueue/KAI gang scheduler (REQUIRED) + KubeRay on kubernetes"}"#,
    );
    check(
        &format!("{HYBRID} --fields hybrid,primary,addon"),
        r#"{"primary":"slurm","addon":"topology.conf for rail-aware placement","hybrid":"partition nodes: Slurm pool + K8s pool, clear boundary"}"#,
    );
    check(&format!("{GRPO} --fields primary,primary"), r#"{"primary":"ray"}"#);
    check(&format!("{GRPO} --fields hybrid"), "{}");
    let ray_on_k3s =
        "--nodes 4 --tightly-coupled --python-native-pipeline --edge-or-dev --fields addon";
    check(&format!("{ray_on_k3s} --ruleset guide"), r#"{"addon":"KubeRay on k3s"}"#);
    check(
        &format!("{ray_on_k3s} --ruleset default"),
        r#"{"addon":"Volcano/Kueue/KAI gang scheduler (REQUIRED) + KubeRay on k3s"}"#,
    );
}

#[test]
fn what_a_site_asks_is_answered_first_and_whole_and_the_middle_length_is_between() {
    let home = Home::new();
    home.write(
        "site.yaml",
        "fleet: {nodes: 20, gpus: 80, models: l40s, elastic: true}\n\
         people: {users: 40, teams: 4, platform-fte: 1, operates: [kubernetes, kueue], managed-plane: true, works: true}\n\
         needs: {vllm: true, ray: true, notebooks: true, grow: true, spark: true, regulated: true}\n",
    );
    let lines = |options: &str| {
        let text = home.words(&format!("advise --site site.yaml {options}")).ok().stdout;
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let short = lines("");
    let first = short.iter().position(|line| line.starts_with("  asked ")).unwrap();
    let asked = ["vLLM: ", "Ray: ", "notebooks: ", "elastic jobs: ", "Spark: ", "audit: "];
    for (place, need) in asked.into_iter().enumerate() {
        let line = short[first + place].trim_start_matches("  asked").trim_start();
        assert!(line.starts_with(need), "{need} is line {place} of:\n{}", short.join("\n"));
    }
    let middle = lines("--more").len();
    assert!(short.len() < middle && middle < lines("--details").len(), "{middle}");
    assert!(short.iter().any(|line| line.contains("watch for: known failures")), "a legend");
    let parts = lines("--more").join(" ");
    assert!(parts.contains("Kueue: staying costs") && !parts.contains("etcd,"), "{parts}");
}

#[test]
fn a_flow_chart_draws_every_layer() {
    let home = Home::new();
    let chart = home.words(&format!("advise {HYBRID} --mermaid")).ok().stdout;
    let json: serde_json::Value = home.words(&format!("advise {HYBRID} --json")).json();
    let mut arrows = 0;
    for layer in json["composition"].as_array().unwrap() {
        assert!(chart.contains(&format!("[\"{}\"]\n", layer["name"].as_str().unwrap())), "{chart}");
        arrows += layer["on"].as_array().map_or(0, Vec::len);
    }
    assert!(chart.starts_with("flowchart TB\n"));
    assert_eq!(chart.matches(" --> ").count(), arrows);
    let is_valid = |line: &str| {
        let node = line
            .strip_prefix("  n")
            .is_some_and(|rest| rest.ends_with("\"]") && rest.contains("[\""));
        node || line
            .split(" --> ")
            .all(|end| end.trim().strip_prefix('n').is_some_and(|n| n.parse::<u32>().is_ok()))
    };
    assert!(chart.lines().skip(1).all(is_valid), "{chart}");
}

#[test]
fn the_same_facts_get_the_same_bytes() {
    let home = Home::new();
    let mut words: Vec<&str> =
        "--tightly-coupled --nodes=4 --multi_tenant --python-native-pipeline --bare-metal=false \
         --rule=k3s-nodes=5"
            .split_whitespace()
            .collect();
    for form in ["--json", "--details", "--fields=flips,primary"] {
        words.push(form);
        let first = home.muster(&[&["advise"], &words[..]].concat()).ok().stdout;
        for _ in 0..words.len() {
            words.rotate_left(1);
            assert_eq!(home.muster(&[&["advise"], &words[..]].concat()).ok().stdout, first);
        }
        words.retain(|word| *word != form);
    }
    let twice = |options: &str| home.words(&format!("advise {options}")).ok().stdout;
    assert_eq!(twice("--edge_or_dev --json"), twice("--edge-or-dev=true --json"));
}

#[test]
fn a_closed_stdout_is_no_error() {
    let home = Home::new();
    let mut child = home.spawn(&["advise", "--nodes", "4", "--details"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
