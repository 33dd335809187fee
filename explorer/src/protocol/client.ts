// One signed request of the public protocol, and its answer. Everything the page does to the
// database goes through here, so that it can do nothing another client could not.
import { type Json, compactJson, parseJson } from "./json";
import { readProblem } from "./problem";
import { type Credential, authorization } from "./signature";

export interface Call {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path in decoded segments: `["dbs", "shop", "colls"]`. */
  segments: readonly string[];
  headers?: Readonly<Record<string, string>>;
  body?: Json;
  signal?: AbortSignal | undefined;
}

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  /** Request units. */
  charge: number;
  /** From sending to the last byte, as this browser saw it. */
  elapsedMs: number;
}

/** A line of the log of requests; bodies and credentials are not kept. */
export interface LoggedRequest {
  at: Date;
  method: string;
  path: string;
  what: string;
  status: number;
  charge: number;
  elapsedMs: number;
}

const VERSION = "2020-07-15";

export class Client {
  /** Added to this browser's clock where it disagrees with the server's. */
  private skewMs = 0;

  constructor(
    readonly endpoint: string,
    private readonly credential: Credential,
    private readonly log: (request: LoggedRequest) => void = () => {},
  ) {}

  /** Sends a call. An answer of status 400 or above is thrown as a `Problem`; 304 is an answer. */
  async send(call: Call): Promise<Answer> {
    const answer = await this.attempt(call);
    if (answer.status === 403 && this.adjustClock(answer)) {
      return this.checked(await this.attempt(call));
    }
    return this.checked(answer);
  }

  async json(call: Call): Promise<Json> {
    return parseJson((await this.send(call)).text);
  }

  private checked(answer: Answer): Answer {
    if (answer.status < 400) return answer;
    const subStatus = Number(answer.headers.get("x-ms-substatus") ?? 0);
    throw readProblem(answer.status, subStatus, answer.text, answer.headers.get("x-ms-activity-id") ?? "");
  }

  private async attempt(call: Call): Promise<Answer> {
    const date = new Date(Date.now() + this.skewMs).toUTCString();
    const path = `/${call.segments.map(encodeURIComponent).join("/")}`;
    const headers: Record<string, string> = {
      ...call.headers,
      authorization: await authorization(this.credential, call.method, call.segments, date),
      "x-ms-date": date,
      "x-ms-version": VERSION,
    };
    const init: RequestInit = { method: call.method, headers, cache: "no-store", credentials: "omit" };
    if (call.body !== undefined) {
      headers["content-type"] ??= "application/json";
      init.body = compactJson(call.body);
    }
    if (call.signal) init.signal = call.signal;
    const began = performance.now();
    const response = await fetch(new URL(path, this.endpoint), init);
    const text = await response.text();
    const elapsedMs = performance.now() - began;
    const charge = Number(response.headers.get("x-ms-request-charge") ?? 0);
    this.log({
      at: new Date(), method: call.method, path, what: purpose(headers), status: response.status, charge, elapsedMs,
    });
    return { status: response.status, headers: response.headers, text, charge, elapsedMs };
  }

  /** Signatures hold for 15 minutes around the server's time; a browser's clock may be further off. */
  private adjustClock(answer: Answer): boolean {
    const server = Date.parse(answer.headers.get("date") ?? "");
    const skewMs = server - Date.now();
    if (Number.isNaN(skewMs) || Math.abs(skewMs - this.skewMs) < 60_000) return false;
    this.skewMs = skewMs;
    return true;
  }
}

function purpose(headers: Record<string, string>): string {
  if (headers["x-ms-documentdb-isquery"] === "true") return "query";
  if (headers["a-im"] !== undefined) return "change feed";
  return headers["x-ms-documentdb-is-upsert"] === "true" ? "upsert" : "";
}
