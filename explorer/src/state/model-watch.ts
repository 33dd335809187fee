// The model of a database and the advisor's report, as the model view shows them: both are read when
// the view opens and again after each change.
import { signal } from "@preact/signals";
import type { JsonObject } from "../protocol/json";
import { type Report, isUnsettled, readAdvice, readModel, statesOf, storeModel, verifyModel } from "../protocol/model";
import { describe } from "../protocol/problem";
import { client } from "./account";

export type Verification =
  | { kind: "none" }
  | { kind: "running"; seconds: number }
  | { kind: "done"; drift: string[]; seconds: number }
  | { kind: "failed"; message: string };

/** How often the state of rules is asked for while the server works on them. */
const PAUSE_MS = 1500;

export class ModelWatch {
  /** As the server has it; null where the database has none. */
  readonly model = signal<JsonObject | null>(null);
  readonly report = signal<Report | null>(null);
  readonly isModelRead = signal(false);
  readonly isAdvising = signal(false);
  readonly error = signal<string | null>(null);
  readonly adviceError = signal<string | null>(null);
  readonly verification = signal<Verification>({ kind: "none" });
  private verifying: AbortController | null = null;
  private next: ReturnType<typeof setTimeout> | undefined;
  private isClosed = false;

  constructor(readonly database: string) {}

  async load(): Promise<void> {
    await Promise.all([this.loadModel(), this.loadAdvice()]);
  }

  async loadModel(): Promise<JsonObject | null> {
    try {
      const found = await readModel(client(), this.database);
      // What was verified is another version's.
      const isOther = found?._etag !== this.model.value?._etag;
      if (isOther && this.verification.value.kind === "done") this.verification.value = { kind: "none" };
      this.model.value = found;
      this.error.value = null;
    } catch (problem) {
      this.error.value = describe(problem);
    }
    this.isModelRead.value = true;
    this.followStates();
    return this.model.value;
  }

  /** The server reads the data for it, which may take a while. */
  async loadAdvice(): Promise<void> {
    this.isAdvising.value = true;
    try {
      this.report.value = await readAdvice(client(), this.database);
      this.adviceError.value = null;
    } catch (problem) {
      this.adviceError.value = describe(problem);
    } finally {
      this.isAdvising.value = false;
    }
  }

  /** Stores a model over the version that was read; fails with the server's problem. */
  async store(model: JsonObject, over: JsonObject | null): Promise<JsonObject> {
    const stored = await storeModel(client(), this.database, model, over);
    this.model.value = stored;
    this.verification.value = { kind: "none" };
    this.followStates();
    void this.loadAdvice();
    return stored;
  }

  /** Data is brought under a new rule beside the writers: the model is read again until that is done. */
  private followStates(): void {
    clearTimeout(this.next);
    const isDone = this.error.value !== null || !statesOf(this.model.value).some(isUnsettled);
    if (!isDone && !this.isClosed) this.next = setTimeout(() => void this.loadModel(), PAUSE_MS);
  }

  /** Nobody looks any more. */
  close(): void {
    this.isClosed = true;
    clearTimeout(this.next);
    this.stopVerifying();
  }

  async verify(): Promise<void> {
    this.stopVerifying();
    const own = new AbortController();
    this.verifying = own;
    const began = performance.now();
    const seconds = () => (performance.now() - began) / 1000;
    this.verification.value = { kind: "running", seconds: 0 };
    const tick = setInterval(() => (this.verification.value = { kind: "running", seconds: seconds() }), 250);
    try {
      const drift = await verifyModel(client(), this.database, own.signal);
      this.verification.value = { kind: "done", drift, seconds: seconds() };
    } catch (problem) {
      this.verification.value = own.signal.aborted ? { kind: "none" } : { kind: "failed", message: describe(problem) };
    } finally {
      clearInterval(tick);
    }
  }

  stopVerifying(): void {
    this.verifying?.abort();
    this.verifying = null;
  }
}
