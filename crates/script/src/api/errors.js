// Errors as scripts know them: `new Error(404, "text")` carries a number, and so does everything
// that the container's operations report.

const ErrorCodes = Object.freeze({
  BadRequest: 400,
  Forbidden: 403,
  NotFound: 404,
  Conflict: 409,
  PreconditionFailed: 412,
  RequestEntityTooLarge: 413,
  RetryWith: 449,
  InternalServerError: 500,
});

// Taken before a script can put something else in their place.
const PlainError = Error;
const { parse, stringify } = JSON;

// A number in front of the message is taken off and kept; everything else is the language's own.
function makeError(args, constructor) {
  const numbered = args.length > 1 && typeof args[0] === "number";
  const error = Reflect.construct(PlainError, numbered ? args.slice(1) : args, constructor);
  if (numbered) {
    error.number = args[0];
  }
  return error;
}

const NumberedError = new Proxy(PlainError, {
  apply: (target, self, args) => makeError(args, target),
  construct: (target, args, constructor) =>
    makeError(args, constructor === NumberedError ? target : constructor),
});
PlainError.prototype.constructor = NumberedError;

// What a failed operation gives its callback: the number, and the text under both its names.
function operationError(number, message) {
  const error = new PlainError(message);
  error.number = number;
  error.body = message;
  return error;
}

function refuse(number, message) {
  throw operationError(number, message);
}

globalThis.Error = NumberedError;
globalThis.ErrorCodes = ErrorCodes;
