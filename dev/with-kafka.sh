#!/usr/bin/env bash
# with-kafka.sh COMMAND ARGS..: sets up what tests need (readers, a real Kafka, the schema registry that tests start
# themselves), runs COMMAND, stops what it started.
#
# COMMAND sees LAKEWARD_TEST_KAFKA=host:port. Where that is set already, that broker is used and none is started.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
finish() {
  status=$?
  trap - EXIT INT TERM
  [ ! -d "$work/kafka" ] || dev/kafka/kafka.sh stop "$work/kafka" || true
  rm -rf "$work"
  exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The first of five free ports in a row, as kafka.sh wants them.
free_ports() {
  python3 - <<'P'
import random, socket
def free(port):
    with socket.socket() as s:
        try: s.bind(("127.0.0.1", port)); return True
        except OSError: return False
print(next(p for p in iter(lambda: random.randrange(20000, 30000), 0) if all(free(p + i) for i in range(5))))
P
}

dev/readers/venv.sh
dev/kafka/kafka.sh fetch
dev/registry/registry.sh fetch
if [ -z "${LAKEWARD_TEST_KAFKA:-}" ]; then
  LAKEWARD_TEST_KAFKA=$(PORT=$(free_ports) dev/kafka/kafka.sh up "$work/kafka" 1)
fi
export LAKEWARD_TEST_KAFKA
echo "broker: $LAKEWARD_TEST_KAFKA"
"$@"
