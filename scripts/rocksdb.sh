#!/usr/bin/env bash
# Compiles the RocksDB that the crate librocksdb-sys carries into one static library.
#
#   rocksdb.sh FOLDER        leaves FOLDER/librocksdb.a
#
# The crate's own build compiles 340 files one by one, and most of that time goes into reading the
# same headers again: 25 minutes of processor time. Here a dozen source files go through the
# compiler at once, as RocksDB's own unity build has it, which takes 9. The sources, their list and
# the definitions are the crate's.
set -euo pipefail
cd "$(dirname "$0")/.."
into="$1"
mkdir -p "$into"
work=$(mktemp -d "$into/build.XXXXXX")
trap 'rm -rf "$work"' EXIT

cargo fetch --quiet --locked
metadata=$(cargo metadata --locked --format-version 1)
# Where cargo keeps the sources of a package.
sources_of() {
  grep -o "\"manifest_path\":\"[^\"]*/$1-[0-9][^\"/]*/Cargo.toml\"" <<<"$metadata" \
    | head -n 1 | sed -E 's/.*":"(.*)\/Cargo.toml"/\1/'
}
rocksdb=$(sources_of librocksdb-sys)
lz4=$(sources_of lz4-sys)
zstd=$(sources_of zstd-sys)

flags=(-O2 -w -fPIC -std=c++20 -ffunction-sections -fdata-sections -include cstdint
  "-I$rocksdb/rocksdb/include" "-I$rocksdb/rocksdb" "-I$rocksdb"
  "-I$lz4/liblz4/lib" "-I$zstd/zstd/lib"
  -DLZ4=1 -DZSTD=1 -DNDEBUG=1 -DHAVE_ALIGNED_NEW -DHAVE_UINT128_EXTENSION
  -DOS_LINUX -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX
  -DROCKSDB_SCHED_GETCPU_PRESENT -DROCKSDB_AUXV_GETAUXVAL_PRESENT
  -DROCKSDB_FALLOCATE_PRESENT -DROCKSDB_RANGESYNC_PRESENT)
# Every x86-64 processor since 2009 has these, every 64-bit ARM server the others; without them the
# log's checksums are computed slowly.
case "$(uname -m)" in
  x86_64) flags+=(-msse4.2 -mpclmul) ;;
  aarch64) flags+=(-march=armv8-a+crc+aes+crypto) ;;
esac

grep -v 'util/build_version.cc' "$rocksdb/rocksdb_lib_sources.txt" \
  | sed -E "s|^ *(.*[^ ]) *$|#include \"$rocksdb/rocksdb/\1\"|" \
  | split --lines=12 --numeric-suffixes --suffix-length=3 --additional-suffix=.cc - "$work/unit"
cp "$rocksdb/build_version.cc" "$work/"
printf '%s\0' "$work"/*.cc | xargs -0 -P "$(nproc)" -I{} clang++ "${flags[@]}" -c {} -o {}.o
ar rcs "$work/librocksdb.a" "$work"/*.o
# Under its name it is whole: a second checkout may be looking for it this moment.
mv "$work/librocksdb.a" "$into/librocksdb.a"
