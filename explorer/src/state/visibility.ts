// Whether anybody can see the page: what asks the server again and again rests while nobody does.
import { signal } from "@preact/signals";

const isVisible = () => typeof document === "undefined" || document.visibilityState === "visible";

export const isPageVisible = signal(isVisible());

if (typeof document !== "undefined") {
  document.addEventListener("visibilitychange", () => (isPageVisible.value = isVisible()));
}
