// One query of a container: its text and settings, the page of rows shown, and what the server said
// about it. The view shows this; nothing here draws.
import { type Signal, batch, computed, effect, signal } from "@preact/signals";
import type { Fault } from "../editor/code-editor";
import type { Answer } from "../protocol/client";
import { type Json, isObject, parseJson } from "../protocol/json";
import { type PlanNode, addPlans, readPlan } from "../protocol/plan";
import { Problem, describe, editorOffset } from "../protocol/problem";
import { type QueryMetric, readQueryMetrics } from "../protocol/query-metrics";
import { type Page, containerPath, query } from "../protocol/resources";
import { client } from "./account";
import { FIRST_PAGE, type Paging, arrived, currentToken, fillPage } from "./paging";
import { pageSize, rememberQuery } from "./preferences";
import { type QueryText, keepQueryText, keptQueryText } from "./query-texts";
import { seenPaths } from "./seen-paths";

export interface Outcome {
  /** The query that the rows are of. */
  text: string;
  rows: Json[];
  charge: number;
  elapsedMs: number;
  serverMs: number | null;
  metrics: QueryMetric[];
  indexes: Json | null;
  plan: PlanNode | null;
}

const EXPORT_ROWS_MAX = 100_000;

export class QueryRun {
  readonly text: Signal<string>;
  readonly partitionKey: Signal<string>;
  readonly parameters: Signal<string>;
  readonly outcome = signal<Outcome | null>(null);
  readonly paging = signal<Paging>(FIRST_PAGE);
  readonly isRunning = signal(false);
  readonly error = signal<string | null>(null);
  readonly faults = signal<readonly Fault[]>([]);
  /** Whether the rows shown are those of another text than the editor holds. */
  readonly isOutdated = computed(() => this.outcome.value !== null && !isSame(this.ran.value, this.entered()));
  /** What was run last; pages belong to it, whatever the editor holds now. */
  private asked: { text: string; parameters: { name: string; value: Json }[]; partitionKey: string | undefined } | null = null;
  private readonly ran = signal<QueryText | null>(null);
  private control: AbortController | null = null;

  constructor(readonly database: string, readonly container: string) {
    const kept = keptQueryText(this.where);
    this.text = signal(kept?.text ?? "SELECT * FROM c");
    this.partitionKey = signal(kept?.partitionKey ?? "");
    this.parameters = signal(kept?.parameters ?? "");
  }

  get where(): string {
    return `${this.database}/${this.container}`;
  }

  /** Keeps what is entered for the session, until what it returns is called. */
  keepText(): () => void {
    return effect(() => keepQueryText(this.where, this.entered()));
  }

  private entered(): QueryText {
    return { text: this.text.value, partitionKey: this.partitionKey.value, parameters: this.parameters.value };
  }

  async run(): Promise<void> {
    try {
      this.asked = {
        text: this.text.value,
        parameters: readParameters(this.parameters.value),
        partitionKey: readPartitionKey(this.partitionKey.value),
      };
    } catch (problem) {
      this.error.value = describe(problem);
      return;
    }
    // Rows of another query are not shown under this one, however long it takes.
    if (this.isOutdated.value) this.outcome.value = null;
    this.ran.value = this.entered();
    rememberQuery(this.text.value, this.where);
    await this.go(FIRST_PAGE);
  }

  /** Takes a query in place of what was entered, and runs it. */
  async show(text: string): Promise<void> {
    batch(() => {
      this.text.value = text;
      this.partitionKey.value = "";
      this.parameters.value = "";
    });
    await this.run();
  }

  stop(): void {
    this.control?.abort();
  }

  /** Shows another page of what was run last. */
  async go(paging: Paging): Promise<void> {
    this.control?.abort();
    const control = new AbortController();
    this.control = control;
    batch(() => {
      this.isRunning.value = true;
      this.error.value = null;
      this.faults.value = [];
    });
    try {
      const answers = await this.fetch(currentToken(paging), control.signal);
      const found = outcome(this.asked!.text, answers);
      seenPaths(this.database, this.container).add(found.rows);
      batch(() => {
        this.outcome.value = found;
        this.paging.value = arrived(paging, answers.at(-1)!.continuation);
      });
    } catch (problem) {
      if (!control.signal.aborted) this.fail(problem);
    } finally {
      if (this.control === control) this.isRunning.value = false;
    }
  }

  /** Every row, for a file. */
  async all(): Promise<Json[]> {
    const rows: Json[] = [];
    let token: string | null = null;
    do {
      const answers: Page[] = await this.fetch(token, new AbortController().signal);
      for (const answer of answers) for (const row of answer.rows) rows.push(row);
      token = answers.at(-1)!.continuation;
      if (rows.length > EXPORT_ROWS_MAX) {
        throw new Error(`This query has more than ${EXPORT_ROWS_MAX.toLocaleString()} rows; narrow it, or export with a client.`);
      }
    } while (token !== null);
    return rows;
  }

  /** The answers that make up the page at a token. */
  private fetch(token: string | null, signal: AbortSignal): Promise<Page[]> {
    const { text, parameters, partitionKey } = this.asked!;
    return fillPage(pageSize.value, token, (continuation, room) =>
      query(client(), containerPath(this.database, this.container), {
        query: text, parameters, partitionKey, pageSize: room, continuation, explain: true, signal,
      }));
  }

  private fail(problem: unknown): void {
    const text = this.asked!.text;
    const faults = problem instanceof Problem ? problem.faults : [];
    batch(() => {
      this.error.value = describe(problem);
      this.outcome.value = null;
      this.faults.value = faults.map(({ start, end, message }) => ({
        from: editorOffset(text, start), to: editorOffset(text, end), message,
      }));
    });
  }
}

function isSame(a: QueryText | null, b: QueryText): boolean {
  return a !== null && a.text === b.text && a.partitionKey === b.partitionKey && a.parameters === b.parameters;
}

/** What the answers of one page come to; times, charges and the counts of plans are added up. */
function outcome(text: string, answers: readonly Page[]): Outcome {
  const sum = (pick: (page: Page) => number) => answers.reduce((total, page) => total + pick(page), 0);
  const serverMs = sum(({ answer }) => Number(answer.headers.get("x-ms-request-duration-ms") ?? Number.NaN));
  // The last answer that has rows tells more than an empty one at the end.
  const { answer } = answers.findLast(({ rows }) => rows.length > 0) ?? answers.at(-1)!;
  return {
    text,
    rows: answers.flatMap(({ rows }) => rows),
    charge: sum(({ answer: one }) => one.charge),
    elapsedMs: sum(({ answer: one }) => one.elapsedMs),
    serverMs: Number.isFinite(serverMs) ? serverMs : null,
    metrics: readQueryMetrics(answer.headers.get("x-ms-documentdb-query-metrics")),
    indexes: readIndexes(answer),
    plan: addPlans(answers.map(({ answer: one }) => readPlan(one.headers.get("x-orrery-plan")))),
  };
}

function readIndexes({ headers }: Answer): Json | null {
  const text = headers.get("x-ms-cosmos-index-utilization");
  if (!text) return null;
  try {
    return parseJson(decodeURIComponent(text));
  } catch {
    return null;
  }
}

/** Parameters as people write them: `{"@max": 50}`. */
export function readParameters(text: string): { name: string; value: Json }[] {
  if (text.trim() === "") return [];
  let value: Json;
  try {
    value = parseJson(text);
  } catch {
    throw new Error('The parameters are not JSON. Write them as {"@max": 50}.');
  }
  if (!isObject(value)) throw new Error('Parameters are an object: {"@max": 50}.');
  return Object.entries(value).map(([name, one]) => ({ name: name.startsWith("@") ? name : `@${name}`, value: one }));
}

/** A partition key as people write it: JSON, or bare text; an array for several levels. */
export function readPartitionKey(text: string): string | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  let value: Json;
  try {
    value = parseJson(trimmed);
  } catch {
    value = trimmed;
  }
  return Array.isArray(value) ? trimmed : `[${typeof value === "string" ? JSON.stringify(value) : trimmed}]`;
}
