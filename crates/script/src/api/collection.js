// The container as a script sees it: its links, and the operations on its items. Every operation is
// queued and answers whether it was; the outcome goes to the callback, and without a callback an
// error ends the script. The operations are functions of their own, so that `__`, which inherits
// them, and variables that hold them work alike.

const PAGE_ITEMS_DEFAULT = 100;

let itemsBySelf, itemsByAlt;

const collection = {
  getSelfLink: () => facts.selfLink,
  getAltLink: () => facts.altLink,

  createDocument(collectionLink, body, options, callback) {
    return write(CREATE, "createDocument", collectionLink, body, options, callback);
  },

  upsertDocument(collectionLink, body, options, callback) {
    return write(UPSERT, "upsertDocument", collectionLink, body, options, callback);
  },

  readDocument(documentLink, options, callback) {
    return onItem(READ, "readDocument", documentLink, undefined, options, callback);
  },

  replaceDocument(documentLink, document, options, callback) {
    if (document === undefined) {
      missing("replaceDocument", 2);
    }
    checkBody(document);
    return onItem(REPLACE, "replaceDocument", documentLink, document, options, callback);
  },

  deleteDocument(documentLink, options, callback) {
    return onItem(DELETE, "deleteDocument", documentLink, undefined, options, callback);
  },

  readDocuments(collectionLink, options, callback) {
    if (collectionLink === undefined) {
      missing("readDocuments", 1);
    }
    return page(LIST, collectionLink, undefined, options, callback);
  },

  queryDocuments(collectionLink, filterQuery, options, callback) {
    if (filterQuery === undefined) {
      missing("queryDocuments", 2);
    }
    if (typeof filterQuery !== "string" && (typeof filterQuery !== "object" || filterQuery === null)) {
      refuse(
        ErrorCodes.BadRequest,
        `The query must be a string or an object with 'query' and 'parameters'; it is ${kindOf(filterQuery)}.`,
      );
    }
    return page(QUERY, collectionLink, filterQuery, options, callback);
  },
};

function write(kind, name, link, body, options, callback) {
  if (body === undefined) {
    missing(name, 2);
  }
  checkOwnLink(link);
  if (callback === undefined && typeof options === "function") {
    callback = options;
    options = undefined;
  }
  checkOptions(options, callback);
  checkBody(body);
  if (!accepts()) {
    return false;
  }
  const needsId = options?.disableAutomaticIdGeneration !== true;
  const ifMatch = kind === UPSERT ? textOrNone(options?.etag) : undefined;
  add(kind, keep(body), needsId, ifMatch, undefined, undefined, undefined, callback ?? undefined);
  return true;
}

function onItem(kind, name, link, body, options, callback) {
  if (link === undefined) {
    missing(name, 1);
  }
  // The rid or the name at the end of the item's link.
  const text = typeof link === "string" ? link : String(link);
  const isByAlt = text.startsWith(itemsByAlt);
  const start = isByAlt ? itemsByAlt.length : itemsBySelf.length;
  const target = text.slice(start, text.endsWith("/") ? -1 : undefined);
  const isLink = isByAlt || text.startsWith(itemsBySelf);
  if (!isLink || target === "" || includes.call(target, "/")) {
    refuse(
      ErrorCodes.BadRequest,
      `The link "${link}" does not lead to an item of the container of this script.`,
    );
  }
  if (callback === undefined && typeof options === "function") {
    callback = options;
    options = undefined;
  }
  checkOptions(options, callback);
  if (!accepts()) {
    return false;
  }
  const kept = body === undefined ? undefined : keep(body);
  const ifMatch = kind === READ ? undefined : textOrNone(options?.etag);
  const ifNoneMatch = kind === READ ? textOrNone(options?.ifNoneMatch) : undefined;
  const operation =
    add(kind, kept, false, ifMatch, ifNoneMatch, undefined, undefined, callback ?? undefined);
  operation[isByAlt ? ID : RID] = target;
  return true;
}

function page(kind, link, query, options, callback) {
  checkOwnLink(link);
  if (callback === undefined && typeof options === "function") {
    callback = options;
    options = undefined;
  }
  checkOptions(options, callback);
  const size = pageSize(options);
  if (!accepts()) {
    return false;
  }
  const kept = query === undefined ? undefined : keep(typeof query === "string" ? { query } : query);
  const continuation = textOrNone(options?.continuation);
  add(kind, kept, false, undefined, undefined, size, continuation, callback ?? undefined);
  return true;
}

// A script works within its own container, named in either way.
function checkOwnLink(link) {
  const { selfLink, altLink } = facts;
  if (link !== altLink && link !== selfLink && `${link}/` !== selfLink && link !== `${altLink}/`) {
    refuse(ErrorCodes.BadRequest, `The link "${link}" does not lead to the container of this script.`);
  }
}

function textOrNone(value) {
  return value ? String(value) : undefined;
}

function kindOf(value) {
  return value === null ? "null" : typeof value;
}

function missing(name, least) {
  refuse(ErrorCodes.BadRequest, `The function "${name}" requires at least ${least} argument(s).`);
}

// Both may be left out.
function checkOptions(options, callback) {
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
  const action = options?.indexAction ?? "default";
  if (action !== "default" && action !== "include" && action !== "exclude") {
    refuse(
      ErrorCodes.BadRequest,
      `The option "indexAction" must be "default", "include" or "exclude"; it is "${action}".`,
    );
  }
}

function pageSize(options) {
  const size = options?.pageSize || PAGE_ITEMS_DEFAULT;
  if (!Number.isInteger(size) || size < -1) {
    refuse(ErrorCodes.BadRequest, `The page size must be -1 or a positive integer; it is ${size}.`);
  }
  return size;
}

function checkBody(body) {
  if (typeof body !== "string" && (typeof body !== "object" || body === null)) {
    refuse(
      ErrorCodes.BadRequest,
      "The document body must be an object or a string representing a JSON-serialized object.",
    );
  }
}
