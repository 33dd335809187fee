// What the page remembers about how a person likes it, in the browser's local storage. Nothing here
// is secret; where storage is denied everything still works until the page is left.
import { type Signal, effect, signal } from "@preact/signals";

function kept<T>(name: string, initial: T): Signal<T> {
  const key = `orrery.${name}`;
  let value = initial;
  try {
    const text = localStorage.getItem(key);
    if (text !== null) value = JSON.parse(text) as T;
  } catch {
    // Unreadable: the preference starts anew.
  }
  const state = signal(value);
  let isFirst = true;
  effect(() => {
    const text = JSON.stringify(state.value);
    if (!isFirst) {
      try {
        localStorage.setItem(key, text);
      } catch {
        // Storage is full or denied; the preference holds until the page is left.
      }
    }
    isFirst = false;
  });
  return state;
}

export type Theme = "system" | "light" | "dark";
export const theme = kept<Theme>("theme", "system");
export const sidebarWidth = kept("sidebar", 264);
export const pageSize = kept("pageSize", 100);

/** Columns of the item grid, by container; absent means: all that are there. */
export const columnChoices = kept<Record<string, string[]>>("columns", {});

export interface PastQuery {
  text: string;
  /** `database/container`. */
  where: string;
  at: number;
}

export const queryHistory = kept<PastQuery[]>("history", []);

export interface SavedQuery {
  name: string;
  text: string;
}

export const savedQueries = kept<SavedQuery[]>("queries", []);

const HISTORY_LENGTH = 100;

export function rememberQuery(text: string, where: string): void {
  const others = queryHistory.value.filter((past) => past.text !== text || past.where !== where);
  queryHistory.value = [{ text, where, at: Date.now() }, ...others].slice(0, HISTORY_LENGTH);
}

export function applyTheme(): void {
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}
