// Puts a call together: request, response, container and console, and the handles by which the
// server drives the script. What few scripts ask for is made when they do.

// Queries in JavaScript, and what is only there to be refused.
const SELDOM = [
  "filter", "map", "pluck", "flatten", "unwind", "sortBy", "sortByDescending", "chain",
  "createAttachment", "upsertAttachment", "readAttachment", "readAttachments", "queryAttachments",
  "replaceAttachment", "deleteAttachment",
];

let seldom, alias, seenRequest, seenResponse;
let isPending = false;

function getRequest() {
  seenRequest ??= facade(requestValues(), REQUEST_ACCESSORS);
  return seenRequest;
}

function getResponse() {
  seenResponse ??= facade(responseValues(), ACCESSORS.length);
  return seenResponse;
}

const context = {
  getCollection: () => collection,
  getRequest,
  // A promise may swallow what is thrown here; the mark stays.
  abort: (error) => {
    failure ??= { error };
    throw error;
  },
};

// The end of a script that returned a promise is the promise's end.
function run(main, args) {
  const result = main(...args);
  if (result instanceof Promise) {
    isPending = true;
    result.then(
      () => {
        isPending = false;
      },
      (error) => {
        isPending = false;
        failure ??= { error };
      },
    );
  }
}

function theSeldom() {
  seldom ??= loadQueries()({
    accepts, add, LIST, refuse, operationError, ErrorCodes, parse, stringify, checkOptions, pageSize,
    textOrNone, collection, alias,
    appendBody: facts.kind === "before"
      ? undefined
      : (text) => setValue(responseValues(), "Body", text, true),
  });
  return seldom;
}

export default function install(told, isShort, keepBody, lengthOf, queries) {
  facts = told;
  timeIsShort = isShort;
  keep = keepBody;
  textLength = lengthOf;
  loadQueries = queries;
  itemsBySelf = facts.selfLink + "docs/";
  itemsByAlt = facts.altLink + "/docs/";
  for (let i = 0; i < SELDOM.length; i += 1) {
    const name = SELDOM[i];
    collection[name] = (...args) => theSeldom()[name](...args);
  }
  const hasResponse = facts.kind !== "before";
  if (hasResponse) {
    context.getResponse = getResponse;
  }
  globalThis.getContext = () => context;
  globalThis.console = { log, info: log, warn: log, error: log, debug: log };
  alias = Object.create(collection, {
    request: { get: getRequest, enumerable: true },
    response: { get: hasResponse ? getResponse : undefined, enumerable: true },
  });
  globalThis.__ = alias;
  return {
    run,
    next,
    succeed,
    fail,
    isPending: () => isPending,
    describe,
    log: () => logged,
    // Nothing unless the script has set it.
    requestBody: () => (request?.Body.wasSet ? [request.Body.value] : undefined),
    responseBody: () => (response?.Body.wasSet ? [response.Body.value] : undefined),
  };
}
