"""The judge of pipelines: each version of each sink, read by deltalake, against DuckDB's answer over its input.

One JSON request on standard input (see judge.rs), one answer on standard output: how many versions were compared, and
which are wrong, with rows that are missing and rows that are too much.
"""
import collections, json, sys
import duckdb
import pyarrow
from deltalake import DeltaTable, QueryBuilder

TYPES = {"BIGINT": pyarrow.int64(), "VARCHAR": pyarrow.string(), "DOUBLE": pyarrow.float64()}
SHOWN = 5


def load(connection, source):
    """`raw_NAME` has every record; `NAME` the relation below the frontier that `at_NAME` holds, and `bad_NAME` the bad
    records (partition, offset, value) there."""
    name, key, columns, records = source["name"], source["key"], source["columns"], source["records"]
    data = {
        "p_": pyarrow.array([record[0] for record in records], pyarrow.int64()),
        "o_": pyarrow.array([record[1] for record in records], pyarrow.int64()),
        "op_": pyarrow.array([record[2].get("op") for record in records], pyarrow.string()),
        "bad_": pyarrow.array([record[2].get("bad") for record in records], pyarrow.string()),
    }
    for column, kind in columns:
        data[column] = pyarrow.array([record[2].get(column) for record in records], TYPES[kind])
    table = pyarrow.table(data)
    connection.register("loading", table)
    connection.execute(f"CREATE TABLE raw_{name} AS SELECT * FROM loading")
    connection.unregister("loading")
    connection.execute(f"CREATE TABLE at_{name} (p_ BIGINT, next_ BIGINT)")
    names = ", ".join(column for column, _ in columns)
    below = f"SELECT * FROM raw_{name} JOIN at_{name} USING (p_) WHERE o_ < next_"
    connection.execute(
        f"CREATE VIEW bad_{name} AS SELECT p_ AS p, o_ AS o, bad_ AS value FROM ({below}) WHERE bad_ IS NOT NULL")
    below += " AND bad_ IS NULL"
    if key is None:
        connection.execute(f"CREATE VIEW {name} AS SELECT {names} FROM ({below})")
    else:
        last = f"SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY o_ DESC) AS n_ FROM ({below})"
        connection.execute(
            f"CREATE VIEW {name} AS SELECT {names} FROM ({last}) WHERE n_ = 1 AND op_ IS DISTINCT FROM 'delete'")


def move(connection, sources, frontier):
    for source in sources:
        name = source["name"]
        connection.execute(f"DELETE FROM at_{name}")
        rows = [(partition, following) for of, partition, following in frontier if of == name]
        if rows:
            connection.executemany(f"INSERT INTO at_{name} VALUES (?, ?)", rows)


def bag(rows, is_changelog):
    """Each row with how often it is there; a changelog's rows summed up."""
    counts = collections.Counter()
    for row in rows:
        sign = 1
        if is_changelog:
            sign = {"insert": 1, "delete": -1}[row.pop("_op")]
            row.pop("_step")
        counts[json.dumps(row, sort_keys=True)] += sign
    return {row: count for row, count in counts.items() if count}


def differences(found, expected):
    rows = sorted(set(found) | set(expected))
    apart = [(row, found.get(row, 0), expected.get(row, 0)) for row in rows if found.get(row, 0) != expected.get(row, 0)]
    return [f"{row}: {has} times, should be {should}" for row, has, should in apart]


def judge_sink(connection, sources, sink):
    """How many versions were compared, and the wrong ones."""
    compared, wrong = 0, []
    table, is_changelog = DeltaTable(sink["table"]), sink["changelog"]
    found, expected, stands = {}, None, None
    for version, has_files, frontier in sink["versions"]:
        if has_files:
            table.load_as_version(version)
            rows = QueryBuilder().register("t", table).execute(f"select {sink['columns']} from t").read_all()
            found = bag(pyarrow.table(rows).to_pylist(), is_changelog)
        if frontier != stands:
            move(connection, sources, frontier)
            rows = connection.execute(f"SELECT * FROM {sink['view']}").to_arrow_table().to_pylist()
            expected, stands = bag(integers(rows), False), frontier
        compared += 1
        apart = differences(found, expected)
        if apart:
            wrong.append({"table": sink["table"], "version": version, "frontier": frontier,
                          "differences": len(apart), "first": apart[:SHOWN]})
    return compared, wrong


def integers(rows):
    """DuckDB's SUM of integers is a 128-bit one, which Arrow has as a decimal."""
    import decimal
    return [{name: int(value) if isinstance(value, decimal.Decimal) else value for name, value in row.items()}
            for row in rows]


def main():
    request = json.load(sys.stdin)
    connection = duckdb.connect()
    for source in request["sources"]:
        load(connection, source)
    for name, sql in request["views"]:
        connection.execute(f"CREATE VIEW {name} AS {sql}")
    compared, wrong = 0, []
    for sink in request["sinks"]:
        more, faults = judge_sink(connection, request["sources"], sink)
        compared, wrong = compared + more, wrong + faults
    json.dump({"versions": compared, "wrong": wrong}, sys.stdout)


main()
