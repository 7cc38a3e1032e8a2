#!/usr/bin/env bash
# usage: build-go.sh FOLDER
# Builds grpc-go's client and server of the interoperability cases into FOLDER. Debian's package of the library leaves them out, so they
# come from its source package; the library is the installed one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$(realpath -m "$1")
cd "$work"
mkdir -p state/lists/partial cache/archives/partial go/src/google.golang.org/grpc "$folder"
# shellcheck disable=SC2016  # apt-get expands these.
apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Label: Debian' | sort -u \
    | sed 's|^|deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] |' >sources.list
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/state/lists"
    -o "Dir::Cache=$work/cache" -o APT::Sandbox::User= -o Acquire::Retries=3)
"${apt[@]}" update
# shellcheck disable=SC2016  # dpkg-query expands it.
version=$(dpkg-query -W -f '${source:Version}' golang-google-grpc-dev)
"${apt[@]}" source --download-only "golang-google-grpc=$version"
tar -xf golang-google-grpc_*.orig.tar.* --strip-components=1 --wildcards '*/interop'
protoc --go_out=. --go-grpc_out=require_unimplemented_servers=false:. interop/grpc_testing/test.proto
# Those that came with it are for another version of the library.
cp google.golang.org/grpc/interop/grpc_testing/*.go interop/grpc_testing/
mv interop go/src/google.golang.org/grpc/
for part in /usr/share/gocode/src/google.golang.org/grpc/*; do ln -s "$part" go/src/google.golang.org/grpc/; done
export GOPATH=$work/go:/usr/share/gocode GO111MODULE=off GOFLAGS='' GOCACHE=$work/built
for part in client server; do go build -o "$folder/$part" "google.golang.org/grpc/interop/$part"; done
