// Puts a call together: request, response, container and console, and the handles by which the
// server drives the script. `facts` says what kind of call it is.

const QUOTA = ["MaxResourceQuota", "ResourceQuotaCurrentUsage", "CurrentResourceQuotaUsage"];

function makeRequest(facts) {
  const request = new Message(facts.bodyBytesMax);
  for (const [name, value] of Object.entries(facts.headers)) {
    request.define(name, value, false);
  }
  request.define("Body", facts.requestBody, facts.kind === "before");
  request.define("OperationType", facts.operationType, false);
  return request;
}

function makeResponse(facts) {
  if (facts.kind === "before") {
    return undefined;
  }
  const response = new Message(facts.bodyBytesMax);
  response.define("Body", facts.responseBody ?? "", true);
  response.define("OperationType", facts.operationType, false);
  response.define("MaxResourceQuota", facts.quotaMax, false);
  response.define("ResourceQuotaCurrentUsage", facts.quotaUsed, false);
  response.define("CurrentResourceQuotaUsage", facts.quotaUsed, false);
  return response;
}

function makeConsole(facts) {
  let text = "";
  const log = (...args) => {
    if (!facts.isLogging) {
      return;
    }
    const line = args.length > 1 ? format(String(args[0]), args.slice(1)) : String(args[0]);
    if (text.length + line.length > facts.logBytesMax) {
      refuse(
        ErrorCodes.RequestEntityTooLarge,
        `The log of a script holds ${facts.logBytesMax} characters; this line does not fit any more.`,
      );
    }
    text += line;
  };
  globalThis.console = { log, info: log, warn: log, error: log, debug: log };
  return () => text;
}

// The end of a script that returned a promise is the promise's end.
function watch(result, call) {
  if (result instanceof Promise) {
    call.isPending = true;
    result.then(
      () => {
        call.isPending = false;
      },
      (error) => {
        call.isPending = false;
        call.failure ??= { error };
      },
    );
  }
}

function handles(call, queue, request, response, readLog) {
  return {
    run: (main, args) => watch(main(...args), call),
    next: () => queue.next(),
    succeed: (value, options) => queue.succeed(value, options),
    fail: (number, message) => queue.fail(number, message),
    failure: () => call.failure,
    isPending: () => call.isPending,
    describe,
    log: readLog,
    requestBody: () => (request.bodyWasSet ? textOf(request.get("Body")) : undefined),
    responseBody: () => stringify(response.get("Body") ?? ""),
    responseWasSet: () => response.bodyWasSet,
  };
}

function textOf(body) {
  return typeof body === "string" ? body : stringify(body) ?? "";
}

export default function install(facts, timeIsShort) {
  const queue = new OperationQueue(facts.operationsMax, timeIsShort);
  const collection = makeCollection(facts.selfLink, facts.altLink, queue);
  const request = makeRequest(facts);
  const response = makeResponse(facts);
  const readLog = makeConsole(facts);
  const call = { isPending: false, failure: undefined };

  const context = {
    getCollection: () => collection,
    getRequest: () => seenRequest,
    // A promise may swallow what is thrown here; the mark stays.
    abort: (error) => {
      call.failure ??= { error };
      throw error;
    },
  };
  const seenRequest = facade(request, ["Body", "OperationType"]);
  if (response !== undefined) {
    const seenResponse = facade(response, ["Body", "OperationType", ...QUOTA]);
    context.getResponse = () => seenResponse;
  }
  globalThis.getContext = () => context;

  const queries = { collection, queue, response };
  defineQueries(collection, undefined, queries);
  collection.chain = () => chained([], queries);
  queries.alias = Object.create(collection, {
    request: { value: seenRequest, enumerable: true },
    response: { value: context.getResponse?.(), enumerable: true },
  });
  globalThis.__ = queries.alias;
  return handles(call, queue, request, response, readLog);
}
