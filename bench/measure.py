"""One run of one program: fill a table, check it, weigh it. And one look at an idle one."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import table as tables
from programs import Job, Program

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")
STALLED_S = 60
POLL_S = 0.1
IDLE_SETTLE_S = 10
IDLE_S = 20


class Failed(Exception):
    """A run that did not do its job."""


@dataclass
class Run:
    """What one run took."""
    label: str
    topic: str
    messages: int
    rows: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    bytes: int
    files: int
    commits: int
    broker_cpu_s: float | None
    others: float | None  # share of the machine that neither the program nor the broker used
    threads: dict
    system_s: float = 0.0
    faults: int = 0
    switches: int = 0

    @property
    def rate(self):
        return self.messages / self.wall_s

    @property
    def cpu_us(self):
        return self.cpu_s / self.messages * 1e6


def machine_busy_s():
    """CPU seconds of all kinds of work, stolen ones too, since the start of the machine."""
    with open("/proc/stat") as f:
        user, nice, system, _idle, _wait, irq, soft, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / TICKS


def pick_cores(count):
    """(cores of the program, cores of the broker): apart where the machine has enough."""
    have = sorted(os.sched_getaffinity(0))
    if count >= len(have):
        return set(have), set(have)
    return set(have[-count:]), set(have[:-count])


class Bench:
    """A broker and a folder to run in."""

    def __init__(self, broker, folder):
        self.broker, self.folder = broker, folder

    def job(self, program, topic, ends=True):
        unique = f"bench-{random.randrange(1 << 32):08x}"
        table = self.folder / unique
        tables.create(table, program.writer_version)
        return Job(self.broker.address, topic.name, table, unique, self.folder / f"{unique}.report", ends)

    def start(self, program, job):
        """Starts it under launch.py; returns (that process, the report's path, the log's path)."""
        mine, brokers = pick_cores(program.cores)
        self.broker.pin(brokers)
        outer = self.folder / f"{job.unique}.launch"
        log = self.folder / f"{job.unique}.log"
        words = [sys.executable, "-I", "-S", str(HERE / "launch.py"), str(outer), ",".join(map(str, sorted(mine))), "--"]
        with open(log, "w") as out:
            process = subprocess.Popen(words + program.command(job), env=program.environment(), stdout=out, stderr=out)
        return process, outer, log

    def run(self, program: Program, topic):
        """Fills a table, proves it, and says what it took."""
        job = self.job(program, topic)
        busy, serving = machine_busy_s(), self.broker.cpu_s()
        began, began_at = time.monotonic(), time.time()
        process, outer, log = self.start(program, job)
        if not program.stops_itself:
            wait_for_rows(job, topic.rows, process)
            end(pid_of(outer))
        process.wait()
        spent = time.monotonic() - began
        busy = machine_busy_s() - busy
        serving = None if serving is None else self.broker.cpu_s() - serving
        report = json.loads(outer.read_text())
        if report["exit"] != 0 and program.stops_itself:
            raise Failed(f"{program.label} ended with {report['exit']}:\n{tail(log)}")
        others = None if serving is None else max(0.0, busy - report["cpu_s"] - serving) / spent / os.cpu_count()
        if program.measures_itself:
            report, others = json.loads(job.report.read_text()), None
        if not program.stops_itself:
            report["wall_s"] = max(p.stat().st_mtime for p in (job.table / "_delta_log").glob("*.json")) - began_at
        wrong = tables.check(job.table, topic)
        if wrong:
            raise Failed(f"{program.label}: the table is wrong (left in {job.table}):\n" + "\n".join(wrong) + f"\n{tail(log)}")
        size, files, commits, counted = tables.weigh(job.table)
        if counted != topic.rows:
            raise Failed(f"{program.label}: the second reader counts {counted} rows, not {topic.rows}")
        self.clean(job)
        return Run(program.label, topic.name, topic.messages, topic.rows, report["wall_s"], report["cpu_s"], report["peak_mb"], size,
                   files, commits, serving, others, report["threads"], report.get("system_s", 0), report.get("faults", 0),
                   report.get("switches", 0))

    def idle(self, program: Program, topic):
        """Fills a table, leaves the program running and looks at it: a dict of figures."""
        job = self.job(program, topic, ends=False)
        process, outer, log = self.start(program, job)
        try:
            wait_for_rows(job, topic.rows, process)
            pid = pid_of(outer)
            filled = memory_mb(pid, "VmRSS")
            time.sleep(IDLE_SETTLE_S)
            cpu, commits = cpu_s(pid), tables.rows_committed(job.table)[1]
            time.sleep(IDLE_S)
            figures = {
                "messages_before": topic.messages, "seconds": IDLE_S, "cpu_percent": (cpu_s(pid) - cpu) / IDLE_S * 100,
                "rss_mb": memory_mb(pid, "VmRSS"), "rss_mb_when_filled": filled, "peak_mb": memory_mb(pid, "VmHWM"),
                "commits": tables.rows_committed(job.table)[1] - commits}
        finally:
            end(pid_of(outer))
            asked = time.monotonic()
            process.wait()
        figures["sigterm_s"] = time.monotonic() - asked
        figures["exit"] = json.loads(outer.read_text())["exit"]
        wrong = tables.check(job.table, topic)
        if wrong:
            raise Failed(f"{program.label}, idle: the table is wrong (left in {job.table}):\n" + "\n".join(wrong) + f"\n{tail(log)}")
        self.clean(job)
        return figures

    def clean(self, job):
        shutil.rmtree(job.table)
        for path in self.folder.glob(f"{job.unique}.*"):
            path.unlink()


def pid_of(outer):
    for _ in range(100):
        path = Path(f"{outer}.pid")
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.05)
    raise Failed("the program did not start")


def end(pid):
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass


def wait_for_rows(job, rows, process):
    """Until the table's log tells of so many rows, or of none more for a while, or the program has ended."""
    seen, since = 0, time.monotonic()
    while process.poll() is None:
        now = tables.rows_committed(job.table)[0]
        if now >= rows:
            return
        if now > seen:
            seen, since = now, time.monotonic()
        if time.monotonic() - since > STALLED_S:
            return
        time.sleep(POLL_S)


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid, what):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith(what))


def tail(log, lines=15):
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
