#!/usr/bin/env bash
# test.sh: everything that CI runs, on one real Kafka that it starts and stops itself (with-kafka.sh).
#
# Nothing is skipped: what cannot run is an error that says what to install. Environment:
#   LAKEWARD_TEST_KAFKA=host:port   a broker that runs already; none is started then
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

say "prerequisites"
dev/prerequisites.sh ci
log=$(mktemp)
# Bound by the network, where building is bound by the processor. (But for the S3 server, which Go builds.)
{ dev/readers/venv.sh && dev/kafka/kafka.sh fetch && dev/registry/registry.sh fetch && dev/objectstores/stores.sh fetch; } > "$log" 2>&1 &
fetching=$!
trap 'kill "$fetching" 2> /dev/null || true; rm -f "$log"' EXIT

say "formatting"
cargo fmt --all --check

say "clippy"
cargo clippy --locked --workspace --all-targets -- -D warnings

if cargo deny --version > /dev/null 2>&1; then
  say "cargo deny"
  cargo deny --locked check
else
  say "cargo deny: not on this machine, deny.toml was not checked (cargo install cargo-deny)"
fi

say "build tests"
cargo test --locked --workspace --no-run

say "readers, Kafka, schema registry and object stores"
wait "$fetching" || { cat "$log" >&2; exit 1; }

say "tests"
# End-to-end tests mostly wait: more of them at once than there are cores.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-5}
dev/with-kafka.sh cargo test --locked --workspace --no-fail-fast

say "instruction counts"
dev/perf-count.sh

say "done"
