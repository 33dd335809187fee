// Items out of a file that a person chose: a JSON array, one JSON object, JSON lines, or CSV with a header.
import { type Json, type JsonObject, isObject, parseJson } from "../protocol/json";
import { newId } from "./new-item";

export interface ImportFile {
  items: JsonObject[];
  /** What could not be read, each with its place. */
  faults: string[];
}

/** Reads a file by its name and content. An item without an id gets one. */
export function readImportFile(name: string, text: string): ImportFile {
  const content = text.replace(/^\uFEFF/, "");
  if (/\.csv$/i.test(name)) return readCsv(content);
  const whole = tryJson(content);
  if (whole !== undefined) return readValues(Array.isArray(whole) ? whole : [whole], (index) => `Item ${index + 1}`);
  return readLines(content);
}

function tryJson(text: string): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function readValues(values: readonly Json[], placeOf: (index: number) => string): ImportFile {
  const file: ImportFile = { items: [], faults: [] };
  values.forEach((value, index) => {
    if (isObject(value)) file.items.push(withId(value));
    else file.faults.push(`${placeOf(index)} is no JSON object.`);
  });
  return file;
}

function readLines(text: string): ImportFile {
  const file: ImportFile = { items: [], faults: [] };
  text.split("\n").forEach((line, index) => {
    if (line.trim() === "") return;
    const value = tryJson(line);
    if (value !== undefined && isObject(value)) file.items.push(withId(value));
    else file.faults.push(`Line ${index + 1} is no JSON object.`);
  });
  return file;
}

function withId(item: JsonObject): JsonObject {
  return item.id === undefined ? { id: newId(), ...item } : item;
}

function readCsv(text: string): ImportFile {
  const [header, ...records] = csvRecords(text);
  if (header === undefined) return { items: [], faults: ["The file is empty."] };
  const file: ImportFile = { items: [], faults: [] };
  records.forEach((fields, index) => {
    if (fields.length === 1 && fields[0]!.text === "") return;
    if (fields.length !== header.length) {
      file.faults.push(`Record ${index + 2} has ${fields.length} fields, and the header has ${header.length}.`);
      return;
    }
    const item: JsonObject = {};
    header.forEach(({ text: column }, at) => {
      const value = csvValue(fields[at]!, column);
      if (value !== undefined) item[column] = value;
    });
    file.items.push(withId(item));
  });
  return file;
}

interface Field {
  text: string;
  isQuoted: boolean;
}

/** An empty field is undefined; a bare number, true, false, null, array or object is what it looks like. */
function csvValue({ text, isQuoted }: Field, column: string): Json | undefined {
  if (text === "" && !isQuoted) return undefined;
  if (column === "id") return text;
  const looksLikeJson = /^(?:-?\d|true$|false$|null$|[[{])/.test(text) && (!isQuoted || /^[[{]/.test(text));
  const value = looksLikeJson ? tryJson(text) : undefined;
  return value === undefined ? text : value;
}

/** The records of a CSV text (RFC 4180); line ends may be of any system. */
export function csvRecords(text: string): Field[][] {
  const records: Field[][] = [];
  let record: Field[] = [];
  let at = 0;
  while (at < text.length) {
    const field = text[at] === '"' ? quoted(text, at) : bare(text, at);
    record.push({ text: field.text, isQuoted: text[at] === '"' });
    at = field.end;
    if (text[at] === ",") {
      at++;
      if (at === text.length) record.push({ text: "", isQuoted: false });
      continue;
    }
    at += text.startsWith("\r\n", at) ? 2 : 1;
    records.push(record);
    record = [];
  }
  if (record.length > 0) records.push(record);
  return records;
}

function quoted(text: string, start: number): { text: string; end: number } {
  let value = "";
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] !== '"') value += text[at];
    else if (text[at + 1] === '"') {
      value += '"';
      at++;
    } else return { text: value, end: at + 1 };
  }
  return { text: value, end: text.length };
}

function bare(text: string, start: number): { text: string; end: number } {
  let end = start;
  while (end < text.length && text[end] !== "," && text[end] !== "\r" && text[end] !== "\n") end++;
  return { text: text.slice(start, end), end };
}
