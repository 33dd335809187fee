// The container as a script sees it: its links, and the operations on its items. Every operation is
// queued and answers whether it was; the outcome goes to the callback, and without a callback an
// error ends the script.

const PAGE_ITEMS_DEFAULT = 100;

// The operations are functions of their own, so that `__`, which inherits them, and variables that
// hold them work alike.
function makeCollection(selfLink, altLink, queue) {
  const links = { selfLink, altLink };
  const collection = { getSelfLink: () => selfLink, getAltLink: () => altLink };

  collection.createDocument = function (collectionLink, body, options, callback) {
    requireArguments("createDocument", arguments, 2);
    checkOwnLink(links, collectionLink);
    [options, callback] = optionsAndCallback(options, callback);
    const [text, needsId] = newBody(body, options);
    return queue.add(["create", "", text, { needsId }], resourceTo(callback));
  };

  collection.upsertDocument = function (collectionLink, body, options, callback) {
    requireArguments("upsertDocument", arguments, 2);
    checkOwnLink(links, collectionLink);
    [options, callback] = optionsAndCallback(options, callback);
    const [text, needsId] = newBody(body, options);
    return queue.add(["upsert", "", text, { needsId, ...matching(options) }], resourceTo(callback));
  };

  collection.readDocument = function (documentLink, options, callback) {
    requireArguments("readDocument", arguments, 1);
    const item = itemOf(links, documentLink);
    [options, callback] = optionsAndCallback(options, callback);
    const ifNoneMatch = textOrNone(options.ifNoneMatch);
    return queue.add(["read", item, "", { ifNoneMatch }], resourceTo(callback));
  };

  collection.replaceDocument = function (documentLink, document, options, callback) {
    requireArguments("replaceDocument", arguments, 2);
    const item = itemOf(links, documentLink);
    [options, callback] = optionsAndCallback(options, callback);
    return queue.add(["replace", item, bodyText(document), matching(options)], resourceTo(callback));
  };

  collection.deleteDocument = function (documentLink, options, callback) {
    requireArguments("deleteDocument", arguments, 1);
    const item = itemOf(links, documentLink);
    [options, callback] = optionsAndCallback(options, callback);
    const settle = orThrow(callback, (value, outcome) => callback(undefined, outcome));
    return queue.add(["delete", item, "", matching(options)], settle);
  };

  collection.readDocuments = function (collectionLink, options, callback) {
    requireArguments("readDocuments", arguments, 1);
    checkOwnLink(links, collectionLink);
    [options, callback] = optionsAndCallback(options, callback);
    return queue.add(["list", "", "", pageOptions(options)], resourceTo(callback));
  };

  collection.queryDocuments = function (collectionLink, filterQuery, options, callback) {
    requireArguments("queryDocuments", arguments, 2);
    checkOwnLink(links, collectionLink);
    const text = queryText(filterQuery);
    [options, callback] = optionsAndCallback(options, callback);
    return queue.add(["query", "", text, pageOptions(options)], resourceTo(callback));
  };

  for (const name of ATTACHMENT_OPERATIONS) {
    collection[name] = () =>
      refuse(ErrorCodes.BadRequest, `The function "${name}" is not available: there are no attachments.`);
  }
  return collection;
}

const ATTACHMENT_OPERATIONS = [
  "createAttachment",
  "upsertAttachment",
  "readAttachment",
  "readAttachments",
  "queryAttachments",
  "replaceAttachment",
  "deleteAttachment",
];

// A script works within its own container, named in either way.
function checkOwnLink({ selfLink, altLink }, link) {
  const bare = String(link).endsWith("/") ? link : `${link}/`;
  if (typeof link !== "string" || (bare !== selfLink && bare !== `${altLink}/`)) {
    refuse(ErrorCodes.BadRequest, `The link "${link}" does not lead to the container of this script.`);
  }
}

// The rid or the name at the end of an item's link, behind a mark that tells which.
function itemOf({ selfLink, altLink }, link) {
  const text = String(link);
  const bare = text.endsWith("/") ? text.slice(0, -1) : text;
  for (const [mark, parent] of [["rid:", selfLink], ["id:", `${altLink}/`]]) {
    const start = `${parent}docs/`;
    if (bare.startsWith(start) && bare.length > start.length && !bare.includes("/", start.length)) {
      return mark + bare.slice(start.length);
    }
  }
  return refuse(
    ErrorCodes.BadRequest,
    `The link "${link}" does not lead to an item of the container of this script.`,
  );
}

function matching(options) {
  return { ifMatch: textOrNone(options.etag) };
}

function textOrNone(value) {
  return value ? String(value) : undefined;
}

function queryText(query) {
  if (typeof query === "string") {
    return stringify({ query });
  }
  if (typeof query !== "object" || query === null) {
    refuse(
      ErrorCodes.BadRequest,
      `The query must be a string or an object with 'query' and 'parameters'; it is ${kindOf(query)}.`,
    );
  }
  return stringify(query) ?? "";
}

function kindOf(value) {
  return value === null ? "null" : typeof value;
}

function requireArguments(name, given, least) {
  if (given.length < least) {
    refuse(
      ErrorCodes.BadRequest,
      `The function "${name}" requires at least ${least} argument(s); it was called with ${given.length}.`,
    );
  }
}

// Options may be left out, and a function in their place is the callback.
function optionsAndCallback(options, callback) {
  if (callback === undefined && typeof options === "function") {
    [options, callback] = [undefined, options];
  }
  if (options !== undefined && options !== null && typeof options !== "object") {
    refuse(
      ErrorCodes.BadRequest,
      `The "options" parameter must be of type "object". Actual type is: "${kindOf(options)}".`,
    );
  }
  if (callback !== undefined && callback !== null && typeof callback !== "function") {
    refuse(
      ErrorCodes.BadRequest,
      `The "callback" parameter must be of type "function". Actual type is: "${kindOf(callback)}".`,
    );
  }
  return [options ?? {}, callback ?? undefined];
}

function pageOptions(options) {
  const pageSize = options.pageSize || PAGE_ITEMS_DEFAULT;
  if (!Number.isInteger(pageSize) || pageSize < -1) {
    refuse(ErrorCodes.BadRequest, `The page size must be -1 or a positive integer; it is ${pageSize}.`);
  }
  const continuation = textOrNone(options.continuation);
  return { pageSize, continuation, enableScan: options.enableScan === true };
}

function bodyText(body) {
  if (typeof body === "string") {
    return body;
  }
  if (typeof body !== "object" || body === null) {
    refuse(
      ErrorCodes.BadRequest,
      "The document body must be an object or a string representing a JSON-serialized object.",
    );
  }
  return stringify(body) ?? "";
}

// A new item's text, and whether it still needs an id.
function newBody(body, options) {
  const text = bodyText(body);
  if (options.disableAutomaticIdGeneration === true) {
    return [text, false];
  }
  const object = typeof body === "string" ? parse(body) : body;
  if (object.id) {
    return [text, false];
  }
  const { id, ...rest } = object;
  return [stringify(rest), true];
}

// An error without a callback ends the script.
function orThrow(callback, onSuccess) {
  return (error, value, options) => {
    if (error !== undefined && callback === undefined) {
      throw error;
    } else if (error !== undefined) {
      callback(error);
    } else if (callback !== undefined) {
      onSuccess(value, options);
    }
  };
}

function resourceTo(callback) {
  return orThrow(callback, (value, options) => callback(undefined, value, options));
}
