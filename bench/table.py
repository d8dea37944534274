"""The table that is filled: made by hand, read by readers that are not ours."""
import gzip
import importlib.util
import json
import tempfile
import time
import uuid
from pathlib import Path

import duckdb
from deltalake import DeltaTable


def column(name, kind):
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


SCHEMA = struct(
    column("meta", struct(
        column("producer", struct(column("timestamp", "string"))),
        column("kafka", struct(column("offset", "long"), column("topic", "string"), column("partition", "integer"))))),
    column("method", "string"), column("session_id", "string"), column("status", "integer"), column("url", "string"),
    column("uuid", "string"), column("date", "string"))


def create(folder, writer_version=2):
    """An empty table, partitioned by date; in the oldest form, which each program takes."""
    log = Path(folder, "_delta_log")
    log.mkdir(parents=True)
    now = int(time.time() * 1000)
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": writer_version}},
        {"metaData": {"id": str(uuid.uuid4()), "format": {"provider": "parquet", "options": {}},
                      "schemaString": json.dumps(SCHEMA), "partitionColumns": ["date"], "configuration": {}, "createdTime": now}},
        {"commitInfo": {"timestamp": now, "operation": "CREATE TABLE", "operationParameters": {}}}]
    Path(log, f"{0:020}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))


def rows_committed(folder):
    """(rows that the log's adds tell, number of versions), without reading a file."""
    rows, versions = 0, 0
    for path in sorted(Path(folder, "_delta_log").glob("*.json")):
        versions += 1
        for line in path.read_text().splitlines():
            add = json.loads(line).get("add")
            if add and add.get("stats"):
                rows += json.loads(add["stats"])["numRecords"]
    return rows, versions


def reader():
    """DuckDB with its Delta extension from the Python package: nothing is fetched."""
    con = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    package = Path(importlib.util.find_spec("duckdb_extension_delta").submodule_search_locations[0])
    found = next(package.rglob("*.duckdb_extension*"))
    if found.suffix == ".gz":
        unpacked = Path(tempfile.mkdtemp(), "delta.duckdb_extension")
        unpacked.write_bytes(gzip.decompress(found.read_bytes()))
        found = unpacked
    con.execute(f"LOAD '{found}'")
    con.execute("SET memory_limit = '6GB'")
    return con


def check(folder, topic):
    """Every good message once, with its own content, place and day; nothing else. Returns what differs, as text."""
    con = reader()
    con.execute(f"""create temp table r as select meta.kafka.partition p, meta.kafka.offset o, meta.kafka.topic t, status, uuid, date,
                    meta.producer.timestamp ts from delta_scan('{folder}')""")
    seen = con.execute("""select p, max(o) + 1, count(*), count(distinct o), sum(o), sum(status), sum(('0x' || substr(uuid, 1, 8))::bigint)
                          from r group by p order by p""").fetchall()
    wrong = []
    for number, want in enumerate(topic.partitions):
        row = next((s for s in seen if s[0] == number), None)
        got = None if row is None else tuple(int(v) for v in row[2:])
        must = (want.rows, want.rows, want.offsets, want.statuses, want.uuids)
        if want.rows and got != must:
            wrong.append(f"partition {number}: rows, distinct offsets, sums of offsets, statuses, uuids are {got}, not {must}")
    if any(s[0] not in range(len(topic.partitions)) for s in seen):
        wrong.append(f"partitions {[s[0] for s in seen]}")
    days = {str(d): n for d, n in con.execute("select date, count(*) from r group by 1").fetchall()}
    if days != topic.days:
        wrong.append(f"days {days}, not {topic.days}")
    distinct, odd = con.execute(f"""select count(distinct uuid), count(*) filter (t is distinct from '{topic.name}'
                                    or date::varchar is distinct from substr(ts, 1, 10)) from r""").fetchone()
    if (distinct, odd) != (topic.rows, 0):
        wrong.append(f"{distinct} distinct uuids, not {topic.rows}; {odd} rows of another topic or with another day's date")
    con.close()
    return wrong


def weigh(folder):
    """(bytes, files, versions) of the newest version, as a second reader sees them; that one counts the rows, too."""
    table = DeltaTable(str(folder))
    adds = table.get_add_actions(flatten=True)
    sizes = adds["size_bytes"].to_pylist()
    return sum(sizes), len(sizes), table.version(), table.count()
