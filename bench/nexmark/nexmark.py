#!/usr/bin/env python3
"""What it costs to keep the answers of Nexmark's queries fresh: CPU time a row read, rows a second, memory, state.

Fills three topics (fixed seed) on a real broker. lakeward then keeps each query's view in a Delta table, from the first
message to the last; the table must equal DuckDB's batch answer over the same events, row by row, before a figure is printed.
Flink, where it is installed, answers the same queries from the same topics, into nothing. docs/benchmarks.md says what came out.
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import broker as brokers  # noqa: E402
import events  # noqa: E402
import measure  # noqa: E402
import programs  # noqa: E402
import queries  # noqa: E402
import table as tables  # noqa: E402

ROOT = HERE.parent.parent
FLINK = HERE / "flink"
PREFIX = "nexmark"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--events", type=int, default=2_000_000, help="in the three topics together (default %(default)s)")
    p.add_argument("--partitions", type=int, default=4, help="of each topic (default %(default)s)")
    p.add_argument("--queries", default=",".join(queries.QUERIES), help="comma-separated (default: all)")
    p.add_argument("--runs", type=int, default=1, help="of each query; the least CPU time is printed, of both programs (default %(default)s)")
    p.add_argument("--lakeward", metavar="PATH", help="the program (default: cargo's release build, made first)")
    p.add_argument("--workers", type=int, default=1, help="of the circuit, and Flink's parallelism (default %(default)s)")
    p.add_argument("--no-flink", action="store_true", help="without Flink")
    p.add_argument("--work", type=Path, default=ROOT / "target" / "bench", help="everything goes here (default %(default)s)")
    p.add_argument("--keep", action="store_true", help="keep tables, states and logs")
    return p.parse_args()


def judge(folder, prefix_rows):
    """DuckDB with the events as tables."""
    con = tables.reader()
    con.execute("CREATE MACRO date_bin(width, moment, start) AS time_bucket(width, moment, start)")
    for kind, columns in queries.SOURCES.items():
        shape = ", ".join(f"'{name}': '{what}'" for name, what in (c.strip().split(" ", 1) for c in columns.split(",")))
        con.execute(f"CREATE TABLE {kind} AS SELECT * FROM read_json('{folder}/{kind}.json', format = 'newline_delimited', columns = {{{shape}}})")
        have = con.execute(f"SELECT count(*) FROM {kind}").fetchone()[0]
        assert have == prefix_rows[kind], f"{kind}: {have} rows, not {prefix_rows[kind]}"
    return con


def differences(con, query, table):
    """(rows of the answer, rows that only one of the two has)."""
    con.execute(f"CREATE OR REPLACE TEMP TABLE want AS {queries.batch(query)}")
    names = [(row[0], row[1]) for row in con.execute("DESCRIBE want").fetchall()]
    # A mean is compared to three places: the two divide in other orders.
    shown = ", ".join(f'round("{n}"::DOUBLE, 3) AS "{n}"' if kind == "DOUBLE" else f'"{n}"' for n, kind in names)
    con.execute(f"CREATE OR REPLACE TEMP TABLE have AS SELECT * FROM delta_scan('{table}')")
    apart = [con.execute(f"SELECT count(*) FROM (SELECT {shown} FROM {a} EXCEPT ALL SELECT {shown} FROM {b})").fetchone()[0]
             for a, b in (("want", "have"), ("have", "want"))]
    return con.execute("SELECT count(*) FROM want").fetchone()[0], sum(apart)


def run_ours(a, broker, query, con):
    """One run; returns its figures, or ends the benchmark."""
    folder = Path(tempfile.mkdtemp(prefix=f"{query.name}-", dir=a.work))
    (folder / "pipeline.sql").write_text(queries.pipeline(query, broker.address, PREFIX, folder / "table", folder / "state"))
    mine, theirs = measure.pick_cores(a.workers)
    broker.pin(theirs)
    report, log = folder / "report", folder / "log"
    words = [sys.executable, "-I", "-S", str(HERE.parent / "launch.py"), str(report), ",".join(map(str, sorted(mine))), "--", a.lakeward, "run",
             str(folder / "pipeline.sql"), "--until", "end", "--workers", str(a.workers)]
    with open(log, "w") as out:
        subprocess.run(words, stdout=out, stderr=out, check=False)
    told = json.loads(report.read_text())
    if told["exit"] != 0:
        raise SystemExit(f"{query.name}: lakeward ended with {told['exit']}:\n{measure.tail(log)}")
    rows, apart = differences(con, query, folder / "table")
    if apart:
        raise SystemExit(f"{query.name}: {apart} rows differ from the batch answer (left in {folder})")
    state = sum(f.stat().st_size for f in (folder / "state").rglob("*") if f.is_file())
    versions = len(list((folder / "table" / "_delta_log").glob("*.json")))
    if not a.keep:
        shutil.rmtree(folder)
    return {"cpu_s": told["cpu_s"], "wall_s": told["wall_s"], "peak_mb": told["peak_mb"], "state_mb": state / 1e6, "rows": rows, "versions": versions}


def run_flink(a, broker, names):
    """{query: (wall s, CPU s)}, the best of its runs; a first run of q0 warms the machine up."""
    if a.no_flink:
        return {}
    if not (FLINK / "classes").is_dir():
        print("Flink is not installed: run bench/nexmark/flink/install.sh (144 MB, needs a JDK and Maven)", flush=True)
        return {}
    mine, theirs = measure.pick_cores(a.workers)
    broker.pin(theirs)
    words = ["taskset", "-c", ",".join(map(str, sorted(mine))), str(FLINK / "run.sh"), broker.address, PREFIX, str(FLINK / "queries"), str(a.workers)]
    best = {}
    with subprocess.Popen(words + ["q0"] + names * a.runs, stdout=subprocess.PIPE, text=True) as flink:
        for number, line in enumerate(flink.stdout):
            name, wall, cpu, peak = line.split()
            print(f"  Flink: {name}: {float(wall):.1f} s, {float(cpu):.1f} CPU s, {peak} MB", flush=True)
            if number and (name not in best or float(cpu) < best[name][1]):
                best[name] = (float(wall), float(cpu))
    if flink.returncode:
        raise SystemExit(f"Flink ended with {flink.returncode}")
    return best


def print_table(found, flink, counts):
    print(f"\n{'query':6} {'rows read':>10} {'rows/s':>9} {'CPU µs/row':>10} {'peak MB':>8} {'state MB':>8} {'answer':>8} {'versions':>8} {'Flink µs/row':>12} {'ratio':>6}")
    ratios = []
    for name, run in found.items():
        read = sum(counts[kind] for kind in queries.QUERIES[name].reads)
        ours, theirs = run["cpu_s"] / read * 1e6, flink.get(name, (0, 0))[1] / read * 1e6
        told = f"{theirs:12.2f} {theirs / ours:6.1f}" if theirs else f"{'-':>12} {'-':>6}"
        ratios += [theirs / ours] if theirs else []
        print(f"{name:6} {read:10,} {read / run['wall_s']:9,.0f} {ours:10.2f} {run['peak_mb']:8.0f} {run['state_mb']:8.1f} {run['rows']:8,} {run['versions']:8} {told}")
    if ratios:
        print(f"\nFlink takes {math.exp(sum(map(math.log, ratios)) / len(ratios)):.1f} times the CPU time in the geometric mean, {min(ratios):.1f} at least.")


def main():
    a = arguments()
    a.work.mkdir(parents=True, exist_ok=True)
    a.lakeward = a.lakeward or programs.build(ROOT)
    names = a.queries.split(",")
    folder = Path(tempfile.mkdtemp(prefix="nexmark-", dir=a.work))
    broker = brokers.start()
    try:
        began = time.monotonic()
        counts = events.fill(broker.address, folder, PREFIX, a.events, a.partitions, 1)
        print(f"{a.events:,} events in {time.monotonic() - began:.0f} s: {counts}; load {os.getloadavg()[0]:.2f}", flush=True)
        con = judge(folder, counts)
        found = {}
        for name in names:
            for _ in range(a.runs):
                run = run_ours(a, broker, queries.QUERIES[name], con)
                print(f"  lakeward: {name}: {run['wall_s']:.1f} s, {run['cpu_s']:.1f} CPU s, {run['rows']:,} rows right", flush=True)
                if name not in found or run["cpu_s"] < found[name]["cpu_s"]:
                    found[name] = run
        con.close()
        print_table(found, run_flink(a, broker, names), counts)
    finally:
        broker.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
