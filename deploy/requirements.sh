# Sourced by deploy/up and deploy/test: what building and testing need, installed from Debian's packages.

# The repository, wherever the caller stands.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

# Installs a package for each COMMAND=PACKAGE whose command is not here: some commands come from several packages.
install_commands() {
    local pair
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || PATH="$PATH:/usr/sbin" command -v "${pair%%=*}" >/dev/null || install_packages "${pair#*=}"
    done
}

# Installs those of the named Debian packages that are missing.
install_packages() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { say "tollgate: ${missing[*]} must be installed, which needs root: run 'apt-get install ${missing[*]}' as root, then try again."; exit 1; }
        as_root=(sudo)
    fi
    say "tollgate: installing ${missing[*]}"
    # A package that starts a service must not: the tests start their own servers, on ports of their own.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    # Another installation may hold the lock: it is waited for.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Swift 6.3 is the one thing Debian does not have.
require_swift() {
    local version
    version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p' | head -n 1)
    if [ -z "$version" ] || [ "$(printf '%s\n6.3\n' "$version" | sort -V | head -n 1)" != 6.3 ]; then
        say "tollgate: needs Swift 6.3 or later on the PATH (found: ${version:-none}); install the Debian 12 toolchain from https://www.swift.org/install/linux and try again."
        exit 1
    fi
}

build_packages=(libssl-dev libcurl4-openssl-dev libhiredis-dev libargon2-dev libsqlite3-dev libpq-dev zlib1g-dev)

# swift build, checking that no target imports what it does not declare.
#
# The compiler's driver can wait for ever for a child that has ended (seen with 6.3.1 on busy machines), so a build that
# takes longer than any should is ended and begun again; what it had compiled is kept.
build() {
    local attempt status
    for attempt in 1 2 3; do
        status=0
        timeout --kill-after=10 600 swift build --explicit-target-dependency-import-check error "$@" || status=$?
        [ "$status" -eq 124 ] || [ "$status" -eq 137 ] || return "$status"
        say "tollgate: the build hung, attempt $attempt of 3"
    done
    return "$status"
}
