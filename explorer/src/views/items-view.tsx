// The items of a container: a filter, one page of them as a grid, and the chosen one as JSON. Only
// the page shown is in memory, however many items there are.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type JsonObject, isObject, prettyJson, withoutSystemProperties } from "../protocol/json";
import { counted } from "../protocol/plan";
import { describe } from "../protocol/problem";
import { addressOf as itemAddress, containerPath, deleteItem, query } from "../protocol/resources";
import { account, client } from "../state/account";
import { findContainer } from "../state/catalog";
import { inParallel } from "../state/parallel";
import { FIRST_PAGE, type Paging, arrived, currentToken, fillPage } from "../state/paging";
import { columnChoices, pageSize } from "../state/preferences";
import { seenPaths } from "../state/seen-paths";
import { addressOf } from "../state/tabs";
import { isUnsaved, setUnsaved } from "../state/unsaved";
import { columnsOf } from "../text/csv";
import { download } from "../text/download";
import { countQuery, filterQuery, isSortable } from "../text/filter-query";
import { newItemText } from "../text/new-item";
import { type Sort, nextSort } from "../text/sort-rows";
import { ColumnChooser } from "./column-chooser";
import { confirmGivingUp, confirmSmallDeletion, openDialog } from "./dialog";
import { Grid } from "./grid";
import { Icon } from "./icon";
import { ImportDialog } from "./import-dialog";
import { type EditorStart, ItemEditor } from "./item-editor";
import { notifyDone } from "./notice";
import { Pager } from "./pager";

interface Props {
  database: string;
  container: string;
}

export function ItemsView({ database, container: name }: Props) {
  const path = containerPath(database, name);
  const container = findContainer(database, name);
  const filter = useSignal("");
  const applied = useSignal("");
  const sort = useSignal<Sort | null>(null);
  /** How many items the filter finds; null until they are counted. */
  const total = useSignal<number | null>(null);
  const checked = useSignal<ReadonlySet<JsonObject>>(new Set());
  const paging = useSignal<Paging>(FIRST_PAGE);
  const rows = useSignal<readonly JsonObject[] | null>(null);
  const error = useSignal<string | null>(null);
  const isLoading = useSignal(false);
  const chosen = useSignal<EditorStart | null>(null);
  const running = useRef<AbortController | null>(null);
  /** Counts what was opened: an editor stays the same one while what it shows is saved. */
  const opened = useSignal(0);
  const address = addressOf({ kind: "items", database, container: name });

  /** Shows another item, or none; what is not saved is given up only when asked. */
  const choose = (next: EditorStart | null) => {
    const go = () => {
      setUnsaved(address, false);
      chosen.value = next;
      opened.value++;
    };
    if (isUnsaved(address)) confirmGivingUp("The item you are editing is not saved.", go);
    else go();
  };

  const choiceKey = `${database}/${name}`;
  const all = useComputed(() => columnsOf(rows.value ?? []));
  const keyColumns = (container?.partitionKey.paths ?? []).map((one) => one.split("/")[1]!.replaceAll('"', ""));
  const shown = columnChoices.value[choiceKey] ?? defaultColumns(all.value, keyColumns);

  const fetchPage = async (at: Paging) => {
    running.current?.abort();
    const control = new AbortController();
    running.current = control;
    isLoading.value = true;
    error.value = null;
    checked.value = new Set();
    try {
      const text = filterQuery(applied.value, sort.value);
      const answers = await fillPage(pageSize.value, currentToken(at), (continuation, room) =>
        query(client(), path, { query: text, pageSize: room, continuation, signal: control.signal }));
      rows.value = answers.flatMap((answer) => answer.rows).filter(isObject);
      seenPaths(database, name).add(rows.value);
      paging.value = arrived(at, answers.at(-1)!.continuation);
      if (at.index === 0) void count(rows.value.length, control.signal);
    } catch (problem) {
      if (!control.signal.aborted) error.value = describe(problem);
    } finally {
      if (running.current === control) isLoading.value = false;
    }
  };
  /** Counts what the filter finds, beside the first page; a page that is all there is needs no counting. */
  const count = async (shownRows: number, signal: AbortSignal) => {
    total.value = paging.value.isLast ? shownRows : null;
    const text = paging.value.isLast ? null : countQuery(applied.value);
    if (text === null) return;
    try {
      const answers = await fillPage(1, null, (continuation, room) => query(client(), path, { query: text, pageSize: room, continuation, signal }));
      const found = answers.flatMap((answer) => answer.rows)[0];
      if (!signal.aborted && typeof found === "number") total.value = found;
    } catch {
      // The page is there; how many more there are stays unknown.
    }
  };
  const restart = () => {
    if (!isSortable(filter.value)) sort.value = null;
    total.value = null;
    applied.value = filter.value;
    return fetchPage(FIRST_PAGE);
  };
  useEffect(() => {
    void restart();
    return () => running.current?.abort();
  }, [account.value, pageSize.value]);
  useEffect(() => () => setUnsaved(address, false), []);

  const eraseChecked = () => {
    const gone = [...checked.value];
    confirmSmallDeletion(counted(gone.length, "items"), async () => {
      const deleted = new Set<JsonObject>();
      await inParallel(gone, DELETES_AT_ONCE, async (item) => {
        await deleteItem(client(), path, itemAddress(item, container!), String(item._etag));
        deleted.add(item);
      }).finally(() => {
        const rids = new Set([...deleted].map(({ _rid }) => _rid));
        rows.value = rows.value?.filter((row) => !rids.has(row._rid)) ?? null;
        checked.value = new Set();
        if (total.value !== null) total.value -= deleted.size;
        if (chosen.value !== null && "item" in chosen.value && rids.has(chosen.value.item._rid)) choose(null);
      });
      notifyDone(`Deleted ${counted(deleted.size, "items")}.`);
    });
  };
  const exportChecked = () =>
    download(`${name}.json`, "application/json", [prettyJson([...checked.value].map(withoutSystemProperties))]);

  const pageCount = rows.value?.length ?? 0;
  const selected = chosen.value !== null && "item" in chosen.value ? chosen.value.item : null;
  return (
    <>
      <div class="toolbar">
        <form class="filter" onSubmit={(event) => {
          event.preventDefault();
          void restart();
        }}>
          <span class="filter-lead mono">WHERE</span>
          <input
            class="mono" aria-label="Filter" spellcheck={false} autocomplete="off"
            placeholder="c.price > 10 ORDER BY c.price"
            value={filter.value} onInput={(event) => (filter.value = event.currentTarget.value)}
          />
          <button type="submit">Apply</button>
        </form>
        <ColumnChooser all={all.value} shown={shown} onChange={(columns) => {
          const { [choiceKey]: _, ...others } = columnChoices.value;
          columnChoices.value = columns === null ? others : { ...others, [choiceKey]: columns };
        }} />
        <button type="button" title="Fetch this page again" aria-label="Refresh" onClick={() => void fetchPage(paging.value)}><Icon name="refresh" /></button>
        <button type="button" disabled={container === null} onClick={() => openDialog(<ImportDialog container={container!} path={path} onDone={() => void restart()} />)}><Icon name="upload" />Import</button>
        <button type="button" class="primary" disabled={container === null} onClick={() => choose({ newText: newItemText(container?.partitionKey.paths ?? []) })}><Icon name="plus" />New item</button>
      </div>
      {checked.value.size > 0 && (
        <div class="toolbar selection" role="group" aria-label="Selected items">
          <span>{counted(checked.value.size, "items")} selected</span>
          <button type="button" onClick={exportChecked}><Icon name="download" />Export</button>
          <button type="button" class="danger" disabled={container === null} onClick={eraseChecked}><Icon name="trash" />Delete…</button>
          <button type="button" class="quiet" onClick={() => (checked.value = new Set())}>Clear selection</button>
        </div>
      )}
      {error.value !== null && <p class="problem bar" role="alert">{error.value}</p>}
      <div class={chosen.value === null ? "split" : "split with-detail"}>
        <div class="split-main">
          <Grid
            label={`Items of ${name}`} rows={rows.value ?? []} columns={shown} emphasized={["id", ...keyColumns]}
            selected={selected} checked={checked.value} onCheck={(ticked) => (checked.value = ticked)}
            sort={sort.value} onSort={isSortable(applied.value) ? (column) => {
              sort.value = nextSort(sort.value, column);
              void fetchPage(FIRST_PAGE);
            } : undefined}
            onSelect={(row) => row !== selected && choose({ item: row })}
            empty={rows.value === null ? "" : applied.value.trim() === "" ? "This container has no items yet." : "No item matches the filter."}
          />
          <Pager paging={paging.value} count={pageCount} total={total.value} isLoading={isLoading.value} onGo={(at) => void fetchPage(at)} />
        </div>
        {chosen.value !== null && container !== null && (
          <ItemEditor
            key={opened.value}
            container={container} path={path} start={chosen.value}
            onSaved={(saved) => {
              const isKnown = rows.value?.some((row) => row._rid === saved._rid) ?? false;
              rows.value = isKnown ? rows.value!.map((row) => (row._rid === saved._rid ? saved : row)) : [saved, ...(rows.value ?? [])];
              if (!isKnown && total.value !== null) total.value++;
              chosen.value = { item: saved };
            }}
            onDeleted={(gone) => {
              rows.value = rows.value?.filter((row) => row._rid !== gone._rid) ?? null;
              if (total.value !== null) total.value--;
              setUnsaved(address, false);
              chosen.value = null;
            }}
            onDuplicate={(newText) => choose({ newText })}
            onClose={() => choose(null)}
            onDirty={(isDirty) => setUnsaved(address, isDirty)}
          />
        )}
      </div>
    </>
  );
}

const COLUMNS_SHOWN = 8;
const DELETES_AT_ONCE = 4;

/** The id, the partition key, and the first other properties. */
function defaultColumns(all: readonly string[], keys: readonly string[]): string[] {
  const lead = ["id", ...keys.filter((key) => key !== "id")];
  const rest = all.filter((column) => !lead.includes(column) && !column.startsWith("_"));
  return [...lead, ...rest].slice(0, COLUMNS_SHOWN);
}
