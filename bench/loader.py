"""A plain loader, as its user would write it: loader.py BROKERS TOPIC TABLE CODEC [ROWS A WRITE].

confluent-kafka takes messages in batches, json reads them, deltalake appends; ends at the end of the topic. At
least once: the group's offsets are committed after each write. A bad message is counted and left out.
"""
import json
import sys

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError
from deltalake import WriterProperties, write_deltalake

SCHEMA = pa.schema([
    ("meta", pa.struct([("producer", pa.struct([("timestamp", pa.string())])),
                        ("kafka", pa.struct([("offset", pa.int64()), ("topic", pa.string()), ("partition", pa.int32())]))])),
    ("method", pa.string()), ("session_id", pa.string()), ("status", pa.int32()), ("url", pa.string()), ("uuid", pa.string()),
    ("date", pa.string())])


def row(message):
    value = json.loads(message.value())
    value["meta"]["kafka"] = {"offset": message.offset(), "topic": message.topic(), "partition": message.partition()}
    value["date"] = value["meta"]["producer"]["timestamp"][:10]
    value["status"] = int(value["status"])
    return value


def main():
    brokers, topic, table, codec = sys.argv[1:5]
    rows_a_write = int(sys.argv[5]) if len(sys.argv) > 5 else 100_000
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": f"loader-{table}", "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.subscribe([topic])
    properties = WriterProperties(compression=codec.upper())
    partitions = set(consumer.list_topics(topic).topics[topic].partitions)
    rows, bad, ended = [], 0, set()
    while ended != partitions:
        for message in consumer.consume(10_000, timeout=1.0):
            if message.error():
                if message.error().code() != KafkaError._PARTITION_EOF:
                    raise SystemExit(message.error())
                ended.add(message.partition())
                continue
            try:
                rows.append(row(message))
            except (ValueError, TypeError, KeyError):
                bad += 1
        if len(rows) >= rows_a_write or (rows and ended == partitions):
            write_deltalake(table, pa.Table.from_pylist(rows, SCHEMA), mode="append", partition_by=["date"], writer_properties=properties)
            consumer.commit(asynchronous=False)
            rows = []
    consumer.close()
    if bad:
        print(f"{bad} bad messages", file=sys.stderr)


if __name__ == "__main__":
    main()
