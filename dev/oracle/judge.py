"""DuckDB's answers for the oracle of the SQL engine (crates/circuit/tests/sql/oracle): one case a line, in and out.

In: {"ddl": [CREATE TABLE ..], "views": [[name, query], ..], "steps": [{table: [[text or null, ..], ..]}, ..]}, each
step with all rows of all tables. Out: for each step the last view's rows as texts, or the error as one text. A double
starts with `~`; decimals and times are without zeros at the end of their fraction.
"""

import datetime
import decimal
import json
import sys

import duckdb


def cell(value):
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "~" + repr(value)
    if isinstance(value, decimal.Decimal):
        text = format(value, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text
    if isinstance(value, datetime.datetime):
        text = value.isoformat(sep=" ")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value)


def literal(value):
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def answers(connection, case):
    for statement in case["ddl"]:
        connection.execute(statement.replace("CREATE TABLE", "CREATE OR REPLACE TABLE", 1))
    tables = [statement.split()[2] for statement in case["ddl"]]
    error = None
    for name, query in case["views"][:-1]:
        try:
            connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
        except duckdb.Error as caught:
            error = str(caught)
    before = {}
    for step in case["steps"]:
        if error is not None:
            yield error
            continue
        for table in tables:
            rows = step.get(table, [])
            if rows == before.get(table, []):
                continue
            before[table] = rows
            connection.execute(f"DELETE FROM {table}")
            if rows:
                values = ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in rows)
                connection.execute(f"INSERT INTO {table} VALUES {values}")
        try:
            rows = connection.execute(case["views"][-1][1]).fetchall()
            yield [[cell(value) for value in row] for row in rows]
        except (duckdb.Error, OverflowError, ValueError) as caught:
            yield str(caught)


def main():
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for line in sys.stdin:
        print(json.dumps(list(answers(connection, json.loads(line)))), flush=True)
        connection.execute("DROP VIEW IF EXISTS v0")


main()
