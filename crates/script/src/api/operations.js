// Operations that wait to be done. A script only ever puts one here; the server takes them out one
// by one, does them, and runs the callback with what came of it. A context serves one call, so
// what belongs to the call stands at the top level.

// What kind of call this is, and what it may take.
let facts;
// Functions of the server: whether the time is nearly over; keeps a body as it is now and gives
// its number; the length of a value as JSON; the code of queries in JavaScript.
let timeIsShort, keep, textLength, loadQueries;

let waiting = [];
let first = 0;
let count = 0;
let current;
// What the script gave to `abort`, or rejected its promise with.
let failure;

// The server knows operations by these numbers.
const CREATE = 0;
const UPSERT = 1;
const READ = 2;
const REPLACE = 3;
const DELETE = 4;
const LIST = 5;
const QUERY = 6;
// And the parts of an operation by these places.
const ID = 1;
const RID = 2;
const CALLBACK = 9;

// Whether another operation would still be taken; if not, a script ends with what it has.
function accepts() {
  return count < facts.operationsMax && !timeIsShort();
}

// What an operation needs, in the order in which the server reads it.
function add(kind, body, needsId, ifMatch, ifNoneMatch, pageSize, continuation, callback) {
  const operation = [
    kind, undefined, undefined, body, needsId, ifMatch, ifNoneMatch, pageSize, continuation, callback,
  ];
  count += 1;
  waiting[waiting.length] = operation;
  return operation;
}

// The operation that waits longest, or nothing, or why the call has failed.
function next() {
  if (failure !== undefined) {
    return failure;
  }
  if (first === waiting.length) {
    waiting = [];
    first = 0;
    return undefined;
  }
  current = waiting[first];
  waiting[first] = undefined;
  first += 1;
  return current;
}

function succeed(value, options) {
  const callback = current[CALLBACK];
  if (callback === undefined) {
    return;
  }
  if (current[0] === DELETE) {
    callback(undefined, options);
  } else {
    callback(undefined, value, options);
  }
}

// An error without a callback ends the script.
function fail(number, message) {
  const callback = current[CALLBACK];
  if (callback === undefined) {
    refuse(number, message);
  }
  callback(operationError(number, message));
}
