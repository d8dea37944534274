# The Makefile under the names that `just` users type; see there.

default: check

check:
    make check

test: check

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
