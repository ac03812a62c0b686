# shellcheck shell=bash
# Sourced by the scripts beside it, which run from the repository's root.

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "${0##*/}: $*"
    exit 1
}

# Runs a command as root: directly, or by sudo; without either the caller is told what to do.
can_be_root() { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# What tests run: in $built what `cargo test --workspace` builds too (of one package alone, dependencies would be built again
# with other features), in $tested the command with the preload libraries beside it that are shipped.
target=${CARGO_TARGET_DIR:-$PWD/target}
built=$target/debug
tested=$PWD/build/tested
build_for_tests() {
    cargo build -q --workspace --bins --lib --examples
    cargo build -q --profile preload -p pagewise-runtime -p pagewise-guard
    mkdir -p "$tested"
    ln -f "$built/pagewise" "$target"/preload/libpagewise_{runtime,guard}.so "$tested"
}

apt_update() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update </dev/null >&2; }
