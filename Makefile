# What people and CI run. `just` has the same names. Each target sets up what it needs.
#
#   make demo        build, then a broker, a table, two kills and a proof, in a minute
#   make test        everything that CI runs (make check is the same)
#   make test-readers    the end-to-end tests with Apache Spark as one more reader, and as a peer that writes
#   make lint        formatting and clippy alone
#   make torture     long: many kills, fuzzing          LAKEWARD_TORTURE=N sets how much
#   make perf-count  instructions a message, against dev/perf-count.tsv
#   make bench       messages a second, CPU time and memory beside other programs   BENCH="--messages 500000" sets options
#   make bench-nexmark   pipelines of SQL beside Flink                               BENCH="--events 500000" sets options
#   make bench-engine    the SQL engine alone beside dbsp's own typed operators
#
# LAKEWARD_TEST_KAFKA=host:port   use a broker that runs already, in place of one of our own
.PHONY: demo build test check test-readers lint torture perf-count bench bench-nexmark bench-engine venv kafka

# --workspace: the same features, and so the same artefacts, as the tests.
demo:
	@dev/prerequisites.sh build
	cargo build --locked --workspace --bin lakeward
	target/debug/lakeward demo

build:
	@dev/prerequisites.sh build
	cargo build --locked --workspace --bin lakeward

check: test

test:
	@dev/test.sh

test-readers:
	@dev/spark/test.sh

lint:
	@dev/prerequisites.sh build
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

torture:
	@dev/torture.sh

perf-count:
	@dev/perf-count.sh

bench:
	@bench/bench.sh $(BENCH)

bench-nexmark:
	@bench/nexmark/nexmark.sh $(BENCH)

bench-engine:
	@dev/prerequisites.sh build
	cargo run --locked --release --workspace --features lakeward-circuit/engine --example engine

venv:
	@dev/prerequisites.sh test
	@dev/readers/venv.sh

kafka:
	@dev/prerequisites.sh test
	@dev/kafka/kafka.sh fetch
