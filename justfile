# The Makefile under the names that `just` users type; see there.

default: check

check:
    make check

test: check

test-readers:
    make test-readers

lint:
    make lint

demo:
    make demo

torture:
    make torture

perf-count:
    make perf-count

bench *OPTIONS:
    make bench BENCH="{{OPTIONS}}"

bench-nexmark *OPTIONS:
    make bench-nexmark BENCH="{{OPTIONS}}"

bench-engine:
    make bench-engine
