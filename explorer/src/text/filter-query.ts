// The queries behind the item grid: the items of a filter in an order, and how many there are.
import { clausesOf } from "./plan-clauses";
import type { Sort } from "./sort-rows";

/** The whole query of a filter; a bare condition is taken as one. A filter's own order comes first. */
export function filterQuery(filter: string, sort: Sort | null = null): string {
  const text = filter.trim();
  const hasClause = /^(where|order\s+by|join|offset)\b/i.test(text);
  const base = text === "" ? "SELECT * FROM c" : `SELECT * FROM c ${hasClause ? text : `WHERE ${text}`}`;
  if (sort === null || !isSortable(filter)) return base;
  return `${base} ORDER BY c[${JSON.stringify(sort.column)}]${sort.isDescending ? " DESC" : ""}`;
}

/** Whether the grid may order what a filter finds: one that orders or cuts by itself leaves no room. */
export function isSortable(filter: string): boolean {
  return !/\b(order\s+by|offset|join)\b/i.test(filter.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, ""));
}

/** The query that counts what a filter finds; null where that is not all of a plain condition. */
export function countQuery(filter: string): string | null {
  if (/\b(offset|join)\b/i.test(filter)) return null;
  const { where } = clausesOf(filterQuery(filter));
  return `SELECT VALUE COUNT(1) FROM c${where === null ? "" : ` WHERE ${where}`}`;
}
