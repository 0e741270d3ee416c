#!/bin/sh
# Sees to it that programs are there which tests or benchmarks call: installs them as root, else says how to.
#
#   scripts/debian_packages.sh PROGRAM:PACKAGE ...
set -eu

missing=""
for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "guepard: programs are missing; install them and try again:" >&2
    echo "    sudo $install" >&2
    exit 1
fi
echo "guepard: installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq -o DPkg::Lock::Timeout=60
$install -qq -o DPkg::Lock::Timeout=60 >/dev/null
