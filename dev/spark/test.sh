#!/usr/bin/env bash
# test.sh [FILTER..]: the end-to-end tests with Apache Spark: it reads every table that they read and must agree with
# the other readers, and tests/e2e/spark.rs has it write beside us. FILTERs are names of tests, as of cargo test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

say "prerequisites"
dev/prerequisites.sh test
say "Spark"
dev/spark/spark.sh fetch
say "object stores"
dev/objectstores/stores.sh fetch
say "clippy"
cargo clippy --locked --workspace --all-targets --features lakeward/test-spark -- -D warnings
say "tests"
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-5}
dev/with-kafka.sh cargo test --locked --workspace --features lakeward/test-spark --test e2e --no-fail-fast -- "$@"
say "done"
