// The order of rows by one column, as the query language orders values: by type, then by value.
import { type Json, RawNumber } from "../protocol/json";
import { cellOf, cellText } from "./csv";

export interface Sort {
  column: string;
  isDescending: boolean;
}

/** The order after a click on a header: ascending, descending, then none. */
export function nextSort(current: Sort | null, column: string): Sort | null {
  if (current?.column !== column) return { column, isDescending: false };
  return current.isDescending ? null : { column, isDescending: true };
}

function rank(value: Json | undefined): number {
  if (value === undefined) return 0;
  if (value === null) return 1;
  if (typeof value === "boolean") return 2;
  if (typeof value === "number" || value instanceof RawNumber) return 3;
  if (typeof value === "string") return 4;
  return Array.isArray(value) ? 5 : 6;
}

const numberOf = (value: Json | undefined) => (value instanceof RawNumber ? Number(value.raw) : Number(value));

function compare(a: Json | undefined, b: Json | undefined): number {
  const byRank = rank(a) - rank(b);
  if (byRank !== 0) return byRank;
  if (rank(a) === 2 || rank(a) === 3) return numberOf(a) - numberOf(b);
  const [x, y] = [cellText(a), cellText(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

/** The rows in the order of a column; equal ones stay as they were. */
export function sortRows<T extends Json>(rows: readonly T[], column: string, isDescending: boolean): T[] {
  const sign = isDescending ? -1 : 1;
  return [...rows].sort((a, b) => sign * compare(cellOf(a, column), cellOf(b, column)));
}
