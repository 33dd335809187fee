// The tree of everything in the account, as a flat list of rows that knows its levels; arrow keys
// move, right and left open and close, Enter opens a tab, Delete asks to delete.
import { signal, untracked, useSignal, useSignalEffect } from "@preact/signals";
import { client } from "../state/account";
import * as catalog from "../state/catalog";
import type { Loaded } from "../state/catalog";
import { type ScriptKind, containerPath, databasePath, remove } from "../protocol/resources";
import { NEW_SCRIPT, type Route, activeAddress, activeTab, addressOf, closeAll, open } from "../state/tabs";
import { confirmDeletion, confirmSmallDeletion, openDialog } from "./dialog";
import { Icon, type IconName } from "./icon";
import { NewContainer } from "./new-container";
import { notifyDone } from "./notice";

interface Row {
  key: string;
  level: number;
  label: string;
  icon?: IconName;
  isOpen?: boolean;
  route?: Route;
  /** What a click shows that opens the row. */
  onUnfold?: Route;
  isMuted?: boolean;
  onToggle?: () => void;
  onAdd?: { label: string; run: () => void };
  onDelete?: () => void;
}

const openKeys = signal<ReadonlySet<string>>(new Set());

function toggle(key: string): void {
  const keys = new Set(openKeys.value);
  if (!keys.delete(key)) keys.add(key);
  openKeys.value = keys;
}

export function reveal(...keys: string[]): void {
  openKeys.value = new Set([...openKeys.value, ...keys]);
}

const SCRIPT_FOLDERS: readonly [ScriptKind, string, string][] = [
  ["sprocs", "Stored procedures", "New stored procedure"],
  ["triggers", "Triggers", "New trigger"],
  ["udfs", "Functions", "New function"],
];

function folder(key: string, level: number, label: string, icon: IconName): Row {
  return { key, level, label, icon, isOpen: openKeys.value.has(key), onToggle: () => toggle(key) };
}

function children<T>(state: Loaded<T[]>, key: string, level: number, empty: string, rowsOf: (one: T) => Row[]): Row[] {
  if (state.value !== null && state.value.length > 0) return state.value.flatMap(rowsOf);
  const label = state.error ?? (state.value === null ? "…" : empty);
  return [{ key: `${key}/empty`, level, label, isMuted: true }];
}

function rows(): Row[] {
  return children(catalog.databases().value, "", 1, "No databases yet", ({ id }) => databaseRows(id));
}

function databaseRows(database: string): Row[] {
  const key = `d/${database}`;
  const row: Row = {
    ...folder(key, 1, database, "database"),
    onAdd: { label: `New container in ${database}`, run: () => openDialog(<NewContainer database={database} />) },
    onDelete: () => deleteDatabase(database),
  };
  if (!row.isOpen) return [row];
  const inside = children(catalog.containers(database).value, key, 2, "No containers yet", ({ id }) => containerRows(database, id));
  const model: Row = { key: `${key}/model`, level: 2, label: "Model", icon: "model", route: { kind: "model", database } };
  const users: Row = { key: `${key}/users`, level: 2, label: "Users", icon: "users", route: { kind: "users", database } };
  const settings: Row = { key: `${key}/settings`, level: 2, label: "Settings", icon: "settings", route: { kind: "database", database } };
  return [row, ...inside, model, users, settings];
}

function containerRows(database: string, container: string): Row[] {
  const key = `c/${database}/${container}`;
  const row: Row = {
    ...folder(key, 2, container, "container"),
    onUnfold: { kind: "items", database, container },
    onDelete: () => deleteContainer(database, container),
  };
  if (!row.isOpen) return [row];
  const leaf = (kind: "items" | "query" | "feed" | "settings", label: string): Row => ({
    key: `${key}/${kind}`, level: 3, label, icon: kind, route: { kind, database, container },
  });
  return [
    row,
    leaf("items", "Items"),
    leaf("query", "Query"),
    leaf("feed", "Change feed"),
    ...scriptRows(database, container, key),
    leaf("settings", "Settings"),
  ];
}

function scriptRows(database: string, container: string, parent: string): Row[] {
  const key = `${parent}/scripts`;
  const row = folder(key, 3, "Scripts", "script");
  if (!row.isOpen) return [row];
  const kinds = SCRIPT_FOLDERS.flatMap(([scripts, label, newLabel]) => {
    const kindKey = `${key}/${scripts}`;
    const route = (script: string): Route => ({ kind: "script", database, container, scripts, script });
    const kindRow: Row = {
      ...folder(kindKey, 4, label, "script"),
      onAdd: { label: newLabel, run: () => open(route(NEW_SCRIPT)) },
    };
    delete kindRow.icon;
    if (!kindRow.isOpen) return [kindRow];
    const inside = children(catalog.scripts(database, container, scripts).value, kindKey, 5, "None yet", ({ id }): Row[] => [
      { key: `${kindKey}/${id}`, level: 5, label: id, route: route(id), onDelete: () => deleteScript(database, container, scripts, id) },
    ]);
    return [kindRow, ...inside];
  });
  return [row, ...kinds];
}

export function deleteDatabase(database: string): void {
  confirmDeletion({
    what: "database",
    name: database,
    consequence: "All its containers, items, scripts and users go with it.",
    onDelete: async () => {
      await remove(client(), databasePath(database));
      closeAll((route) => "database" in route && route.database === database);
      await catalog.reloadDatabases();
      notifyDone(`Deleted the database ${database}.`);
    },
  });
}

export function deleteContainer(database: string, container: string): void {
  confirmDeletion({
    what: "container",
    name: container,
    consequence: "All its items and scripts go with it.",
    onDelete: async () => {
      await remove(client(), containerPath(database, container));
      closeAll((route) => "container" in route && route.database === database && route.container === container);
      await catalog.reloadContainers(database);
      notifyDone(`Deleted the container ${container}.`);
    },
  });
}

function deleteScript(database: string, container: string, scripts: ScriptKind, script: string): void {
  confirmSmallDeletion(script, async () => {
    await remove(client(), [...containerPath(database, container), scripts, script]);
    closeAll((route) => route.kind === "script" && route.script === script && route.scripts === scripts && route.container === container);
    await catalog.reloadScripts(database, container, scripts);
  });
}

/** The rows of databases and containers whose names hold a text. */
function foundRows(wanted: string): Row[] {
  const text = wanted.toLowerCase();
  const holds = (name: string) => name.toLowerCase().includes(text);
  const all = (catalog.databases().value.value ?? []).flatMap(({ id: database }) => {
    const inside = (catalog.containers(database).value.value ?? []).filter(({ id }) => holds(id) || holds(database));
    if (inside.length === 0 && !holds(database)) return [];
    const found = inside.map(({ id: container }): Row => ({
      key: `found/${database}/${container}`, level: 2, label: container, icon: "container", route: { kind: "items", database, container },
    }));
    return [{ key: `found/${database}`, level: 1, label: database, icon: "database" as const, route: { kind: "database" as const, database } }, ...found];
  });
  return all.length > 0 ? all : [{ key: "found/none", level: 1, label: "Nothing of this name", isMuted: true }];
}

/** `wanted` narrows the tree to names that hold it. */
export function Tree({ wanted, onOpen }: { wanted: string; onOpen: () => void }) {
  const focused = useSignal<string | null>(null);
  useSignalEffect(() => {
    const route = activeTab.value?.route;
    if (route === undefined || !("database" in route)) return;
    untracked(() => reveal(...("container" in route ? [`d/${route.database}`, `c/${route.database}/${route.container}`] : [`d/${route.database}`])));
  });
  const all = wanted.trim() === "" ? rows() : foundRows(wanted.trim());
  const current = all.some(({ key }) => key === focused.value) ? focused.value : (all[0]?.key ?? null);

  const activate = (row: Row) => {
    focused.value = row.key;
    if (row.onUnfold && !row.isOpen) {
      reveal(row.key);
      open(row.onUnfold);
    } else row.onToggle?.();
    if (row.route) {
      open(row.route);
      onOpen();
    }
  };
  const move = (list: HTMLElement, index: number) => {
    const row = all[Math.min(Math.max(index, 0), all.length - 1)];
    if (!row) return;
    focused.value = row.key;
    list.querySelectorAll<HTMLElement>("[role=treeitem]")[all.indexOf(row)]?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const list = event.currentTarget as HTMLElement;
    const index = all.findIndex(({ key }) => key === current);
    const row = all[index];
    if (!row || (event.target as HTMLElement).role !== "treeitem") return;
    const parent = () => all.findLastIndex(({ level }, at) => at < index && level < row.level);
    switch (event.key) {
      case "ArrowDown": move(list, index + 1); break;
      case "ArrowUp": move(list, index - 1); break;
      case "Home": move(list, 0); break;
      case "End": move(list, all.length - 1); break;
      case "ArrowRight": row.isOpen === false ? row.onToggle?.() : move(list, index + 1); break;
      case "ArrowLeft": row.isOpen === true ? row.onToggle?.() : move(list, Math.max(parent(), 0)); break;
      case "Enter": case " ": activate(row); break;
      case "Delete": row.onDelete?.(); break;
      default: return;
    }
    event.preventDefault();
  };

  return (
    <div class="tree" role="tree" aria-label="Databases" onKeyDown={onKeyDown}>
      {all.map((row) => (
        <div
          key={row.key}
          role="treeitem"
          class={row.isMuted ? "tree-row muted" : "tree-row"}
          aria-label={row.label}
          aria-level={row.level}
          aria-expanded={row.isOpen}
          aria-selected={row.route !== undefined && addressOf(row.route) === activeAddress.value}
          tabIndex={row.key === current ? 0 : -1}
          style={{ "--level": row.level }}
          title={row.label}
          onClick={() => activate(row)}
        >
          <span class={row.isOpen ? "twist open" : "twist"}>{row.onToggle && <Icon name="chevron" size={10} />}</span>
          {row.icon && <Icon name={row.icon} size={13} />}
          <span class="tree-label">{row.label}</span>
          {row.onAdd && <RowButton icon="plus" label={row.onAdd.label} onClick={row.onAdd.run} />}
          {row.onDelete && <RowButton icon="trash" label={`Delete ${row.label}`} onClick={row.onDelete} />}
        </div>
      ))}
    </div>
  );
}

function RowButton({ icon, label, onClick }: { icon: IconName; label: string; onClick: () => void }) {
  return (
    <button
      type="button" class="quiet row-button" tabIndex={-1} title={label} aria-label={label}
      onClick={(event) => {
        event.stopPropagation();
        onClick();
      }}
    >
      <Icon name={icon} size={12} />
    </button>
  );
}
