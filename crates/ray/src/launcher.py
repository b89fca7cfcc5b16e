#!/usr/bin/env python3
"""One task of a job of kind ray: starts a Ray node and, on rank 0, runs the job's program on the cluster.

Every task runs this file. Rank 0 starts the head, waits until enough nodes have joined, and runs the
program; its exit code is the task's. The other ranks join when the head answers, and end with it. Where the
settings name another cluster, every rank joins that one, and leaves it when it has nothing to do or is stopped.
What goes wrong is said in one line on stderr, with the nodes that have joined.
"""
import collections
import errno
import fcntl
import glob
import json
import math
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SETTINGS = json.loads(r"""@SETTINGS@""")

# Beginning of the names of node directories; short, since paths of sockets below them may have 107 bytes.
FOLDERS = "/tmp/mr"

ENV = os.environ
RANK = int(ENV.get("RANK", "0"))
LOCAL_RANK = int(ENV.get("LOCAL_RANK", "0"))
JOINS = bool(SETTINGS.get("join"))
ADDRESS, PORT = (SETTINGS.get("join") or f'{ENV["MASTER_ADDR"]}:{ENV["MASTER_PORT"]}').rsplit(":", 1)
PORT = int(PORT)
# Time for all nodes to join, from the start of this task.
JOIN_SECS = 300
# Time of waiting after which the log says what a start waits for; twice that between later messages.
TELL_SECS = 30
# Time after which a head counts as lost that does not answer: a busy one may lose a packet. One that refuses
# connections counts as lost after a second.
SILENT_SECS = 30
# Ray needs as much for itself before it gives any to tasks.
LEAST_OBJECT_STORE_BYTES = 100 << 20
# Time that a node which leaves needs for its end, after its actors have left it.
LEAVE_SECS = 8
CANNOT_START = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
NODE_LOST = 75
# Label of a Ray node with the number of its job, where that is not the job of the cluster.
LABEL = "muster-job"
# Ends of the programs without which a node is none.
DAEMONS = (b"raylet/raylet", b"gcs/gcs_server")
HEAD_ENDED = "the raylet or the control store (GCS) of the head has ended"

# Variables of this task, not of the program: Ray starts its workers with the environment of its own start,
# where a rank of 0 in every worker would mislead torch. Ray refuses ROCR_VISIBLE_DEVICES without
# HIP_VISIBLE_DEVICES.
RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
RANK_VARIABLES += ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS")


def start_program():
    """Starts the job's program; a script with a `#!` line from memory, since /tmp may forbid programs."""
    driver = SETTINGS["driver"]
    words, files = driver.get("words"), ()
    if not words and not driver["script"].startswith("#!"):
        words = ["/bin/sh", "-c", driver["script"]]
    elif not words:
        memory = os.memfd_create("program", 0)
        with open(memory, "w", encoding="utf-8") as file:
            file.write(driver["script"])
            file.flush()
            # Linux executes no file that is open for writing.
            program = os.open(f"/proc/self/fd/{memory}", os.O_RDONLY)
        words, files = [f"/proc/self/fd/{program}"], (program,)
    try:
        return subprocess.Popen(words, pass_fds=files, env={**ENV, **program_variables()})
    except FileNotFoundError:
        raise Ended(NOT_FOUND, f"there is no program `{words[0]}`")
    except OSError as error:
        raise Ended(NOT_EXECUTABLE, f"cannot run `{words[0]}`: {error.strerror}")


def program_variables():
    """Variables of programs on the cluster: those of their runtime environment, and that environment, which `ray.init`
    gives to their tasks and actors as it does for programs of `ray job submit`."""
    if not (text := SETTINGS.get("runtime_env")):
        return {}
    runtime_env = json.loads(text)
    config = json.dumps({"runtime_env": runtime_env, "metadata": {}})
    return {**runtime_env.get("env_vars", {}), "RAY_JOB_CONFIG_JSON_ENV_VAR": config}


def say(text):
    print(f"ray: {text}", file=sys.stderr, flush=True)


class Ended(Exception):
    """The task is over, with this exit code."""

    def __init__(self, code, why=""):
        super().__init__(why)
        self.code, self.why = code, why


class Task:
    """The Ray node of this task, its directory and, on rank 0, the program."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix=f"{FOLDERS[5:]}{os.getpid()}-", dir="/tmp")
        # Held as long as this process lives: the directory of a killed one is removed by the next.
        lock = os.path.join(self.folder, "lock")
        self.lock = open(f"{lock}.new", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.rename(f"{lock}.new", lock)
        self.started = time.monotonic()
        self.driver = None
        self.growth = None
        # True once a node that joined another cluster drains, because it had nothing to do.
        self.is_leaving = False
        # True once those that joined with it were there.
        self.has_met_all = False
        # Raylet and control store, with their start times.
        self.daemons = {}
        self.stopped_by = None
        # Processes of the program that were asked to stop, with their start times.
        self.stopping = {}
        # End of the time in which a checkpoint request is passed on, and the processes that have it.
        self.checkpoint_until = 0
        self.checkpointed = set()
        signal.signal(signal.SIGTERM, self.on_stop)
        # A terminal sends it to the program as well.
        signal.signal(signal.SIGINT, (lambda *_: None) if sys.stdin and sys.stdin.isatty() else self.on_stop)
        if checkpoint := SETTINGS.get("checkpoint_signal"):
            signal.signal(checkpoint, self.on_checkpoint)

    def on_stop(self, number, _frame):
        # Only the program hears it: the actors must live until it has saved.
        self.stopped_by = number
        if self.growth:
            self.growth.is_over.set()
        self.stopping = {pid: start_of(pid) for pid in self.processes()}
        for pid in self.stopping:
            send(pid, number)

    def on_checkpoint(self, _number, _frame):
        self.checkpoint_until = time.monotonic() + SETTINGS["checkpoint_secs"]
        self.checkpointed = set()

    def pass_checkpoint_on(self):
        """Sends a requested checkpoint signal to the outermost processes of the program that handle it; those that
        install their handler late get it then."""
        if time.monotonic() > self.checkpoint_until:
            return
        number = SETTINGS["checkpoint_signal"]
        handling = [pid for pid in self.processes() if handles(pid, number)]
        for pid in handling:
            key = (pid, start_of(pid))
            if key not in self.checkpointed and not any(above in handling for above in ancestors(pid)):
                self.checkpointed.add(key)
                send(pid, number)

    def processes(self):
        """Processes of the program: not those of Ray."""
        if not self.driver or self.driver.poll() is not None:
            return []
        return tree(self.driver.pid)

    def has_all_daemons(self):
        """True while the raylet of this node and, on the head, the control store (GCS) run."""
        # One that ended while `ray start` ran was never seen.
        wanted = 1 if RANK or JOINS else len(DAEMONS)
        return len(self.daemons) >= wanted and all(start_of(pid) == start for pid, start in self.daemons.items())

    def until(self, condition, secs, why):
        told = time.monotonic() + TELL_SECS
        while True:
            if self.stopped_by:
                raise Ended(128 + self.stopped_by)
            if condition():
                return
            now = time.monotonic()
            if now > self.started + secs:
                raise Ended(CANNOT_START, why(secs))
            if now > told:
                told = now + 2 * TELL_SECS
                say(f"{why(round(now - self.started))}; waiting up to {secs}s")
            time.sleep(0.1)

    def start_node(self, extra):
        """Starts the node; again where a busy machine made Ray give up."""
        while not self.started_node(extra):
            say(f"`ray start` gave up on {socket.gethostname()}, which is busy: starting again")
            self.kill_all()

    def started_node(self, extra):
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--temp-dir={self.folder}"]
        command += [*node_options(), *extra]
        host, log = socket.gethostname(), os.path.join(self.folder, "start.log")
        with open(log, "w", encoding="utf-8") as file:
            starting = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        try:
            late = f"`ray start` did not end on {host}"
            self.until(lambda: starting.poll() is not None, JOIN_SECS, lambda secs: f"{late} in {secs}s")
        finally:
            if starting.poll() is None:
                starting.kill()
                starting.wait()
        if starting.returncode == -signal.SIGKILL:
            why = "ran out of memory? A head takes about 2 GB, another node 1 GB"
            raise Ended(CANNOT_START, f"`ray start` was killed on {host}: {why}")
        if starting.returncode:
            with open(log, encoding="utf-8", errors="replace") as file:
                said = file.read().strip()
            if "timed out during startup" in said and time.monotonic() < self.started + JOIN_SECS / 2:
                return False
            last = "\n".join(said.splitlines()[-15:])
            raise Ended(CANNOT_START, f"`ray start` failed on {host} with exit code {starting.returncode}:\n{last}")
        daemons = [pid for pid in self.pids() if read(pid, "cmdline").partition(b"\0")[0].endswith(DAEMONS)]
        self.daemons = {pid: start_of(pid) for pid in daemons}
        return True

    def run(self):
        # Ray reads its environment once, when it is loaded.
        prepare_environment()
        check_version()
        if JOINS:
            self.run_guest()
        elif RANK:
            self.run_worker()
        else:
            self.run_head()

    def run_head(self):
        self.until(is_resolved, JOIN_SECS, lambda _: f"the name of the head, {ADDRESS}, does not resolve")
        check_port()
        self.start_node(head_options())
        wanted = SETTINGS["nodes"]
        self.until(lambda: self.has_joined(wanted), JOIN_SECS, lambda secs: missing(wanted, secs))
        self.leave_address()
        # `Growth` is in growth.py, which follows where the cluster may grow.
        self.growth = Growth(self.folder, self.started) if SETTINGS.get("growth") else None
        if not SETTINGS["driver"]:
            self.serve()
        self.driver = start_program()
        if self.stopped_by:
            self.on_stop(self.stopped_by, None)
        while self.driver.poll() is None:
            self.pass_checkpoint_on()
            if not self.has_all_daemons() and not self.stopped_by:
                for pid in self.processes():
                    send(pid, signal.SIGKILL)
                self.driver.wait()
                raise Ended(NODE_LOST, HEAD_ENDED)
            time.sleep(0.1)
        # A shell dies of the signal before the program that it started has saved.
        while any(start_of(pid) == start for pid, start in self.stopping.items()):
            time.sleep(0.1)
        code = self.driver.returncode
        raise Ended(code if code >= 0 else 128 - code)

    def has_joined(self, wanted):
        # Without its control store the head would wait for nodes that cannot come.
        if not self.has_all_daemons():
            raise Ended(NODE_LOST, HEAD_ENDED)
        return len(alive()) >= wanted

    def serve(self):
        """Keeps a cluster without a program until it is stopped, or no driver has run for some time."""
        idle_secs, busy_at = SETTINGS.get("idle_secs"), time.monotonic()
        while self.has_all_daemons() and not self.stopped_by:
            if idle_secs and has_drivers():
                busy_at = time.monotonic()
            if idle_secs and time.monotonic() > busy_at + idle_secs:
                say(f"no driver has run for {idle_secs:g}s: the cluster ends")
                raise Ended(0)
            time.sleep(min(1, idle_secs / 4) if idle_secs else 0.3)
        if self.stopped_by:
            raise Ended(128 + self.stopped_by)
        raise Ended(NODE_LOST, HEAD_ENDED)

    def leave_address(self):
        """Writes for shells beside this task how the cluster is reached; see inside.sh."""
        job = f"{ENV.get('MUSTER_JOB_ID', '')}.{ENV.get('MUSTER_ARRAY_INDEX', '')}"
        lines = [ENV.get("SLURM_JOB_ID", "-"), job, ENV["RAY_ADDRESS"], ENV["RAY_AUTH_TOKEN"], sys.executable]
        named = [(name, value) for name, value in program_variables().items() if name.isidentifier()]
        exports = [f"export {name}={shlex.quote(value)}" for name, value in named]
        for name, text in ("variables", exports), ("head", lines):
            path = os.path.join(self.folder, name)
            with open(os.open(f"{path}.new", os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in text))
            os.rename(f"{path}.new", path)

    def run_worker(self):
        silent = f"the head at {ADDRESS}:{PORT} did not answer on {socket.gethostname()}"
        self.until(head, JOIN_SECS, lambda secs: f"{silent} in {secs}s")
        self.start_node([f"--address={ADDRESS}:{PORT}"])
        # When the job is stopped, too: the program saves on this node until the head ends.
        watch = HeadWatch()
        while self.has_all_daemons() and not watch.is_lost():
            time.sleep(0.3)
        # Head and node end at about the same time when the program has ended.
        while not self.has_all_daemons() and not watch.is_lost():
            if self.stopped_by:
                break
            if watch.has_outlived(5):
                raise Ended(NODE_LOST, f"the raylet on {socket.gethostname()} has ended")
            time.sleep(0.3)
        raise Ended(0)

    def run_guest(self):
        """Runs a node of another job's cluster until it has nothing to do, is stopped, or that cluster ends."""
        watch = HeadWatch()
        # A cluster may have ended while this job waited for its nodes.
        self.until(lambda: head() or watch.is_lost(), JOIN_SECS, lambda _: f"{ADDRESS}:{PORT} did not answer")
        if watch.is_lost():
            say(f"the cluster at {ADDRESS}:{PORT} has ended")
            raise Ended(0)
        # Tells `muster check ray` that this node is meant to be in the cluster of another job.
        ENV["MUSTER_RAY_JOINS"] = f"{ADDRESS}:{PORT}"
        mark = f"{ENV.get('MUSTER_JOB_ID', 'none')}.{ENV.get('MUSTER_ARRAY_INDEX', '')}".rstrip(".")
        self.start_node([f"--address={ADDRESS}:{PORT}", f"--labels={LABEL}={mark}"])
        looked = time.monotonic()
        while self.has_all_daemons() and not watch.is_lost() and not self.stopped_by:
            idle_secs = SETTINGS.get("idle_secs")
            if idle_secs and time.monotonic() > looked + min(5, idle_secs / 2):
                looked = time.monotonic()
                self.leave_when_idle(mark, idle_secs)
            time.sleep(0.3)
        if self.stopped_by and self.has_all_daemons():
            self.leave()
        elif not self.stopped_by and not self.is_leaving and not watch.is_lost():
            raise Ended(NODE_LOST, f"the raylet on {socket.gethostname()} has ended")
        raise Ended(128 + self.stopped_by if self.stopped_by else 0)

    def leave_when_idle(self, mark, idle_secs):
        """Drains this node when it and those that came with it have had nothing to do for some time: Ray refuses
        one that has got work meanwhile. One that comes first waits for the others: the program needs them all."""
        status = cluster_status()
        # A placement group that waits may need this node beside others that are still on their way.
        if not status or status.resource_demands.placement_group_demand:
            return
        nodes = [node for node in nodes_of(status) if job_of(node) == mark]
        own = [node for node in nodes if self.is_own(node)]
        are_late = time.monotonic() > self.started + JOIN_SECS
        # Some may have come and gone before this one.
        came = sum(job_of(node) == mark for node in all_nodes())
        self.has_met_all = self.has_met_all or are_late or came >= SETTINGS["nodes"]
        if own and self.has_met_all and all(node.resource_usage.idle_time_ms >= idle_secs * 1000 for node in nodes):
            is_drained = drain(own[0].node_id, "IDLE_TERMINATION", f"idle for {idle_secs:g}s", 0)
            self.is_leaving = is_drained or self.is_leaving

    def leave(self):
        """Drains this node within the grace of the job, so that actors and objects move to others."""
        deadline = time.monotonic() + max(SETTINGS.get("grace_secs", 30) - LEAVE_SECS, 1)
        until = int((time.time() + deadline - time.monotonic()) * 1000)
        is_drained = False
        while self.has_all_daemons() and time.monotonic() < deadline:
            if status := cluster_status():
                own = [node for node in nodes_of(status) if self.is_own(node)]
                if is_drained and not any(node.node_activity for node in own):
                    break
                text = "another job needs its GPUs"
                is_drained = is_drained or any(drain(node.node_id, "PREEMPTION", text, until) for node in own)
            time.sleep(0.5)

    def is_own(self, node):
        """True for the node whose raylet this task started."""
        mark = node.node_id.encode()
        return any(mark in read(pid, "cmdline") for pid in self.daemons)

    def end(self):
        """Ends every process of this node, and removes its directory."""
        self.kill_all()
        if self.growth:
            self.growth.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill_all(self):
        """Ends every process of this node."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 5
            while (pids := self.pids()) and time.monotonic() < deadline:
                for pid in pids:
                    send(pid, number)
                time.sleep(0.1)

    def pids(self):
        """Processes of this node: they have its directory in their arguments, or a log in it open."""
        mark = self.folder.encode()
        # Launchers of other jobs open the lock when they look for directories to remove.
        lock = os.path.join(mark, b"lock")
        others = [pid for pid in all_processes() if pid != os.getpid()]
        in_folder = lambda name: mark in name and name != lock
        return [pid for pid in others if mark in read(pid, "cmdline") or any(map(in_folder, open_files(pid)))]


def all_processes():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def read(pid, name):
    """Contents of a file of a process; empty if it is gone, or another user's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def open_files(pid):
    """Names of the files that a process has open; none if it is gone, or another user's."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [file for name in names if (file := target(f"{folder}/{name}"))]


def target(link):
    try:
        return os.readlink(os.fsencode(link))
    except OSError:
        return b""


def stat(pid):
    """Fields of a running process from its state on; empty for one that has ended."""
    fields = read(pid, "stat").rpartition(b")")[2].split()
    return [] if fields[:1] in ([], [b"Z"], [b"X"]) else fields


def start_of(pid):
    fields = stat(pid)
    return int(fields[19]) if fields else 0


def parent_of(pid):
    fields = stat(pid)
    return int(fields[1]) if fields else 0


def ancestors(pid):
    found = []
    while (pid := parent_of(pid)) > 1:
        found.append(pid)
    return found


def tree(root):
    """A process and all its descendants."""
    return [pid for pid in all_processes() if stat(pid) and (pid == root or root in ancestors(pid))]


def handles(pid, number):
    """True if a process has a handler for a signal."""
    for line in read(pid, "status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def send(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass


def sweep():
    """Removes directories of this user's nodes whose launcher was killed."""
    for folder in glob.glob(f"{FOLDERS}*-*"):
        try:
            with open(os.path.join(folder, "lock"), "r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.lstat(folder).st_uid == os.getuid():
                    shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass


class HeadWatch:
    """Tells a head that has ended from one that is slow."""

    def __init__(self):
        self.answered = time.monotonic()
        self.refusals = 0
        self.since = None

    def is_lost(self):
        """Asks the head once more; true after several refusals, or a long silence."""
        answer = head()
        self.refusals = self.refusals + 1 if answer is False else 0
        if answer:
            self.answered = time.monotonic()
        return self.refusals >= 3 or time.monotonic() > self.answered + SILENT_SECS

    def has_outlived(self, secs):
        """True once the head still answers so long after the first call."""
        self.since = self.since or time.monotonic()
        return self.refusals == 0 and time.monotonic() > self.since + secs


def is_resolved():
    try:
        return bool(socket.getaddrinfo(ADDRESS, PORT))
    except OSError:
        return False


def check_version():
    try:
        import ray
    except ImportError as error:
        raise Ended(CANNOT_START, f"{sys.executable} has no Ray ({error}); name one that has by `ray: {{python: …}}`")
    wanted = SETTINGS.get("version")
    if wanted and ray.__version__ != wanted:
        raise Ended(CANNOT_START, f"{sys.executable} has Ray {ray.__version__}, and the job needs {wanted}")


def head():
    """Returns whether the head listens; `None` if that cannot be told."""
    with socket.socket(socket.AF_INET) as probe:
        probe.settimeout(1)
        try:
            error = probe.connect_ex((ADDRESS, PORT))
        except OSError:  # a name that does not resolve now
            return None
        return True if error == 0 else False if error == errno.ECONNREFUSED else None


def all_nodes():
    """Nodes that have joined, also those that have ended."""
    from ray._raylet import GcsClient

    try:
        return list(GcsClient(address=f"{ADDRESS}:{PORT}").get_all_node_info().values())
    except Exception:  # whatever it raises before the head answers
        return []


def alive():
    return [node for node in all_nodes() if node.state == 0]


def cluster_status():
    """Nodes with their use, and what waits, as the control store knows them; `None` if it does not answer."""
    try:
        from ray.autoscaler.v2.sdk import get_cluster_status

        return get_cluster_status(f"{ADDRESS}:{PORT}", timeout=5)
    except Exception:  # whatever it raises while the head ends
        return None


def nodes_of(status):
    return [*status.active_nodes, *status.idle_nodes]


def job_of(node):
    """The job of a node that joined the cluster of another job; `None` for the cluster's own."""
    return (node.labels or {}).get(LABEL)


def drain(node_id, reason, text, until):
    """Asks the cluster to take work off a node until an instant in milliseconds since 1970 (0 for none); true if it
    does."""
    from ray._raylet import GcsClient
    from ray.core.generated.autoscaler_pb2 import DrainNodeReason

    try:
        reason = DrainNodeReason.Value(f"DRAIN_NODE_REASON_{reason}")
        accepted, _ = GcsClient(address=f"{ADDRESS}:{PORT}").drain_node(node_id, reason, text, until)
    except Exception:  # whatever it raises while the head ends
        return False
    return accepted


def has_drivers():
    """True while a program uses the cluster, or if that cannot be told; the dashboard's own do not count."""
    from ray._raylet import GcsClient

    try:
        jobs = GcsClient(address=f"{ADDRESS}:{PORT}").get_all_job_info(timeout=5)
    except Exception:  # whatever it raises while the head ends
        return True
    drivers = [job for job in jobs.values() if not job.is_dead]
    return any(not job.config.ray_namespace.startswith("_ray_internal_") for job in drivers)


def check_port():
    """Ends where another program has the head's port: Ray says so in a page of text, and after a minute."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", PORT))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                why = f"port {PORT} of {socket.gethostname()}, which the head needs, is used by another program"
                raise Ended(CANNOT_START, f"{why}: submit the job again")


def missing(wanted, secs):
    there = alive()
    names = ", ".join(sorted(node.node_manager_hostname for node in there))
    return f"{len(there)} of {wanted} nodes joined in {secs}s: {names or 'none'}"


def gpus():
    return SETTINGS["gpus"]


def node_options():
    """Options of head and workers: exactly the allocation, ports that the system chooses."""
    options = [
        f"--num-gpus={gpus()}",
        f"--num-cpus={SETTINGS['cpus'] or gpus() + 1}",
        "--min-worker-port=0",
        "--max-worker-port=0",
        "--dashboard-agent-listen-port=0",
        "--disable-usage-stats",
        # Two nodes on one machine would print the program's output twice.
        f"--include-log-monitor={LOCAL_RANK == 0}",
    ]
    memory = SETTINGS.get("memory_bytes", 0)
    if memory:
        store = max(memory * SETTINGS.get("object_store_percent", 30) // 100, LEAST_OBJECT_STORE_BYTES)
        options += [f"--object-store-memory={store}", f"--memory={max(memory - store, 1)}"]
    return options


def head_options():
    options = ["--head", f"--port={PORT}", f"--node-ip-address={ADDRESS}", f"--ray-client-server-port={free_port()}"]
    if SETTINGS.get("dashboard", True):
        return [*options, "--dashboard-port=0"]
    return [*options, "--include-dashboard=False"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def prepare_environment():
    for name in list(ENV):
        if name in RANK_VARIABLES or name.startswith(("PET_", "MASTER_", "PMI_", "PMIX_")):
            del ENV[name]
    # Among those that ROCr leaves visible.
    if ENV.get("ROCR_VISIBLE_DEVICES"):
        ENV["HIP_VISIBLE_DEVICES"] = ENV.get("CUDA_VISIBLE_DEVICES", "")
    ENV["RAY_ADDRESS"] = f"{ADDRESS}:{PORT}"
    # Without a token, every user who reaches the head can run programs as this user.
    if not ENV.get("RAY_AUTH_TOKEN"):
        raise Ended(CANNOT_START, "set RAY_AUTH_TOKEN to the same secret for all tasks")
    ENV["RAY_AUTH_MODE"] = "token"


def main():
    sweep()
    task = Task()
    try:
        task.run()
    except Ended as ended:
        if ended.why:
            say(ended.why)
        code = ended.code
    finally:
        task.end()
    sys.exit(code)


main()
