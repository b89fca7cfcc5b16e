

class Growth:
    """Asks Muster for further nodes while parts of the program wait for some, and withdraws what nobody waits for.

    The nodes that one placement group lacks are one job, which starts whole or not at all: single nodes could
    hold GPUs for ever while the group waits for the last one. Others come one by one. They leave by themselves.
    """

    LOOK_SECS = 2
    # While nothing changes, the jobs are not asked for at each look: that is a call of `squeue` on Slurm.
    QUIET_SECS = 30
    # Looks without need after which jobs that still wait are withdrawn.
    LOOKS_WITHOUT_NEED = 4
    # Pause after a job whose nodes were of no use, doubled with each further one; and the longest.
    PAUSE_SECS = 10
    LONGEST_PAUSE_SECS = 300
    # Longest time of a call of `muster`, which itself waits two minutes for a busy Slurm; and at the end.
    CALL_SECS = 150
    END_SECS = 10

    def __init__(self, folder, started):
        self.terms = SETTINGS["growth"]
        self.file = os.path.join(folder, "growth")
        self.started = started
        element = "-".join(ENV[name] for name in ("MUSTER_JOB_ID", "MUSTER_ARRAY_INDEX") if ENV.get(name))
        self.name = f"{ENV.get('MUSTER_JOB_NAME', 'ray')[:40]}-{element}-nodes"
        # Jobs that were asked for, with the number of their nodes; those of an earlier start of this job, too.
        self.asked = None
        # Those that still wait, as of the last list.
        self.pending = []
        self.listed_at = -math.inf
        # Gangs that were missing at the last look: what lasts for one look only is not asked for.
        self.before = collections.Counter()
        self.looks_without_need = 0
        # Jobs of which a node had work, and the number of those in a row of which none had.
        self.used = set()
        self.failures = 0
        self.paused_until = 0
        self.error = None
        # Number of nodes that are missing; `None` before the first look.
        self.wanted = None
        self.leave_state()
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while not self.is_over.wait(self.LOOK_SECS):
            try:
                self.look()
                self.error = None
            except Exception as error:  # the program goes on with the nodes that it has
                # A submission that timed out may have arrived: the next list has it.
                self.listed_at = -math.inf
                self.pause()
                if str(error) != self.error:
                    say(f"cannot grow now: {error}")
                self.error = str(error)
            self.leave_state()

    def look(self):
        """Compares what the program needs with what is there or asked for."""
        from ray.autoscaler.v2.sdk import get_cluster_status

        status = get_cluster_status(f"{ADDRESS}:{PORT}", timeout=5)
        nodes = nodes_of(status)
        free = [node.available_resources() for node in nodes]
        needed = self.gangs(status.resource_demands, list(free))
        joined = collections.Counter(map(job_of, nodes))
        used = set(map(job_of, status.active_nodes)) - self.used
        self.used |= used
        self.failures = 0 if used & (self.asked or {}).keys() else self.failures
        is_waiting = bool(needed) or any(count > joined[job] for job, count in (self.asked or {}).items())
        if is_waiting or time.monotonic() > self.listed_at + self.QUIET_SECS:
            self.list_jobs()
        # Those that were asked for will be there, free.
        coming = sum(max(count - joined[job], 0) for job, count in self.asked.items())
        missing = self.gangs(status.resource_demands, free + [self.shape() for _ in range(coming)])
        self.wanted = sum(missing.elements())
        lasting = self.before & missing
        self.before = missing - lasting
        room, gangs = self.terms["nodes"] - sum(self.asked.values()), []
        for size in sorted(lasting.elements(), reverse=True):
            if size <= room:
                gangs.append(size)
                room -= size
        if gangs and time.monotonic() > self.paused_until:
            self.ask(gangs)
        self.looks_without_need = 0 if needed else self.looks_without_need + 1
        if self.pending and self.looks_without_need >= self.LOOKS_WITHOUT_NEED:
            self.withdraw()

    def pause(self):
        pause = min(self.PAUSE_SECS * 2**self.failures, self.LONGEST_PAUSE_SECS)
        self.failures += 1
        self.paused_until = time.monotonic() + pause

    def leave_state(self):
        """Writes for `muster ray status` what was asked for."""
        state = {"nodes": self.terms["nodes"], "asked": self.asked or {}, "pending": self.pending}
        state.update(wanted=self.wanted, error=self.error)
        with open(f"{self.file}.new", "w", encoding="utf-8") as file:
            json.dump(state, file)
        os.rename(f"{self.file}.new", self.file)

    def gangs(self, demands, free):
        """Sizes of the gangs of further nodes that the waiting parts of the program need, beside what is free."""
        gangs = collections.Counter()
        for group in demands.placement_group_demand:
            bundles = [one.bundle for one in group.bundles_by_count for _ in range(one.count)]
            if added := self.place(bundles, group.strategy or "PACK", free):
                gangs[added] += 1
        for demand in demands.ray_task_actor_demand:
            for one in demand.bundles_by_count:
                # Programs wait with thousands of tasks: no more are counted than nodes may be added.
                for _ in range(one.count):
                    added = self.place([one.bundle], "PACK", free)
                    if added is None or gangs[1] >= self.terms["nodes"]:
                        break
                    gangs[1] += added
        return +gangs

    def shape(self):
        """Resources of a further node."""
        shape = {"GPU": self.terms["gpus"], "CPU": self.terms["cpus"], "memory": float("inf")}
        if self.terms["memory_bytes"]:
            share = SETTINGS.get("object_store_percent", 30)
            shape["memory"] = self.terms["memory_bytes"] * (100 - share) // 100
        return shape

    def place(self, bundles, strategy, free):
        """Places bundles on free resources, and takes them; returns the number of nodes that had to be added, or
        `None` if no number would do, or more than may be."""
        left = [dict(node) for node in free]
        # Which model the GPUs are is known when a node is there; all are of the same kind.
        counts = lambda name, amount: amount and not name.startswith("accelerator_type:")
        bundles = [{name: amount for name, amount in bundle.items() if counts(name, amount)} for bundle in bundles]
        if strategy == "STRICT_PACK":
            bundles = [dict(sum((collections.Counter(bundle) for bundle in bundles), collections.Counter()))]
        used = set()
        for bundle in sorted(bundles, key=lambda bundle: (-bundle.get("GPU", 0), -bundle.get("CPU", 0))):
            fits = lambda at: all(left[at].get(name, 0) >= amount - 1e-6 for name, amount in bundle.items())
            places = [at for at in range(len(left)) if fits(at) and not (strategy == "STRICT_SPREAD" and at in used)]
            if not places:
                left.append(self.shape())
                if not fits(len(left) - 1) or len(left) - len(free) > self.terms["nodes"]:
                    return None
                places = [len(left) - 1]
            used.add(places[0])
            for name, amount in bundle.items():
                left[places[0]][name] -= amount
        added = len(left) - len(free)
        free[:] = left
        return added

    def ask(self, gangs):
        """Submits a job for each gang."""
        job = json.loads(self.terms["job"])
        job["ray"]["join"] = f"{ADDRESS}:{PORT}"
        if limit := self.terms["time_limit_secs"]:
            job["time"] = f"{max(int(self.started + limit - time.monotonic()), 1)}s"
        text = "\n---\n".join(json.dumps(dict(job, name=self.name, tasks=size)) for size in gangs)
        jobs = [str(one["job"]) for one in json.loads(self.muster("run", "--json", "-", text=text))["jobs"]]
        self.asked.update(zip(jobs, gangs))
        self.pending += jobs
        say(f"asked for {sum(gangs)} more node{'s' * (sum(gangs) > 1)}: job{'s' * (len(jobs) > 1)} {', '.join(jobs)}")

    def list_jobs(self):
        """Reads which jobs have not ended, and which still wait."""
        jobs = json.loads(self.muster("ps", "--json", "--name", self.name))["jobs"]
        self.listed_at = time.monotonic()
        asked = {str(one["job"]): one["tasks"] for one in jobs}
        if any(job not in asked and job not in self.used for job in self.asked or {}):
            self.pause()
            say(f"further nodes ended without work; see `muster ps --all --name {self.name}`")
        self.asked = asked
        self.pending = [str(one["job"]) for one in jobs if one["state"] in ("pending", "held")]

    def withdraw(self):
        self.muster("cancel", *self.pending)
        self.asked = {job: nodes for job, nodes in self.asked.items() if job not in self.pending}
        self.pending = []

    def end(self):
        """Withdraws the jobs that still wait; the nodes of the others leave when the head has ended."""
        self.is_over.set()
        self.thread.join(timeout=self.END_SECS)
        try:
            if self.asked:
                self.list_jobs()
            if self.pending:
                self.withdraw()
        except Exception as error:  # what is left ends as soon as it starts
            say(f"cannot withdraw the jobs of further nodes: {error}")

    def muster(self, *words, text=""):
        """Runs `muster` for the place where this job runs; returns its output."""
        # Only the daemon of this machine tags its tasks; it sets its socket, too.
        is_local = "MUSTER_ATTEMPT_TAG" in ENV
        hidden = ("MUSTER_ON", "MUSTER_ARRAY_INDEX", "MUSTER_REPLICA") + (() if is_local else ("MUSTER_SOCKET",))
        environment = {name: value for name, value in ENV.items() if name not in hidden}
        if not is_local:
            environment["MUSTER_ON"] = "slurm"
        secs = self.END_SECS if self.is_over.is_set() else self.CALL_SECS
        run = {"input": text, "env": environment, "capture_output": True, "text": True, "timeout": secs}
        done = subprocess.run([ENV.get("MUSTER_PROGRAM", "muster"), *words], check=False, **run)
        if done.returncode:
            said = done.stderr.strip() or f"`muster {words[0]}` ended with exit code {done.returncode}"
            raise RuntimeError(said.splitlines()[0])
        return done.stdout
