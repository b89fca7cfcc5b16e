//! Errors in facts, which name the fact.

use crate::home::Home;

#[test]
fn options_are_refused_in_the_words_of_files() {
    let home = Home::new();
    let check = |words: &str, expected: &str| {
        let run = home.words(&format!("advise {words}")).code(2);
        assert_eq!(run.stdout, "", "{words}");
        assert_eq!(run.stderr.lines().next().unwrap(), format!("error: {expected}"), "{words}");
    };
    let nodes = "`nodes` is not a whole number from 1 to 10000000:";
    check("--nodes 0", &format!("{nodes} the smallest is 1"));
    check("--nodes -3", &format!("{nodes} below 1"));
    check("--nodes 1.5", &format!("{nodes} not a fraction"));
    check("--nodes -1.5", &format!("{nodes} not a fraction"));
    check("--nodes 100000000000000000000", &format!("{nodes} above 10000000"));
    check("--nodes 10^20", &format!("{nodes} expected digits only, such as `4`"));
    check("--nodes=", "`nodes` is a number, `true` or `false`, not ``");
    check("--nodes four", &format!("{nodes} expected digits only, such as `4`"));
    check("--bare-metal=yes", "`bare_metal` is not true or false: write `true`");
    check("--edge_or_dev=2", "`edge_or_dev` is not true or false: write `true` or `false`");
    check("--bare-metal false", "unexpected argument `false`");
    check(
        "--nodes 4 --rule multi-nods=3",
        "there is no threshold `multi-nods`: did you mean `multi-node`?",
    );
    check(
        "--nodes 4 --rule multi-node=0",
        "`rules.multi-node` is not a whole number from 1 to 10000000: the smallest is 1",
    );
    check("--nodes 4 --rule multi-node", "`--rule multi-node` is not NAME=VALUE");
    check(
        "--nodes 4 --rule multi-node=3 --rule multi_node=3",
        "`--rule multi_node` is given twice",
    );
    check(
        "--nodes 4 --rule scheduler-gpus=8",
        "`rules.scheduler-gpus` changes nothing here: it is compared with `fleet.gpus`",
    );
    check(
        "--job a.yaml --facts b.yaml",
        "the argument '--job <FILE>' cannot be used with '--facts <FILE>'",
    );
    check("--facts missing.yaml", "cannot read missing.yaml: no such file or directory");
}

#[test]
fn a_fact_given_twice_or_unknown_is_named() {
    let home = Home::new();
    let check = |words: &str, named: &[&str]| {
        let said = home.words(&format!("advise {words}")).code(2).stderr;
        assert!(named.iter().all(|name| said.contains(name)), "{words}: {said}");
    };
    check("--nodes 4 --nodes 4", &["--nodes <N>", "multiple times"]);
    check("--bare-metal --bare_metal=false", &["--bare-metal", "multiple times"]);
    check("--tightly-couple", &["--tightly-couple", "--tightly-coupled"]);
    check("--node 4", &["--node", "--nodes"]);
    check("--nodes 4 --fields primry", &["primry", "'primary'"]);
    check("--nodes 4 --ruleset guied", &["guied", "'guide'"]);
}

#[test]
fn what_others_call_a_fact_is_no_option_and_leads_to_one() {
    let home = Home::new();
    let check = |words: &str, expected: &str| {
        let run = home.words(words).code(2);
        assert_eq!(
            (run.stdout.as_str(), run.stderr.lines().next().unwrap()),
            ("", expected),
            "{words}"
        );
    };
    check("advise --gang", "error: there is no option `--gang`: did you mean `tightly_coupled`?");
    check(
        "advise --nodes 4 --gpus=8",
        "error: there is no option `--gpus`: GPUs are counted for a site; `nodes` is what a single job spans",
    );
    check(
        "advise --no-bare-metal",
        "error: there is no option `--no-bare-metal`: facts that are not given are false",
    );
    check(
        "compare slurm ray --mpi",
        "error: there is no option `--mpi`: did you mean `tightly_coupled`?",
    );
    check(
        "compare slurm ray --site a.yaml",
        "error: there is no option `--site`: it is an option of `muster advise`",
    );
    // Misspelt and unknown options keep the parser's own message.
    check("advise --filds primary", "error: unexpected argument '--filds' found");
    check("advise --frobnicate", "error: unexpected argument '--frobnicate' found");
    check("init yarn", "error: there is no `muster init yarn`");
}

#[test]
fn a_stray_word_is_told_where_it_belongs() {
    let home = Home::new();
    for (word, hint) in [
        ("false", "--bare-metal=false"),
        ("4", "--nodes 4"),
        ("facts.yaml", "--facts, --site or --job"),
        ("slurm", "`muster advise --help`"),
    ] {
        let said = home.muster(&["advise", "--bare-metal", word]).code(2).stderr;
        assert!(
            said.starts_with(&format!("error: unexpected argument `{word}`\nhint: ")),
            "{said}"
        );
        assert!(said.contains(hint), "{said}");
    }
}

#[test]
fn a_file_for_another_reader_is_told_so_once() {
    let home = Home::new();
    home.write("facts.yaml", "tightly_coupled: true\nmulti_tenant: true\n");
    home.write("site.yaml", super::SMALL_SITE);
    home.write("empty.yaml", "# nothing yet\n");
    for (words, said) in [
        ("advise --job facts.yaml", "this looks like a facts file, not like a job file"),
        ("run site.yaml --virtual-gpus 1", "this looks like a site file, not like a job file"),
        (
            "init hybrid --cluster site.yaml --services 1",
            "this looks like a site file, not like a cluster file",
        ),
        (
            "compare slurm ray --facts site.yaml",
            "this looks like a site file, not like a facts file",
        ),
        ("advise --facts empty.yaml", "empty.yaml holds no facts"),
        ("advise --site empty.yaml", "empty.yaml holds no site"),
        ("init none --cluster empty.yaml", "empty.yaml holds no cluster"),
    ] {
        let run = home.words(words).code(2);
        assert!(run.stderr.contains(&format!("error: {said}\n")), "{words}: {}", run.stderr);
        assert_eq!(run.stderr.matches("error: ").count(), 1, "{words}: {}", run.stderr);
        assert!(run.stderr.contains("\nhint: "), "{words}: {}", run.stderr);
    }
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_no_mistake() {
    let home = Home::new();
    let expected = home.words("advise --nodes 4 --bare-metal --json").ok().stdout;
    home.write("facts.yaml", "\u{feff}nodes: 4\r\nbare_metal: true\r\n");
    assert_eq!(home.words("advise --facts facts.yaml --json").ok().stdout, expected);
    let line = "\u{feff}{\"nodes\":4,\"bare_metal\":true}\r\n";
    let batch = home.with_stdin(&["advise", "--batch", "--fields", "primary"], line).ok().stdout;
    assert!(batch.starts_with("{\"primary\":\""), "{batch}");
    home.write("decision.json", &format!("\u{feff}{}", expected.replace('\n', "\r\n")));
    home.words("advise --facts facts.yaml --expect decision.json").ok();
    home.write("lines.json", &format!("\u{feff}{batch}"));
    home.with_stdin(&["advise", "--batch", "--fields", "primary", "--expect", "lines.json"], line)
        .ok();
}

#[test]
fn files_point_at_the_place() {
    let home = Home::new();
    let check = |name: &str, text: &str, options: &str, expected: &[&str]| {
        home.write(name, text);
        let said = home.words(&format!("advise {options} {name}")).code(2).stderr;
        assert!(expected.iter().all(|part| said.contains(part)), "{text}: {said}");
    };
    check(
        "a.yaml",
        "nodes: 4\ntightly_coupeld: true\n",
        "--facts",
        &["a.yaml:2:1", "did you mean `tightly_coupled`?"],
    );
    check("b.yaml", "nodes: 4\nnodes: 5\n", "--facts", &["b.yaml:2:1", "`nodes`"]);
    check("c.yaml", "nodes: 1.5\n", "--facts", &["c.yaml:1:8", "not a fraction"]);
    check(
        "d.yaml",
        "fleet: {nodes: 1, gpus: 1}\npeople: {users: 2, teams: 3}\n",
        "--site",
        &["d.yaml:2", "people.teams", "people.users"],
    );
    check("e.yaml", "nodes: 4\n", "--site", &["e.yaml:1:1"]);
}

#[test]
fn help_shows_every_fact_and_examples() {
    let home = Home::new();
    let help = home.words("advise --help").ok().stdout;
    for option in [
        "--nodes",
        "--tightly-coupled",
        "--bare-metal",
        "--long-lived-services",
        "--multi-tenant",
        "--python-native-pipeline",
        "--edge-or-dev",
        "--facts",
        "--job",
        "--site",
        "--batch",
        "--ask",
        "--rule",
        "--ruleset",
        "--json",
        "--fields",
        "--mermaid",
        "--details",
        "--expect",
    ] {
        let names = help.split_whitespace().map(|word| word.split('[').next().unwrap_or_default());
        assert_eq!(names.filter(|name| *name == option).count().min(1), 1, "{option}");
    }
    assert!(!help.contains("WORD"), "what nobody should type is not shown");
    assert!(help.contains("muster advise --batch --fields primary,addon,hybrid < facts.jsonl"));
}
