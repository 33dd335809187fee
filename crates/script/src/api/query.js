// Queries written as JavaScript: `__.filter(…)`, and chains from `__.chain()` to `.value()`. Items
// are read page by page and run through the steps; a page of results ends where it is full, and its
// continuation names the page of items it stood in and how many of them were used up. A module of
// its own, which is loaded when a script asks for it: `core` is what it needs of the rest.

let core;

const READ_ITEMS = 100;

const STEPS = {
  filter: (predicate) => (rows) => rows.filter((row) => predicate(row)),
  map: (transform) => (rows) => rows.map((row) => transform(row)),
  pluck: (name) => (rows) => rows.map((row) => row[name]),
  flatten: (isShallow) => (rows) => rows.flat(isShallow ? 1 : Infinity),
  unwind: (inner, result) => (rows) => rows.flatMap((row) => unwound(row, inner, result)),
};

function unwound(row, inner, result) {
  const elements = inner(row);
  if (!Array.isArray(elements)) {
    return [];
  }
  return result === undefined ? elements : elements.map((element) => result(row, element));
}

// The order of the query language's types, then of their values.
function compareKeys(a, b) {
  const rank = (v) =>
    v === undefined ? 0 : v === null ? 1 : { boolean: 2, number: 3, string: 4 }[typeof v] ?? 5;
  const [left, right] = [rank(a), rank(b)];
  return left !== right ? left - right : a < b ? -1 : a > b ? 1 : 0;
}

function sorted(rows, key, sign) {
  const keyed = rows.map((row) => [key(row), row]);
  return keyed.sort(([a], [b]) => sign * compareKeys(a, b)).map(([, row]) => row);
}

// Each way to call a step: which arguments are its own, and what it then is.
const SHAPES = {
  filter: functionShape((f) => ({ apply: STEPS.filter(f) })),
  map: functionShape((f) => ({ apply: STEPS.map(f) })),
  sortBy: functionShape((f) => ({ apply: (rows) => sorted(rows, f, 1), needsAll: true })),
  sortByDescending: functionShape((f) => ({ apply: (rows) => sorted(rows, f, -1), needsAll: true })),
  pluck: (args) => {
    const name = args.shift();
    if (typeof name !== "string" || name === "") {
      core.refuse(core.ErrorCodes.BadRequest, "The property name must be a string and cannot be empty.");
    }
    return { apply: STEPS.pluck(name) };
  },
  flatten: (args) => {
    const isShallow = typeof args[0] === "boolean" ? args.shift() : false;
    return { apply: STEPS.flatten(isShallow) };
  },
  unwind: (args) => {
    const inner = args.shift();
    if (typeof inner !== "function") {
      core.refuse(core.ErrorCodes.BadRequest, "The first argument of unwind must be a function that selects an array.");
    }
    const result = typeof args[0] === "function" ? args.shift() : undefined;
    return { apply: STEPS.unwind(inner, result) };
  },
};

function functionShape(make) {
  return (args) => {
    const f = args.shift();
    if (typeof f !== "function") {
      core.refuse(core.ErrorCodes.BadRequest, "The predicate or transform function must be given.");
    }
    return make(f);
  };
}

// Where a page of results ended: in which page of items, behind how many of them. A sorted result
// has no such place and is counted through.
function readPlace(continuation) {
  if (!continuation) {
    return { skip: 0 };
  }
  try {
    const place = core.parse(continuation);
    if (Number.isInteger(place.skip) && place.skip >= 0) {
      return { from: place.from, skip: place.skip };
    }
  } catch {
    // Said below.
  }
  return core.refuse(core.ErrorCodes.BadRequest, "Invalid Continuation Token");
}

class QueryRun {
  #steps;
  #done;
  #size;
  #place;
  #rows = [];

  constructor(steps, options, done) {
    const size = core.pageSize(options);
    this.#steps = steps;
    this.#done = done;
    this.#size = size === -1 ? Infinity : size;
    this.#place = readPlace(core.textOrNone(options?.continuation));
  }

  start() {
    const needsAll = this.#steps.some((step) => step.needsAll);
    return needsAll ? this.#readAll(undefined) : this.#readOn(this.#place.from, this.#place.skip);
  }

  #apply(rows) {
    return this.#steps.reduce((sofar, step) => step.apply(sofar), rows);
  }

  #keep(rows) {
    for (const row of rows) {
      this.#rows.push(row);
    }
  }

  #read(from, onPage) {
    if (!core.accepts()) {
      return false;
    }
    const settle = (error, items, outcome) => {
      if (error !== undefined) {
        this.#done(error);
        return;
      }
      onPage(items, outcome);
    };
    core.add(core.LIST, undefined, false, undefined, undefined, READ_ITEMS, from, settle);
    return true;
  }

  // Streams: item by item until the page is full, since one item may give several rows or none.
  #readOn(from, skip) {
    return this.#read(from, (items, outcome) => {
      for (let used = skip; used < items.length; used += 1) {
        if (this.#rows.length >= this.#size) {
          this.#finish(outcome, core.stringify({ from, skip: used }));
          return;
        }
        this.#keep(this.#apply([items[used]]));
      }
      if (outcome.continuation === undefined) {
        this.#finish(outcome, undefined);
      } else if (this.#rows.length >= this.#size) {
        this.#finish(outcome, core.stringify({ from: outcome.continuation, skip: 0 }));
      } else {
        this.#goOn(() => this.#readOn(outcome.continuation, 0));
      }
    });
  }

  #readAll(from) {
    return this.#read(from, (items, outcome) => {
      this.#keep(items);
      if (outcome.continuation !== undefined) {
        this.#goOn(() => this.#readAll(outcome.continuation));
        return;
      }
      const all = this.#apply(this.#rows);
      const end = this.#place.skip + this.#size;
      this.#rows = all.slice(this.#place.skip, end);
      this.#finish(outcome, end < all.length ? core.stringify({ skip: end }) : undefined);
    });
  }

  // The query itself was accepted; when a later page is not, there is no answer to give.
  #goOn(read) {
    if (!read()) {
      this.#done(core.operationError(core.ErrorCodes.Forbidden, "The query reads more items than there is time for."));
    }
  }

  #finish(outcome, continuation) {
    this.#done(undefined, this.#rows, { ...outcome, continuation });
  }
}

// Puts the query functions on an object; `steps` are those that came before in a chain.
function defineQueries(target, steps) {
  for (const [name, shape] of Object.entries(SHAPES)) {
    target[name] = (...args) => {
      if (args[0] === undefined || args[0] === core.collection || args[0] === core.alias) {
        args.shift();
      }
      const step = shape(args);
      if (steps === undefined) {
        return runQuery([step], args);
      }
      if (args.some((argument) => argument !== undefined)) {
        core.refuse(
          core.ErrorCodes.BadRequest,
          "In a chain, options and callback can only be given to \"value\".",
        );
      }
      return chained([...steps, step]);
    };
  }
}

function chained(steps) {
  const link = { isAccepted: core.accepts() };
  defineQueries(link, steps);
  link.value = (...args) => runQuery(steps, args);
  return link;
}

// Without a callback the rows are appended to the response's body as JSON text.
function runQuery(steps, [options, callback]) {
  if (callback === undefined && typeof options === "function") {
    [options, callback] = [undefined, options];
  }
  core.checkOptions(options, callback);
  const done = callback ?? ((error, rows) => {
    if (error !== undefined) {
      throw error;
    }
    if (core.appendBody === undefined) {
      core.refuse(core.ErrorCodes.BadRequest, "A query needs a callback where there is no response.");
    }
    core.appendBody(core.stringify(rows));
  });
  return { isAccepted: new QueryRun(steps, options, done).start() };
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

export default function queries(given) {
  core = given;
  const functions = { chain: () => chained([]) };
  defineQueries(functions, undefined);
  for (const name of ATTACHMENT_OPERATIONS) {
    functions[name] = () => {
      const why = `The function "${name}" is not available: there are no attachments.`;
      core.refuse(core.ErrorCodes.BadRequest, why);
    };
  }
  return functions;
}
