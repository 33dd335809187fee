// The partition key of an item: its values at the container's paths, in the form of the header
// that every point operation carries.
import { type Json, compactJson, isObject } from "./json";

/** The names along a path: `/a/b` or `/"with space"/c`. */
export function pathNames(path: string): string[] {
  const names: string[] = [];
  for (const match of path.matchAll(/\/(?:"((?:[^"\\]|\\.)*)"|([^/]*))/g)) {
    names.push(match[1] ?? match[2] ?? "");
  }
  return names;
}

/** The value at a path; undefined where there is none. */
export function valueAt(item: Json | undefined, names: readonly string[]): Json | undefined {
  let value: Json | undefined = item;
  for (const name of names) {
    value = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  }
  return value;
}

/** The header's text. Undefined is `{}` there; an object or array counts as no key. */
export function partitionKeyHeader(item: Json, paths: readonly string[]): string {
  const parts = paths.map((path) => {
    const value = valueAt(item, pathNames(path));
    return value === undefined || Array.isArray(value) || isObject(value) ? "{}" : compactJson(value);
  });
  return asciiOnly(`[${parts.join(",")}]`);
}

/** Headers hold ASCII; JSON can say everything else with escapes. */
export function asciiOnly(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
