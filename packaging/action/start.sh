#!/usr/bin/env bash
# Starts a server for the rest of a job: downloads a release unless BINARY names a program, waits until it is
# ready, and writes endpoint and key into the environment and the outputs of the job.
set -euo pipefail
die() { echo "::error::orrery: $*" >&2; exit 1; }
# What the server says of its failure, without what it logged before.
reason() { sed --quiet --regexp-extended '/^(orrery|error): /{s/^(orrery|error): //;p;q}' "$folder/log"; }

folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/orrery.XXXXXX")
program="${BINARY:-}"
if [ -z "$program" ]; then
  name="orrery-$VERSION-linux-$(uname -m)"
  from="https://github.com/$REPOSITORY/releases/download/v$VERSION/$name.tar.gz"
  curl --fail --silent --show-error --location --retry 3 "$from" | tar --extract --gzip --directory "$folder" \
    || die "cannot download $from; does the release exist for this platform?"
  program="$folder/$name/orrery"
fi
[ -x "$program" ] || die "$program is not a program"

key=$(head --bytes 64 /dev/urandom | base64 --wrap 0)
# The first line on standard output says that it is ready. Asking the port would not do: it may be that of another server.
# shellcheck disable=SC2086 # The arguments are several words.
ORRERY_KEY="$key" ORRERY_LOG_FORMAT=json nohup "$program" serve --listen "127.0.0.1:$PORT" $ARGUMENTS \
  >"$folder/out" 2>"$folder/log" &
process=$!
for _ in $(seq 300); do
  [ -s "$folder/out" ] && break
  kill -0 "$process" 2>/dev/null || die "the server did not start: $(reason)"
  sleep 0.1
done
[ -s "$folder/out" ] || die "the server was not ready after 30 s; its log: $(tail --lines 3 "$folder/log")"

endpoint="http://localhost:$PORT/"
{
  echo "endpoint=$endpoint"
  echo "key=$key"
} >>"$GITHUB_OUTPUT"
{
  echo "COSMOS_ENDPOINT=$endpoint"
  echo "COSMOS_KEY=$key"
  echo "COSMOS_CONNECTION_STRING=AccountEndpoint=$endpoint;AccountKey=$key;"
} >>"$GITHUB_ENV"
echo "orrery is ready at $endpoint (process $process, log $folder/log)"
