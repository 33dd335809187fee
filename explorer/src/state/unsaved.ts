// Which tabs hold something that would be lost: they are closed, and the page is left, only when asked.

const unsaved = new Set<string>();

export function setUnsaved(address: string, isUnsaved: boolean): void {
  if (isUnsaved) unsaved.add(address);
  else unsaved.delete(address);
}

export function isUnsaved(address: string): boolean {
  return unsaved.has(address);
}

/** Lets the browser ask before the page is left. */
export function guardLeaving(): () => void {
  const warn = (event: Event) => {
    if (unsaved.size > 0) event.preventDefault();
  };
  window.addEventListener("beforeunload", warn);
  return () => window.removeEventListener("beforeunload", warn);
}
