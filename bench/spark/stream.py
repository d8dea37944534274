"""Spark Structured Streaming, from the topic into a Delta table, to the topic's end: stream.py BROKERS TOPIC TABLE CODEC CORES REPORT.

Writes into REPORT what the stream alone took, from its start to its end: the start of the JVM, seven seconds or
more, is not counted. A first stream over the same topic into a table that is thrown away warms the JVM up.
"""
import glob
import json
import os
import shutil
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

JARS = Path(__file__).resolve().parent / "jars"
SCHEMA = "meta struct<producer:struct<timestamp:string>>, method string, session_id string, status int, url string, uuid string"
WARM_ROWS = 300_000
TICKS = os.sysconf("SC_CLK_TCK")


def session(cores, codec):
    conf = {
        "spark.jars": ",".join(glob.glob(str(JARS / "*.jar"))), "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": cores,
        "spark.sql.parquet.compression.codec": codec, "spark.databricks.delta.snapshotPartitions": 2,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
    builder = SparkSession.builder.master(f"local[{cores}]").appName("lakeward-bench")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark, brokers, topic, per_trigger):
    source = (spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
              .option("subscribe", topic).option("startingOffsets", "earliest"))
    if per_trigger:
        source = source.option("maxOffsetsPerTrigger", per_trigger)
    kafka = F.struct(F.col("offset"), F.col("topic"), F.col("partition"))
    return (source.load().select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("j"), "offset", "topic", "partition")
            .select(F.struct(F.col("j.meta.producer").alias("producer"), kafka.alias("kafka")).alias("meta"),
                    "j.method", "j.session_id", "j.status", "j.url", "j.uuid",
                    F.substring("j.meta.producer.timestamp", 1, 10).alias("date")))


def stream(frame, table, checkpoint):
    return (frame.writeStream.format("delta").outputMode("append").partitionBy("date")
            .option("checkpointLocation", checkpoint).trigger(availableNow=True).start(table))


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mb(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))


def main():
    brokers, topic, table, codec, cores, report = sys.argv[1:7]
    spark = session(int(cores), codec)
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    warm = stream(rows(spark, brokers, topic, WARM_ROWS), table + ".warm", table + ".warm-checkpoint")
    while warm.isActive and sum(p["numInputRows"] for p in warm.recentProgress) < WARM_ROWS:
        time.sleep(0.2)
    warm.stop()
    for left in (".warm", ".warm-checkpoint"):
        shutil.rmtree(table + left, ignore_errors=True)
    began, cpu = time.monotonic(), cpu_s(jvm)
    stream(rows(spark, brokers, topic, 0), table, table + ".checkpoint").awaitTermination()
    measured = {"wall_s": time.monotonic() - began, "cpu_s": cpu_s(jvm) - cpu, "peak_mb": peak_mb(jvm), "exit": 0, "threads": {}}
    shutil.rmtree(table + ".checkpoint", ignore_errors=True)
    Path(report).write_text(json.dumps(measured))
    spark.stop()


if __name__ == "__main__":
    main()
