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

# Runs an example of the workspace ($1) as `cargo test --workspace` has built it: of one package alone, its dependencies
# would be built again with other features.
run_example() {
    cargo build -q --workspace --example "$1"
    "${CARGO_TARGET_DIR:-target}/debug/examples/$1" "${@:2}"
}

apt_update() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update </dev/null >&2; }
