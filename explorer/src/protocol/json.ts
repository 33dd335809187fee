// JSON without loss: a number that a double cannot hold, or would print differently, is kept as the
// text it came as, so that looking at an item and saving it changes nothing else.

/** A number as it was written. */
export class RawNumber {
  constructor(readonly raw: string) {}
  toString(): string {
    return this.raw;
  }
}

export type Json = null | boolean | number | string | RawNumber | Json[] | JsonObject;
export interface JsonObject {
  [name: string]: Json;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof RawNumber);
}

/** Numbers that may not survive: long ones, exponents, and fractions that end in zero. */
const DELICATE = /\d{16}|\d[eE]|\.\d*0(?!\d)|-0(?![.\d])/;

/** Parses JSON; fails as `JSON.parse` does, with a message that names the place. */
export function parseJson(text: string): Json {
  const quick = JSON.parse(text) as Json;
  return DELICATE.test(text) ? new Reader(text).whole() : quick;
}

/** Reads text that `JSON.parse` has accepted already, so it need not look for faults. */
class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

  whole(): Json {
    return this.value();
  }

  private value(): Json {
    this.space();
    const char = this.text[this.at]!;
    if (char === "{") return this.object();
    if (char === "[") return this.array();
    if (char === '"') return this.string();
    if (char === "t") return this.word(4, true);
    if (char === "f") return this.word(5, false);
    if (char === "n") return this.word(4, null);
    return this.number();
  }

  private object(): JsonObject {
    const object: JsonObject = {};
    this.at++;
    for (this.space(); this.text[this.at] !== "}"; this.space()) {
      if (this.text[this.at] === ",") {
        this.at++;
        this.space();
      }
      const name = this.string();
      this.space();
      this.at++;
      // A plain assignment would treat `__proto__` as more than a name.
      const value = this.value();
      Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
    }
    this.at++;
    return object;
  }

  private array(): Json[] {
    const array: Json[] = [];
    this.at++;
    for (this.space(); this.text[this.at] !== "]"; this.space()) {
      if (this.text[this.at] === ",") this.at++;
      array.push(this.value());
    }
    this.at++;
    return array;
  }

  private string(): string {
    const start = this.at++;
    while (this.text[this.at] !== '"') this.at += this.text[this.at] === "\\" ? 2 : 1;
    this.at++;
    return JSON.parse(this.text.slice(start, this.at)) as string;
  }

  private number(): number | RawNumber {
    const start = this.at;
    while (/[-+.\deE]/.test(this.text[this.at] ?? " ")) this.at++;
    const raw = this.text.slice(start, this.at);
    const number = Number(raw);
    return String(number) === raw ? number : new RawNumber(raw);
  }

  private word(length: number, value: boolean | null): boolean | null {
    this.at += length;
    return value;
  }

  private space(): void {
    while (" \n\r\t".includes(this.text[this.at] ?? "x")) this.at++;
  }
}

/** Lines longer than this are broken; short lists of plain values stay on one. */
const LINE_CHARS = 88;

/** JSON on one line. */
export function compactJson(value: Json): string {
  if (value instanceof RawNumber) return value.raw;
  if (Array.isArray(value)) return `[${value.map(compactJson).join(",")}]`;
  if (isObject(value)) {
    return `{${Object.entries(value).map(([name, child]) => `${JSON.stringify(name)}:${compactJson(child)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

/** JSON for people: two spaces a level, arrays of plain values on one line where they fit. */
export function prettyJson(value: Json, indent = ""): string {
  const deeper = `${indent}  `;
  if (Array.isArray(value) && value.length > 0) {
    if (value.every((child) => !Array.isArray(child) && !isObject(child))) {
      const line = `[${value.map(compactJson).join(", ")}]`;
      if (indent.length + line.length <= LINE_CHARS) return line;
    }
    return `[\n${value.map((child) => deeper + prettyJson(child, deeper)).join(",\n")}\n${indent}]`;
  }
  if (isObject(value)) {
    const names = Object.keys(value);
    if (names.length === 0) return "{}";
    const member = (name: string) => `${deeper}${JSON.stringify(name)}: ${prettyJson(value[name]!, deeper)}`;
    return `{\n${names.map(member).join(",\n")}\n${indent}}`;
  }
  return compactJson(value);
}

/** Properties that the server writes itself, shown beside an item and not inside it. */
export const SYSTEM_PROPERTIES: readonly string[] = ["_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"];

export function withoutSystemProperties(item: JsonObject): JsonObject {
  const entries = Object.entries(item).filter(([name]) => !SYSTEM_PROPERTIES.includes(name));
  return Object.fromEntries(entries);
}
