#!/usr/bin/env python3
"""What it costs to carry a Kafka topic into a Delta table: messages a second, CPU time a message, memory, bytes a row.

Fills a topic (fixed seed) on a real broker, then lets each program drain it, in turn, round by round, so that all
see the same machine. Nothing is printed of a run whose table an independent reader has not found complete.
docs/benchmarks.md says what is counted and what came out.
"""
import argparse
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path

import broker as brokers
import measure
import programs
import topic as topics

ROOT = Path(__file__).resolve().parent.parent
START_MESSAGES = 40
IDLE_MESSAGES = 200_000


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--messages", type=int, default=2_000_000, help="in the topic (default %(default)s)")
    p.add_argument("--partitions", type=int, default=4, help="of the topic (default %(default)s)")
    p.add_argument("--runs", type=int, default=3, help="rounds (default %(default)s); medians are printed")
    p.add_argument("--comparator-runs", type=int, help="rounds that the loader and Spark take part in (default: all)")
    p.add_argument("--compression", default="zstd,snappy", help="of the Parquet files, comma-separated (default %(default)s)")
    p.add_argument("--topic-compression", default="lz4", help="of the messages: none, gzip, snappy, lz4, zstd (default %(default)s)")
    p.add_argument("--workers", default="1,2", help="lakeward's workers, each on a core of its own (default %(default)s)")
    p.add_argument("--bad", default="1%", help="a further topic with so many bad messages (default %(default)s; 0 for none)")
    p.add_argument("--idle", action="store_true", help=f"also watch lakeward for {measure.IDLE_S} s on a topic that says nothing")
    p.add_argument("--lakeward", metavar="PATH", help="the program (default: cargo's release build, made first); - for none")
    p.add_argument("--lakeward-args", default="", metavar="ARGS", help="further options of lakeward ingest")
    p.add_argument("--peer", action="append", default=[], metavar="PATH",
                   help="another program with the same command line; repeatable; ended by SIGTERM once all rows are there")
    p.add_argument("--peer-args", default="-l 10 -m 50000", metavar="ARGS", help="its further options (default %(default)s)")
    p.add_argument("--no-loader", action="store_true", help="without the plain Python loader")
    p.add_argument("--no-spark", action="store_true", help="without Spark")
    p.add_argument("--work", type=Path, default=ROOT / "target" / "bench", help="tables go here (default %(default)s)")
    p.add_argument("--json", type=Path, help="all runs, as JSON (default: results.json in the --work folder)")
    p.add_argument("--threads", action="store_true", help="also print the CPU seconds of each run's threads")
    return p.parse_args()


def contestants(a, path):
    """(lakeward in all its settings, comparators)."""
    codecs = a.compression.split(",")
    workers = [int(w) for w in a.workers.split(",")]
    most = len(os.sched_getaffinity(0))
    if max(workers) > most:
        raise SystemExit(f"--workers {max(workers)}: this machine has {most} cores")
    ours = [programs.Program("lakeward", w, c, "lakeward", path, tuple(a.lakeward_args.split())) for w in workers for c in codecs if path]
    others = []
    for peer in a.peer:
        others += [programs.Program(f"peer {Path(peer).name}", 1, "its own codec", "peer", peer, tuple(a.peer_args.split()))]
    if not a.no_loader:
        others += [programs.Program("plain Python loader", 1, codecs[0], "loader")]
    if not a.no_spark:
        missing = programs.why_no_spark()
        if missing:
            print(missing, flush=True)
        else:
            others += [programs.Program("Spark", w, codecs[0], "spark") for w in workers]
    return ours, others


def rounds(bench, a, schedule):
    """Runs [(program, topic, rounds to take part in, note)] in turn; prints each run; returns {(label, note): [runs]}."""
    seen = {}
    for number in range(a.runs):
        for program, topic, take_part, note in schedule:
            if number >= take_part:
                continue
            run = bench.run(program, topic)
            seen.setdefault((program.label, note), []).append(run)
            others = "" if run.others is None else f", {run.others * 100:.0f} % of the machine used by others"
            print(f"  round {number + 1}: {program.label}{note}: {run.wall_s:.2f} s, {run.rate:,.0f}/s, {run.cpu_us:.3f} µs{others}", flush=True)
            if a.threads:
                print(f"    threads {run.threads}; system {run.system_s:.2f} s, {run.faults} page faults, {run.switches} switches", flush=True)
    return seen


def median(runs, what):
    return statistics.median(getattr(r, what) for r in runs)


def spread(runs, what):
    values = [getattr(r, what) for r in runs]
    return f"{min(values):.2f}..{max(values):.2f}"


def print_table(seen, start):
    print(f"\n{'program':44} {'messages/s':>11} {'CPU µs/msg':>10} {'(spread)':>12} {'peak MB':>8} {'B/row':>6} {'files':>5} {'commits':>7}  broker s")
    for (label, note), runs in seen.items():
        serving = [r.broker_cpu_s for r in runs if r.broker_cpu_s is not None]
        print(f"{label + note:44} {median(runs, 'rate'):11,.0f} {median(runs, 'cpu_us'):10.3f} {spread(runs, 'cpu_us'):>12} "
              f"{median(runs, 'peak_mb'):8.0f} {runs[0].bytes / runs[0].rows:6.1f} {median(runs, 'files'):5.0f} {median(runs, 'commits'):7.0f}  "
              + (f"{statistics.median(serving):.2f}" if serving else "-"))
    if start:
        print(f"\nIn each of lakeward's figures: its start and end, {median(start, 'wall_s'):.2f} s of waiting and "
              f"{median(start, 'cpu_s') * 1000:.0f} ms of CPU (a topic of {START_MESSAGES} messages).")


def print_ratios(seen, ours, start):
    if not ours:
        return
    base = (ours[0].label, "")
    print(f"\nIn this run, {base[0]} = 1:")
    for key, runs in seen.items():
        if key != base:
            cpu = median(runs, "cpu_us") / median(seen[base], "cpu_us")
            rate = median(seen[base], "rate") / median(runs, "rate")
            print(f"{key[0] + key[1]:44} {cpu:6.2f} times the CPU time a message, {rate:6.2f} times the time")
    start_s = median(start, "wall_s") if start else 0
    for one in (p for p in ours if p.cores == 1):
        for more in (p for p in ours if p.cores > 1 and p.codec == one.codec):
            walls = [median(seen[(p.label, "")], "wall_s") - start_s for p in (one, more)]
            print(f"{more.cores} cores, {one.codec}: {walls[0] / walls[1]:.2f} times as fast as one, start and end taken off")


def look_at_idle(bench, program, topic):
    seen = bench.idle(program, topic)
    print(f"\nIdle for {seen['seconds']} s after {seen['messages_before']:,} messages: {seen['cpu_percent']:.2f} % of a core, "
          f"{seen['rss_mb']:.0f} MB (peak before {seen['peak_mb']:.0f}), {seen['commits']} commits; "
          f"SIGTERM: exit {seen['exit']} after {seen['sigterm_s']:.1f} s", flush=True)
    return seen


def environment():
    with open("/proc/cpuinfo") as f:
        model = next((line.partition(":")[2].strip() for line in f if line.startswith("model name")), platform.machine())
    return {"processor": model, "cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version(),
            "load": os.getloadavg(), "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "command": sys.argv[1:]}


def make_schedule(a, broker, ours, others):
    """Fills the topics; returns what runs over which."""
    def fill(messages, bad=0.0):
        began = time.monotonic()
        topic = topics.fill(broker.address, a.work if broker.pid is None else None, messages, a.partitions, a.topic_compression, bad)
        print(f"topic {topic.name}: {topic.messages:,} messages of {topic.mean_bytes:.0f} bytes, {a.partitions} partitions, "
              f"{topic.messages - topic.rows:,} bad ({time.monotonic() - began:.0f} s)", flush=True)
        return topic
    clean = fill(a.messages)
    schedule = [(p, clean, a.runs, "") for p in ours]
    bad = float(a.bad.rstrip("%")) / 100
    if bad and ours:
        spoiled = fill(a.messages, bad)
        schedule += [(ours[0], spoiled, a.runs, f", {a.bad} bad")]
    take_part = a.runs if a.comparator_runs is None else a.comparator_runs
    schedule += [(p, clean, take_part, "") for p in others]
    few = fill(START_MESSAGES) if ours else None
    return schedule, few, [few, fill(IDLE_MESSAGES)] if a.idle and ours else []


def run(a, broker):
    path = None if a.lakeward == "-" else a.lakeward or programs.build(ROOT)
    ours, others = contestants(a, path)
    bench = measure.Bench(broker, a.work)
    schedule, few, quiet = make_schedule(a, broker, ours, others)
    start = []
    if ours:
        bench.run(ours[0], schedule[0][1])  # the broker's compiler and the page cache, warm for all
        start = [bench.run(ours[0], few) for _ in range(3)]
    seen = rounds(bench, a, schedule)
    print_table(seen, start)
    print_ratios(seen, ours, start)
    idle = [look_at_idle(bench, programs.Program("lakeward", 1, ours[0].codec, "lakeward", path, ("-l", "5", *ours[0].extra)), topic)
            for topic in quiet]
    result = {"environment": environment(), "runs": [asdict(r) | {"note": n} for (_, n), rs in seen.items() for r in rs],
              "start": [asdict(r) for r in start], "idle": idle}
    (a.json or a.work / "results.json").write_text(json.dumps(result, indent=1))


def main():
    a = arguments()
    a.work.mkdir(parents=True, exist_ok=True)
    about = environment()
    print(f"{about['processor']}, {about['cores']} cores, Linux {about['kernel']}, load {about['load'][0]:.2f}", flush=True)
    broker = brokers.start()
    try:
        run(a, broker)
    except measure.Failed as failed:
        raise SystemExit(str(failed)) from None
    finally:
        broker.stop()


if __name__ == "__main__":
    main()
