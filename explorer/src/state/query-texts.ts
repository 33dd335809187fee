// What stands in the query editors, kept for the session: a reload, or closing a tab by mistake, loses no
// text that was never run.

export interface QueryText {
  text: string;
  partitionKey: string;
  parameters: string;
}

const STORED = "orrery.query-texts";
/** Texts that are kept, and how long each may be; storage has room for five million characters. */
const TEXTS_MAX = 40;
const LENGTH_MAX = 50_000;

type Texts = Record<string, QueryText>;

function readAll(): Texts {
  try {
    const value: unknown = JSON.parse(sessionStorage.getItem(STORED) ?? "{}");
    return typeof value === "object" && value !== null ? (value as Texts) : {};
  } catch {
    return {};
  }
}

/** What was kept for a container. */
export function keptQueryText(where: string): QueryText | null {
  const found = readAll()[where];
  const isWhole = found && [found.text, found.partitionKey, found.parameters].every((part) => typeof part === "string");
  return isWhole ? found : null;
}

export function keepQueryText(where: string, entry: QueryText): void {
  if (entry.text.length + entry.partitionKey.length + entry.parameters.length > LENGTH_MAX) return;
  const { [where]: _, ...others } = readAll();
  const latest = Object.entries(others).slice(1 - TEXTS_MAX);
  try {
    sessionStorage.setItem(STORED, JSON.stringify({ ...Object.fromEntries(latest), [where]: entry }));
  } catch {
    // Storage is full or denied; the text lives as long as its tab.
  }
}
