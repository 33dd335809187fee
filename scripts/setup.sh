#!/usr/bin/env bash
# Prepares a Debian machine that has cargo; `make` calls it before everything else.
#
#   setup.sh [run|test]
#
#   1. installs what the build needs and the machine lacks, and says what: Node.js is for the web
#      page; `test` also needs a browser for it, Python for the official SDK, and PostgreSQL;
#   2. compiles RocksDB once, into the user's cache, for every profile and every checkout:
#      it is by far the longest part of a fresh build;
#   3. writes .cargo/local.toml, so that plain `cargo` uses the same cache.
#
# It changes nothing when all is there. When it fails, its last line says what to do.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "setup: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

purpose="${1:-run}"
case "$purpose" in
  run | test) ;;
  *) die "unknown purpose \"$purpose\": say run or test." ;;
esac

# --- 1. packages ---------------------------------------------------------------------------
packages=()
need() { packages+=("$@"); }

has clang++ || need clang
compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null \
  || compgen -G '/usr/lib/*/libclang*.so*' >/dev/null \
  || need libclang-dev
# The page is worth a package, but no reason not to start where packages have other names.
if has apt-get || [ "$purpose" = test ]; then
  has node || need nodejs
  has npm || need npm
fi
if [ "$purpose" = test ]; then
  has git || need git
  has chromium || has chromium-browser || has google-chrome || need chromium
  # Debian splits Python; both modules are needed to make a virtual environment.
  python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || need python3 python3-venv
  # The tests of the store start private clusters of it.
  compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || need postgresql
fi

if [ ${#packages[@]} -gt 0 ]; then
  list="${packages[*]}"
  has apt-get || die "please install $list with your package manager, then run make again."
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    has sudo || die "please run \"apt-get install $list\" as root, then run make again."
    as_root=(sudo)
  fi
  echo "setup: installing $list (apt-get)"
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -qq \
    && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}"; } \
    >"$log" 2>&1; then
    cat "$log" >&2
    die "apt-get could not install $list; the lines above say why."
  fi
  rm -f "$log"
fi

has cargo || die "cargo is missing: install Rust with rustup, then run make again."
if [ "$purpose" = test ]; then
  node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' \
    || die "Node.js $(node --version) is too old for the tests: please install 20.19 or newer."
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
    || die "$(python3 --version) is too old for the official SDK: please install 3.10 or newer."
fi

# --- 2. RocksDB ----------------------------------------------------------------------------
cache="${ORRERY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/orrery}"
version=$(grep -A1 '^name = "librocksdb-sys"' Cargo.lock | sed -n 's/^version = "\(.*\)"/\1/p')
[ -n "$version" ] || die "Cargo.lock does not name librocksdb-sys."
# The library belongs to the crate's version and to the way it is compiled.
rocksdb="$cache/rocksdb-$version-$(cksum <scripts/rocksdb.sh | cut -d' ' -f1)"
if [ ! -f "$rocksdb/librocksdb.a" ]; then
  echo "setup: compiling RocksDB $version once into $rocksdb (about five minutes on two cores)"
  scripts/rocksdb.sh "$rocksdb" || die "RocksDB did not compile; the lines above say why."
fi

# --- 3. cargo settings ---------------------------------------------------------------------
settings=$(
  cat <<END
# Written by scripts/setup.sh; delete it to build without the shared cache.
[build]
target-dir = "${CARGO_TARGET_DIR:-$cache/target}"

[env]
ROCKSDB_LIB_DIR = "$rocksdb"
ROCKSDB_STATIC = "1"
CC = "clang"
END
)
# A command substitution drops the last newline, of the file as of the text: both lack it here.
if [ "$(cat .cargo/local.toml 2>/dev/null)" != "$settings" ]; then
  printf '%s\n' "$settings" >.cargo/local.toml
fi
