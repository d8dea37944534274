#!/usr/bin/env bash
# stores.sh: object stores on 127.0.0.1 for tests. What they keep lies under DIR.
#
#   stores.sh fetch [s3|azure]        build or install beside this script, once (both, if none is named)
#   stores.sh serve s3|azure DIR PORT start it, wait until it serves, print its address; stay until stdin ends, then
#                                     stop it and remove DIR. Lines on stdin, each answered by the same line: `kill` ends
#                                     it at once, `start` starts it again, `container NAME` makes one (azure)
#
# s3     versitygw, from the Go module proxy: objects are plain files below DIR/data/BUCKET
# azure  azurite, from npm
# There is no such server for GCS that takes a conditional put: dev/testkit has one (objects.rs).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=${STORES_BIN:-$here/bin}
versitygw=v1.8.0
azurite=3.35.0

die() { echo "stores.sh: $*" >&2; exit 1; }

need() { # COMMAND WHAT-TO-INSTALL
  command -v "$1" > /dev/null || die "$1 is missing: install $2"
}

installed() { # KIND: the program
  case $1 in
    s3) echo "$bin/versitygw" ;;
    azure) echo "$bin/node_modules/.bin/azurite-blob" ;;
    *) die "no store '$1': s3 or azure" ;;
  esac
}

fetch() { # KIND
  [ ! -x "$(installed "$1")" ] || return 0
  mkdir -p "$bin"
  exec 9> "$bin/$1.lock"
  flock 9 # two test runs on a new machine
  if [ ! -x "$(installed "$1")" ]; then
    case $1 in
      s3)
        need go "Go 1.25 or newer; it builds the S3 server"
        GOBIN="$bin" go install "github.com/versity/versitygw/cmd/versitygw@$versitygw" || die "Go could not build versitygw" ;;
      azure)
        need npm "Node.js 18 or newer with npm; it runs the Azure emulator"
        npm install --silent --no-fund --no-audit --prefix "$bin" "azurite@$azurite" >&2 || die "npm could not install azurite" ;;
    esac
  fi
  exec 9>&-
}

pid=
launch() { # KIND DIR PORT
  local kind=$1 dir=$2 port=$3 i
  case $kind in
    s3)
      ROOT_ACCESS_KEY=test ROOT_SECRET_KEY=testtest setsid nohup "$(installed s3)" --quiet --port "127.0.0.1:$port" \
        posix "$dir/data" >> "$dir/out.log" 2>&1 < /dev/null & ;;
    azure) # its telemetry would call out
      setsid nohup "$(installed azure)" --silent --disableTelemetry --skipApiVersionCheck --loose \
        --blobHost 127.0.0.1 --blobPort "$port" --location "$dir/data" >> "$dir/out.log" 2>&1 < /dev/null & ;;
  esac
  pid=$!
  disown # or the shell remarks on its end
  for ((i = 0; i < 1200; i++)); do
    ! (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null || return 0
    kill -0 "$pid" 2> /dev/null || { tail -20 "$dir/out.log" >&2; die "$kind ended"; }
    sleep 0.05
  done
  tail -20 "$dir/out.log" >&2
  die "$kind is not up after 60 s"
}

end() { # SIGNAL
  [ -n "$pid" ] || return 0
  kill "-$1" "$pid" 2> /dev/null || true
  while kill -0 "$pid" 2> /dev/null; do sleep 0.02; done
  pid=
}

# Azure wants a request that is signed; the account and its key are the emulator's well-known ones.
container() { # PORT NAME
  local account=devstoreaccount1 version=2021-08-06 key now signature text
  key=$(base64 -d <<< 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==' \
    | od -An -v -tx1 | tr -d ' \n')
  now=$(LC_ALL=C date -u '+%a, %d %b %Y %H:%M:%S GMT')
  text="PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:$now\nx-ms-version:$version\n/$account/$account/$2\nrestype:container"
  signature=$(printf '%b' "$text" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
  exec 8<> "/dev/tcp/127.0.0.1/$1"
  printf '%s\r\n' "PUT /$account/$2?restype=container HTTP/1.1" "Host: 127.0.0.1:$1" "x-ms-date: $now" \
    "x-ms-version: $version" "Authorization: SharedKey $account:$signature" 'Content-Length: 0' 'Connection: close' '' >&8
  read -r text <&8
  exec 8>&-
  [[ $text == *' 201 '* ]] || die "container $2 was not made: $text"
}

serve() { # KIND DIR PORT
  local kind=$1 dir=$2 port=$3 line
  served=$2 # not local: the trap runs when this function is over
  fetch "$kind"
  mkdir -p "$dir/data"
  trap 'end KILL; rm -rf "$served"' EXIT
  trap 'exit 0' TERM INT HUP
  launch "$kind" "$dir" "$port"
  echo "http://127.0.0.1:$port"
  while read -r line; do
    case $line in
      kill) end KILL ;;
      start) launch "$kind" "$dir" "$port" ;;
      'container '*) container "$port" "${line#container }" ;;
      *) die "no command '$line': kill, start or container NAME" ;;
    esac
    echo "$line"
  done
}

case ${1:-} in
  fetch) if [ -n "${2:-}" ]; then fetch "$2"; else fetch azure; fetch s3; fi ;;
  serve) [ $# = 4 ] || die "serve s3|azure DIR PORT"; serve "$2" "$3" "$4" ;;
  *) sed -n '2,11p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
