// Reads the nodes of the store every three seconds, one request at a time, until it is stopped.
import { signal } from "@preact/signals";
import type { Json } from "../protocol/json";
import { type Nodes, readNodes } from "../protocol/nodes";
import { Problem, describe } from "../protocol/problem";
import { client } from "./account";

export const EVERY_MS = 3000;
/** A server that takes longer is reported; it is asked again. */
const ANSWER_MS = 10_000;

type Ask = (signal: AbortSignal) => Promise<Json>;

const askServer: Ask = (signal) => client().json({ method: "GET", segments: ["_orrery", "nodes"], signal });

export class NodesWatch {
  /** As they were read last; null before. */
  readonly nodes = signal<Nodes | null>(null);
  readonly readAt = signal<Date | null>(null);
  /** Why they could not be read, since the last time that they could. */
  readonly error = signal<string | null>(null);
  private run = 0;
  private isRunning = false;

  constructor(private readonly ask: Ask = askServer) {}

  start(): void {
    if (this.isRunning) return;
    this.isRunning = true;
    void this.follow(++this.run);
  }

  stop(): void {
    this.isRunning = false;
    this.run++;
  }

  private async follow(run: number): Promise<void> {
    while (run === this.run) {
      await this.read(run);
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  }

  /** An answer that comes after the stop is not taken. */
  private async read(run: number): Promise<void> {
    try {
      const nodes = readNodes(await this.ask(AbortSignal.timeout(ANSWER_MS)));
      if (run !== this.run) return;
      this.nodes.value = nodes;
      this.readAt.value = new Date();
      this.error.value = null;
    } catch (problem) {
      if (run !== this.run) return;
      const isTooLate = problem instanceof DOMException && problem.name === "TimeoutError";
      this.error.value = isTooLate ? `The server has not answered for ${ANSWER_MS / 1000} seconds.` : describe(problem);
      // Asking again does not change what the key permits.
      if (problem instanceof Problem && (problem.status === 401 || problem.status === 403)) this.stop();
    }
  }
}
