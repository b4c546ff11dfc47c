#!/bin/sh
# Installs the programs that tests use and pip cannot bring: a browser with its driver, the server of
# PostgreSQL, and what makes hosts on one machine. Where that cannot be done it says what to install, and the tests that need
# it fail with the same words.

missing=""
need() { # need PACKAGE PROGRAM...: the first of the programs that exists will do
    package=$1
    shift
    for program; do
        command -v "$program" >/dev/null 2>&1 && return
    done
    missing="$missing $package"
}

need chromium chromium
need chromium-driver chromedriver
need iproute2 ip
need openssh-client ssh
need openssh-server /usr/sbin/sshd
need rsync rsync
need postgresql postgres /usr/lib/postgresql/*/bin/postgres
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root=none
fi
if [ "$as_root" != none ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing what tests need:$missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 (several words)
    $as_root apt-get update -q && $as_root apt-get install -q -y --no-install-recommends $missing &&
        exit 0
fi
echo "Some tests will fail: install$missing (so Debian calls these packages), then try again."
