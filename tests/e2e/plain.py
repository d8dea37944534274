"""Values and rows as JSON has them, the same whichever engine they came from.

Timestamps are microseconds since 1970 (UTC), dates and decimals text, binary {"hex": ".."}, maps lists of
[key, value], floats that JSON lacks text.
"""
import datetime, decimal, json, math

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


def plain(value):
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return (value - EPOCH) // MICROSECOND
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def order(row):
    number = row.get("id")
    return (number, "") if isinstance(number, int) else (math.inf, json.dumps(row, sort_keys=True))
