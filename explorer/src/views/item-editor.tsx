// One item as JSON: read anew when opened, saved only if nobody else has changed it since.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { CodeEditor } from "../editor/code-editor";
import { type JsonObject, isObject, parseJson, prettyJson, withoutSystemProperties } from "../protocol/json";
import { partitionKeyHeader, pathNames } from "../protocol/partition-key";
import { Problem, describe } from "../protocol/problem";
import { type Container, addressOf, createItem, deleteItem, readItem, replaceItem } from "../protocol/resources";
import { client } from "../state/account";
import { findJsonFault, lineAndColumn } from "../text/json-fault";
import { ConflictDialog } from "./conflict-dialog";
import { confirmSmallDeletion, openDialog } from "./dialog";
import { Icon } from "./icon";
import { notifyDone } from "./notice";

interface Props {
  container: Container;
  path: readonly string[];
  /** Null: an item that is not there yet. */
  item: JsonObject | null;
  /** Told whether there is something here that would be lost. */
  onDirty: (isDirty: boolean) => void;
  onSaved: (item: JsonObject) => void;
  onDeleted: (item: JsonObject) => void;
  onClose: () => void;
}

const textOf = (item: JsonObject) => prettyJson(withoutSystemProperties(item));

function template(container: Container): string {
  const item: JsonObject = { id: "" };
  for (const path of container.partitionKey.paths) {
    const names = pathNames(path);
    let at = item;
    names.forEach((name, index) => {
      if (index === names.length - 1) at[name] ??= "";
      else at = (at[name] ??= {}) as JsonObject;
    });
  }
  return prettyJson(item);
}

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

export function ItemEditor({ container, path, item, onDirty, onSaved, onDeleted, onClose }: Props) {
  const base = useSignal<JsonObject | null>(item);
  const text = useSignal(item === null ? template(container) : textOf(item));
  const error = useSignal<string | null>(null);
  const isBusy = useSignal(false);
  const original = base.value === null ? null : textOf(base.value);
  const isChanged = text.value !== original;
  const untouched = original ?? template(container);
  useEffect(() => onDirty(text.value !== untouched), [text.value, untouched]);

  const take = (current: JsonObject) => {
    base.value = current;
    text.value = textOf(current);
  };
  // The grid's row may be old by now; what is edited is what is stored.
  useEffect(() => {
    if (item === null) return;
    readItem(client(), path, addressOf(item, container)).then(take, (problem: unknown) => {
      error.value = describe(problem);
    });
  }, []);

  const saveOver = async (mine: JsonObject, over: JsonObject) => {
    const saved = await replaceItem(client(), path, addressOf(over, container), mine, String(over._etag));
    take(saved);
    onSaved(saved);
    notifyDone(`Saved ${String(saved.id)}.`);
  };
  const conflict = async (mine: JsonObject, over: JsonObject) => {
    const theirs = await readItem(client(), path, addressOf(over, container));
    openDialog(
      <ConflictDialog
        id={String(over.id)} mine={prettyJson(mine)} theirs={textOf(theirs)}
        onTakeTheirs={() => {
          take(theirs);
          onSaved(theirs);
        }}
        onEditOn={() => (base.value = theirs)}
        onOverwrite={() => saveOver(mine, theirs)}
      />,
    );
  };
  const save = async () => {
    isBusy.value = true;
    error.value = null;
    try {
      const mine = readItemText(text.value);
      const old = base.value;
      if (old === null) {
        const saved = await createItem(client(), path, mine, partitionKeyHeader(mine, container.partitionKey.paths));
        onSaved(saved);
        notifyDone(`Created ${String(saved.id)}.`);
      } else {
        await saveOver(mine, old).catch((problem: unknown) => {
          if (problem instanceof Problem && problem.status === 412) return conflict(mine, old);
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
    const old = base.value!;
    confirmSmallDeletion(`the item ${String(old.id)}`, async () => {
      await deleteItem(client(), path, addressOf(old, container), String(old._etag)).catch((problem: unknown) => {
        const isOld = problem instanceof Problem && problem.status === 412;
        throw isOld ? new Error("Somebody else has changed this item since you opened it. Look at it again first.") : problem;
      });
      onDeleted(old);
      notifyDone(`Deleted ${String(old.id)}.`);
    });
  };

  return (
    <aside class="detail" aria-label="Item">
      <div class="toolbar">
        <h2 class="mono detail-title">{base.value === null ? "New item" : String(base.value.id)}{isChanged && base.value !== null && <span class="dot" title="Not saved" />}</h2>
        <span class="grow" />
        {base.value !== null && <button type="button" class="quiet" aria-label="Delete item" title="Delete" onClick={erase}><Icon name="trash" /></button>}
        {base.value !== null && isChanged && <button type="button" onClick={() => (text.value = original!)}>Revert</button>}
        <button type="button" class="primary" disabled={isBusy.value || !isChanged} title="Ctrl S" onClick={() => void save()}>{base.value === null ? "Create" : "Save"}</button>
        <button type="button" class="quiet" aria-label="Close item" onClick={onClose}><Icon name="close" /></button>
      </div>
      {error.value !== null && <p class="problem bar" role="alert">{error.value}</p>}
      <CodeEditor label="Item" language="json" text={text.value} onChange={(now) => (text.value = now)} keys={{ "Mod-s": () => void save() }} isFilling />
      {base.value !== null && <SystemProperties item={base.value} />}
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
