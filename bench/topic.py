"""Fills a topic with web requests of about 230 bytes of JSON, the same for the same seed, and says what a table of them must hold.

Times rise, and midnight falls into the middle: the table gets two days. One message in `1 / bad` is not a row:
a quarter each is cut off, no JSON at all, an array, or has text where the table has a number.
"""
import json
import random
import time
from dataclasses import asdict, dataclass, field

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

METHODS = ["DELETE", "PUT", "POST", "GET", "HEAD"]
STATUS = [500, 200, 404, 202, 401, 302, 400, 204, 201, 301, 403]
SITES = ["http://www." + site for site in (
    "weibo.com google.co.uk hao123.com imdb.com apple.com stackoverflow.com taobao.com amazon.com dropbox.com "
    "chinadaily.com.cn 163.com accuweather.com vk.com twitter.com bing.com outbrain.com youku.com live.com "
    "google.fr wordpress.com ebay.de wikipedia.org github.com reddit.com twitch.tv office.com paypal.com "
    "nytimes.com adobe.com espn.com bbc.co.uk naver.com").split()]
MEAN_GAP_US = 50
MIDNIGHT_S = 1_616_544_000  # 2021-03-24T00:00:00Z
BURST = 500  # messages to one partition before the next one's turn
CHUNK = 20_000
VERSION = 1  # of the generator: another one is another topic


@dataclass
class Partition:
    """What a table must hold of one partition, good messages alone."""
    end: int = 0
    rows: int = 0
    offsets: int = 0
    statuses: int = 0
    uuids: int = 0  # sum of their first 32 bits


@dataclass
class Topic:
    """A filled topic."""
    name: str
    messages: int
    mean_bytes: float
    partitions: list = field(default_factory=list)
    days: dict = field(default_factory=dict)  # date -> rows

    @property
    def rows(self):
        return sum(p.rows for p in self.partitions)


def uuid(h, o):
    return f"{h[o:o+8]}-{h[o+8:o+12]}-4{h[o+13:o+16]}-a{h[o+17:o+20]}-{h[o+20:o+32]}"


def spoiled(kind, text):
    return (text[: len(text) * 2 // 3], "GET /index.html 200", f"[{text}]",
            text.replace('"status":', '"status":"none",  "_":'))[kind]


def requests(messages, bad, seed):
    """Yields (text, good, date, status, first 32 bits of the uuid)."""
    rnd = random.Random(seed)
    micros = MIDNIGHT_S * 1_000_000 - messages * MEAN_GAP_US // 2
    limit = int(bad * (1 << 32))
    second, prefix, date = None, None, None
    for done in range(0, messages, CHUNK):
        n = min(CHUNK, messages - done)
        h, x = rnd.randbytes(32 * n).hex(), rnd.randbytes(8 * n)
        for i in range(n):
            a, b, c, gap = x[8 * i: 8 * i + 4]
            micros += 10 + gap * 80 // 255
            if micros // 1_000_000 != second:
                second = micros // 1_000_000
                date = time.strftime("%Y-%m-%d", time.gmtime(second))
                prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            status, o = STATUS[b % 11], 64 * i
            text = (f'{{"meta":{{"producer":{{"timestamp":"{prefix}.{micros % 1_000_000:06}+00:00"}}}},"method":"{METHODS[a % 5]}",'
                    f'"session_id":"{uuid(h, o)}","status":{status},"url":"{SITES[c & 31]}","uuid":"{uuid(h, o + 32)}"}}')
            draw = int.from_bytes(x[8 * i + 4: 8 * i + 8], "little") if limit else limit
            if draw < limit:
                yield spoiled(draw & 3, text), False, date, 0, 0
            else:
                yield text, True, date, status, int(h[o + 32: o + 40], 16)


def produce(address, name, partitions, codec, stream):
    """Produces the stream in order; returns (per partition, rows by day, bytes)."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "compression.type": codec, "enable.idempotence": True, "log_level": 3,
                         "queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 400_000})
    told = [Partition() for _ in range(partitions)]
    days, size = {}, 0
    for number, (text, good, date, status, bits) in enumerate(stream):
        at = number // BURST % partitions
        p = told[at]
        while True:
            try:
                producer.produce(name, text, partition=at)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
        size += len(text)
        if good:
            p.rows += 1
            p.offsets += p.end
            p.statuses += status
            p.uuids += bits
            days[date] = days.get(date, 0) + 1
        p.end += 1
    if producer.flush(120):
        raise SystemExit(f"{name}: the broker took no more")
    return told, days, size


def ends(address, name, partitions):
    consumer = Consumer({"bootstrap.servers": address, "group.id": "lakeward-bench"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(name, p), timeout=20) for p in range(partitions)]
    finally:
        consumer.close()


def fill(address, notes, messages, partitions=4, codec="lz4", bad=0.0, seed=1):
    """The topic of these parameters: the one that an earlier run left on this broker by its note in the folder `notes`
    (None where the broker is new), or a new one."""
    stem = f"bench-v{VERSION}-{messages}-{partitions}-{codec}-{bad}-{seed}"
    note = notes / f"{stem}.{address.replace(':', '_')}.json" if notes else None
    if note and note.exists():
        told = json.loads(note.read_text())
        topic = Topic(**{**told, "partitions": [Partition(**p) for p in told["partitions"]]})
        try:
            if ends(address, topic.name, partitions) == [(0, p.end) for p in topic.partitions]:
                return topic
        except Exception:  # another broker at the same address
            pass
    name = f"{stem}-{random.randrange(1 << 32):08x}"
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    time.sleep(1)
    told, days, size = produce(address, name, partitions, codec, requests(messages, bad, seed))
    if ends(address, name, partitions) != [(0, p.end) for p in told]:
        raise SystemExit(f"{name}: the broker does not hold what was produced")
    topic = Topic(name, messages, size / messages, told, days)
    if note:
        note.write_text(json.dumps(asdict(topic)))
    return topic
