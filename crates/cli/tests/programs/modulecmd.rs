//! Jobs with `modules`, loaded by Environment Modules from module files of the test.

use std::fs;

use crate::home::Home;

#[test]
#[ignore = "needs modulecmd: `cargo xtask programs` installs it"]
fn modulecmd_loads_the_modules_of_a_job_and_says_what_is_missing() {
    let home = Home::with_gpus(2);
    for folder in ["mods/tool", "mods/gcc", "mods/broken"] {
        fs::create_dir_all(home.path(folder)).unwrap();
    }
    let bin = home.path("tool-bin");
    home.write("mods/gcc/13", "#%Module\nsetenv GCC_FROM_MODULE 13\n");
    // Newer versions load what is required; this is nowhere.
    home.write("mods/broken/1.0", "#%Module\nprereq nowhere\n");
    let tool = format!(
        "#%Module\nprereq gcc\nprepend-path PATH {}\nsetenv TOOL_VERSION 1.0\nsetenv RANK 9\n",
        bin.display()
    );
    home.write("mods/tool/1.0", &tool);
    let run = |text: &str| {
        let path = home.path("mods").display().to_string();
        let mut command = home.command(&["run", "--wait", "-o", "out-%t", "-"]);
        command
            .env("MODULEPATH", path)
            .stdin(fs::File::open(home.write("job.yaml", text)).unwrap());
        crate::home::HomeRun::of(command.output().unwrap())
    };
    // One after the other, before `env`'s own and after Muster's variables.
    run("run: echo $TOOL_VERSION $GCC_FROM_MODULE $RANK ${PATH%%:*}\nmodules: [gcc/13, tool/1.0]\ntasks: 2").ok();
    let expected = |rank: u32| format!("1.0 13 {rank} {}\n", bin.display());
    assert_eq!((home.read("out-0"), home.read("out-1")), (expected(0), expected(1)));

    let said = run("run: 'true'\nmodules: [gcc/13, cuda/99]").code(2).stderr;
    assert!(said.contains("the module cuda/99 does not load"), "{said}");
    assert!(said.contains("module avail"), "{said}");
    let said = run("run: 'true'\nmodules: broken/1.0").code(2).stderr;
    assert!(said.contains("the module broken/1.0 does not load"), "{said}");
    assert!(said.contains("nowhere"), "{said}");
}
