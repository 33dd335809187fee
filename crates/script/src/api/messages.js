// The request and the response of a call. Both hold named values, of which `Body` is the one that
// matters; a value may be read by name (`getValue("Body")`) or by its own accessor (`getBody()`).
// What a script does not ask for is not made.

const ACCESSORS = [
  "Body", "OperationType", "MaxResourceQuota", "ResourceQuotaCurrentUsage", "CurrentResourceQuotaUsage",
];
// How many of them a request has.
const REQUEST_ACCESSORS = 2;

let request, response;

function valueOf(value, writable) {
  return { value, writable, wasSet: false };
}

function requestValues() {
  if (request === undefined) {
    request = { __proto__: null };
    for (const name in facts.headers) {
      request[name] = valueOf(facts.headers[name], false);
    }
    request.Body = valueOf(facts.requestBody, facts.kind === "before");
    request.OperationType = valueOf(facts.operationType, false);
  }
  return request;
}

function responseValues() {
  response ??= {
    __proto__: null,
    Body: valueOf(facts.responseBody ?? "", true),
    OperationType: valueOf(facts.operationType, false),
    MaxResourceQuota: valueOf(facts.quotaMax, false),
    ResourceQuotaCurrentUsage: valueOf(facts.quotaUsed, false),
    CurrentResourceQuotaUsage: valueOf(facts.quotaUsed, false),
  };
  return response;
}

function setValue(values, name, value, appends) {
  const entry = values[name];
  if (entry === undefined) {
    refuse(ErrorCodes.BadRequest, `There is no value '${name}' to set, and none can be added.`);
  }
  if (!entry.writable) {
    refuse(ErrorCodes.Forbidden, `The value '${name}' cannot be written.`);
  }
  if (appends && entry.value !== undefined && entry.value !== null) {
    value = entry.value + value;
  }
  const length = typeof value === "string" ? value.length : textLength(value);
  if (length > facts.bodyBytesMax) {
    refuse(
      ErrorCodes.RequestEntityTooLarge,
      `The message would be too large with '${name}': it would have ${length} characters, ` +
        `the limit is ${facts.bodyBytesMax}. Return what there is and go on in another call.`,
    );
  }
  entry.value = value;
  entry.wasSet = true;
}

// What a script sees of a message: generic accessors, and some for each name.
function facade(values, accessors) {
  const seen = {
    getValue: (name) => values[name]?.value,
    setValue: (name, value) => setValue(values, name, value, false),
    appendValue: (name, value) => setValue(values, name, value, true),
  };
  for (let i = 0; i < accessors; i += 1) {
    const name = ACCESSORS[i];
    seen["get" + name] = () => values[name].value;
    seen["set" + name] = (value) => setValue(values, name, value, false);
    seen["append" + name] = (value) => setValue(values, name, value, true);
  }
  return seen;
}

let logged = "";

function log(...args) {
  if (!facts.isLogging) {
    return;
  }
  const line = args.length > 1 ? format(String(args[0]), args.slice(1)) : String(args[0]);
  if (logged.length + line.length > facts.logBytesMax) {
    refuse(
      ErrorCodes.RequestEntityTooLarge,
      `The log of a script holds ${facts.logBytesMax} characters; this line does not fit any more.`,
    );
  }
  logged += line;
}

// `%s` takes the next argument, `%%` is a percent sign.
function format(template, values) {
  let next = 0;
  return template.replace(/%(s|%)/g, (_, what) => (what === "%" ? "%" : String(values[next++])));
}
