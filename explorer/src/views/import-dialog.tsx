// Imports a file into a container: what it holds is shown first, then its items are written a few at a
// time, and what the server refuses is listed.
import { useSignal } from "@preact/signals";
import type { JsonObject } from "../protocol/json";
import { partitionKeyHeader } from "../protocol/partition-key";
import { counted } from "../protocol/plan";
import { describe } from "../protocol/problem";
import type { Container } from "../protocol/resources";
import { client } from "../state/account";
import { inParallel } from "../state/parallel";
import { type ImportFile, readImportFile } from "../text/import-file";
import { Dialog } from "./dialog";
import { notifyDone } from "./notice";

const FILE_BYTES_MAX = 64 * 1024 * 1024;
const WRITES_AT_ONCE = 8;
const FAULTS_SHOWN = 50;

interface Props {
  container: Container;
  path: readonly string[];
  onDone: () => void;
}

export function ImportDialog({ container, path, onDone }: Props) {
  const file = useSignal<ImportFile | null>(null);
  const isUpsert = useSignal(false);
  const done = useSignal(0);
  const total = useSignal(0);
  const faults = useSignal<readonly string[]>([]);

  const choose = async (chosen: File | undefined) => {
    if (!chosen) return;
    faults.value = [];
    file.value = null;
    if (chosen.size > FILE_BYTES_MAX) {
      faults.value = ["This file is larger than 64 MB. Import it with the command line: orrery import."];
      return;
    }
    file.value = readImportFile(chosen.name, await chosen.text());
    faults.value = file.value.faults;
  };
  const write = async (item: JsonObject) => {
    const headers: Record<string, string> = { "x-ms-documentdb-partitionkey": partitionKeyHeader(item, container.partitionKey.paths) };
    if (isUpsert.value) headers["x-ms-documentdb-is-upsert"] = "true";
    await client().send({ method: "POST", segments: [...path, "docs"], headers, body: item });
  };
  const submit = async () => {
    const items = file.value?.items ?? [];
    if (items.length === 0) throw new Error("Choose a file with items first.");
    const refused: [JsonObject, string][] = [];
    total.value = items.length;
    done.value = 0;
    await inParallel(items, WRITES_AT_ONCE, async (item) => {
      await write(item).catch((problem: unknown) => void refused.push([item, describe(problem)]));
      done.value++;
    });
    total.value = 0;
    onDone();
    notifyDone(`Imported ${counted(items.length - refused.length, "items")}.`);
    if (refused.length === 0) return;
    // What was refused can be imported again once its cause is gone.
    file.value = { items: refused.map(([item]) => item), faults: [] };
    faults.value = refused.map(([item, reason]) => `${String(item.id)}: ${reason}`);
    throw new Error(`Refused: ${refused.length.toLocaleString("en")} of ${counted(items.length, "items")}.`);
  };
  return (
    <Dialog title={`Import into ${container.id}`} action="Import" onSubmit={submit}>
      <label class="field">
        <span class="label">File: JSON array, JSON lines, or CSV with a header</span>
        <input type="file" accept=".json,.jsonl,.ndjson,.csv" onChange={(event) => void choose(event.currentTarget.files?.[0])} />
      </label>
      <label class="check">
        <input type="checkbox" checked={isUpsert.value} onChange={(event) => (isUpsert.value = event.currentTarget.checked)} />
        Replace items that exist (upsert)
      </label>
      {file.value !== null && total.value === 0 && <p role="status">{counted(file.value.items.length, "items")} to import.</p>}
      {total.value > 0 && <progress aria-label="Importing" max={total.value} value={done.value} />}
      {faults.value.length > 0 && (
        <ul class="import-faults" tabIndex={0} aria-label="Not imported">
          {faults.value.slice(0, FAULTS_SHOWN).map((fault, index) => <li key={index}>{fault}</li>)}
          {faults.value.length > FAULTS_SHOWN && <li>and {(faults.value.length - FAULTS_SHOWN).toLocaleString("en")} more</li>}
        </ul>
      )}
    </Dialog>
  );
}
