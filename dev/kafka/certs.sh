#!/usr/bin/env bash
# certs.sh DIR: throw-away certificates for tests, as PEM files.
#   ca                a certificate authority          other-ca   one that nobody trusts
#   server, client    signed by ca, for localhost      expired    signed by ca, valid until yesterday
#   stranger          signed by other-ca
# Each is NAME.key and NAME.crt (for the authorities NAME.pem), and NAME.pem with both.
set -euo pipefail
dir=${1:?usage: certs.sh DIR}
mkdir -p "$dir"
cd "$dir"
[ ! -s complete ] || exit 0

quiet() { openssl "$@" 2> openssl.log || { cat openssl.log >&2; exit 1; }; }
day() { date -u -d "$1" +%Y%m%d%H%M%SZ; }

authority() { # NAME
  quiet req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=lakeward test $1" -keyout "$1.key" -out "$1.pem" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
}

signed() { # NAME AUTHORITY FROM UNTIL
  local name=$1 authority=$2 from=$3 until=$4 work
  work=$(mktemp -d ./work.XXXXXX)
  quiet req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$work/request"
  printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' > "$work/extensions"
  : > "$work/index.txt"
  openssl rand -hex 8 > "$work/serial"
  cat > "$work/config" <<C
[ca]
database=$work/index.txt
serial=$work/serial
new_certs_dir=$work
default_md=sha256
policy=any
[any]
commonName=supplied
C
  # `openssl ca` and not `x509`: only it takes both dates, and so can make one that has expired.
  quiet ca -batch -notext -name ca -config "$work/config" -cert "$authority.pem" -keyfile "$authority.key" \
    -in "$work/request" -out "$name.crt" -extfile "$work/extensions" -startdate "$from" -enddate "$until"
  cat "$name.key" "$name.crt" > "$name.pem"
  rm -rf "$work"
}

authority ca
authority other-ca
signed server ca "$(day '-1 day')" "$(day '+3000 days')"
signed client ca "$(day '-1 day')" "$(day '+3000 days')"
signed expired ca "$(day '-30 days')" "$(day '-1 day')"
signed stranger other-ca "$(day '-1 day')" "$(day '+3000 days')"
rm -f openssl.log
echo yes > complete
