// Follows the change feed of a container: asks for what came after the last answer, again and again,
// and keeps the newest changes. Latest versions only: a delete leaves no trace in it.
import { signal } from "@preact/signals";
import { type Json, type JsonObject, isObject, parseJson } from "../protocol/json";
import { describe } from "../protocol/problem";
import { containerPath } from "../protocol/resources";
import { client } from "./account";

export interface Change {
  number: number;
  at: Date;
  item: JsonObject;
}

const CHANGES_KEPT = 500;
const PAGE = 100;
/** How long to wait when there was nothing new. */
const PAUSE_MS = 1000;

export type Start = "now" | "beginning";

export class ChangeWatch {
  readonly changes = signal<readonly Change[]>([]);
  readonly isLive = signal(false);
  readonly error = signal<string | null>(null);
  /** Changes seen since the start, kept or not. */
  readonly count = signal(0);
  private etag: string | null = null;
  private run = 0;

  constructor(private readonly database: string, private readonly container: string) {}

  start(from: Start): void {
    this.etag = from === "now" ? "*" : null;
    this.changes.value = [];
    this.count.value = 0;
    this.resume();
  }

  resume(): void {
    this.isLive.value = true;
    this.error.value = null;
    void this.follow(++this.run);
  }

  stop(): void {
    this.run++;
    this.isLive.value = false;
  }

  private async follow(run: number): Promise<void> {
    while (run === this.run) {
      try {
        const isNew = await this.step(run);
        if (!isNew) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      } catch (problem) {
        if (run !== this.run) return;
        this.error.value = describe(problem);
        this.stop();
      }
    }
  }

  /** One request; whether it brought anything. */
  private async step(run: number): Promise<boolean> {
    const headers: Record<string, string> = { "a-im": "Incremental Feed", "x-ms-max-item-count": String(PAGE) };
    if (this.etag !== null) headers["if-none-match"] = this.etag;
    const segments = [...containerPath(this.database, this.container), "docs"];
    const answer = await client().send({ method: "GET", segments, headers });
    if (run !== this.run) return false;
    this.etag = answer.headers.get("etag") ?? this.etag;
    if (answer.status === 304 || answer.text === "") return false;
    this.take((parseJson(answer.text) as JsonObject).Documents);
    return true;
  }

  private take(rows: Json | undefined): void {
    const items = Array.isArray(rows) ? rows.filter(isObject) : [];
    const fresh = items.map((item): Change => ({ number: ++this.count.value, at: new Date(), item })).reverse();
    this.changes.value = [...fresh, ...this.changes.value].slice(0, CHANGES_KEPT);
  }
}
