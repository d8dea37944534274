"""An independent judge of Delta tables, and a foreign writer to them: deltalake and duckdb behind one pipe.

One JSON request a line on standard input, one JSON answer a line on standard output: {"ok": ..} or {"error": ".."}.
Lives as long as the pipe. Requests (see `requests`): every read is done by both engines, and they must agree.
Values in answers are those of plain.py.
"""
import glob, gzip, importlib.util, json, os, pathlib, sys, tempfile, traceback
import duckdb
import pyarrow
import pyarrow.parquet
from deltalake import CommitProperties, DeltaTable, Field, QueryBuilder, write_deltalake
from deltalake.schema import PrimitiveType
from plain import order, plain


def connect():
    """DuckDB with the delta extension from its Python package: nothing is fetched."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    package = pathlib.Path(importlib.util.find_spec("duckdb_extension_delta").submodule_search_locations[0])
    packed = next(f for f in package.rglob("*.duckdb_extension*"))
    if packed.suffix == ".gz":
        unpacked = pathlib.Path(tempfile.mkdtemp()) / "delta.duckdb_extension"
        unpacked.write_bytes(gzip.decompress(packed.read_bytes()))
        packed = unpacked
    connection.execute(f"LOAD '{packed}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


DUCKDB = connect()


def with_deltalake(table, sql):
    result = QueryBuilder().register("t", DeltaTable(table)).execute(sql).read_all()
    return pyarrow.table(result).to_pylist()


def with_duckdb(table, sql):
    quoted = table.replace("'", "''")
    DUCKDB.execute(f"CREATE OR REPLACE TEMP VIEW t AS SELECT * FROM delta_scan('{quoted}')")
    return DUCKDB.execute(sql).to_arrow_table().to_pylist()


ENGINES = {"deltalake": with_deltalake, "duckdb": with_duckdb}


def query(table, sql, engines):
    """Rows of `sql` over the table `t`, by their `id`, else as text: the engines must agree to the last value."""
    answers = {}
    for engine in engines:
        try:
            rows = [plain(row) for row in ENGINES[engine](table, sql)]
        except Exception as error:
            raise RuntimeError(f"{engine} can't read: {error}") from error
        answers[engine] = sorted(rows, key=order)
    first, *others = answers
    for other in others:
        if answers[other] != answers[first]:
            pairs = ((a, b) for a, b in zip(answers[first] + [None], answers[other] + [None]) if a != b)
            raise RuntimeError(f"{first} and {other} disagree: {len(answers[first])} and {len(answers[other])} rows, "
                               f"first difference {next(pairs, None)}")
    return answers[first]


def local_path(table, path):
    import urllib.parse
    return os.path.join(table, urllib.parse.unquote(path))


def files(table, columns):
    """Each live file in the table's newest version: its rows in the order that they lie in, its row groups."""
    answer = []
    for add in pyarrow.table(DeltaTable(table).get_add_actions(flatten=True)).to_pylist():
        file = pyarrow.parquet.ParquetFile(local_path(table, add["path"]))
        rows = file.read(columns=columns).to_pylist() if columns else []
        answer.append({
            "path": add["path"],
            "rows": [plain(row) for row in rows],
            "row_groups": [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)],
            "created_by": file.metadata.created_by,
            "columns": file.schema_arrow.names,
            "codec": file.metadata.row_group(0).column(0).compression if file.metadata.num_row_groups else None,
        })
    return answer


def protocol_errors(table):
    """Reads all checkpoints as Parquet, so that a broken one is found though its commits are still there."""
    for path in glob.glob(os.path.join(table, "_delta_log", "*.checkpoint*.parquet")):
        pyarrow.parquet.read_table(path)


def add_column(table, name, kind):
    DeltaTable(table).alter.add_columns([Field(name, PrimitiveType(kind), nullable=True)])


def append(table, rows, app, version):
    """Foreign rows, with a txn of their own if `app` is given."""
    transactions = None
    if app is not None:
        from deltalake import Transaction
        transactions = [Transaction(app, version, None)]
    schema = pyarrow.schema(DeltaTable(table).schema().to_arrow())
    data = pyarrow.Table.from_pylist(rows, schema=schema)
    write_deltalake(table, data, mode="append", commit_properties=CommitProperties(app_transactions=transactions))


REQUESTS = {
    "query": lambda r: query(r["table"], r["sql"], r.get("engines", list(ENGINES))),
    "files": lambda r: files(r["table"], r["columns"]),
    "checkpoints": lambda r: protocol_errors(r["table"]),
    "txn": lambda r: DeltaTable(r["table"]).transaction_version(r["app"]),
    "version": lambda r: DeltaTable(r["table"]).version(),
    "restore": lambda r: DeltaTable(r["table"]).restore(r["version"]),
    "add_column": lambda r: add_column(r["table"], r["name"], r["type"]),
    "add_constraint": lambda r: DeltaTable(r["table"]).alter.add_constraint({r["name"]: r["sql"]}),
    "append": lambda r: append(r["table"], r["rows"], r.get("app"), r.get("version")),
    "compact": lambda r: DeltaTable(r["table"]).optimize.compact(),
    "delete": lambda r: DeltaTable(r["table"]).delete(r["where"]),
    "checkpoint": lambda r: DeltaTable(r["table"]).create_checkpoint(),
}


def main():
    for line in sys.stdin:
        request = json.loads(line)
        # As a store's users set it; deltalake reads it when it opens a table.
        os.environ.update(request.get("environment", {}))
        try:
            answer = {"ok": REQUESTS[request["do"]](request)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        sys.stdout.write(json.dumps(answer, default=str) + "\n")
        sys.stdout.flush()


main()
