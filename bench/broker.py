"""The Kafka that is drained: our own one from dev/kafka, or the one that LAKEWARD_TEST_KAFKA names."""
import os
import random
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parent / "dev" / "kafka" / "kafka.sh"
HEAP = "1g"


def free_ports(count):
    """The first of `count` free ports in a row."""
    def free(port):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return True
            except OSError:
                return False
    while True:
        first = random.randrange(20000, 30000)
        if all(free(first + i) for i in range(count)):
            return first


class Broker:
    """`address` to reach it; `pid` is None where it is not ours."""

    def __init__(self, address, pid=None, process=None):
        self.address, self.pid, self._process = address, pid, process

    def cpu_s(self):
        """CPU seconds that it has used; None where it is not ours."""
        if self.pid is None:
            return None
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pin(self, cores):
        """Keeps it, all its threads, on these cores. Does nothing where it is not ours."""
        if self.pid is None:
            return
        for task in os.listdir(f"/proc/{self.pid}/task"):
            try:
                os.sched_setaffinity(int(task), cores)
            except ProcessLookupError:
                pass

    def stop(self):
        """Ends it and removes its folder. Does nothing where it is not ours."""
        if self._process is not None:
            self._process.terminate()
            self._process.stdin.close()
            self._process.wait(60)


def start():
    """A broker that serves. Ends with this process, however that ends."""
    given = os.environ.get("LAKEWARD_TEST_KAFKA")
    if given:
        return Broker(given)
    folder = tempfile.mkdtemp(prefix="lakeward-bench-kafka-")
    environment = dict(os.environ, PORT=str(free_ports(5)), HEAP=HEAP, JAVA=str(HERE / "java.sh"))
    # In a group of its own: Ctrl-C ends the benchmark first, and that ends the broker.
    process = subprocess.Popen([SCRIPT, "serve", folder, "1"], env=environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, process_group=0)
    address = process.stdout.readline().strip()
    if not address:
        raise SystemExit(f"{SCRIPT} could not start a broker")
    signal.signal(signal.SIGTERM, lambda *_: exit(143))
    return Broker(address, int(Path(folder, "n1", "pid").read_text()), process)
