// The text that a new item begins with.
import { type JsonObject, prettyJson, withoutSystemProperties } from "../protocol/json";
import { pathNames } from "../protocol/partition-key";

/** A new item: an id that nobody has, and a place for each part of the partition key. */
export function newItemText(partitionKeyPaths: readonly string[]): string {
  const item: JsonObject = { id: newId() };
  for (const path of partitionKeyPaths) {
    const names = pathNames(path);
    let at = item;
    names.forEach((name, index) => {
      if (index === names.length - 1) at[name] ??= "";
      else at = (at[name] ??= {}) as JsonObject;
    });
  }
  return prettyJson(item);
}

/** An item with the same properties and an id of its own. */
export function duplicateText(item: JsonObject): string {
  return prettyJson({ ...withoutSystemProperties(item), id: newId() });
}

/** A random UUID; `crypto.randomUUID` exists on secure origins only. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
