// Databases, containers, scripts and users as the tree shows them: fetched when first looked at,
// fetched again after a change.
import { type Signal, signal } from "@preact/signals";
import type { JsonObject } from "../protocol/json";
import { describe } from "../protocol/problem";
import {
  type Container, type Database, type Script, type ScriptKind, type User, containerPath, databasePath, listAll,
} from "../protocol/resources";
import { client } from "./account";

/** Something that is fetched: its value once it has come, and what went wrong if it did not. */
export interface Loaded<T> {
  value: T | null;
  error: string | null;
  isLoading: boolean;
}

export type Fetched<T> = Signal<Loaded<T>>;

const lists = new Map<string, { state: Fetched<never>; load: () => Promise<void> }>();

function list<T extends JsonObject>(segments: readonly string[]): Fetched<T[]> {
  const name = JSON.stringify(segments);
  const known = lists.get(name);
  if (known) return known.state as unknown as Fetched<T[]>;
  const state = signal<Loaded<T[]>>({ value: null, error: null, isLoading: false });
  const load = async () => {
    state.value = { ...state.peek(), isLoading: true };
    try {
      const all = await listAll<T>(client(), segments);
      all.sort((a, b) => String(a.id).localeCompare(String(b.id), undefined, { numeric: true }));
      state.value = { value: all, error: null, isLoading: false };
    } catch (error) {
      state.value = { value: state.peek().value, error: describe(error), isLoading: false };
    }
  };
  lists.set(name, { state: state as unknown as Fetched<never>, load });
  void load();
  return state;
}

const paths = {
  databases: () => ["dbs"],
  containers: (database: string) => [...databasePath(database), "colls"],
  users: (database: string) => [...databasePath(database), "users"],
  scripts: (database: string, container: string, kind: ScriptKind) => [...containerPath(database, container), kind],
};

export const databases = () => list<Database>(paths.databases());
export const containers = (database: string) => list<Container>(paths.containers(database));
export const users = (database: string) => list<User>(paths.users(database));
export const scripts = (database: string, container: string, kind: ScriptKind) =>
  list<Script>(paths.scripts(database, container, kind));

async function reload(segments: readonly string[]): Promise<void> {
  await lists.get(JSON.stringify(segments))?.load();
}

export const reloadDatabases = () => reload(paths.databases());
export const reloadContainers = (database: string) => reload(paths.containers(database));
export const reloadUsers = (database: string) => reload(paths.users(database));
export const reloadScripts = (database: string, container: string, kind: ScriptKind) =>
  reload(paths.scripts(database, container, kind));

/** Fetches everything again that has been fetched. */
export async function reloadAll(): Promise<void> {
  await Promise.all([...lists.values()].map(({ load }) => load()));
}

/** Another account has other databases. */
export function forgetCatalog(): void {
  lists.clear();
}

/** A container by name, out of what the tree has fetched. */
export function findContainer(database: string, container: string): Container | null {
  return containers(database).value.value?.find(({ id }) => id === container) ?? null;
}
