// Puts what a finding proposes into a model, as `orrery model apply` does: a type is known by its
// name, a relation by its source and path, an aggregate and a bucket by their type and path.
import { type Json, type JsonObject, compactJson, isObject } from "../protocol/json";
import type { Finding } from "../protocol/model";

const LISTS: Readonly<Record<string, readonly [string, string]>> = {
  relations: ["from", "path"],
  aggregates: ["on", "path"],
  buckets: ["on", "array"],
};

/** What applying a finding changes, or why there is nothing to apply. */
export type Change =
  | { kind: "model" }
  | { kind: "indexing"; container: string; policy: JsonObject }
  | { kind: "none"; reason: string };

export function changeOf({ patch }: Finding): Change {
  const names = Object.keys(patch);
  if (names.length === 0) return { kind: "none", reason: "The model needs no change; the requests can use what it has." };
  if (names.some((name) => name === "types" || name in LISTS)) return { kind: "model" };
  const [container, definition] = isObject(patch.containers) ? (Object.entries(patch.containers)[0] ?? []) : [];
  if (container !== undefined && isObject(definition) && isObject(definition.indexingPolicy)) {
    return { kind: "indexing", container, policy: definition.indexingPolicy };
  }
  if (container !== undefined && isObject(definition) && isObject(definition.globalSecondaryIndexDefinition)) {
    return { kind: "none", reason: `Create the container '${container}' with the definition below; it is filled and kept by the server.` };
  }
  return { kind: "none", reason: "A partition key cannot be changed: create a container with the key below and copy the items into it." };
}

/** The model with a patch put into it; neither is changed. */
export function patched(model: JsonObject | null, patch: JsonObject): JsonObject {
  const merged: JsonObject = { version: 1, ...model };
  const types: JsonObject = isObject(merged.types) ? { ...merged.types } : {};
  for (const [name, type] of Object.entries(isObject(patch.types) ? patch.types : {})) {
    types[name] = over(types[name], type);
  }
  merged.types = types;
  for (const [list, keys] of Object.entries(LISTS)) {
    const parts = patch[list];
    if (Array.isArray(parts)) merged[list] = putAll(merged[list], parts, keys);
  }
  return merged;
}

function putAll(list: Json | undefined, parts: readonly Json[], keys: readonly string[]): Json[] {
  const all = Array.isArray(list) ? [...list] : [];
  for (const part of parts) {
    const at = all.findIndex((entry) => keys.every((key) => text(entry, key) === text(part, key)));
    if (at < 0) all.push(part);
    else all[at] = over(all[at], part);
  }
  return all;
}

function text(value: Json, key: string): string {
  const found = isObject(value) ? value[key] : undefined;
  return found === undefined ? "" : compactJson(found);
}

/** An empty object takes away what is there, as the patch of a copy that shall go has it. */
function over(own: Json | undefined, part: Json): Json {
  if (!isObject(own) || !isObject(part)) return part;
  const merged: JsonObject = { ...own };
  for (const [name, value] of Object.entries(part)) {
    const empties = isObject(value) && Object.keys(value).length === 0;
    merged[name] = isObject(own[name]) && !empties ? over(own[name], value) : value;
  }
  return merged;
}

/** An indexing policy that leaves out more paths. */
export function withExcluded(policy: JsonObject, proposed: JsonObject): JsonObject {
  const paths = (value: Json | undefined) => (Array.isArray(value) ? value : []);
  const known = paths(policy.excludedPaths);
  const fresh = paths(proposed.excludedPaths).filter((path) => !known.some((other) => text(other, "path") === text(path, "path")));
  return { ...policy, excludedPaths: [...known, ...fresh] };
}
