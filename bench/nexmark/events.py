"""The events of an auction house, as JSON, the same for the same seed: in each 50 one person, three auctions, 46 bids.

Shares and habits are Nexmark's: half of the bids go to one auction of a hundred, three quarters come from one bidder of a
hundred and three quarters of auctions from one seller of a hundred, prices spread over six powers of ten, 10,000 events a
second of event time. They go to the topics PREFIX-person, -auction, -bid, by blocks of 50 over the partitions, so
that times rise within each; and into files, for the reader that judges.
"""
import random
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

KINDS = ("person", "auction", "bid")
BASE_S = 1_767_225_600  # 2026-01-01T00:00:00Z
RATE = 10_000
STATES = ("az", "ca", "id", "or", "wa", "wy")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne")
FIRST = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
IN_FLIGHT = 100
ACTIVE = 1000
FIRST_ID = 1000
FIRST_CATEGORY = 10


def texts(rnd):
    """One long text; pieces of it are cheap."""
    return "".join(rnd.choices(LETTERS, k=1 << 16))


def clock(number):
    """Event time, milliseconds."""
    second, part = divmod(number, RATE)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(BASE_S + second))}.{part * 1000 // RATE:03}"


class Generator:
    """Draws the events."""

    def __init__(self, seed):
        self.rnd = random.Random(seed)
        self.text = texts(self.rnd)
        self.people, self.auctions = 0, 0

    def piece(self, length):
        at = int(self.rnd.random() * ((1 << 16) - 600))
        return self.text[at: at + length]

    def person(self, number):
        rnd, id = self.rnd, FIRST_ID + self.people
        self.people += 1
        first, last = rnd.choice(FIRST), rnd.choice(LAST)
        card = " ".join(f"{rnd.randrange(10000):04}" for _ in range(4))
        return (f'{{"id":{id},"name":"{first} {last}","email_address":"{self.piece(7)}@{self.piece(5)}.com","credit_card":"{card}",'
                f'"city":"{rnd.choice(CITIES)}","state":"{rnd.choice(STATES)}","date_time":"{clock(number)}","extra":"{self.piece(60)}"}}')

    def auction(self, number):
        rnd, id = self.rnd, FIRST_ID + self.auctions
        self.auctions += 1
        last = self.people - 1
        seller = last // 100 * 100 if rnd.random() < 0.75 else max(0, last - int(rnd.random() * ACTIVE))
        initial = self.price()
        open_for = 1 + int(rnd.random() * 2 * IN_FLIGHT * 50 // 3)
        return (f'{{"id":{id},"item_name":"{self.piece(20)}","description":"{self.piece(100)}","initial_bid":{initial},"reserve":{initial + self.price()},'
                f'"date_time":"{clock(number)}","expires":"{clock(number + open_for)}","seller":{FIRST_ID + seller},'
                f'"category":{FIRST_CATEGORY + int(rnd.random() * 5)},"extra":"{self.piece(200)}"}}')

    def bid(self, number):
        draw = self.rnd.random
        last, person = self.auctions - 1, self.people - 1
        auction = last // 100 * 100 if draw() < 0.5 else max(0, last - int(draw() * IN_FLIGHT))
        bidder = person // 100 * 100 + 1 if draw() < 0.75 else max(0, person - int(draw() * ACTIVE))
        channel = HOT_CHANNELS[int(draw() * 4)] if draw() < 0.5 else f"channel-{int(draw() * 10000)}"
        return (f'{{"auction":{FIRST_ID + auction},"bidder":{FIRST_ID + bidder},"price":{self.price()},"channel":"{channel}",'
                f'"url":"https://www.nexmark.com/{self.piece(5)}/{self.piece(4)}/{self.piece(5)}/item.htm?query=1&channel_id={int(draw() * (1 << 30))}",'
                f'"date_time":"{clock(number)}","extra":"{self.piece(30)}"}}')

    def price(self):
        return round(10 ** (self.rnd.random() * 6) * 100)

    def events(self, count):
        """Yields (kind, text), in order."""
        for number in range(count):
            place = number % 50
            if place == 0:
                yield "person", self.person(number)
            elif place < 4:
                yield "auction", self.auction(number)
            else:
                yield "bid", self.bid(number)


def fill(address, folder: Path, prefix, count, partitions, seed):
    """Makes the topics and files KIND.json; returns {kind: messages}."""
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(f"{prefix}-{kind}", partitions, 1) for kind in KINDS]).values():
        made.result(30)
    time.sleep(1)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "compression.type": "lz4", "enable.idempotence": True, "log_level": 3,
                         "queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 400_000})
    files = {kind: open(folder / f"{kind}.json", "w") for kind in KINDS}
    told = dict.fromkeys(KINDS, 0)
    for number, (kind, text) in enumerate(Generator(seed).events(count)):
        files[kind].write(text + "\n")
        told[kind] += 1
        while True:
            try:
                producer.produce(f"{prefix}-{kind}", text, partition=number // 50 % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    for file in files.values():
        file.close()
    if producer.flush(120):
        raise SystemExit("the broker took no more")
    return told
