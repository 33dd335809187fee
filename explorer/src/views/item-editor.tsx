// One item as JSON: read again when opened, saved only if nobody else has changed it since.
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo } from "preact/hooks";
import { CodeEditor } from "../editor/code-editor";
import { type JsonObject, isObject, parseJson, prettyJson, withoutSystemProperties } from "../protocol/json";
import { partitionKeyHeader } from "../protocol/partition-key";
import { Problem, describe } from "../protocol/problem";
import { type Container, addressOf, createItem, deleteItem, readItem, replaceItem } from "../protocol/resources";
import { client } from "../state/account";
import { EditBuffer } from "../state/edit-buffer";
import { findJsonFault, lineAndColumn } from "../text/json-fault";
import { duplicateText } from "../text/new-item";
import { ConflictDialog } from "./conflict-dialog";
import { confirmSmallDeletion, openDialog } from "./dialog";
import { Icon } from "./icon";
import { notifyDone } from "./notice";

export type EditorStart = { item: JsonObject } | { newText: string };

interface Props {
  container: Container;
  path: readonly string[];
  /** What is edited first: a row of the grid, or the text of an item that is not stored yet. */
  start: EditorStart;
  /** Told whether there is something here that would be lost. */
  onDirty: (isDirty: boolean) => void;
  onSaved: (item: JsonObject) => void;
  onDeleted: (item: JsonObject) => void;
  onDuplicate: (newText: string) => void;
  onClose: () => void;
}

const textOf = (item: JsonObject) => prettyJson(withoutSystemProperties(item));

export function readItemText(text: string): JsonObject {
  const fault = findJsonFault(text);
  if (fault !== null) {
    const { line, column } = lineAndColumn(text, fault.at);
    throw new Error(`This is not JSON: line ${line}, column ${column}: ${fault.message}.`);
  }
  const value = parseJson(text);
  if (!isObject(value)) throw new Error("An item is a JSON object: { … }");
  return withoutSystemProperties(value);
}

export function ItemEditor({ container, path, start, onDirty, onSaved, onDeleted, onDuplicate, onClose }: Props) {
  const item = "item" in start ? start.item : null;
  const buffer = useMemo(() => new EditBuffer<JsonObject>(item, (version) => (version !== null ? textOf(version) : "newText" in start ? start.newText : "")), []);
  const error = useSignal<string | null>(null);
  const isReading = useSignal(item !== null);
  const isBusy = useSignal(false);
  const base = buffer.base.value;
  const isModified = buffer.isModified.value;
  // Before the next event: a click on another row must know whether something would be lost.
  useLayoutEffect(() => onDirty(isModified), [isModified]);

  // The grid's row may be old by now; what is edited is what is stored.
  useEffect(() => {
    if (item === null) return;
    const read = readItem(client(), path, addressOf(item, container));
    read.then((stored) => void buffer.refresh(stored), (problem: unknown) => {
      error.value = describe(problem);
    }).finally(() => (isReading.value = false));
  }, []);

  const saveOver = async (mine: JsonObject, over: JsonObject, sent: string) => {
    const saved = await replaceItem(client(), path, addressOf(over, container), mine, String(over._etag));
    buffer.saved(saved, sent);
    onSaved(saved);
    notifyDone(`Saved ${String(saved.id)}.`);
  };
  const conflict = async (mine: JsonObject, over: JsonObject, sent: string) => {
    const theirs = await readItem(client(), path, addressOf(over, container));
    openDialog(
      <ConflictDialog
        id={String(over.id)} mine={prettyJson(mine)} theirs={textOf(theirs)}
        onTakeTheirs={() => {
          buffer.reset(theirs);
          onSaved(theirs);
        }}
        onEditOn={() => buffer.rebase(theirs)}
        onOverwrite={() => saveOver(mine, theirs, sent)}
      />,
    );
  };
  const save = async () => {
    // A second save would send the etag that the first one is about to replace.
    if (isBusy.value) return;
    isBusy.value = true;
    error.value = null;
    try {
      const sent = buffer.text.value;
      const mine = readItemText(sent);
      const over = buffer.base.value;
      if (over === null) {
        const saved = await createItem(client(), path, mine, partitionKeyHeader(mine, container.partitionKey.paths));
        buffer.saved(saved, sent);
        onSaved(saved);
        notifyDone(`Created ${String(saved.id)}.`);
      } else {
        await saveOver(mine, over, sent).catch((problem: unknown) => {
          if (problem instanceof Problem && problem.status === 412) return conflict(mine, over, sent);
          throw problem;
        });
      }
    } catch (problem) {
      error.value = describe(problem);
    } finally {
      isBusy.value = false;
    }
  };
  const erase = () => {
    const old = buffer.base.value!;
    confirmSmallDeletion(`the item ${String(old.id)}`, async () => {
      await deleteItem(client(), path, addressOf(old, container), String(old._etag)).catch((problem: unknown) => {
        const isOld = problem instanceof Problem && problem.status === 412;
        throw isOld ? new Error("Another client has changed this item since it was read. Open it again first.") : problem;
      });
      onDeleted(old);
      notifyDone(`Deleted ${String(old.id)}.`);
    });
  };

  return (
    <aside class="detail" aria-label="Item" aria-busy={isReading.value || isBusy.value}>
      <div class="toolbar">
        <h2 class="mono detail-title">{base === null ? "New item" : String(base.id)}{isModified && base !== null && <span class="dot" title="Not saved" />}</h2>
        <span class="grow" />
        {base !== null && <button type="button" class="quiet" aria-label="Duplicate item" title="Duplicate: a new item with the same properties" onClick={() => onDuplicate(duplicateText(base))}><Icon name="copy" /></button>}
        {base !== null && <button type="button" class="quiet" aria-label="Delete item" title="Delete" onClick={erase}><Icon name="trash" /></button>}
        {base !== null && isModified && <button type="button" onClick={() => buffer.reset()}>Revert</button>}
        <button type="button" class="primary" disabled={isBusy.value || (base !== null && !isModified)} title="Ctrl S" onClick={() => void save()}>{base === null ? "Create" : "Save"}</button>
        <button type="button" class="quiet" aria-label="Close item" onClick={onClose}><Icon name="close" /></button>
      </div>
      {error.value !== null && <p class="problem bar" role="alert">{error.value}</p>}
      <CodeEditor label="Item" language="json" text={buffer.text.value} onChange={(now) => (buffer.text.value = now)} keys={{ "Mod-s": () => void save() }} isFilling />
      {base !== null && <SystemProperties item={base} />}
    </aside>
  );
}

function SystemProperties({ item }: { item: JsonObject }) {
  const written = new Date(Number(item._ts) * 1000);
  return (
    <dl class="system">
      <dt>Written</dt><dd>{Number.isNaN(written.getTime()) ? "" : written.toLocaleString()}</dd>
      <dt>_etag</dt><dd class="mono">{String(item._etag).replaceAll('"', "")}</dd>
      <dt>_rid</dt><dd class="mono">{String(item._rid)}</dd>
    </dl>
  );
}
