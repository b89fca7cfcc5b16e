//! `muster serve --system --install` and `--uninstall` in a mount namespace with its own folders of units,
//! state and sockets, and a stand-in for `systemctl` that starts and stops the daemon.

use std::process::{Command, Stdio};

/// Mounts empty folders, and installs the program and the stand-in. `$1` is the built program.
const MACHINE: &str = r#"
# Opened first: the mounts may hide it.
exec 3<"$1"
for folder in /opt /run /var/lib /etc/systemd/system /usr/local/lib; do
    mkdir -p $folder
    mount -t tmpfs -o mode=755 tmpfs $folder
done
mkdir -p /opt/bin /run/systemd/system
cat <&3 >/opt/bin/muster
exec 3<&-
cat > /opt/bin/systemctl <<'END'
#!/bin/sh
echo "$*" >> /opt/log
unit=/etc/systemd/system/muster.service
case "$1" in
    is-active) test -e /run/active ;;
    enable | restart)
        [ "$1" = enable ] || muster stop-daemon 2>/dev/null
        [ "$1" = restart ] || ! test -e /run/active || exit 0
        touch /run/active
        $(sed -n 's/^ExecStart=//p' $unit) >/opt/daemon.log 2>&1 </dev/null & ;;
    disable)
        muster stop-daemon 2>/dev/null
        rm -f /run/active ;;
esac
END
chmod 755 /opt/bin/*
wait_for() { for try in $(seq 300); do ! sh -c "$1" >/dev/null 2>&1 || return 0; sleep 0.1; done; return 1; }
export PATH=/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/opt
cd /opt
unit=/etc/systemd/system/muster.service
"#;

/// Runs a script on such a machine; returns all that it prints. Everything that it starts ends with it.
fn on_machine(script: &str) -> String {
    let script = format!("exec 2>&1\n{MACHINE}\n{script}");
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-ec",
        &script,
    ]);
    command.args(["sh", env!("CARGO_BIN_EXE_muster")]).stdin(Stdio::null()).env_clear();
    let output = command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

#[test]
#[ignore = "needs root; the test command runs it as root"]
fn the_service_is_set_up_changed_and_removed_while_a_job_runs() {
    let text = on_machine(
        "install='muster serve --system --install --virtual-gpus 4'\n\
         $install --default-time 12h; grep ExecStart $unit; $install --default-time 12h\n\
         muster run --gpus 1 -- sleep 600; wait_for 'muster ps | grep running'\n\
         $install --default-time 90m; grep ExecStart $unit\n\
         muster ps; echo == removal; muster serve --system --uninstall\n\
         ! test -e $unit; test -e /var/lib/muster/muster.db; pgrep -x sleep > /dev/null\n\
         muster serve --system --uninstall; echo == log; cat /opt/log",
    );
    let start = "ExecStart=/opt/bin/muster serve --system --virtual-gpus 4 --default-time ";
    for time in ["12h", "90m"] {
        assert!(text.contains(&format!("{start}{time}\n")), "{text}");
    }
    assert_eq!(text.matches("the shared daemon listens on /run/muster/muster.sock").count(), 3);
    let (_, removal) = text.split_once("== removal\n").unwrap();
    for line in [
        "stopped, and removed /etc",
        "1 job keeps running",
        "kept: the state in /var/lib/muster",
        "nothing to remove",
    ] {
        assert!(removal.contains(line), "{line}: {removal}");
    }
    let (_, log) = text.split_once("== log\n").unwrap();
    let changes: Vec<&str> = log.lines().filter(|line| !line.starts_with("is-active")).collect();
    let reload = "daemon-reload";
    let enable = "enable --now muster.service";
    let restart = "restart muster.service";
    let disable = "disable --now muster.service";
    assert_eq!(changes, [reload, enable, reload, enable, reload, enable, restart, disable, reload]);
}

/// Runs a command that must be refused, after some preparation.
fn check_refused(preparation: &str, command: &str, expected: &str) {
    let text = on_machine(&format!(
        "{preparation}\nif {command}; then echo accepted; fi; ! grep -q enable /opt/log 2>/dev/null"
    ));
    assert!(text.contains(expected) && !text.contains("accepted"), "{expected}: {text}");
}

#[test]
#[ignore = "needs root; the test command runs it as root"]
fn what_is_not_ours_to_change_is_refused() {
    let install = "muster serve --system --install";
    let by_hand = format!("{install} --dry-run > $unit 2>/dev/null; echo '# own' >> $unit");
    check_refused(&by_hand, install, "was written or changed by hand");
    check_refused(&by_hand, "muster serve --system --uninstall", "was written or changed by hand");
    let packaged = "mkdir -p /usr/local/lib/systemd/system\n\
                    touch /usr/local/lib/systemd/system/muster.service";
    check_refused(packaged, install, "from a package");
    check_refused(packaged, "muster serve --system --uninstall", "belongs to a package");
    check_refused("chmod 777 /opt/bin", install, "/opt/bin can be written by all users");
    check_refused("chown 1000 /opt/bin/muster", install, "belongs to another user");
    check_refused("rmdir /run/systemd/system", install, "systemd does not run this machine");
    let other = format!("setpriv --reuid=65534 --regid=65534 --clear-groups {install}");
    check_refused("", &other, "only root may change the services");
    let daemon = "muster serve --system --virtual-gpus 1 >/dev/null 2>&1 &\n\
                  wait_for 'muster info'";
    check_refused(daemon, install, "not as the service");
}

#[test]
#[ignore = "needs root; the test command runs it as root"]
fn a_dry_run_prints_the_unit_and_changes_nothing() {
    let text = on_machine(
        "muster serve --system --install --dry-run; muster serve --system --uninstall --dry-run\n\
         ! test -e $unit; ! test -e /opt/log",
    );
    for line in [
        "ExecStart=/opt/bin/muster serve --system\n",
        "would run: systemctl enable --now",
        "would remove /etc",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
