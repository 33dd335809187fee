// The properties that items of a container were seen to have, as a tree, for completion. It grows with
// what the page has fetched anyway and never asks for more.
import { type Json, RawNumber, isObject } from "../protocol/json";

interface Seen {
  type: string;
  inside: Map<string, Seen>;
}

const NAMES_MAX = 2000;
const DEPTH_MAX = 6;

export class SeenPaths {
  private readonly root = new Map<string, Seen>();
  private count = 0;

  add(rows: readonly Json[]): void {
    for (const row of rows) this.addInside(this.root, row, 0);
  }

  /** What lies below the property at the end of these names. */
  below(names: readonly string[]): { name: string; type: string }[] {
    let inside: Map<string, Seen> | undefined = this.root;
    for (const name of names) inside = inside?.get(name)?.inside;
    return [...(inside ?? [])].map(([name, { type }]) => ({ name, type }));
  }

  private addInside(at: Map<string, Seen>, value: Json, depth: number): void {
    if (depth > DEPTH_MAX) return;
    if (Array.isArray(value)) for (const child of value.slice(0, 3)) this.addInside(at, child, depth);
    if (!isObject(value)) return;
    for (const [name, child] of Object.entries(value)) {
      // What is no plain name cannot be written after a point.
      if (!/^[A-Za-z_$][\w$]*$/.test(name)) continue;
      let seen = at.get(name);
      if (!seen) {
        if (++this.count > NAMES_MAX) return;
        seen = { type: typeName(child), inside: new Map() };
        at.set(name, seen);
      }
      this.addInside(seen.inside, child, depth + 1);
    }
  }
}

function typeName(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return value instanceof RawNumber ? "number" : typeof value;
}

const byContainer = new Map<string, SeenPaths>();

export function seenPaths(database: string, container: string): SeenPaths {
  const key = JSON.stringify([database, container]);
  let seen = byContainer.get(key);
  if (!seen) byContainer.set(key, (seen = new SeenPaths()));
  return seen;
}
