// What went wrong, out of an answer of status 400 or above, in words a person can act on.

/** One fault of a query; the place counts characters of its text, the end is exclusive. */
export interface QueryFault {
  start: number;
  end: number;
  code: string;
  message: string;
}

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly subStatus: number,
    readonly code: string,
    message: string,
    readonly activityId: string,
    readonly faults: readonly QueryFault[] = [],
  ) {
    super(message);
  }
}

/** Reads the body of an error. Whatever it holds, something sensible comes out. */
export function readProblem(status: number, subStatus: number, body: string, activityId = ""): Problem {
  let code = String(status);
  let text = body;
  try {
    const parsed = JSON.parse(body) as { code?: unknown; message?: unknown };
    if (typeof parsed.code === "string") code = parsed.code;
    if (typeof parsed.message === "string") text = parsed.message;
  } catch {
    // Not ours: a proxy's page, perhaps. Its text is all there is.
  }
  const trailer = text.lastIndexOf("\r\nActivityId:");
  if (trailer >= 0) text = text.slice(0, trailer);
  text = text.replace(/^Message:\s*/, "").trim();
  const faults = readFaults(text);
  const message = faults.length > 0 ? faults.map(sentence).join("\n") : firstErrors(text) ?? text;
  return new Problem(status, subStatus, code, message || `The server answered ${status}.`, activityId, faults);
}

function sentence(fault: QueryFault): string {
  return fault.code === "" ? fault.message : `${fault.message} (${fault.code})`;
}

function readFaults(text: string): QueryFault[] {
  const errors = field(text, "errors");
  if (!Array.isArray(errors)) return [];
  return errors.map((error: Record<string, unknown>) => {
    const location = (error.location ?? {}) as { start?: unknown; end?: unknown };
    return {
      start: Number(location.start ?? 0),
      end: Number(location.end ?? 0),
      code: String(error.code ?? ""),
      message: String(error.message ?? "The query is wrong here."),
    };
  });
}

function firstErrors(text: string): string | undefined {
  const errors = field(text, "Errors");
  return Array.isArray(errors) ? errors.map(String).join("\n") : undefined;
}

function field(text: string, name: string): unknown {
  if (!text.startsWith("{")) return undefined;
  try {
    return (JSON.parse(text) as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}

/** Characters of the server are code points; those of an editor are UTF-16 units. */
export function editorOffset(text: string, characters: number): number {
  let offset = 0;
  for (const char of text) {
    if (characters-- <= 0) break;
    offset += char.length;
  }
  return offset;
}

/** A message for anything that was thrown. */
export function describe(error: unknown): string {
  if (error instanceof Problem) return error.message;
  if (error instanceof TypeError) return "The server did not answer. Is it still running?";
  return error instanceof Error ? error.message : String(error);
}
