// The runtime asks for the time between the steps of a script, and within most of the language's
// own functions, but not within these: on an array that is all holes, or on two long texts, one
// call could take hours. What fits into a script's memory is far below the lengths refused here.
// All of this runs before every call, so it is short rather than pretty: what is assigned to a
// property that is there keeps being hidden from enumeration.

const ELEMENTS_MAX = 2 ** 24;
const COMPARISONS_MAX = 2 ** 30;

// For the server's own short texts.
const { includes } = String.prototype;

// The length of what a function of arrays is called on. Only a plain property is sure to say the
// same when it is asked again; arrays have no other.
function checkLength(self) {
  const length = Object.getOwnPropertyDescriptor(Object(self), "length");
  if (length === undefined || typeof length.get === "function" || !(length.value <= ELEMENTS_MAX)) {
    throw new RangeError(`An array in a script has at most ${ELEMENTS_MAX} elements.`);
  }
}

function checkSearch(self, needle) {
  if (typeof needle === "string" && needle.length * String(self).length > COMPARISONS_MAX) {
    throw new RangeError("These texts are too long to search one for the other in a script.");
  }
}

function guard(prototype, names, check) {
  for (let i = 0; i < names.length; i += 1) {
    const name = names[i];
    const original = prototype[name];
    prototype[name] = {
      [name](...args) {
        check(this, args[0]);
        return Reflect.apply(original, this, args);
      },
    }[name];
  }
}

guard(
  Array.prototype,
  ["join", "reverse", "shift", "sort", "splice", "toLocaleString", "unshift"],
  checkLength,
);
guard(
  String.prototype,
  ["includes", "indexOf", "lastIndexOf", "replace", "replaceAll", "split"],
  checkSearch,
);

// These take the arrays that they put together from within others, so they are written anew: a
// script's own steps are timed.
function appendFlat(out, source, depth) {
  for (let i = 0; i < source.length; i += 1) {
    if (!(i in source)) continue;
    if (depth > 0 && Array.isArray(source[i])) {
      appendFlat(out, source[i], depth - 1);
    } else {
      out.push(source[i]);
    }
  }
  return out;
}

const replaced = {
  concat(...parts) {
    const out = [];
    let length = 0;
    for (const part of [this, ...parts]) {
      const spreads = part?.[Symbol.isConcatSpreadable] ?? Array.isArray(part);
      const count = spreads ? part.length : 1;
      for (let i = 0; i < count; i += 1, length += 1) {
        if (!spreads || i in part) out[length] = spreads ? part[i] : part;
      }
    }
    out.length = length;
    return out;
  },
  flat(depth = 1) {
    return appendFlat([], this, Number(depth) || 0);
  },
  flatMap(transform, self) {
    return appendFlat([], Array.prototype.map.call(this, transform, self), 1);
  },
};
for (const name in replaced) {
  Array.prototype[name] = replaced[name];
}
