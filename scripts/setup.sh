#!/usr/bin/env bash
# Prepares a Debian machine that has cargo to build Orrery; `make` calls it before everything else.
#
#   1. installs what the build needs and the machine lacks (says what);
#   2. compiles RocksDB once, into the user's cache, for every profile and every checkout:
#      it is by far the longest part of a fresh build;
#   3. writes .cargo/local.toml, so that plain `cargo` uses the same cache.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "setup: $*" >&2; exit 1; }

command -v cargo >/dev/null || die "cargo is missing: install Rust with rustup, then run make again."

# --- 1. packages ---------------------------------------------------------------------------
install=()
command -v clang++ >/dev/null || install+=(clang)
ls /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* >/dev/null 2>&1 || install+=(libclang-dev)
if [ ${#install[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || die "please install ${install[*]} with your package manager, then run make again."
  as_root=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "please install ${install[*]} as root (apt-get install ${install[*]}), then run make again."
    as_root=sudo
  fi
  echo "setup: installing ${install[*]} (apt-get)"
  { $as_root apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${install[@]}"; } >/dev/null \
    || die "apt-get could not install ${install[*]}."
fi

# --- 2. RocksDB ----------------------------------------------------------------------------
cache="${ORRERY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/orrery}"
version=$(grep -A1 '^name = "librocksdb-sys"' Cargo.lock | sed -n 's/^version = "\(.*\)"/\1/p')
[ -n "$version" ] || die "Cargo.lock does not name librocksdb-sys."
# Every x86-64 processor since 2009 has these; without them the log's checksums are computed slowly.
flags="-O2"
[ "$(uname -m)" = x86_64 ] && flags="$flags -msse4.2 -mpclmul"
rocksdb="$cache/rocksdb-$version-$(echo "clang++ $flags" | cksum | cut -d' ' -f1)"
if [ ! -f "$rocksdb/librocksdb.a" ]; then
  echo "setup: compiling RocksDB $version once into $rocksdb (some minutes)"
  mkdir -p "$rocksdb"
  CC=clang CXX=clang++ CXXFLAGS="$flags" ROCKSDB_COMPILE=1 CARGO_PROFILE_RELEASE_LTO=false \
    cargo build --quiet --release --locked --package orrery-storage --target-dir "$rocksdb/build" \
    || die "RocksDB did not compile; the lines above say why."
  found=$(find "$rocksdb/build/release/build" -name librocksdb.a | head -n 1)
  [ -n "$found" ] || die "the RocksDB build left no librocksdb.a."
  cp "$found" "$rocksdb/librocksdb.a.part" && mv "$rocksdb/librocksdb.a.part" "$rocksdb/librocksdb.a"
  rm -rf "$rocksdb/build"
fi

# --- 3. cargo settings ---------------------------------------------------------------------
settings="# Written by scripts/setup.sh; delete it to build without the shared cache.
[build]
target-dir = \"${CARGO_TARGET_DIR:-$cache/target}\"

[env]
ROCKSDB_LIB_DIR = \"$rocksdb\"
ROCKSDB_STATIC = \"1\"
CC = \"clang\"
"
[ -f .cargo/local.toml ] && [ "$(cat .cargo/local.toml)" = "$settings" ] || printf '%s' "$settings" > .cargo/local.toml
