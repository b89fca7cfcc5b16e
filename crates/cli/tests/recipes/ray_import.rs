//! A script for Slurm that starts Ray by hand, imported and run with the real Ray on this machine.

use muster_model::view::JobState;

use crate::home::Home;
use crate::python;
use crate::ray::PATIENCE;

/// The script loses the exit code of its program; the job has it, and waits without `sleep`.
#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn an_imported_script_runs_its_program_on_a_cluster_and_keeps_its_exit_code() {
    let home = Home::with_gpus(2);
    let environment = python().parent().unwrap().to_path_buf();
    home.write(
        "driver.py",
        "import os, ray, sys\nray.init(address=os.environ['ip_head'], log_to_driver=False)\n\
         open('seen', 'w').write(str(ray.cluster_resources()['GPU']))\nsys.exit(7)\n",
    );
    home.write(
        "job.sbatch",
        &format!(
            "#!/bin/bash\n#SBATCH --job-name=by-hand\n#SBATCH --nodes=1\n#SBATCH --gpus-per-node=2\n#SBATCH --time=15\n\
             source {}/activate\nhead_node=$(hostname)\nport=6379\nip_head=$head_node:$port\nexport ip_head\n\
             srun -N1 -n1 -w \"$head_node\" ray start --head --port=$port --block &\nsleep 20\n\
             srun --overlap -N1 -n1 python3 driver.py &\nwait\nray stop\n",
            environment.display()
        ),
    );
    let imported = home.words("import job.sbatch").ok();
    assert!(imported.stderr.contains("[ray-exit-lost]"), "{}", imported.stderr);
    home.write("job.yaml", &format!("{}workdir: {}\n", imported.stdout, home.path(".").display()));
    home.words("run job.yaml").ok();
    home.until_within(PATIENCE, "it ends", || home.job(1).state == JobState::Failed);
    home.words("wait 1").code(7);
    assert_eq!(home.read("seen"), "2.0");
}
