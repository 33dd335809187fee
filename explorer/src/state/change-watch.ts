// Follows the change feed of a container: asks for what came after the last answer, again and again,
// and keeps the newest changes. There are two kinds of feed: the latest version of each item, in which
// a delete leaves no trace, and all versions with deletes, where the container keeps them.
import { signal } from "@preact/signals";
import { type Json, type JsonObject, isObject, parseJson } from "../protocol/json";
import { describe } from "../protocol/problem";
import { containerPath } from "../protocol/resources";
import { client } from "./account";

export type Operation = "create" | "replace" | "delete";

export interface Change {
  number: number;
  /** When it was written, by the server's clock; null where an entry does not say. */
  at: Date | null;
  /** Of a delete, the item as it was. */
  item: JsonObject;
  /** Known in the feed of all versions only. */
  operation: Operation | null;
  /** Whether a delete came of the item's time being over. */
  isExpired: boolean;
  /** Whether it came while one was watching, after what was there before. */
  isNew: boolean;
}

const CHANGES_KEPT = 500;
const PAGE = 100;
/** How long to wait when there was nothing new. */
const PAUSE_MS = 1000;

export type Start = "now" | "beginning";
export type FeedMode = "latest" | "all";

const FEEDS: Record<FeedMode, string> = { latest: "Incremental Feed", all: "Full-Fidelity Feed" };

export class ChangeWatch {
  readonly changes = signal<readonly Change[]>([]);
  readonly isLive = signal(false);
  readonly error = signal<string | null>(null);
  /** Changes seen since the start, kept or not. */
  readonly count = signal(0);
  readonly mode = signal<FeedMode>("latest");
  private etag: string | null = null;
  private run = 0;
  private isShown = true;
  private hasCaughtUp = false;
  private wake: () => void = () => {};

  constructor(private readonly database: string, private readonly container: string) {}

  start(from: Start): void {
    this.etag = from === "now" ? "*" : null;
    this.hasCaughtUp = from === "now";
    this.changes.value = [];
    this.count.value = 0;
    this.resume();
  }

  /** A position of one feed means nothing in the other: watching starts anew, from now. */
  setMode(mode: FeedMode): void {
    if (mode === this.mode.value) return;
    const wasLive = this.isLive.value;
    this.stop();
    this.mode.value = mode;
    this.etag = "*";
    this.hasCaughtUp = true;
    if (wasLive) this.resume();
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

  /** While nobody sees the changes nothing is asked; then it goes on where it was. */
  setShown(isShown: boolean): void {
    this.isShown = isShown;
    if (isShown) this.wake();
  }

  private async follow(run: number): Promise<void> {
    while (run === this.run) {
      if (!this.isShown) {
        await new Promise<void>((resolve) => (this.wake = resolve));
        continue;
      }
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
    const headers: Record<string, string> = { "a-im": FEEDS[this.mode.value], "x-ms-max-item-count": String(PAGE) };
    if (this.etag !== null) headers["if-none-match"] = this.etag;
    const segments = [...containerPath(this.database, this.container), "docs"];
    const answer = await client().send({ method: "GET", segments, headers });
    if (run !== this.run) return false;
    this.etag = answer.headers.get("etag") ?? this.etag;
    if (answer.status === 304 || answer.text === "") {
      this.hasCaughtUp = true;
      return false;
    }
    this.take((parseJson(answer.text) as JsonObject).Documents);
    return true;
  }

  private take(rows: Json | undefined): void {
    const entries = Array.isArray(rows) ? rows.filter(isObject) : [];
    const fresh = entries.map((entry): Change => ({ number: ++this.count.value, isNew: this.hasCaughtUp, ...readChange(entry, this.mode.value) })).reverse();
    this.changes.value = [...fresh, ...this.changes.value].slice(0, CHANGES_KEPT);
  }
}

/** An entry of a feed: an item itself, or an item with what happened to it. */
export function readChange(entry: JsonObject, mode: FeedMode): Omit<Change, "number" | "isNew"> {
  if (mode === "latest") return { at: timeOf(entry._ts), item: entry, operation: null, isExpired: false };
  const metadata = isObject(entry.metadata) ? entry.metadata : {};
  const operation = String(metadata.operationType ?? "").toLowerCase() as Operation;
  const image = operation === "delete" ? entry.previous : entry.current;
  const item = isObject(image) && Object.keys(image).length > 0 ? image : { id: metadata.id ?? "" };
  return { at: timeOf(metadata.crts), item, operation, isExpired: metadata.timeToLiveExpired === true };
}

function timeOf(seconds: Json | undefined): Date | null {
  return typeof seconds === "number" ? new Date(seconds * 1000) : null;
}
