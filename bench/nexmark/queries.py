"""The Nexmark queries that both programs run, in lakeward's SQL; Flink's words for them are in flink/queries.

q1's factor is a decimal, so that no rounding differs. q5 counts each bid in the five windows that it lies in. The views of
q18 and q19 order their ties, so that one answer is right. Left out: q6 (an average over a seller's last ten auctions: a
window function that is refused), q10 (files), q11 and q12 (sessions, processing time), q13 (a table of another system),
q14, q21, q22 (functions of text alone).
"""
from dataclasses import dataclass

SOURCES = {
    "person": "id BIGINT, name TEXT, email_address TEXT, credit_card TEXT, city TEXT, state TEXT, date_time TIMESTAMP, extra TEXT",
    "auction": "id BIGINT, item_name TEXT, description TEXT, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP, expires TIMESTAMP, "
               "seller BIGINT, category BIGINT, extra TEXT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT, date_time TIMESTAMP, extra TEXT",
}
RANKS = """COUNT(*) AS total_bids,
  COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids"""
DISTINCT = ",\n  ".join(
    f"COUNT(DISTINCT {column}){condition} AS {name}_{column}s"
    for column in ("bidder", "auction")
    for name, condition in (("total", ""), ("rank1", " FILTER (WHERE price < 10000)"),
                            ("rank2", " FILTER (WHERE price >= 10000 AND price < 1000000)"), ("rank3", " FILTER (WHERE price >= 1000000)")))
DAY = "CAST(CAST(date_time AS DATE) AS VARCHAR)"
WINDOW = "date_bin(INTERVAL '10 seconds', {}, TIMESTAMP '1970-01-01 00:00:00')"
HOPS = "\n  UNION ALL ".join(
    f"SELECT auction, date_bin(INTERVAL '2 seconds', date_time, TIMESTAMP '1970-01-01 00:00:00') - INTERVAL '{2 * n} seconds' AS window_start FROM bid"
    for n in range(5))


@dataclass(frozen=True)
class Query:
    """`views` by name, the last one is written; `key` of its table, or None; the sources that it reads."""
    name: str
    views: tuple
    key: str | None
    reads: tuple


def query(name, *views, key=None, reads=("bid",)):
    return Query(name, views, key, reads)


QUERIES = {q.name: q for q in (
    query("q0", ("v", "SELECT auction, bidder, price, date_time, extra FROM bid")),
    query("q1", ("v", "SELECT auction, bidder, CAST(price AS DECIMAL(12, 0)) * CAST(0.908 AS DECIMAL(4, 3)) AS price, date_time, extra FROM bid")),
    query("q2", ("v", "SELECT auction, price FROM bid WHERE auction % 123 = 0")),
    query("q3", ("v", "SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id "
                      "WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca')"), reads=("auction", "person")),
    query("q4", ("w", "SELECT a.id, a.category, MAX(b.price) AS final FROM auction AS a JOIN bid AS b ON a.id = b.auction "
                      "WHERE b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category"),
          ("v", "SELECT category, AVG(final) AS avg_final FROM w GROUP BY category"), key="category", reads=("auction", "bid")),
    query("q5", ("c", f"SELECT auction, COUNT(*) AS num, window_start FROM ({HOPS}) AS hops GROUP BY auction, window_start"),
          ("v", "SELECT c.auction, c.num, c.window_start FROM c JOIN (SELECT window_start, MAX(num) AS top FROM c GROUP BY window_start) AS m "
                "ON c.window_start = m.window_start AND c.num >= m.top"), key="window_start, auction"),
    query("q7", ("m", f"SELECT MAX(price) AS top, {WINDOW.format('date_time')} AS window_start FROM bid GROUP BY 2"),
          ("v", f"SELECT b.auction, b.price, b.bidder, b.date_time, b.extra FROM bid AS b JOIN m "
                f"ON b.price = m.top AND {WINDOW.format('b.date_time')} = m.window_start")),
    query("q8", ("v", f"SELECT DISTINCT p.id, p.name, {WINDOW.format('p.date_time')} AS window_start FROM person AS p JOIN auction AS a "
                      f"ON p.id = a.seller AND {WINDOW.format('p.date_time')} = {WINDOW.format('a.date_time')}"), reads=("auction", "person")),
    query("q9", ("v", "SELECT id, item_name, seller, category, bidder, price, bid_time FROM (SELECT a.id, a.item_name, a.seller, a.category, b.bidder, "
                      "b.price, b.date_time AS bid_time, ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) AS place "
                      "FROM auction AS a JOIN bid AS b ON a.id = b.auction WHERE b.date_time BETWEEN a.date_time AND a.expires) AS r WHERE place <= 1"),
          key="id", reads=("auction", "bid")),
    query("q15", ("v", f"SELECT {DAY} AS bid_day, {RANKS},\n  {DISTINCT} FROM bid GROUP BY 1"), key="bid_day"),
    query("q16", ("v", f"SELECT channel, {DAY} AS bid_day, SUBSTR(CAST(MAX(date_time) AS VARCHAR), 12, 5) AS bid_minute, {RANKS},\n  {DISTINCT} "
                       "FROM bid GROUP BY 1, 2"), key="channel, bid_day"),
    query("q17", ("v", f"SELECT auction, {DAY} AS bid_day, {RANKS},\n  MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS avg_price, "
                       "SUM(price) AS sum_price FROM bid GROUP BY 1, 2"), key="auction, bid_day"),
    query("q18", ("v", "SELECT auction, bidder, price, channel, url, date_time, extra FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction "
                       "ORDER BY date_time DESC, price DESC, extra) AS place FROM bid) AS r WHERE place <= 1"), key="bidder, auction"),
    query("q19", ("v", "SELECT auction, bidder, price, channel, url, date_time, extra, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction "
                       "ORDER BY price DESC, date_time, bidder, extra) AS place FROM bid) AS r WHERE place <= 10"), key="auction, place"),
    query("q20", ("v", "SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name, a.description, a.initial_bid, a.reserve, "
                       "a.date_time AS a_date_time, a.expires, a.seller, a.category FROM bid AS b JOIN auction AS a ON b.auction = a.id "
                       "WHERE a.category = 10"), reads=("auction", "bid")),
)}


def pipeline(query, brokers, prefix, table, state):
    """The file for `lakeward run`."""
    lines = [f"SET state = '{state}';", "SET checkpoint_interval_ms = 10000;"]
    for source in query.reads:
        lines.append(f"CREATE SOURCE {source} ({SOURCES[source]}) WITH (kafka = '{brokers}', topic = '{prefix}-{source}');")
    lines += [f"CREATE VIEW {name} AS {sql};" for name, sql in query.views]
    key = f", mode = 'upsert', key = '{query.key}'" if query.key else ""
    lines.append(f"CREATE SINK result FROM v WITH (delta = '{table}'{key});")
    return "\n".join(lines) + "\n"


def batch(query):
    """The same as one statement."""
    *before, (_, last) = query.views
    return (f"WITH {', '.join(f'{name} AS ({sql})' for name, sql in before)} " if before else "") + last
