// Moves a picture as the pointer asks: dragging, the wheel, two fingers.
import type { Viewport } from "../state/viewport";

/** Less than this is a click that trembled. */
const DRAG_MIN = 4;

/** Listens until what it returns is called. */
export function followPointers(element: HTMLElement, viewport: Viewport): () => void {
  const down = new Map<number, { x: number; y: number }>();
  let isDragging = false;
  const within = (at: { x: number; y: number }) => {
    const { left, top } = element.getBoundingClientRect();
    return { x: at.x - left, y: at.y - top };
  };
  const onDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    if (down.size === 0) isDragging = false;
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };
  const onMove = (event: PointerEvent) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const now = { x: event.clientX, y: event.clientY };
    if (!isDragging && Math.hypot(now.x - before.x, now.y - before.y) < DRAG_MIN) return;
    if (!isDragging) {
      isDragging = true;
      element.classList.add("dragging");
    }
    // Captured only now, so that a click still goes to what was clicked.
    element.setPointerCapture(event.pointerId);
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const ratio = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      viewport.zoom(ratio, within({ x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 }));
    } else viewport.pan(now.x - before.x, now.y - before.y);
    down.set(event.pointerId, now);
  };
  const onUp = (event: PointerEvent) => {
    down.delete(event.pointerId);
    if (down.size === 0) element.classList.remove("dragging");
  };
  /** The end of a drag is no click. */
  const onClick = (event: MouseEvent) => {
    if (!isDragging) return;
    isDragging = false;
    event.stopPropagation();
    event.preventDefault();
  };
  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    if (event.shiftKey || event.deltaX !== 0) viewport.pan(-event.deltaX, -event.deltaY);
    else viewport.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), within({ x: event.clientX, y: event.clientY }));
  };
  const stopper = new AbortController();
  const { signal } = stopper;
  element.addEventListener("pointerdown", onDown, { signal });
  element.addEventListener("pointermove", onMove, { signal });
  element.addEventListener("pointerup", onUp, { signal });
  element.addEventListener("pointercancel", onUp, { signal });
  element.addEventListener("click", onClick, { signal, capture: true });
  element.addEventListener("wheel", onWheel, { signal, passive: false });
  return () => stopper.abort();
}
