// The request and the response of a call. Both hold named values, of which `Body` is the one that
// matters; a value may be read by name (`getValue("Body")`) or by its own accessor (`getBody()`).

class Message {
  #values = new Map();
  #bytesMax;
  #bodyWasSet = false;

  constructor(bytesMax) {
    this.#bytesMax = bytesMax;
  }

  // Not for scripts: they get a facade without it.
  define(name, value, writable) {
    this.#values.set(name, { value, writable });
  }

  get(name) {
    return this.#values.get(String(name))?.value;
  }

  set(name, value) {
    const entry = this.#writable(name);
    this.#checkSize(name, value);
    entry.value = value;
    this.#bodyWasSet ||= name === "Body";
  }

  append(name, value) {
    const entry = this.#writable(name);
    const whole = entry.value === undefined || entry.value === null ? value : entry.value + value;
    this.#checkSize(name, whole);
    entry.value = whole;
    this.#bodyWasSet ||= name === "Body";
  }

  get bodyWasSet() {
    return this.#bodyWasSet;
  }

  #writable(name) {
    const entry = this.#values.get(String(name));
    if (entry === undefined) {
      refuse(ErrorCodes.BadRequest, `There is no value '${name}' to set, and none can be added.`);
    }
    if (!entry.writable) {
      refuse(ErrorCodes.Forbidden, `The value '${name}' cannot be written.`);
    }
    return entry;
  }

  #checkSize(name, value) {
    const text = typeof value === "string" ? value : stringify(value);
    if (text !== undefined && text.length > this.#bytesMax) {
      refuse(
        ErrorCodes.RequestEntityTooLarge,
        `The message would be too large with '${name}': it would have ${text.length} characters, ` +
          `the limit is ${this.#bytesMax}. Return what there is and go on in another call.`,
      );
    }
  }
}

// What a script sees of a message: generic accessors, and some for each name.
function facade(message, names) {
  const seen = {
    getValue: (name) => message.get(name),
    setValue: (name, value) => message.set(name, value),
    appendValue: (name, value) => message.append(name, value),
  };
  for (const name of names) {
    seen[`get${name}`] = () => message.get(name);
    seen[`set${name}`] = (value) => message.set(name, value);
    seen[`append${name}`] = (value) => message.append(name, value);
  }
  return seen;
}

// `%s` takes the next argument, `%%` is a percent sign.
function format(template, values) {
  let next = 0;
  return template.replace(/%(s|%)/g, (_, what) => (what === "%" ? "%" : String(values[next++])));
}
