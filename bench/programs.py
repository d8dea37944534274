"""How each program is told to carry a topic into a table."""
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRANSFORMS = [
    "date: substr(meta.producer.timestamp, `0`, `10`)", "meta.kafka.offset: kafka.offset",
    "meta.kafka.partition: kafka.partition", "meta.kafka.topic: kafka.topic"]


@dataclass
class Job:
    """One topic into one table. `report` is where a program that measures itself writes to."""
    brokers: str
    topic: str
    table: Path
    unique: str
    report: Path
    ends: bool = True  # at the topic's end; else when it is told to


@dataclass(frozen=True)
class Program:
    """A way to do a job, on so many cores, with such a codec."""
    name: str
    cores: int
    codec: str
    kind: str  # lakeward, peer, loader or spark
    path: str = ""
    extra: tuple = ()
    env: tuple = ()

    @property
    def label(self):
        return f"{self.name}, {self.cores} core{'s' * (self.cores > 1)}, {self.codec}"

    @property
    def stops_itself(self):
        """False: ended by SIGTERM once all rows are in the table."""
        return self.kind != "peer"

    @property
    def measures_itself(self):
        return self.kind == "spark"

    @property
    def writer_version(self):
        """Older programs know nothing newer than 1."""
        return 1 if self.kind == "peer" else 2

    def environment(self):
        return dict(os.environ, **dict(self.env))

    def command(self, job):
        if self.kind == "loader":
            return [sys.executable, str(HERE / "loader.py"), job.brokers, job.topic, str(job.table), self.codec]
        if self.kind == "spark":
            return [str(spark_python()), str(HERE / "spark" / "stream.py"), job.brokers, job.topic, str(job.table), self.codec,
                    str(self.cores), str(job.report)]
        words = [self.path, "ingest", job.topic, str(job.table), "-k", job.brokers, "-g", job.unique, "-a", "bench"]
        for transform in TRANSFORMS:
            words += ["-t", transform]
        if self.kind == "lakeward":
            words += ["--workers", str(self.cores), "--compression", self.codec]
            words += ["-e"] * job.ends
        return words + list(self.extra)


def spark_python():
    return HERE / "spark" / "venv" / "bin" / "python"


def why_no_spark():
    """What to do to have Spark in the comparison; None where it is there."""
    if not (HERE / "spark" / "jars").is_dir() or not spark_python().exists():
        return "Spark is not installed: run bench/spark/install.sh (540 MB, needs Java 17 and Maven)"
    return None


def build(root):
    """The release build of lakeward; returns its path."""
    subprocess.run(["cargo", "build", "--locked", "--release", "-p", "lakeward"], cwd=root, check=True)
    return str(root / "target" / "release" / "lakeward")
