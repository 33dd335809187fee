// Rows as a table: which columns there are, what a cell says, and the table as CSV (RFC 4180).
import { type Json, RawNumber, SYSTEM_PROPERTIES, compactJson, isObject } from "../protocol/json";

/** The column of rows that are no objects. */
export const VALUE_COLUMN = "value";

/** All properties of the rows, in the order in which they first appear; those of the system last. */
export function columnsOf(rows: readonly Json[]): string[] {
  const own = new Set<string>();
  const system = new Set<string>();
  for (const row of rows) {
    if (!isObject(row)) own.add(VALUE_COLUMN);
    else for (const name of Object.keys(row)) (SYSTEM_PROPERTIES.includes(name) ? system : own).add(name);
  }
  return [...own, ...system];
}

/** The columns to look at: of whole items, what the system wrote is left out. */
export function shownColumns(rows: readonly Json[]): string[] {
  const areItems = rows.length > 0 && rows.every((row) => isObject(row) && "_self" in row && "_attachments" in row);
  return columnsOf(rows).filter((column) => !areItems || !SYSTEM_PROPERTIES.includes(column));
}

export function cellOf(row: Json, column: string): Json | undefined {
  if (isObject(row)) return Object.hasOwn(row, column) ? row[column] : undefined;
  return column === VALUE_COLUMN ? row : undefined;
}

/** A cell as text: strings bare, everything else as JSON, nothing for undefined. */
export function cellText(value: Json | undefined): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : compactJson(value);
}

export function isNumeric(value: Json | undefined): boolean {
  return typeof value === "number" || value instanceof RawNumber;
}

export function csv(rows: readonly Json[], columns: readonly string[]): string {
  const lines = [columns.map(field), ...rows.map((row) => columns.map((column) => field(cellText(cellOf(row, column)))))];
  return lines.map((line) => `${line.join(",")}\r\n`).join("");
}

function field(text: string): string {
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
