// What was thrown, as the server reports it: its number, its text and its stack. Anything can be
// thrown, so nothing is taken for granted.

function describe(thrown) {
  const isObject = typeof thrown === "object" && thrown !== null;
  const isError = thrown instanceof PlainError;
  const text = isObject && !isError ? stringify(thrown) : String(thrown);
  return {
    number: isObject && Number.isInteger(thrown.number) ? thrown.number : undefined,
    text: text ?? "undefined",
    stack: isError ? String(thrown.stack ?? "") : "",
  };
}
