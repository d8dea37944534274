"""Apache Spark with Delta Lake as a reader of tables and a peer that writes to them: one session behind one pipe.

    spark.py JARS   (a folder of Delta Lake's jars)

One JSON request a line on standard input, one JSON answer a line on standard output: {"ok": ..} or {"error": ".."}.
Lives as long as the pipe. Values in answers are those of plain.py. Requests:

    query   rows of `sql` over the table `t`, which lies in the folder `table`; by their `id`, else as text.
            `version` or `at_us` (microseconds since 1970) say which version of it, else the newest
    sql     `sql` in Spark's own dialect, on delta.`/folder`, with `settings` for it alone; rows of SELECT and DESCRIBE
    files   how many of the table's files a read of its rows `where` opens
    stream  rows that a structured stream, which keeps its place in `place`, has not seen yet
"""
import datetime, glob, json, os, sys, traceback

# Before Spark is there. Without loopback addresses it asks the machine's name, which may have no address.
os.environ.update(TZ="UTC", SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)

from plain import EPOCH, order, plain
from pyspark.sql import SparkSession


def session(jars):
    """Small and quick: few partitions, no console, no port but the driver's own."""
    settings = {
        "spark.jars": ",".join(sorted(glob.glob(os.path.join(jars, "*.jar")))),
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        # The tests' SQL, which other engines read as well, has "names" and 'text'.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.warehouse.dir": os.path.join(os.environ.get("TMPDIR", "/tmp"), "lakeward-spark-warehouse"),
    }
    builder = SparkSession.builder.master("local[2]").appName("lakeward")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(frame):
    return [plain(row) for row in frame.toArrow().to_pylist()]


class Server:
    def __init__(self, jars):
        self.spark = session(jars)
        self.log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog

    def load(self, table, options={}):
        # What it remembers of a table it would take for what lies there, even where a test moved it.
        self.log.clearCache()
        return self.spark.read.format("delta").options(**options).load(table)

    def query(self, request):
        options = {}
        if "version" in request:
            options["versionAsOf"] = request["version"]
        if "at_us" in request:
            options["timestampAsOf"] = str(EPOCH + datetime.timedelta(microseconds=request["at_us"]))
        self.load(request["table"], options).createOrReplaceTempView("t")
        return sorted(rows(self.spark.sql(request["sql"])), key=order)

    def sql(self, request):
        self.log.clearCache()
        settings = request.get("settings", {})
        for name, value in settings.items():
            self.spark.conf.set(name, value)
        try:
            frame = self.spark.sql(request["sql"])
            # Commands have run by now, and answer with metrics in types that Arrow lacks.
            is_asked = request["sql"].split(None, 1)[0].upper() in ("SELECT", "DESCRIBE")
            return rows(frame) if is_asked else []
        finally:
            for name in settings:
                self.spark.conf.unset(name)

    def files(self, request):
        frame = self.load(request["table"]).where(request["where"])
        return len(frame.inputFiles())

    def stream(self, request):
        seen = []
        self.log.clearCache()
        read = self.spark.readStream.format("delta").options(**request.get("options", {})).load(request["table"])
        write = read.writeStream.foreachBatch(lambda batch, _: seen.extend(rows(batch)))
        write.option("checkpointLocation", request["place"]).trigger(availableNow=True).start().awaitTermination()
        return sorted(seen, key=order)


def main():
    # Spark's own words go to standard error; standard output is the pipe's.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = Server(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": getattr(server, request["do"])(request)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


main()
