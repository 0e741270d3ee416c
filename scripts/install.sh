#!/bin/sh
# Installs guepard with one extra (text or dev) into .venv, which it makes if there is none that works.
#
#   scripts/install.sh text|dev
#
# Two calls at once wait for each other where flock exists. PYTHON=... chooses the interpreter.
set -eu

extra=$1
cd "$(dirname "$0")/.."
ready=.venv/.ready-$extra

say() { echo "guepard: $*"; }
fail() {
    say "$*" >&2
    exit 1
}

is_ready() {
    [ -e "$ready" ] || return 1
    for source in pyproject.toml constraints-dev.txt scripts/install.sh hatch_build.py src/guepard/protocols/*.c; do
        [ ! "$source" -nt "$ready" ] || return 1
    done
}

find_python() {
    for candidate in ${PYTHON:-} python3.11 python3 python3.13 python3.12; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

if command -v flock >/dev/null; then
    mkdir -p .cache
    exec 9>.cache/install.lock
    flock 9
fi
# Another call may have done the work while this one waited.
! is_ready || exit 0

if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=$(find_python) || fail "needs Python 3.11 or newer; install it (Debian: apt-get install python3 python3-venv) \
or name one: make PYTHON=/path/to/python3.11"
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv ||
        fail "$python cannot make a virtual environment; on Debian: apt-get install python3-venv"
fi

say "installing guepard[$extra] into .venv"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-dev.txt --editable ".[$extra]"
# The dev extra holds the text extra.
[ "$extra" != dev ] || touch .venv/.ready-text
touch "$ready"
