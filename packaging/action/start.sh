#!/usr/bin/env bash
# Starts a server for the rest of a job: downloads a release unless BINARY names a program, waits until it is
# ready, and writes endpoint and key into the environment and the outputs of the job.
set -euo pipefail
die() { echo "::error::orrery: $*" >&2; exit 1; }

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
# shellcheck disable=SC2086 # The arguments are several words.
ORRERY_KEY="$key" nohup "$program" serve --listen "127.0.0.1:$PORT" $ARGUMENTS >"$folder/log" 2>&1 &
process=$!
for _ in $(seq 30); do
  "$program" ready --listen "127.0.0.1:$PORT" --wait 1 2>/dev/null && break
  kill -0 "$process" 2>/dev/null || die "the server did not start: $(tail --lines 3 "$folder/log")"
done
"$program" ready --listen "127.0.0.1:$PORT" || die "the server was not ready after 30 s"
# The port may have been that of another server.
kill -0 "$process" 2>/dev/null || die "the server did not start: $(tail --lines 3 "$folder/log")"

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
