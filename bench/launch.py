"""Run one program and measure it: launch.py REPORT CORES -- COMMAND.., CORES such as 1 or 0,1.

A process of its own, and a small one: Linux counts what the parent held at the fork into the child's peak
memory. Writes REPORT.pid at the start; at the end REPORT with wall and CPU seconds of the command and all its
waited-for children, its peak memory, and the CPU seconds of its threads by name (sampled, so the last tenth of
a second of each is missing).
"""
import json
import os
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.1


def thread_seconds(pid, seen):
    """Updates {thread id: (name, CPU seconds)}."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat") as f:
                name, _, rest = f.read().partition("(")[2].rpartition(")")
            fields = rest.split()
            seen[task] = (name, (int(fields[11]) + int(fields[12])) / TICKS)
    except (FileNotFoundError, ProcessLookupError):
        pass  # a thread, or the program, ended while we looked


def by_name(seen):
    total = {}
    for name, seconds in seen.values():
        total[name] = round(total.get(name, 0) + seconds, 2)
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def child(command, cores):
    try:
        os.sched_setaffinity(0, cores)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error}", file=sys.stderr)
    os._exit(127)


def main():
    report, cores, command = sys.argv[1], {int(c) for c in sys.argv[2].split(",")}, sys.argv[4:]
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        child(command, cores)
    with open(report + ".pid", "w") as f:
        f.write(str(pid))
    seen = {}
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        thread_seconds(pid, seen)
        # Coarse beside long runs, fine enough to time short ones.
        time.sleep(min(SAMPLE_S, max(0.002, (time.monotonic() - start) / 200)))
    wall = time.monotonic() - start
    with open(report, "w") as f:
        json.dump({
            "wall_s": wall, "user_s": usage.ru_utime, "system_s": usage.ru_stime, "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_mb": usage.ru_maxrss / 1024, "exit": os.waitstatus_to_exitcode(status), "threads": by_name(seen),
            "faults": usage.ru_minflt, "switches": usage.ru_nvcsw + usage.ru_nivcsw,
        }, f)


if __name__ == "__main__":
    main()
