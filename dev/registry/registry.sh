#!/usr/bin/env bash
# registry.sh: a real schema registry for tests (Apicurio, from Maven), which speaks Confluent's REST API.
#
#   registry.sh fetch       unpack it beside this script (app/), once: 158 MB to download, 200 MB on disk
#   registry.sh up DIR      start it, wait until it serves, print its base address
#   registry.sh serve DIR   the same, then stay until stdin ends; stop it and remove DIR
#   registry.sh start DIR   start one that was stopped again, at the same address, with what it knew
#   registry.sh stop DIR    end it
#   registry.sh java        the java that it would run by, or what to install
#
# The address ends in /apis/ccompat/v7: a client must keep that path. What it knows lies under DIR.
# Environment:
#   PORT                 default 18081
#   JAVA, REGISTRY_APP   the java to use (21 or newer); where it is unpacked
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
app=${REGISTRY_APP:-$here/app}

die() { echo "registry.sh: $*" >&2; exit 1; }

version_of() { "$1" -version 2>&1 | sed -n 's/^[^"]* version "\([0-9]*\).*/\1/p' | head -n 1; }

# A java of 21 or newer: the one of the path may be older, with a newer one beside it.
find_java() {
  local candidate version
  for candidate in "${JAVA:-}" "${JAVA_HOME:+$JAVA_HOME/bin/java}" java /usr/lib/jvm/*/bin/java; do
    [ -n "$candidate" ] && command -v "$candidate" > /dev/null 2>&1 || continue
    version=$(version_of "$candidate")
    [ "${version:-0}" -lt 21 ] || { echo "$candidate"; return; }
  done
  die "no Java 21 or newer, which the schema registry needs (Debian: openjdk-21-jre-headless; JAVA=.. names one)"
}

fetch() {
  [ ! -f "$app/quarkus-run.jar" ] || return 0
  command -v mvn > /dev/null 2>&1 || die "mvn is missing: install Maven (Debian: maven); it fetches the schema registry"
  mkdir -p "$(dirname "$app")"
  exec 9> "$app.lock"
  flock 9 # two test runs on a new machine
  [ ! -f "$app/quarkus-run.jar" ] || return 0
  rm -rf "$app" "$app.part"
  mkdir "$app.part"
  # tar, not Maven's own unpacking, which cuts file names off that are longer than 100 characters
  mvn -q -B -f "$here/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:copy "-DoutputDirectory=$app.part" >&2 \
    || die "Maven could not fetch the schema registry"
  tar xzf "$app.part"/*.tar.gz -C "$app.part"
  rm "$app.part"/*.tar.gz
  mv "$app.part" "$app"
}

running() { [ -s "$1/pid" ] && kill -0 "$(cat "$1/pid")" 2> /dev/null; }

launch() { # DIR
  local java
  java=$(find_java)
  # The quick compiler alone and the serial collector: what serves a test starts sooner and stays small.
  setsid nohup "$java" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m \
    -Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port="$(cat "$1/port")" -Dquarkus.management.port=0 \
    -Dquarkus.log.level=WARN -Dquarkus.banner.enabled=false -Dquarkus.http.access-log.enabled=false \
    -Dapicurio.datasource.url="jdbc:h2:file:$1/registry" -jar "$app/quarkus-run.jar" >> "$1/out.log" 2>&1 < /dev/null 9>&- &
  echo $! > "$1/pid"
  disown # or the shell remarks on its end
}

# Asks for an address without curl, which a machine need not have.
answers() { # PORT
  (
    exec 3<> "/dev/tcp/127.0.0.1/$1" || exit 1
    printf 'GET /apis/ccompat/v7/subjects HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
    IFS= read -r -t 5 line <&3
    [[ $line == *" 200 "* ]]
  ) 2> /dev/null
}

await() { # DIR
  local i port
  port=$(cat "$1/port")
  for ((i = 0; i < 1200; i++)); do
    ! answers "$port" || { echo "http://127.0.0.1:$port/apis/ccompat/v7"; return; }
    running "$1" || { tail -20 "$1/out.log" >&2; die "the schema registry ended"; }
    sleep 0.1
  done
  tail -20 "$1/out.log" >&2
  die "the schema registry is not up after 120 s"
}

start() { # DIR
  running "$1" || launch "$1"
  await "$1"
}

up() { # DIR
  find_java > /dev/null
  fetch
  echo "${PORT:-18081}" > "$1/port"
  start "$1"
}

stop() { # DIR
  local i pid
  running "$1" || return 0
  pid=$(cat "$1/pid")
  kill -TERM "$pid" 2> /dev/null || true
  for ((i = 0; i < 100; i++)); do
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.1
  done
  kill -KILL "$pid" 2> /dev/null || true
  rm -f "$1/pid"
}

serve() { # DIR
  served=$1 # not local: the trap runs when this function is over
  trap '! running "$served" || kill -KILL "$(cat "$served/pid")" 2> /dev/null || true; rm -rf "$served"' EXIT
  trap 'exit 0' TERM INT HUP
  up "$served"
  cat > /dev/null # until whoever started us ends, however it ends
}

folder() { mkdir -p "${1:?DIR is missing}" && cd "$1" && pwd; }

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
  fetch) find_java > /dev/null; fetch ;;
  up) up "$(folder "${1:-}")" ;;
  serve) serve "$(folder "${1:-}")" ;;
  start) start "$(folder "${1:-}")" ;;
  stop) stop "$(folder "${1:-}")" ;;
  java) find_java ;;
  *) sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
