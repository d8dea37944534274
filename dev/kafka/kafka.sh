#!/usr/bin/env bash
# kafka.sh: a real Apache Kafka (KRaft) for tests, from Maven's jars. Everything it keeps lies under DIR.
#
#   kafka.sh fetch               copy the jars to lib/ beside this script, once
#   kafka.sh up DIR [NODES]      make and start a cluster of 1 or 3 nodes, wait until it serves, print its address
#   kafka.sh serve DIR [NODES]   the same, then stay until stdin ends; stop the cluster and remove DIR
#   kafka.sh start DIR N         start node N again            kafka.sh kill DIR N      kill -9 node N
#   kafka.sh pause DIR N         SIGSTOP node N                kafka.sh resume DIR N    SIGCONT node N
#   kafka.sh stop DIR            end all nodes, gently
#   kafka.sh tool CLASS ARGS..   run one of Kafka's own tools, such as org.apache.kafka.tools.TopicCommand
#
# Environment:
#   PORT    first port, default 19092. Node N takes five ports from PORT+10*(N-1) on:
#           +0 PLAINTEXT, +1 the controller, +2 SASL_SSL (SCRAM-SHA-256, SCRAM-SHA-512, PLAIN),
#           +3 SSL with client certificates demanded, +4 PLAINTEXT for a fault proxy
#   PROXY   ports that the fault proxy's listener tells clients, one a node ("29096 29106 29116")
#   HEAP    default 320m
#   EXTRA   a file of further broker settings
#   USERS   name:password pairs, default "alice:alice-secret bob:bob-secret"
#   JAVA, KAFKA_LIB   the java to use; where the jars are
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
java=${JAVA:-java}
lib=${KAFKA_LIB:-$here/lib}
users=${USERS:-alice:alice-secret bob:bob-secret}
# The quick compiler alone and the serial collector: a broker that serves a test starts sooner and stays small.
jvm=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Djava.awt.headless=true
  "-Dlog4j2.configurationFile=$here/log4j2.properties")

die() { echo "kafka.sh: $*" >&2; exit 1; }

need() { # COMMAND WHAT-TO-INSTALL
  command -v "$1" > /dev/null || die "$1 is missing: install $2"
}

check_java() {
  need "$java" "Java 17 or newer (Debian: openjdk-17-jre-headless)"
  local version
  version=$("$java" -version 2>&1 | sed -n 's/^[^"]* version "\([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 17 ] || die "$java is version ${version:-unknown}: Kafka needs Java 17 or newer"
}

fetch() {
  [ ! -d "$lib" ] || return 0
  need mvn "Maven (Debian: maven); it fetches Kafka's jars"
  mkdir -p "$(dirname "$lib")"
  exec 9> "$lib.lock"
  flock 9 # two test runs on a new machine
  if [ ! -d "$lib" ]; then
    rm -rf "$lib.part"
    mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$lib.part" >&2 \
      || die "Maven could not fetch Kafka's jars"
    mv "$lib.part" "$lib"
  fi
  exec 9>&-
  rm -f "$lib.lock"
}

nodes_of() { # DIR: the numbers of its nodes
  local node
  for node in "$1"/n*/; do node=${node%/}; echo "${node##*/n}"; done
}

configure() { # DIR NODES N
  local dir=$1 nodes=$2 n=$3 first=${PORT:-19092} voters= i port minimum plain=
  for ((i = 1; i <= nodes; i++)); do voters+="${voters:+,}$i@127.0.0.1:$((first + 10 * (i - 1) + 1))"; done
  for i in $users; do plain+="user_${i%%:*}=\"${i#*:}\" "; done
  port=$((first + 10 * (n - 1)))
  minimum=$((nodes > 1 ? 2 : 1))
  set -- ${PROXY:-}
  local proxy=${!n:-$((port + 4))}
  mkdir -p "$dir/n$n"
  cat > "$dir/n$n/server.properties" << P
process.roles=broker,controller
node.id=$n
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1)),SASL_SSL://127.0.0.1:$((port + 2)),SSL://127.0.0.1:$((port + 3)),PROXY://127.0.0.1:$((port + 4))
advertised.listeners=PLAINTEXT://127.0.0.1:$port,SASL_SSL://localhost:$((port + 2)),SSL://localhost:$((port + 3)),PROXY://127.0.0.1:$proxy
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,PROXY:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$dir/n$n/data

ssl.keystore.type=PEM
ssl.keystore.location=$dir/certs/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/certs/ca.pem
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required $plain;

default.replication.factor=$nodes
min.insync.replicas=$minimum
offsets.topic.replication.factor=$nodes
transaction.state.log.replication.factor=$nodes
transaction.state.log.min.isr=$minimum
share.coordinator.state.topic.replication.factor=$nodes
share.coordinator.state.topic.min.isr=$minimum

# No topic by accident; messages of tens of MB.
auto.create.topics.enable=false
message.max.bytes=67108864
replica.fetch.max.bytes=67108864
socket.request.max.bytes=134217728

# Small.
num.partitions=4
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=2
num.network.threads=2
num.io.threads=3
background.threads=2
log.cleaner.dedupe.buffer.size=4194304

# Quick: what takes half a minute in production (noticing a dead node, a rebalance, retention, compaction,
# the end of a transaction whose producer died) takes a second or two here.
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
replica.lag.time.max.ms=5000
controlled.shutdown.retry.backoff.ms=500
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=200
group.consumer.heartbeat.interval.ms=500
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=6000
group.coordinator.append.linger.ms=1
log.initial.task.delay.ms=500
log.retention.check.interval.ms=500
log.segment.delete.delay.ms=500
log.cleaner.backoff.ms=500
log.flush.start.offset.checkpoint.interval.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
offsets.retention.check.interval.ms=5000
P
  [ -z "${EXTRA:-}" ] || cat "$EXTRA" >> "$dir/n$n/server.properties"
}

format() { # DIR NODES
  local dir=$1 nodes=$2 id user kind n scram=()
  "$here/certs.sh" "$dir/certs"
  id=A$(head -c 16 /dev/urandom | base64 | tr '+/' 'AB' | cut -c 2-21)Q # 22 characters, the first not a dash
  for user in $users; do
    for kind in 256 512; do scram+=(--add-scram "SCRAM-SHA-$kind=[name=${user%%:*},password=${user#*:}]"); done
  done
  for ((n = 1; n <= nodes; n++)); do
    configure "$dir" "$nodes" "$n"
    "$java" "${jvm[@]}" -cp "$lib/*" kafka.tools.StorageTool format -t "$id" -c "$dir/n$n/server.properties" \
      "${scram[@]}" > "$dir/n$n/format.log" 2>&1 &
  done
  wait
  for ((n = 1; n <= nodes; n++)); do
    [ -d "$dir/n$n/data" ] || { cat "$dir/n$n/format.log" >&2; die "node $n could not be formatted"; }
  done
}

running() { [ -s "$1/n$2/pid" ] && kill -0 "$(cat "$1/n$2/pid")" 2> /dev/null; }

launch() { # DIR N
  local at=$1/n$2
  ! running "$1" "$2" || die "node $2 runs already"
  [ ! -e "$at/out.log" ] || cat "$at/out.log" >> "$at/earlier.log"
  : > "$at/out.log"
  setsid nohup "$java" "${jvm[@]}" -Xms96m -Xmx"${HEAP:-320m}" -cp "$lib/*" kafka.Kafka "$at/server.properties" \
    >> "$at/out.log" 2>&1 < /dev/null &
  echo $! > "$at/pid"
  disown # or the shell remarks on its end
}

await() { # DIR N
  local i log=$1/n$2/out.log
  for ((i = 0; i < 1200; i++)); do
    ! grep -q 'Kafka Server started' "$log" || return 0
    running "$1" "$2" || { tail -20 "$log" >&2; die "node $2 ended"; }
    sleep 0.1
  done
  tail -20 "$log" >&2
  die "node $2 is not up after 120 s"
}

address() { # DIR
  local n out=
  for n in $(nodes_of "$1"); do
    out+="${out:+,}$(sed -n 's#^listeners=PLAINTEXT://\([^,]*\),.*#\1#p' "$1/n$n/server.properties")"
  done
  echo "$out"
}

up() { # DIR NODES
  local dir=$1 n
  check_java
  fetch
  [ -d "$dir/n1/data" ] || format "$dir" "$2"
  for n in $(nodes_of "$dir"); do running "$dir" "$n" || launch "$dir" "$n"; done
  for n in $(nodes_of "$dir"); do await "$dir" "$n"; done
  address "$dir"
}

stop() { # DIR
  local n pid i pids=() alive
  for n in $(nodes_of "$1"); do ! running "$1" "$n" || pids+=("$(cat "$1/n$n/pid")"); done
  for pid in "${pids[@]}"; do kill -CONT "$pid" 2> /dev/null || true; kill -TERM "$pid" 2> /dev/null || true; done
  for ((i = 0; i < 100; i++)); do
    alive=
    for pid in "${pids[@]}"; do ! kill -0 "$pid" 2> /dev/null || alive=1; done
    [ -n "$alive" ] || break
    sleep 0.1
  done
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2> /dev/null || true; done
  rm -f "$1"/n*/pid
}

kill_all() { # DIR: what is thrown away anyway needs no gentle end
  local n
  for n in $(nodes_of "$1"); do ! running "$1" "$n" || kill -KILL "$(cat "$1/n$n/pid")" 2> /dev/null || true; done
}

serve() { # DIR NODES
  served=$1 # not local: the trap runs when this function is over
  trap 'kill_all "$served"; rm -rf "$served"' EXIT
  trap 'exit 0' TERM INT HUP
  up "$served" "$2"
  cat > /dev/null # until whoever started us ends, however it ends
}

folder() { mkdir -p "${1:?DIR is missing}" && cd "$1" && pwd; }

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
  fetch) check_java; fetch ;;
  up) up "$(folder "${1:-}")" "${2:-1}" ;;
  serve) serve "$(folder "${1:-}")" "${2:-1}" ;;
  start) launch "$(folder "${1:-}")" "$2"; await "$(folder "$1")" "$2" ;;
  kill) kill -KILL "$(cat "$1/n$2/pid")"; rm -f "$1/n$2/pid" ;;
  pause) kill -STOP "$(cat "$1/n$2/pid")" ;;
  resume) kill -CONT "$(cat "$1/n$2/pid")" ;;
  stop) stop "$(folder "${1:-}")" ;;
  tool) exec "$java" "${jvm[@]}" -Xmx256m -cp "$lib/*" "$@" ;;
  *) sed -n '2,22s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
